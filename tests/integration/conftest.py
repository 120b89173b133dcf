"""Fixtures of integration tests: a repository with a store, the command in this process, a harness for whole runs."""

from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from builders import begin, make_context, make_repository, make_run
from scaffold.cli.main import run_command, scaffold_group
from scaffold.core.model import Run
from scaffold.run.context import RunContext
from support.harness import Harness

PLAN = """\
version: 1
goals:
  - name: shop
    description: A shop that sells
    goal_state: [store_works, api_works]
    actions:
      - key: store
        description: Build the store
        effects: [store_works]
        files: [store.py]
        contract: {intent: Things are kept., commands: [{command: make test}], must_exist: [store.py]}
      - {key: api, preconditions: [store_works], effects: [api_works]}
"""


class Answer(NamedTuple):
    """The exit code of a command, and what it printed."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.out)


Scaffold = Callable[..., Answer]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home, independent of the machine's user."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("SCAFFOLD_HOME", str(home / "scaffold"))
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(home / "gitconfig"))
    # Checks then start without the plugins installed beside us, which take longer to load than the tests take to run.
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    for name in ("SCAFFOLD_MODEL", "SCAFFOLD_DATABASE_URL", "ANTHROPIC_API_KEY", "OPENAI_API_KEY", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    return home


@pytest.fixture
def repository(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The repository in which commands run."""
    folder = make_repository(tmp_path / "my shop")
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def context(repository: Path) -> Iterator[RunContext]:
    """The repository with an empty store."""
    context = make_context(repository)
    yield context
    context.store.close()


@pytest.fixture
def scaffold(home: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> Scaffold:
    """The command, called in this process."""

    def run(*args: str) -> Answer:
        capfdbinary.readouterr()
        code = run_command(scaffold_group, args, prog="scaffold")
        out, err = capfdbinary.readouterr()
        return Answer(code, out.decode(errors="surrogateescape"), err.decode())

    return run


@pytest.fixture
def plan() -> str:
    """A plan of two actions; the second needs the first."""
    return PLAN


@pytest.fixture
def run(context: RunContext, plan: str) -> Run:
    """A run of the plan in progress, whose owner is this process."""
    return begin(context, make_run(context, plan))


@pytest.fixture
async def harness(
    tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Harness]:
    """A repository with a store, whose workers and supervisors are tasks of this process."""
    if "home" not in request.fixturenames:
        monkeypatch.setenv("SCAFFOLD_HOME", str(tmp_path / "scaffold home"))  # not what the machine's user has there
    harness = await Harness.build(tmp_path)
    yield harness
    harness.store.close()
