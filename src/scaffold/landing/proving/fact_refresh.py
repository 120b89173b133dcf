"""Re-verify facts when paths that they depend on have changed.

Such a fact is stale until it is rechecked here; if its checks fail, it is refuted and its action runs again. A reviewed
fact is reviewed again; a fact with neither stays as weak as it was.
"""

from collections.abc import Callable, Collection, Mapping, Sequence

from scaffold.core.ids import Commit
from scaffold.core.model import Run
from scaffold.core.proof.contract import CheckResult, Contract
from scaffold.core.proof.gates import Baseline
from scaffold.git import commits
from scaffold.landing.facts.stale_facts import (
    ProvenFacts,
    RecheckResult,
    affected_facts,
    mark_stale,
    recheckable,
    record_recheck,
    refute_facts,
    shown_before,
    unproven_facts,
)
from scaffold.landing.proving.checkout import Checkouts
from scaffold.run.activity_recorder import ActivityRecorder
from scaffold.run.attempts.contracts import contract_in_force, contract_with_timings
from scaffold.run.attempts.lease import owner_transaction
from scaffold.run.context import RunContext
from scaffold.run.resources.candidate_environment import environment_at
from scaffold.verify.contract.base_checks import CheckResultCache, recall_passed
from scaffold.verify.contract.check_runs import CheckRunner, During, run_check, run_checks, unseen

RECHECKING = "recheck"
"""The stage of the run in which its owner rechecks facts."""


class FactRefresher:
    """Marks and rechecks the facts of a run; only its owner may use it."""

    def __init__(
        self, context: RunContext, run: Run, checkouts: Checkouts, baseline: Callable[[], Baseline | None]
    ) -> None:
        self._context = context
        self._run = run
        self._checkouts = checkouts
        self._baseline = baseline

    async def test(self, groups: Sequence[ProvenFacts], commit: Commit, *, during: During) -> tuple[RecheckResult, ...]:
        """Run the checks of each group at a commit, each in a clean tree; skip groups without checks."""
        return tuple([await self._test_one(group, commit, during) for group in recheckable(groups)])

    async def held_at(self, group: ProvenFacts, tip: Commit, *, during: During) -> bool:
        """Return whether the facts hold at a commit of the branch; refute them if not."""
        (before,) = await self.test([group], tip, during=during)
        if before.failures:
            self.record_result(before)
        return not before.failures

    def mark_stale(self, changed: Collection[str], tip: Commit) -> None:
        """Mark facts stale that depend on the changed paths, except those proven at the tip itself."""
        with owner_transaction(self._context.store, self._run, durable=True):
            # A fact that was proven at this tip was proven with the change.
            for group in shown_before(tip, affected_facts(self._context.store, self._run, changed)):
                mark_stale(self._context.store, group)

    async def contract(self, group: ProvenFacts) -> Contract:
        """Return the contract of the action, with the timeouts used when it was proven; empty if it has none."""
        store = self._context.store
        attempt = None if group.attempt_id is None else store.attempts.get(group.attempt_id)
        if attempt is None:
            return contract_in_force(store, group.action.id) or Contract()
        return await contract_with_timings(self._context, attempt, self._baseline()) or Contract()

    def waiting(self) -> tuple[ProvenFacts, ...]:
        """Return the stale facts that can be rechecked here."""
        return recheckable(unproven_facts(self._context.store, self._run))

    async def settle(self, tip: Commit) -> None:
        """Recheck all waiting facts at the branch's tip: each holds there or is refuted. Safe to repeat."""
        during = ActivityRecorder(self._context, self._run, stage=RECHECKING).during
        # A fact that builds on another one waits until that holds again.
        while waiting := self.waiting():
            for each in await self.test(waiting, tip, during=during):
                self.record_result(each)

    def record_result(self, tested: RecheckResult) -> None:
        """Record a recheck: the facts hold again, or are refuted."""
        store = self._context.store
        with owner_transaction(store, self._run, durable=True):
            if tested.failures:
                refute_facts(store, self._run, tested)
            else:
                record_recheck(store, tested, self._context.clock.now())

    async def _test_one(self, group: ProvenFacts, commit: Commit, during: During) -> RecheckResult:
        marks = {"SCAFFOLD_ACTION": group.action.key}
        results = await self.run_contract(await self.contract(group), commit, marks, during=during)
        return RecheckResult(group=group, commit=commit, results=results)

    async def run_contract(
        self,
        contract: Contract,
        commit: Commit,
        marks: Mapping[str, str],
        *,
        run: CheckRunner = run_check,
        during: During = unseen,
    ) -> tuple[CheckResult, ...]:
        """Return the results of a contract at a commit: known ones, else those of `run` in a clean tree."""
        baseline = self._baseline()
        # The candidate, or facts of another action, may have been checked by the same commands.
        tree_id = await commits.tree_of(self._context.git, commit)
        known = recall_passed(contract, tree_id, CheckResultCache(self._context.store, baseline))
        if known is not None:
            bare = self._checkouts.tree_without_checkout(commit, commit, marks)
            return await run_checks(contract, bare, run=known)
        base = baseline.environment if baseline else None
        found = await environment_at(self._context, self._run, base, commit, during=during) if base else None
        environment = found.environment if found else None
        async with (
            self._checkouts.taken(during) as checkout,
            checkout.tree(environment, base=commit, commit=commit, marks=marks) as tree,
        ):
            return await run_checks(contract, tree, run=run)
