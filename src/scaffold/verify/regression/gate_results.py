"""Run the gates that a change affects, compare them with the baseline, and repeat new failures."""

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial

from msgspec import structs

from scaffold.core.proof.gates import Baseline, Gate, GateResult, GateRun, Regression, TestFate, TestVerdict
from scaffold.git import commits
from scaffold.verify.base_layout import base_layout_of
from scaffold.verify.contract.check_runs import DEFAULT_TIMEOUT_S, TIMEOUT_FACTOR, Tree, restore_tracked_files
from scaffold.verify.environment.check_env import program_folders
from scaffold.verify.environment.provisioning import clean_again, with_new_temporary_folder
from scaffold.verify.gates.detection import detect_at_commit, drop_unavailable_gates
from scaffold.verify.gates.observed_run import ObservedRun, gate_slot, observe_gate, unnoticed_only, without_names
from scaffold.verify.gates.reports.runner_result import StandInsOrder, UnresolvedName
from scaffold.verify.locate_tests import path_from_gate
from scaffold.verify.paths.conventions import PROSE_SUFFIXES, is_test_file
from scaffold.verify.proof_request import ProofRequest
from scaffold.verify.regression.base_tests import (
    UNCACHED,
    LaidRun,
    changed_base_tests,
    checks_gone_with_sources,
    confirmed,
    describe_lost,
    describe_vanished,
    fates_of_tests,
    judged_by_landings,
    lay_base_tests,
    namesakes,
    new_tests,
    removed_earlier,
    selection,
    stand_ins_order,
)
from scaffold.verify.regression.baseline_capture import hooks_apply
from scaffold.verify.regression.comparison import (
    FAILING_OUTCOMES,
    MAX_REGRESSIONS,
    MAX_TESTS,
    compare_gate_runs,
    lost_tests,
    new_failures,
    renamed_name,
    replaced_functions,
    vanished_failures,
    with_known_unloaded,
    with_original_runner,
    with_places,
    with_renamed_files,
)
from scaffold.verify.regression.flaky_tests import retry_known_flaky, retry_new_failures
from scaffold.verify.regression.followed_runner import followed
from scaffold.verify.regression.gate_run_memory import NONE_SHARED, GateRunMemory
from scaffold.verify.regression.hook_results import HookJudge
from scaffold.verify.regression.selection.affected_tests import ChangeImpact, analyze_impact
from scaffold.verify.regression.selection.test_selection import LANGUAGE_FAMILIES
from scaffold.verify.regression.shared_checks import SharedChecks
from scaffold.verify.regression.test_identity import (
    MatchedRuns,
    VaryingNames,
    matched_runs,
    may_be_misnamed,
    varying_names,
)
from scaffold.verify.regression.unchanged_tests import (
    fates_without_support,
    lay_base_code,
    lay_unread_code,
    new_support_files,
    replaced_cases,
    with_findings_of,
)

FLAKY_ROUNDS = 3
"""How often a test that was flaky before the work is repeated."""
AGAIN = ("the baseline, a second time",)
"""Selects the second run of a baseline among the known runs."""
UNREAD = ("the baseline, without readable code",)
"""Selects its run on code that nothing can read."""
SUSPECT = ("the baseline, with what its command names",)
"""The same with the words of the command in it, for a gate that fails where it finds something."""
FATES_BY_WEIGHT: Sequence[TestFate] = ("lost", "removed", "changed", "moved")
"""The fates to keep first if there are too many."""


