"""Builders for checks and gates: repositories with candidates, single gate runs, check environments."""

import os
import shutil
import subprocess  # noqa: TID251 - a checkout is one of a real commit
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from typing import Any

from msgspec import structs

from scaffold.core.ids import Commit
from scaffold.core.proof.contract import Contract, Verification
from scaffold.core.proof.gates import CheckEnvironment, Gate, GateRun
from scaffold.core.run_settings import SandboxSettings
from scaffold.git import commits, refs
from scaffold.git.checkouts import worktree
from scaffold.git.client.command_line import Git
from scaffold.host.child_environment import child_environment
from scaffold.host.process.command_runner import CommandResult, Containment, run_command
from scaffold.host.sandbox.confinement import Level, SandboxSpec
from scaffold.host.slots import Slots
from scaffold.policy.command_sandbox import SandboxInputs
from scaffold.policy.sandbox_profile import build_sandbox_spec
from scaffold.verify.check_readiness import NotReady
from scaffold.verify.contract.check_runs import Tree, verify_changes
from scaffold.verify.environment.check_env import check_environ, with_shown_folders
from scaffold.verify.environment.preparation import EnvironmentRequest, PreparedEnvironment, prepare_environment
from scaffold.verify.environment.provisioning import provision_checkout
from scaffold.verify.gates.detection import DetectedGates
from scaffold.verify.gates.observed_run import run_gate
from scaffold.verify.proof_request import ProofRequest
from scaffold.verify.regression.baseline_capture import BaselineInputs, capture_baseline
from scaffold.verify.regression.gate_results import judge_gates
from support.harness import Harness
from support.samples import folder_until_exit

PYTEST = f"{sys.executable} -m pytest -q -p no:cacheprovider"
TEST = Gate(kind="test", command=PYTEST, runner="pytest")
FINGERPRINT = "env"
QUICK = {"PYTHONDONTWRITEBYTECODE": "1", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}

CALC = "def add(a, b):\n    return a + b\n\n\ndef sub(a, b):\n    return a - b\n"
TEST_CALC = """\
from calc import add, sub


def test_add():
    assert add(1, 2) == 3


def test_sub():
    assert sub(3, 1) == 2


def test_known_to_fail():
    assert add(1, 1) == 3
"""

PYTEST_OUTCOMES = """
import unittest

import pytest


def test_passes():
    pass


def test_fails():
    assert 1 == 2


@pytest.mark.skip
def test_skipped():
    pass


@pytest.mark.xfail
def test_foreseen():
    assert 0


@pytest.mark.xfail
def test_unforeseen():
    pass


@pytest.mark.xfail(strict=True)
def test_strictly_foreseen():
    pass


@pytest.fixture
def broken():
    raise ValueError


def test_unprepared(broken):
    pass


@pytest.fixture
def late():
    yield
    raise ValueError


def test_untidy(late):
    pass


@pytest.mark.parametrize("text", ["a\\nb", "é", "x" * 90])
def test_each(text):
    assert text != "é"


class TestOld(unittest.TestCase):
    def test_fails(self):
        self.assertEqual(1, 2)

    def test_passes(self):
        pass
"""
"""A test for each outcome that pytest has."""
UNITTEST_OUTCOMES = """
import unittest


class TestAll(unittest.TestCase):
    def test_passes(self):
        pass

    def test_fails(self):
        self.assertEqual(1, 2)

    def test_breaks(self):
        raise OSError

    @unittest.skip("not here")
    def test_skipped(self):
        pass

    @unittest.expectedFailure
    def test_foreseen(self):
        self.fail()

    @unittest.expectedFailure
    def test_unforeseen(self):
        pass

    def test_parts(self):
        for number in range(3):
            with self.subTest(number=number):
                self.assertLess(number, 2)


class TestUnprepared(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        raise OSError

    def test_never(self):
        pass
"""
"""The same for unittest."""


async def verify_contract(contract: Contract | None, tree: Tree) -> Verification:
    """Check a tree against a contract only."""
    return await verify_changes(contract, tree, await commits.changed_paths(tree.git, tree.base, tree.commit))


def cleaned(tree):
    """Return the function that checks a commit out in the tree's checkout, without what earlier commands left."""

    async def clean_tree(commit):
        await worktree.reset_and_clean(tree.git, commit)
        return structs.replace(tree, commit=commit)

    return clean_tree


