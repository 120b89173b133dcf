"""What the gates show of a candidate: run as far as the change asks for, held against the baseline, repeated if new."""

from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext

from msgspec import Struct, structs

from scaffold.core.gates import Baseline, Gate, GateResult, GateRun, Tagged, Withdrawal
from scaffold.git import commit
from scaffold.host.slots import Slots
from scaffold.verify.baseline import Find
from scaffold.verify.comparison import BROKEN, MOST_TESTS, compare, gone, moved, moved_name, new_failures
from scaffold.verify.contract import DEFAULT_TIMEOUT_S, PATIENCE, Tree, undo_changes
from scaffold.verify.focus import FAMILIES
from scaffold.verify.gates.detection import detect_at
from scaffold.verify.gates.run import run_gate
from scaffold.verify.gates.tools import with_tools
from scaffold.verify.places import below
from scaffold.verify.relevance import Relevance, relevance
from scaffold.verify.removal import without_subject
from scaffold.verify.repetition import settled, settled_at_last
from scaffold.verify.testlike import PROSE, is_test_file
from scaffold.verify.withdrawal import Withdrawn, namesakes, put_back, told_broken, with_kept, withdrawn

ROUNDS = 3
"""So often is a test repeated that was flaky before the work."""


class Terms(Struct, frozen=True, kw_only=True):
    """What the gates of a candidate are held to."""

    baseline: Baseline
    focused: bool
    """Whether tests run that have to do with the change, instead of all."""
    files: tuple[str, ...] = ()
    """What the action declared that it would touch: tests in there may be taken out if that loses nothing."""
    closing: bool = False
    """Whether this is the end of a run: tests that were moved may have been changed since, where they are now."""
    tagged: tuple[Tagged, ...] = ()
    """Tests that have to do with a change by their tags."""
    off: tuple[str, ...] = ()
    """Kinds of gates that are not asked."""
    find: Find | None = None
    """Finds whole runs by commit that were kept; None where everything is to be run."""
    keep: Callable[[GateRun], None] | None = None
    """Takes each whole run that had no trouble, so that it is found again."""
    timeout_s: float = 600.0
    """What a gate may take that came with the work."""
    aside: Callable[[], AbstractAsyncContextManager[None]] = nullcontext
    """Keeps the work while its tree has the old tests in place of the new ones."""


async def judge_gates(terms: Terms, tree: Tree, slots: Slots | None) -> tuple[GateResult, ...]:
    """Return how each gate does at the commit of `tree`, those of the baseline first, then those that are new.

    Each run of one takes a slot; None where nobody else could run any.
    """
    runs = terms.baseline.runs
    since = await commit.changed_paths(tree.git, runs[0].commit, tree.commit) if runs else None
    new = await _new_gates(terms, tree, since)
    if not runs and not new:
        return ()
    renames = await _renames(runs, tree)
    before = tuple(moved(run, _inside(run.gate, renames)) for run in runs)
    former = {new: old for old, new in renames.items()}
    change = await relevance(tree, before, since or (), focused=terms.focused, tagged=terms.tagged, former=former)
    bench = _Bench(terms, tree, slots, change)
    known = [await bench.judged(run.gate, run) for run in before]
    return (*known, *[await bench.judged(gate, None) for gate in new])


def patience_s(gate: Gate, before: GateRun | None, otherwise_s: float) -> float:
    """Return how many seconds a gate may take: as it says itself, or at least a minute and three times the base's."""
    if gate.timeout_s is not None:
        return gate.timeout_s
    return otherwise_s if before is None else max(DEFAULT_TIMEOUT_S, PATIENCE * before.duration_s)


async def _renames(runs: Sequence[GateRun], tree: Tree) -> Mapping[str, str]:
    """Return the names that files of the baseline have now, by those of then; a file of tests has to stay one."""
    renames = await commit.renames(tree.git, runs[0].commit, tree.commit) if runs else {}
    return {old: new for old, new in renames.items() if is_test_file(new) or not is_test_file(old)}


