"""How soon `ralph -p` asks its model, how large its first request is, and how much memory it takes."""

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from msgspec import Struct

from loopback import CODEX, HERE, PYTHON, Provider, missing, provider, run_program
from row import Row, medians, row

RALPH = Path(sys.executable).with_name("ralph")
TASK = "Say hello."
MEMORY_LIMIT_MB = 60.0
REQUEST_LIMIT_KB = 14.0
ROUNDS = 11
NOTES = "A line of the notes that were asked for.\n" * 40

CODEX_CONFIG = """
model = "bench-0-0"
model_provider = "bench"
check_for_update_on_startup = false

[analytics]
enabled = false

[model_providers.bench]
name = "bench"
base_url = "{url}/v1"
wire_api = "responses"
"""


class RalphSetup(Struct, frozen=True):
    """A directory to work in, a home for whoever works, and the provider."""

    cwd: Path
    home: Path
    provider: Provider

    @property
    def env(self) -> Mapping[str, str]:
        """Return what sends all of them to the provider."""
        return {
            "SCAFFOLD_HOME": str(self.home),
            "CODEX_HOME": str(self.home),
            "OPENAI_API_KEY": "none",
            "OPENAI_BASE_URL": f"{self.provider.url}/v1",
            "ANTHROPIC_API_KEY": "none",
            "ANTHROPIC_BASE_URL": self.provider.url,
        }

    def first_request_s(self, argv: Sequence[str | Path]) -> float:
        """Return the seconds from the start of a program to the arrival of its first request."""
        self.provider.forget()
        start = time.monotonic()
        run_program(argv, cwd=self.cwd, env=self.env)
        return self.provider.received().first_at_s - start


@contextmanager
def ralph_setup(*, repository: bool = False) -> Iterator[RalphSetup]:
    """Hold a directory with a file of notes in it; with `repository`, one that is committed and has a manifest."""
    with TemporaryDirectory(prefix="scaffold-bench-") as folder, provider() as there:
        cwd, home = Path(folder) / "work", Path(folder) / "home"
        cwd.mkdir()
        home.mkdir()
        (cwd / "notes.md").write_text(NOTES)
        if repository:
            _commit(cwd)
        (home / "config.toml").write_text(CODEX_CONFIG.format(url=there.url))
        yield RalphSetup(cwd, home, there)


def _commit(folder: Path) -> None:
    (folder / "pyproject.toml").write_text('[project]\nname = "notes"\nversion = "1"\n\n[tool.pytest.ini_options]\n')
    author = ["-c", "user.name=Bench", "-c", "user.email=bench@example.com"]
    for args in (["init", "-q"], ["add", "."], [*author, "commit", "-qm", "Take notes"]):
        run_program(["git", *args], cwd=folder)


def ask(model: str, *flags: str, task: str = TASK) -> Sequence[str | Path]:
    """Return the command line that asks a model."""
    return [RALPH, "-p", task, "--model", model, *flags]


def rows(*, quick: bool) -> Iterator[Row]:
    """Yield: the start against other agents, the peak of memory, and the bytes of a first request."""
    with ralph_setup() as setup:
        setup.first_request_s(ask("openai:bench-0-0"))
        if not quick:
            yield from _starts(setup, "")
        yield _memory(setup, turns=2 if quick else 25)
        yield from (_request(setup, wire) for wire in ("anthropic", "openai", "openai-chat"))
    if not quick:
        with ralph_setup(repository=True) as setup:
            yield from _starts(setup, "-in-a-repository")


def _starts(setup: RalphSetup, where: str) -> Iterator[Row]:
    small: Sequence[str | Path] = [PYTHON, HERE / "peers" / "smolagents_start.py", str(setup.provider.port), TASK]
    codex: Sequence[str | Path] = [CODEX, "exec", "--skip-git-repo-check", TASK]
    for peer, argv, goal in (("codex", codex, 0.65 if where else 0.6), ("smolagents", small, 1 / 3)):
        bench = f"ralph-start{where}-against-{peer}"
        if missing(Path(argv[0]), bench):
            continue
        measures = [partial(setup.first_request_s, each) for each in (ask("openai:bench-0-0"), argv)]
        measures[1]()
        mine_s, other_s = medians(ROUNDS, *measures)
        yield row(bench, mine_s * 1000, other_s * 1000, unit="ms", goal=goal)


def _memory(setup: RalphSetup, turns: int) -> Row:
    measured = [sys.executable, "-S", "-E", HERE / "peak_memory.py", *ask(f"anthropic:bench-{turns}-0")]
    peak_mb = int(run_program(measured, cwd=setup.cwd, env=setup.env)) / 1024
    return row(f"ralph-memory-{turns}-turns", peak_mb, MEMORY_LIMIT_MB, unit="MB", goal=1.0)


def _request(setup: RalphSetup, wire: str) -> Row:
    setup.first_request_s(ask(f"{wire}:bench-0-0"))
    size_kb = setup.provider.received().first_bytes / 1000
    return row(f"ralph-first-request-{wire}", size_kb, REQUEST_LIMIT_KB, unit="kB", goal=1.0)
