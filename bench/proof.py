"""What proof costs besides the checks themselves: a baseline that is known, the choice of tests, a whole candidate."""

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from time import perf_counter

from msgspec import Struct, structs

from row import Row, medians, row
from scaffold.core.ids import Commit, TreeId
from scaffold.core.proof.contract import Check, Contract
from scaffold.core.proof.gates import Baseline, CheckEnvironment, Gate, GateRun
from scaffold.git import commits
from scaffold.git.checkouts import worktree
from scaffold.git.checkouts.fresh_checkout import recycle_worktree
from scaffold.git.client.command_line import Git
from scaffold.git.refs import resolve
from scaffold.git.repository import open_repository
from scaffold.host.child_environment import child_environment
from scaffold.host.clock import SystemClock
from scaffold.host.process.async_runner import run_async
from scaffold.host.slots import Slots
from scaffold.store.database import Store
from scaffold.verify.contract.check_runs import Tree
from scaffold.verify.contract.new_tests_on_base import changed_tests, red_with_new_tests
from scaffold.verify.environment.provisioning import reprovision
from scaffold.verify.gates.detection import DetectedGates, detect_at_commit
from scaffold.verify.proof import proof_key, prove_candidate
from scaffold.verify.proof_request import ProofRequest
from scaffold.verify.regression.baseline_capture import BaselineInputs, BaselineResult, capture_baseline
from scaffold.verify.regression.selection.affected_tests import analyze_impact
from scaffold.verify.regression.stability import unstable_result

PACKAGES = 50
IDENTITY = ("-c", "user.name=Bench", "-c", "user.email=bench@example.org")
TEST = Gate(kind="test", command=f"{sys.executable} -m unittest discover -q", runner="unittest")
ENVIRONMENT = CheckEnvironment(fingerprint="bench")
SELECTION_LIMIT_S = 0.5
OVERHEAD_LIMIT_S = 0.15
LANDED_LIMIT_S = 3.0
"""All of what an action's proof costs beside the commands that it runs."""
FEW, MANY = 500, 5_000
"""Files of a repository."""
CHECK = Check(command="test -f p0/test_new.py")
"""It is red on the base only because of a test that came with the work, so that hindsight has something to do."""


class ChangedRepository(Struct, frozen=True):
    """A repository of modules and their tests, a change of one that others mention with a new test, and a database."""

    place: Path
    """A checkout of the change."""
    registration: Path
    """Its folder in the repository's git directory."""
    base: Commit
    head: Commit
    store: Store
    slots: Slots

    async def captured(self, *, known: bool) -> float:
        """Return how long it takes to capture the baseline, kept from before or not."""
        find = self.store.baselines.find if known else lambda *_: None
        base = structs.replace(self._tree, commit=self.base)
        keep = partial(self._keep, await commits.tree_of(base.git, self.base))
        means = BaselineInputs(checkout=base.git, find_gate_run=find, slots=self.slots, on_gate_run=keep)
        start = perf_counter()
        found = await capture_baseline(DetectedGates(kind="python", gates=(TEST,)), base, ENVIRONMENT, means)
        taken = perf_counter() - start
        if not isinstance(found, BaselineResult):
            raise TypeError(found.what)
        return taken

    async def selected(self) -> float:
        """Return how long it takes to choose the tests for the change, callers included."""
        start = perf_counter()
        found = await analyze_impact(self._tree, (), (), focused=True)
        if found.selection.run_all_reason:
            raise AssertionError(found.selection.run_all_reason)
        return perf_counter() - start

    async def detected(self) -> float:
        """Return how long it takes to tell which gates the commit has."""
        start = perf_counter()
        found = await detect_at_commit(self._tree.git, self.head)
        if found.kind != "python":
            raise AssertionError(found.kind)
        return perf_counter() - start

    async def proven(self) -> float:
        """Return how long a candidate takes, hindsight included, but for what its check took; no gate has to be run."""
        outcomes = {f"p{n % PACKAGES}.test_m{n}.Case.test": "passed" for n in range(2_000)}
        run = GateRun(gate=TEST, commit=self.base, environment="bench", exit_code=0, outcomes=outcomes)
        contract, tree = Contract(commands=(CHECK,)), self._tree
        request = ProofRequest(
            contract=contract,
            failed_on_base=(CHECK.command,),
            baseline=Baseline(environment=ENVIRONMENT, runs=(run,)),
            gates_off=("lint",),
            slots=self.slots,
            find_gate_run=lambda *_: run,
        )
        start = perf_counter()
        found = await prove_candidate(request, tree)
        tests = changed_tests(await commits.path_changes(tree.git, tree.base, tree.commit))
        red = await red_with_new_tests(contract, found.failed_on_base, tests, tree)
        taken = perf_counter() - start
        if not (found.passed and found.gates and not red):
            raise AssertionError((found, red))
        return taken - 2 * found.results[0].duration_s

    async def landed(self) -> float:
        """Return how long an action's whole proof takes, where it is done and as it lands, but for its check and gate.

        The gate runs whole, in a checkout that is as clean as a new one, and so does what is repeated.
        """
        tree = self._tree
        contract, took = Contract(commands=(CHECK,)), perf_counter()
        gate = Gate(kind="test", command="true")
        before = GateRun(gate=gate, commit=self.base, environment="bench", exit_code=0, outcomes={"exit": "passed"})
        request = ProofRequest(
            contract=contract,
            failed_on_base=(CHECK.command,),
            baseline=Baseline(environment=ENVIRONMENT, runs=(before,)),
            gates_off=("lint",),
            slots=self.slots,
        )

        async def clean_tree(commit: Commit) -> Tree:
            async with reprovision(ENVIRONMENT, self.place):
                if not await recycle_worktree(tree.git, commit):
                    raise AssertionError(commit)
            return structs.replace(tree, commit=commit)

        proven = await clean_tree(self.head)
        found = await prove_candidate(request, proven)
        if await unstable_result(request, found, proven, clean_tree):
            raise AssertionError(found)
        tests = changed_tests(await commits.path_changes(tree.git, tree.base, tree.commit))
        await red_with_new_tests(contract, found.failed_on_base, tests, tree)
        keys = {await proof_key(request, git, self.base, self.head) for git in (tree.git, self._tree.git)}
        if not (found.passed and found.gates and len(keys) == 1):
            raise AssertionError(found)
        return perf_counter() - took - sum(each.duration_s for each in (*found.results, *found.gates))

    @property
    def _tree(self) -> Tree:
        """The change, as nobody has asked about it."""
        git = Git(self.place, environ=os.environ, top=True, git_dir=self.registration)
        return Tree(git=git, base=self.base, commit=self.head, environ=child_environment(os.environ))

    def _keep(self, tree: TreeId, run: GateRun, reused: bool) -> None:
        if not reused:
            with self.store.transaction():
                self.store.baselines.keep(run, tree)