async def judge_gates(
    request: ProofRequest, baseline: Baseline, tree: Tree, *, checks: SharedChecks | None = None
) -> tuple[GateResult, ...]:
    """Return the result of each gate at the commit of `tree`: the baseline's gates first, then new ones.

    The checkout must be clean but for what `checks` of the contract left, which must not decide what a gate shows.
    """
    runs, used = baseline.runs, checks is not None and checks.ran
    if used and runs:
        await clean_again(baseline.environment, tree)
    since = await commits.changed_paths(tree.git, runs[0].commit, tree.commit) if runs else None
    new = await _new_gates(request, baseline, tree, since, used=used and not runs)
    if not runs and not new:
        return ()
    # Names of tests contain their files: without the renames, an old failure would look new and an old test lost.
    renamed = await commits.renames(tree.git, runs[0].commit, tree.commit) if runs else {}
    # A test file renamed so that no runner finds it has taken its tests away.
    renames = {old: new for old, new in renamed.items() if is_test_file(new) or not is_test_file(old)}
    named = [with_renamed_files(run, _renames_in_gate(run.gate, renames)) for run in runs]
    before = tuple([await followed(run, tree) for run in named])
    former = {new: old for old, new in renames.items()}
    landed = runs and runs[0].commit != tree.base
    earlier = await commits.changed_paths(tree.git, runs[0].commit, tree.base) if landed else ()
    change = await analyze_impact(
        tree,
        before,
        since or (),
        focused=request.focused,
        tagged=request.tagged,
        former=former,
        earlier=[path for path in earlier if path != request.marked_list],
    )
    change = structs.replace(change, found_tests=change.found_tests | await _tests_named_by_commands(request, tree))
    tree_id, shared = await commits.tree_of(tree.git, tree.commit), checks.gate_runs if checks else NONE_SHARED
    stored = GateRunMemory(request, baseline.environment, tree, tree_id, shared)
    runner = _GateRunner(request, tree, change, stored, [run.gate for run in runs])
    known = [await runner.judged(run.gate, run) for run in before]
    return (*known, *[await runner.judged(gate, None) for gate in new])


async def _tests_named_by_commands(request: ProofRequest, tree: Tree) -> frozenset[str]:
    """Return the test files of the base that commands name whose results name no tests."""
    if all(run.gate.kind != "test" or run.gate.runner != "exit" for run in request.baseline_runs):
        return frozenset()
    paths = frozenset(await commits.listed_paths(tree.git, tree.base))
    return frozenset((await base_layout_of(request, tree.git, tree.base, paths)).tests)


def gate_timeout_s(gate: Gate, before: GateRun | None, otherwise_s: float) -> float:
    """Return a gate's timeout: its own, else three times its duration at the base but at least the default.

    `otherwise_s` counts for a gate without a timeout and a run at the base.
    """
    if gate.timeout_s is not None:
        return gate.timeout_s
    return otherwise_s if before is None else max(DEFAULT_TIMEOUT_S, TIMEOUT_FACTOR * before.duration_s)


def _renames_in_gate(gate: Gate, renames: Mapping[str, str]) -> dict[str, str]:
    pairs = ((path_from_gate(gate, old), path_from_gate(gate, new)) for old, new in renames.items())
    return {old: new for old, new in pairs if old and new}


async def _new_gates(
    request: ProofRequest, baseline: Baseline, tree: Tree, since: Sequence[str] | None, *, used: bool
) -> tuple[Gate, ...]:
    """Return the gates that `since` then changed paths (None if unknown) added; one at the top covers all folders."""
    known = {run.gate.name for run in baseline.runs}
    covered = {*request.gates_off, *(run.gate.kind for run in baseline.runs if not run.gate.folder)}
    if since is not None and not any(_may_bring_a_gate(path, covered) for path in since):
        return ()
    found = await detect_at_commit(tree.git, tree.commit)
    # Which gates can run is seen in the checkout.
    if used and found.gates:
        await clean_again(baseline.environment, tree)
    own = program_folders(baseline.environment, tree.git.cwd)
    found = drop_unavailable_gates(found, tree.git.cwd, tree.environ, own)
    # The change must not decide which hooks judge it.
    new = (gate for gate in found.gates if gate.runner != "hooks")
    return tuple(gate for gate in new if gate.name not in known and gate.kind not in covered)


def _may_bring_a_gate(path: str, covered: Collection[str]) -> bool:
    # A configuration file may add a gate, or a test file if tests have none yet.
    ending = path.rpartition(".")[2]
    if ending in PROSE_SUFFIXES:
        return False
    return ending not in LANGUAGE_FAMILIES or ("test" not in covered and (is_test_file(path) or ending == "rs"))


def _fails_anew(before: GateRun | None, run: GateRun) -> list[str]:
    # A test that is gone would be gone again, so only new failures of existing tests count.
    return [name for name in new_failures(before, run) if name in run.outcomes]