def _inside(gate: Gate, renames: Mapping[str, str]) -> dict[str, str]:
    pairs = ((below(gate, old), below(gate, new)) for old, new in renames.items())
    return {old: new for old, new in pairs if old and new}


async def _new_gates(terms: Terms, tree: Tree, since: Sequence[str] | None) -> tuple[Gate, ...]:
    """Return the gates that came after the baseline; a gate of the top speaks for all folders below.

    `since` are the paths that changed since then; None where that is not known.
    """
    known = {run.gate.name for run in terms.baseline.runs}
    closed = {*terms.off, *(run.gate.kind for run in terms.baseline.runs if not run.gate.folder)}
    if since is not None and not any(_may_bring_a_gate(path, closed) for path in since):
        return ()
    found = with_tools(await detect_at(tree.git, tree.commit), tree.git.cwd, tree.environ)
    return tuple(gate for gate in found.gates if gate.name not in known and gate.kind not in closed)


def _may_bring_a_gate(path: str, closed: Collection[str]) -> bool:
    """Tell whether a changed file may be why there is a gate: one of configuration, or of tests where none were."""
    ending = path.rpartition(".")[2]
    if ending in PROSE:
        return False
    return ending not in FAMILIES or ("test" not in closed and (is_test_file(path) or ending == "rs"))


