"""What proof costs besides the checks themselves: a baseline that is known, the choice of tests, all around gates."""

import asyncio
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter

from msgspec import Struct, structs

from row import Row, medians, row
from scaffold.core.gates import Baseline, CheckEnvironment, Gate, GateRun
from scaffold.core.ids import Commit
from scaffold.git import worktree
from scaffold.git.command import Git
from scaffold.git.refs import resolve
from scaffold.git.repository import open_repository
from scaffold.host.clock import SystemClock
from scaffold.host.slots import Slots
from scaffold.store.database import Store
from scaffold.verify.baseline import Captured, Means, capture
from scaffold.verify.contract import Tree
from scaffold.verify.gates.detection import Detection
from scaffold.verify.regression import Terms, judge_gates
from scaffold.verify.relevance import relevance

PACKAGES = 50
IDENTITY = ("-c", "user.name=Bench", "-c", "user.email=bench@example.org")
TEST = Gate(kind="test", command=f"{sys.executable} -m unittest discover -q", runner="unittest")
ENVIRONMENT = CheckEnvironment(fingerprint="bench")
SELECTION_LIMIT_S = 0.5
OVERHEAD_LIMIT_S = 0.2


class Bench(Struct, frozen=True):
    """A repository of modules and their tests, a change of one that others mention, and a database."""

    tree: Tree
    """At the change."""
    store: Store
    slots: Slots

    async def captured(self, *, known: bool) -> float:
        """Return how long it takes to capture the baseline, kept from before or not."""
        find = self.store.baselines.find if known else lambda *_: None
        means = Means(find=find, slots=self.slots, told=self._keep)
        base = structs.replace(self.tree, commit=self.tree.base)
        start = perf_counter()
        found = await capture(Detection(kind="python", gates=(TEST,)), base, ENVIRONMENT, means)
        taken = perf_counter() - start
        if not isinstance(found, Captured):
            raise TypeError(found.what)
        return taken

    async def selected(self) -> float:
        """Return how long it takes to choose the tests for the change, callers included."""
        start = perf_counter()
        found = await relevance(self.tree, (), (), focused=True)
        if found.selection.whole:
            raise AssertionError(found.selection.whole)
        return perf_counter() - start

    async def judged(self) -> float:
        """Return how long the gates of a candidate take where nothing has to be run."""
        outcomes = {f"p{n % PACKAGES}.test_m{n}.Case.test": "passed" for n in range(2_000)}
        run = GateRun(gate=TEST, commit=self.tree.base, environment="bench", exit_code=0, outcomes=outcomes)
        terms = Terms(
            baseline=Baseline(environment=ENVIRONMENT, runs=(run,)), focused=True, off=("lint",), find=lambda *_: run
        )
        start = perf_counter()
        (result,) = await judge_gates(terms, self.tree, self.slots)
        if result.verdict != "pass":
            raise AssertionError(result.detail)
        return perf_counter() - start

    def _keep(self, run: GateRun, reused: bool) -> None:
        if not reused:
            with self.store.transaction():
                self.store.baselines.keep(run)


def rows(*, quick: bool) -> Iterator[Row]:
    """Yield: a known baseline against its capture; the choice of tests and all around gates against their limits."""
    count, rounds = (200, 1) if quick else (5_000, 5)
    slack = 100.0 if quick else 1.0
    with tempfile.TemporaryDirectory() as folder:
        bench = asyncio.run(_bench(Path(folder).resolve(), count))
        anew = asyncio.run(bench.captured(known=False))
        (known,) = medians(rounds, lambda: asyncio.run(bench.captured(known=True)))
        yield row("baseline-reuse", known, anew, unit="s", goal=0.01 * slack)
        (selected,) = medians(rounds, lambda: asyncio.run(bench.selected()))
        yield row("focus-selection", selected, SELECTION_LIMIT_S, unit="s", goal=1.0)
        (judged,) = medians(rounds, lambda: asyncio.run(bench.judged()))
        yield row("gates-overhead", judged, OVERHEAD_LIMIT_S, unit="s", goal=slack)
        bench.store.close()


async def _bench(folder: Path, count: int) -> Bench:
    root = folder / "repository"
    for number in range(count // 2):
        _write_module(root / f"p{number % PACKAGES}", number)
    git = Git(root, environ=os.environ)
    await git("init", "--quiet")
    base = await _commit(git)
    (root / "p0" / "m0.py").write_text("LIMIT = 2\n\n\ndef keep_0(value):\n    return value + LIMIT\n")
    head = await _commit(git)
    store = Store.open(folder / "state.db", clock=SystemClock())
    place = await worktree.add(await open_repository(root, environ=os.environ), folder / "tree", head)
    return Bench(Tree(git=place, base=base, commit=head, environ=dict(os.environ)), store, Slots(folder / "slots", 1))


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