class CandidateRepository:
    """A repository, and trees of its commits."""

    def __init__(self, harness, folder):
        self.harness = harness
        self.folder = folder
        self.reported = []
        self.kept = {}
        self.slots = Slots(folder / "slots", 1)

    async def commit(self, files):
        """Commit files; None removes one."""
        for name, text in files.items():
            path = self.harness.repo / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if text is None:
                path.unlink()
            else:
                path.write_text(text)
        await self.harness.sh("git add --all; git commit -qm change")
        return await refs.resolve(self.harness.context.git, "HEAD")

    async def tree(self, base, commit):
        git = await worktree.add(self.harness.context.repository, self.folder / f"tree-{commit[:8]}", commit)
        environ = dict(self.harness.context.environ) | QUICK
        return Tree(git=git, base=base, commit=commit, environ=environ)

    async def worked(self, base, work):
        """Commit a base and work on it; return the checkout of the work, and what it changed."""
        base, head = await self.commit(base), await self.commit(work)
        tree = await self.tree(base, head)
        return tree, await commits.path_changes(tree.git, base, head)

    async def capture(self, base, *gates, given=frozenset(), left_out=()):
        tree = await self.tree(base, base)
        tree_id = await commits.tree_of(tree.git, base)

        def report(run, reused):
            self.reported.append((run.gate.name, reused))
            self.keep(run, tree_id)

        own = self.harness.context.git
        means = BaselineInputs(checkout=own, find_gate_run=self.find, slots=self.slots, on_gate_run=report)
        detection = DetectedGates(kind="python", gates=gates or (TEST,), given=given)
        return await capture_baseline(
            detection, tree, CheckEnvironment(fingerprint=FINGERPRINT), means, left_out=left_out
        )

    async def begin(self, files, *gates):
        """Commit the base and capture its baseline."""
        self.base = await self.commit(files)
        self.captured = await self.capture(self.base, *gates)

    async def after(self, work, /, *, gate="test", **terms):
        """Commit work on the base and return the result of its gate."""
        head = await self.commit(work)
        return (await self.judge(self.captured, self.base, head, **terms))[gate]

    def find(self, gate, tree, environment):
        return self.kept.get((gate.name, tree, environment))

    def keep(self, run, tree):
        self.kept[(run.gate.name, tree, run.environment)] = run

    async def judge(self, captured, base, head, **terms):
        tree = await self.tree(base, head)
        return {each.gate.name: each for each in await self._judge_in(tree, captured, terms)}

    async def judge_in(self, tree, captured, **terms):
        """Return the result of the only gate in an existing tree."""
        (result,) = await self._judge_in(tree, captured, terms)
        return result

    async def _judge_in(self, tree, captured, terms):
        assert not isinstance(captured, NotReady), f"{captured.what}\n{captured.detail}"
        return await judge_gates(ProofRequest(slots=self.slots, **terms), captured.baseline, tree)


@cache
def _sample_venv() -> Path:
    folder = folder_until_exit() / ".venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    return folder


def add_venv(folder: Path) -> Path:
    """Put a virtual environment of this Python into a folder, and return where its packages are."""
    shutil.copytree(_sample_venv(), folder / ".venv", symlinks=True)
    return next((folder / ".venv" / "lib").glob("*/site-packages"))


BARE = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
"""Without the plugins that happen to be installed here: as fast as pytest can be."""
COMMIT = (
    "git init -q && git add -A && git -c user.name=t -c user.email=t@example.org commit -q --allow-empty -m files"
    " && git rev-parse HEAD"
)


def write_files(folder: Path, files: dict[str, str]) -> Path:
    """Write files by their paths below a folder."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return folder


def tree_in(folder: Path, **variables: str) -> Tree:
    """Return a folder as a checkout of a commit of all its files, with our own Python first on PATH."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environ = child_environment(os.environ, {**BARE, "PATH": path, **variables})
    done = subprocess.run(["sh", "-c", COMMIT], cwd=folder, check=True, capture_output=True, text=True)
    commit = Commit(done.stdout.strip())
    return Tree(git=Git(folder, environ=os.environ, top=True), base=commit, commit=commit, environ=environ)


async def run_gate_once(
    folder: Path, gate: Gate, *, only: tuple[str, ...] = (), timeout_s: float = 60, **variables: str
) -> GateRun:
    """Run a gate once in a folder."""
    return await run_gate(gate, tree_in(folder, **variables), only=only, environment="here", timeout_s=timeout_s)