class _Bench:
    """Where the gates of one candidate are run and judged."""

    def __init__(self, terms: Terms, tree: Tree, slots: Slots | None, change: Relevance) -> None:
        self._terms = terms
        self._tree = tree
        self._slots = slots
        self._change = change
        self._environment = terms.baseline.environment.fingerprint

    async def judged(self, gate: Gate, before: GateRun | None) -> GateResult:
        """Judge a gate by a whole run at this commit if one is known, otherwise by a run of what is asked for."""
        reason = _hopeless(before) or self._change.beside_the_point(gate)
        if reason:
            return GateResult(gate=gate, verdict="not_applicable", detail=reason)
        run, only = await self._shown(gate, before)
        expected = self._change.expected(gate, only)
        taken = await self._withdrawn(run, before, expected)
        no_loss: Mapping[str, Withdrawal] = {}
        if before is not None and taken.homes:
            run, no_loss = await self._with_withdrawn(run, before, taken)

        def missed(name: str) -> bool:
            return name not in taken.before and name not in no_loss and expected(name)

        result = compare(before, run, expected=missed)
        named = dict(sorted(no_loss.items())[:MOST_TESTS])
        return structs.replace(result, focused=bool(only), withdrawn=named)

    async def _withdrawn(self, run: GateRun, before: GateRun | None, expected: Callable[[str], bool]) -> Withdrawn:
        names = tuple(filter(expected, gone(before, run)))
        since = before.commit if before else self._tree.base
        return await withdrawn(run.gate, names, self._tree, self._change, since=since, files=self._terms.files)

    async def _with_withdrawn(
        self, run: GateRun, before: GateRun, taken: Withdrawn
    ) -> tuple[GateRun, Mapping[str, Withdrawal]]:
        """Return the run with the tests that were taken out and pass, and why which of all that were are no loss."""
        run = with_kept(run, await self._as_it_was(before, taken), taken.homes)
        left = {name: home for name, home in taken.homes.items() if name not in run.outcomes}
        removed = await without_subject(run.gate, left, self._tree, self._change)
        elsewhere = namesakes(run.gate, left, run) if self._terms.closing else frozenset[str]()
        no_loss: dict[str, Withdrawal] = {
            **dict.fromkeys(taken.homes.keys() - left.keys(), "passes"),
            **dict.fromkeys(elsewhere, "moved"),
            **dict.fromkeys(removed, "removed"),
        }
        broken = told_broken(sorted(left.keys() - no_loss.keys()))
        return structs.replace(run, detail=f"{broken}{run.detail}"), no_loss

    async def _as_it_was(self, before: GateRun, taken: Withdrawn) -> GateRun:
        """Run the tests that were taken out, with all tests as they were; the work is there, its tests are not."""
        renamed = {new: old for new, old in self._change.former.items() if new in self._change.added}
        then = _inside(before.gate, renamed)
        now = {old: new for new, old in then.items()}
        former = {name: moved_name(name, then) for name in taken.homes}

        async def rerun(names: Sequence[str]) -> GateRun:
            tree = await put_back(self._tree, self._change)
            only = [former.get(name, name) for name in names] or taken.selection(before.gate, former)
            return moved(await self._shown_by(tree, before.gate, before, only), now)

        async with self._terms.aside():
            try:
                return await settled_at_last(await rerun(()), _flaky(before), rerun, rounds=ROUNDS)
            finally:
                await undo_changes(self._tree)

    async def _shown(self, gate: Gate, before: GateRun | None) -> tuple[GateRun, tuple[str, ...]]:
        """Return what a gate shows, and of which files of tests alone; none for all there is."""
        found = self._terms.find(gate, self._tree.commit, self._environment) if self._terms.find else None
        if found is not None:
            return found, ()
        only = self._change.asked(gate)
        run = await self._settled(gate, before, only)
        if only and run.trouble == "vacuous":  # nothing of what was asked for is a test
            run, only = await self._settled(gate, before, ()), ()
        run = await self._without_new_tests(run, before, only)
        if self._terms.keep and not only and run.trouble is None:
            self._terms.keep(run)
        return run, only

    async def _without_new_tests(self, run: GateRun, before: GateRun | None, only: Sequence[str]) -> GateRun:
        """Return the run with what fails, of the tests that were there, where the new ones are not even loaded."""
        apart = () if before is None or run.trouble else self._change.apart(run.gate, only)
        if not apart:
            return run
        alone = await self._settled(run.gate, before, apart)
        if alone.trouble:
            return run if alone.trouble == "vacuous" else alone
        broken = {name: outcome for name, outcome in alone.outcomes.items() if outcome in BROKEN}
        return structs.replace(run, outcomes={**run.outcomes, **broken}, detail=alone.detail if broken else run.detail)

    async def _settled(self, gate: Gate, before: GateRun | None, only: Sequence[str]) -> GateRun:
        """Run a gate, and again what failed anew."""

        async def rerun(names: Sequence[str]) -> GateRun:
            return await self._run(gate, before, names or only)

        run = await rerun(())
        if gate.kind != "test" or run.trouble:
            return run
        flaky = _flaky(before)
        run = await settled_at_last(run, flaky, rerun, rounds=ROUNDS)
        return await settled(run, [name for name in new_failures(before, run) if name not in flaky], rerun)

    async def _run(self, gate: Gate, before: GateRun | None, only: Sequence[str]) -> GateRun:
        """Run a gate once, from the files as they were committed."""
        await undo_changes(self._tree)
        return await self._shown_by(self._tree, gate, before, only)

    async def _shown_by(self, tree: Tree, gate: Gate, before: GateRun | None, only: Sequence[str]) -> GateRun:
        async with _taken(self._slots):
            timeout_s = patience_s(gate, before, self._terms.timeout_s)
            return await run_gate(gate, tree, only=only, environment=self._environment, timeout_s=timeout_s)


def _hopeless(before: GateRun | None) -> str:
    """Return why a gate is not asked that could not be run before the work either; empty if it is."""
    if before is None or before.trouble is None or before.gate.kind == "test":
        return ""
    return f"It could not be run before the work either: {before.detail.partition(chr(10))[0]}"


def _flaky(before: GateRun | None) -> Collection[str]:
    return frozenset(name for name, outcome in before.outcomes.items() if outcome == "flaky") if before else frozenset()


@asynccontextmanager
async def _taken(slots: Slots | None) -> AsyncIterator[None]:
    if slots is None:
        yield
        return
    async with slots.taken():
        yield