def rows(*, quick: bool) -> Iterator[Row]:
    """Yield: a known baseline against its capture; the rest against limits: choosing tests, gates, all of a proof."""
    few, many, rounds = (50, 200, 1) if quick else (FEW, MANY, 5)
    slack = 100.0 if quick else 1.0
    for count in (few, many):
        with _opened(count) as bench:
            (proven,) = medians(rounds, lambda opened=bench: run_async(opened.proven()))
        yield row(f"proof-overhead-{count}-files", proven, OVERHEAD_LIMIT_S, unit="s", goal=slack)
    with _opened(many) as bench:
        anew = run_async(bench.captured(known=False))
        (known,) = medians(rounds, lambda: run_async(bench.captured(known=True)))
        yield row("baseline-reuse", known, anew, unit="s", goal=0.01 * slack)
        (selected,) = medians(rounds, lambda: run_async(bench.selected()))
        yield row("focus-selection", selected, SELECTION_LIMIT_S, unit="s", goal=1.0)
        (detected,) = medians(rounds, lambda: run_async(bench.detected()))
        (landed,) = medians(rounds, lambda: run_async(bench.landed()))
        yield row(f"landed-action-{many}-files", landed, LANDED_LIMIT_S, unit="s", goal=slack)
        yield row("gates-detection", detected, OVERHEAD_LIMIT_S, unit="s", goal=slack)


@contextmanager
def _opened(count: int) -> Iterator[ChangedRepository]:
    with tempfile.TemporaryDirectory() as folder:
        bench = run_async(_open_repository(Path(folder).resolve(), count))
        yield bench
        bench.store.close()


async def _open_repository(folder: Path, count: int) -> ChangedRepository:
    root = folder / "repository"
    for number in range(count // 2):
        _write_module(root / f"p{number % PACKAGES}", number)
    (root / "pyproject.toml").write_text("[project]\nname = 'bench'\n")
    git = Git(root, environ=os.environ)
    await git("init", "--quiet")
    base = await _commit(git)
    (root / "p0" / "m0.py").write_text("LIMIT = 2\n\n\ndef keep_0(value):\n    return value + LIMIT\n")
    (root / "p0" / "test_new.py").write_text("import unittest\n")
    head = await _commit(git)
    store = Store.open(folder / "state.db", clock=SystemClock())
    place = await worktree.add(await open_repository(root, environ=os.environ), folder / "tree", head)
    return ChangedRepository(place.cwd, place.registration, base, head, store, Slots(folder / "slots", 1))


def _write_module(package: Path, number: int) -> None:
    package.mkdir(parents=True, exist_ok=True)
    (package / "__init__.py").touch()
    other = f"from p{(number - 1) % PACKAGES}.m{number - 1} import keep_{number - 1}\n\n" if number % 10 == 1 else ""
    body = f"{other}LIMIT_{number} = 1\n\n\ndef keep_{number}(value):\n    return value + LIMIT_{number}\n" * 3
    (package / f"m{number}.py").write_text(body)
    imports = f"import unittest\n\nfrom p{number % PACKAGES}.m{number} import keep_{number}\n"
    test = f"{imports}\n\nclass Case(unittest.TestCase):\n"
    (package / f"test_m{number}.py").write_text(
        f"{test}    def test(self):\n        self.assertEqual(keep_{number}(1), 2)\n"
    )


async def _commit(git: Git) -> Commit:
    await git("add", "--all")
    await git(*IDENTITY, "commit", "--quiet", "--message", "a change")
    head = await resolve(git, "HEAD")
    if head is None:
        raise AssertionError(git.cwd)
    return head