class _GateRunner:
    def __init__(
        self, request: ProofRequest, tree: Tree, change: ChangeImpact, memory: GateRunMemory, base: Collection[Gate]
    ) -> None:
        self._request = request
        self._tree = tree
        self._change = change
        self._memory = memory
        self._base_gates = base
        """The gates that can run at the base."""
        self._names = dict[str, VaryingNames]()
        """By gate."""
        self._used = False
        """Whether a command ran in the checkout, so that it may no longer be clean."""

    async def judged(self, gate: Gate, before: GateRun | None) -> GateResult:
        """Return a gate's result, from a stored complete run at this commit or else by running the selected tests."""
        reason = _broken_before_reason(before) or self._change.skip_reason(gate)
        if reason:
            return GateResult(gate=gate, verdict="not_applicable", detail=reason)
        if gate.runner == "hooks" and before is not None:
            async with gate_slot(self._request.slots, self._tree.during):
                result = await HookJudge(self._memory, before, self._timeout_s(gate, before)).judged()
            return await with_places(result, self._tree)
        run, only = await self._run_or_recall(gate, before)
        run = unnoticed_only(run, self._change.added)
        before = await self._with_new_settings(before, run)
        expected, varying = self._change.expected(gate, only), tuple[str, ...]()
        fates: Mapping[str, TestFate] = {}
        earlier: Collection[str] = ()
        if before is not None and not run.problem and gate.kind == "test":
            runs = matched_runs(before, run, await self._varying_names(before, run, only))
            before, run, varying = runs.before, runs.now, runs.varying.shapes
            altered = changed_base_tests(gate, self._change, self._request.may_change)
            earlier = removed_earlier(before, run, altered=altered, change=self._change)
            support = new_support_files(gate, self._change)
            if altered or support:
                before, run, fates = await self._with_base_tests(runs, altered, support)
            sources = checks_gone_with_sources(before, run, self._change, self._request.files)
            fates = {**replaced_cases(before, run, self._change), **sources, **fates}
        blocking = {name for name, fate in fates.items() if fate == "lost"} - self._request.accepted_losses
        accounted = fates.keys() | self._request.settled

        def missed(name: str) -> bool:
            return name not in earlier and (name in blocking or (name not in accounted and expected(name)))

        result = compare_gate_runs(before, run, expected=missed)
        shown = dict(sorted(fates.items(), key=lambda each: (FATES_BY_WEIGHT.index(each[1]), each[0]))[:MAX_TESTS])
        result = _with_lost(result, blocking, describe_lost, counted=lost_tests(before, run))
        if gate.runner == "node" and not self._change.alters_tests:
            # If a test ends the process, the report stops there and the exit code does not show it.
            result = _with_lost(result, vanished_failures(before, run), describe_vanished)
        replaced = replaced_functions(before, run)
        result = structs.replace(
            result,
            passes_unread=await self._passes_unread(before or run, result),
            varying=varying,
            replaced=replaced,
            focused=bool(only),
            base_tests=shown,
            new_tests=new_tests(before, run, fates),
        )
        return await with_places(result, self._tree)

    async def _with_new_settings(self, before: GateRun | None, run: GateRun) -> GateRun | None:
        """Return the run at the base with the findings that the work's settings report in the unchanged code."""
        if before is None or run.gate.runner != "findings" or run.problem or not new_failures(before, run):
            return before
        try:
            changed = await lay_base_code(self._tree, before)
            if not changed:
                return before
            return with_findings_of(before, (await self._shown_by(self._tree, run.gate, before, ())).run, changed)
        finally:
            await restore_tracked_files(self._tree)

    async def _with_base_tests(
        self, runs: MatchedRuns, altered: Sequence[str], support: Sequence[str]
    ) -> tuple[GateRun, GateRun, Mapping[str, TestFate]]:
        """Return both runs, the later one with the tests that pass in their base version only, and all fates.

        `support` are new files that may have made tests pass that did not change; so may `altered` helpers and data.
        """
        before, run = runs.before, runs.now
        found = await self._run_base_tests(before, (*altered, *support))
        laid = structs.replace(found, run=runs.same_tests(found.run))
        named = self._request.named_only(altered)
        fates = fates_of_tests(before, run, laid, altered=altered, named=named, change=self._change) if altered else {}
        if support or not all(map(self._change.is_test_file, altered)):
            fates = {**fates_without_support(before, run, laid, self._change), **fates}
        if self._request.landed_gates is not None:
            # One action may have moved a test, and a later one changed there what it expects.
            lost = [name for name, fate in fates.items() if fate == "lost"]
            judged = namesakes(run.gate, lost, run) | judged_by_landings(lost, run.gate, self._request.landed_gates)
            fates = {**fates, **dict.fromkeys(judged, "changed")}
        kept = {name: laid.run.outcomes[name] for name, fate in fates.items() if fate == "moved"}
        # The messages say why a lost test fails in its base version.
        messages = {**laid.run.messages, **run.messages}
        after = structs.replace(run, outcomes={**run.outcomes, **kept}, messages=messages)
        return runs.before_mended(laid.run), after, fates

    async def _varying_names(self, before: GateRun | None, run: GateRun, only: Sequence[str]) -> VaryingNames:
        """Return which names vary; runs the baseline again, once, if a name may stand for another test."""
        gate, expected = run.gate, self._change.expected(run.gate, only)
        if before is None or before.problem or run.problem or gate.kind != "test" or gate not in self._base_gates:
            return VaryingNames()
        if gate.name not in self._names and may_be_misnamed(before, run, expected):
            # At the base, so that the work cannot make names vary.
            again, former = (
                await self._base_again(before, AGAIN),
                {old: new for new, old in self._change.former.items()},
            )
            self._names[gate.name] = varying_names(before, with_renamed_files(again, _renames_in_gate(gate, former)))
        return self._names.get(gate.name, VaryingNames())

    async def _passes_unread(self, run: GateRun, result: GateResult) -> bool:
        """Return whether a gate that names no tests also passes on unreadable code; runs once for each base."""
        if result.gate.kind != "test" or result.gate.runner != "exit" or result.verdict != "pass":
            return False
        for how in (UNREAD, SUSPECT):
            unread = await self._base_again(run, how)
            if unread.problem is not None or unread.exit_code != 0:
                return False
        return True

    async def _base_again(self, before: GateRun, how: Sequence[str]) -> GateRun:
        stored = structs.replace(
            self._memory, tree_id=await commits.tree_of(self._tree.git, before.commit), shared=NONE_SHARED
        )
        find = partial(stored.find, before.gate, how, self._timeout_s(before.gate, before))
        if (known := find()) is not None:
            return known
        async with gate_slot(self._request.slots, self._tree.during):
            # Another attempt, for which this one waited, may have asked the same.
            if (known := find()) is not None:
                return known
            await clean_again(self._memory.check_environment, self._tree)
            tree = structs.replace(self._tree, commit=before.commit, environ={**self._tree.environ, **UNCACHED})
            try:
                await restore_tracked_files(tree)
                if how != AGAIN:
                    await lay_unread_code(tree, before.gate.command if how == SUSPECT else "")
                run = (await self._shown_by(tree, before.gate, before, (), has_slot=True)).run
            finally:
                await clean_again(self._memory.check_environment, self._tree)
            stored.keep(run, how)
        return run

    async def _run_base_tests(self, before: GateRun, altered: Sequence[str]) -> LaidRun:
        renamed = {new: old for new, old in self._change.former.items() if new in self._change.added}
        now = {old: new for new, old in _renames_in_gate(before.gate, renamed).items()}
        only = selection(before.gate, altered, self._change.selected_files(before.gate), self._change)
        unresolved = dict[str, UnresolvedName]()

        async def rerun(names: Sequence[str]) -> GateRun:
            await clean_again(self._memory.check_environment, self._tree)
            tree = await lay_base_tests(self._tree, self._change)
            stand_ins = await stand_ins_order(tree, self._change)
            found = await self._shown_by(tree, before.gate, before, names or only, stand_ins)
            unresolved.update(found.unresolved)
            return found.run

        try:
            run = await retry_known_flaky(await rerun(()), _flaky_tests(before), rerun, rounds=FLAKY_ROUNDS)
            real = await confirmed(unresolved, before.gate, self._tree, self._change)
        finally:
            await restore_tracked_files(self._tree)
        run = without_names(with_renamed_files(run, now))
        return LaidRun(run=run, unresolved={renamed_name(name, now): each for name, each in real.items()})

    async def _run_or_recall(self, gate: Gate, before: GateRun | None) -> tuple[GateRun, tuple[str, ...]]:
        """Return a gate's run and the test files that it was limited to; none for all."""
        only = selected = self._change.selected_files(gate)
        # All tests prove more than some, and cost nothing if they have already run.
        if selected and self._memory.find(gate, (), self._timeout_s(gate, before)):
            only = ()
        run = await self._run_until_settled(gate, before, only)
        if only and run.problem == "vacuous":  # the selected files contain no tests
            run, only, selected = await self._run_until_settled(gate, before, ()), (), ()
        elif only and _fails_anew(before, run):
            # Tests may need others to run before them, as they did at the base.
            run, only = await self._run_until_settled(gate, before, ()), ()
        names = await self._varying_names(before, run, only)
        return await self._without_new_tests(names.canonical(run), before, selected, names), only

    async def _without_new_tests(
        self, run: GateRun, before: GateRun | None, only: Sequence[str], names: VaryingNames
    ) -> GateRun:
        """Return the run with the failures of a second run, in which the old tests run without the new files.

        A new test file in the same process could make old tests pass.
        """
        isolated = () if before is None or run.problem else self._change.files_to_isolate(run.gate, only)
        if not isolated:
            return run
        alone = names.canonical(await self._run_until_settled(run.gate, before, isolated))
        if alone.problem:
            # Without the new files nothing runs, so they cannot have repaired anything.
            return run if alone.problem == "vacuous" else alone
        broken = {name: outcome for name, outcome in alone.outcomes.items() if outcome in FAILING_OUTCOMES}
        outcomes, messages = {**run.outcomes, **broken}, {**run.messages, **alone.messages}
        return structs.replace(run, outcomes=outcomes, messages=messages, detail=alone.detail if broken else run.detail)

    async def _run_until_settled(self, gate: Gate, before: GateRun | None, only: Sequence[str]) -> GateRun:
        async def rerun(names: Sequence[str]) -> GateRun:
            # A test that fails once and leaves a file to pass the next time is broken, not flaky.
            return await self._run_once(gate, before, names or only, with_new_temporary_folder(self._tree))

        run = self._memory.find(gate, only, self._timeout_s(gate, before))
        run = run or await self._run_once(gate, before, only, self._tree)
        if gate.kind == "test" and not run.problem:
            flaky = _flaky_tests(before)
            run = await retry_known_flaky(run, flaky, rerun, rounds=FLAKY_ROUNDS)
            doubtful = [name for name in _fails_anew(before, run) if name not in flaky]
            run = await retry_new_failures(run, doubtful, rerun)
        self._memory.keep(run, only)
        return run

    def _timeout_s(self, gate: Gate, before: GateRun | None) -> float:
        return gate_timeout_s(gate, before, self._request.gate_timeout_s)

    async def _run_once(self, gate: Gate, before: GateRun | None, only: Sequence[str], tree: Tree) -> GateRun:
        """Run a gate once, with the tracked files as committed; tests run in a clean checkout."""
        if self._used and gate.kind == "test":
            # Files of an earlier run, such as a new conftest.py, must not affect these tests.
            await clean_again(self._memory.check_environment, self._tree)
        elif self._used:
            await restore_tracked_files(self._tree)
        return (await self._shown_by(tree, gate, before, only)).run

    async def _shown_by(
        self,
        tree: Tree,
        gate: Gate,
        before: GateRun | None,
        only: Sequence[str],
        stand_ins: StandInsOrder | None = None,
        *,
        has_slot: bool = False,
    ) -> ObservedRun:
        self._used = True
        async with gate_slot(None if has_slot else self._request.slots, tree.during):
            timeout_s, environment = self._timeout_s(gate, before), self._memory.environment
            seen = await observe_gate(
                gate, tree, only=only, environment=environment, timeout_s=timeout_s, stand_ins=stand_ins
            )
            return structs.replace(seen, run=with_original_runner(before, with_known_unloaded(before, seen.run)))