def command_result(exit_code=0, *, out="", err="", signal=None, timed_out=False) -> CommandResult:
    """Return the result of a command with this exit code and output."""
    ended = timed_out or signal is not None
    return CommandResult(
        exit_code=None if ended else exit_code,
        signal=signal,
        timed_out=timed_out,
        stdout=out.encode(),
        stderr=err.encode(),
        stdout_sha256="0" * 64,
        truncated=False,
        duration_s=0.1,
    )


class EnvironmentSetup:
    """The repository of a harness, and the environments its checks run in."""

    def __init__(self, harness: Harness, folder: Path, *, sandboxed: bool = False) -> None:
        self.harness = harness
        self.repo = harness.repo
        self.cache = folder / "cache"
        self.environ: Mapping[str, str] = harness.context.environ
        self._folder = folder
        self._sandboxed = sandboxed
        self.level: Level | None = None
        """A weaker sandbox than the best there is."""

    @asynccontextmanager
    async def open_sandbox(self, root: Path) -> AsyncIterator[SandboxSpec | None]:
        """Yield the confinement of commands in a checkout, as for a run; None unless `sandboxed`."""
        grounds = SandboxInputs(
            root=root,
            home=self._folder / "home",
            temporary=self._folder / "temporary",
            private=(self.cache,),
            shown=(self.harness.context.repository.common_dir, self._folder / "programs"),
            disposable=True,
        )
        sandbox = SandboxSettings(mode="auto" if self._sandboxed else "off", unconfined=True)
        walls = await build_sandbox_spec(sandbox, grounds, self.environ, cache=self._folder / "sandbox.json")
        yield structs.replace(walls, level=self.level) if walls and self.level else walls

    async def commit(self, files: Mapping[str, str]) -> Commit:
        """Commit these files in the user's checkout and return the commit."""
        for name, text in files.items():
            (self.repo / name).parent.mkdir(parents=True, exist_ok=True)
            (self.repo / name).write_text(text)
            await self.harness.sh(f"git add --force '{name}'")
        await self.harness.sh("git commit --quiet --allow-empty --message more")
        return await self.head()

    async def head(self) -> Commit:
        """Return the commit of the user's checkout."""
        head = await refs.resolve(self.harness.context.git, "HEAD")
        assert head is not None
        return head

    async def prepare(self, *setup: str, trusted: bool = True, **options: Any) -> PreparedEnvironment | NotReady:
        """Prepare an environment at the head."""
        wanted = EnvironmentRequest(
            repository=self.harness.context.repository,
            base=await self.head(),
            setup=setup,
            trusted=trusted,
            cache=self.cache,
            environ=child_environment(self.environ, names=("PIP_INDEX_URL", "npm_config_registry")),
            open_sandbox=self.open_sandbox,
            clean=str,
            **options,
        )
        return await prepare_environment(wanted)

    async def prepared(self, *setup: str, **options: Any) -> CheckEnvironment:
        """Prepare an environment and expect success."""
        found = await self.prepare(*setup, **options)
        assert isinstance(found, PreparedEnvironment), found
        return found.environment

    @asynccontextmanager
    async def tree(self, environment: CheckEnvironment, name: str = "a tree") -> AsyncIterator[Tree]:
        """Yield a checkout of the head with its environment."""
        head = await self.head()
        git = await worktree.add(self.harness.context.repository, self.cache / "runs" / name, head)
        await provision_checkout(environment, git.cwd)
        environ = check_environ(environment, git.cwd, child_environment(self.environ))
        async with self.open_sandbox(git.cwd) as walls:
            yield Tree(git=git, base=head, commit=head, environ=environ, sandbox=with_shown_folders(environment, walls))


async def run_check(tree: Tree, command: str, cwd: Path | None = None) -> CommandResult:
    """Run a shell command as a check of the tree."""
    return await run_command(
        ["/bin/sh", "-c", command],
        cwd=cwd or tree.git.cwd,
        env=tree.environ,
        timeout_s=60,
        containment=Containment(sandbox=tree.sandbox),
    )


async def check_output(tree: Tree, command: str, cwd: Path | None = None) -> str:
    """Return the output of a command that must succeed."""
    command_result = await run_check(tree, command, cwd)
    assert command_result.exit_code == 0, command_result
    return command_result.stdout.decode().strip()


PYTHON = sys.executable