def _with_lost(
    result: GateResult,
    blocking: Collection[str],
    describe: Callable[[Sequence[str]], str],
    *,
    counted: Collection[str] = (),
) -> GateResult:
    """Return the result with lost tests as new failures, and with advice.

    `counted` lacks tests that landed earlier in this run, and cases of a test with as many passing cases as before.
    """
    if not blocking:
        return result
    more = [name for name in blocking if name not in counted]
    counts = {**result.counts, "new_failure": result.counts.get("new_failure", 0) + len(more)}
    tests: dict[str, TestVerdict] = {**dict.fromkeys(sorted(more), "new_failure"), **result.tests}
    detail = f"{describe(sorted(blocking))}{result.detail}"
    verdict = result.verdict if result.blocks else "new_failure"
    told = (*result.regressions, *(Regression(name=name, kind="missing") for name in sorted(more)[:MAX_REGRESSIONS]))
    return structs.replace(result, tests=tests, counts=counts, detail=detail, verdict=verdict, regressions=told)


def _broken_before_reason(before: GateRun | None) -> str:
    """Return why a gate is skipped that could not run before the work; empty if it runs."""
    if before is None or before.problem is None or before.gate.kind == "test":
        return ""
    if before.gate.runner == "hooks" and hooks_apply(before):
        return ""
    return f"It could not be run before the work either: {before.detail.partition(chr(10))[0]}"


def _flaky_tests(before: GateRun | None) -> Collection[str]:
    return frozenset(name for name, outcome in before.outcomes.items() if outcome == "flaky") if before else frozenset()
