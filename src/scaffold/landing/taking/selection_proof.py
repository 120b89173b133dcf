"""Prove a selection of a run's work on the tree that would be taken, which no landing has proven."""

from collections.abc import Iterator, Sequence

from scaffold.core.errors import GitError
from scaffold.core.model import Action, Run
from scaffold.core.printable_text import join_limited
from scaffold.core.proof.contract import Contract, Verification, blocking_results
from scaffold.core.proof.gates import Baseline
from scaffold.landing.proving.batch_check import BatchVerifier
from scaffold.landing.proving.checkout import LANDING, Checkouts
from scaffold.landing.proving.fact_refresh import FactRefresher
from scaffold.landing.proving.proof_setup import ProofSetup
from scaffold.landing.taking.land import TakenWork
from scaffold.run.attempts.contracts import contract_in_force, contract_with_timings
from scaffold.run.context import RunContext
from scaffold.run.failures.refused_work import describe_failed_checks
from scaffold.verify.contract.check_runs import During
from scaffold.verify.contract.review_verdict import is_review

MAX_NAMES = 8


async def prove_selection(context: RunContext, run: Run, work: TakenWork, *, during: During) -> str:
    """Run the contracts of the selected actions, and all gates, on the tree of `work`; only the run's owner may do it.

    Return what they do not prove; empty if they prove all of it. Raises GitError with the failures if one fails. No
    fact of the run changes, because facts are about the session branch.
    """
    setup, front = ProofSetup(context, run), Checkouts(context, run, [LANDING])
    refresher = FactRefresher(context, run, front, lambda: setup.baseline)
    taken = {each.action for each in work.commits if each.action}
    actions = [each for each in context.store.actions.for_run(run.id) if each.key in taken]
    contracts = {
        each.key: await _landed_contract(context, each, setup.baseline) for each in actions if not is_review(each)
    }
    try:
        tested = {
            key: await refresher.run_contract(contract, work.new, {"SCAFFOLD_ACTION": key}, during=during)
            for key, contract in contracts.items()
        }
        gates = await BatchVerifier(context, run, setup, front, refresher).run_all_gates(work.new, during=during)
    finally:
        await front.close()
    results = tuple(result for each in tested.values() for result in each)
    shown = Verification(commit=work.new, results=results, gates=gates)
    if not shown.passed:
        failed = [f"the checks of {key}" for key, shown_by in tested.items() if blocking_results(shown_by)]
        failed += [f"the gate {each.gate.name}" for each in shown.broken_gates]
        what = f"this selection does not pass on {work.branch}: {join_limited([*failed], MAX_NAMES)}"
        raise GitError(
            context.redactor.clean(f"{what}\n{describe_failed_checks(shown)}"),
            f"Take everything, which is proven together: `scaffold land {run.id}`. If {work.branch} has moved on, "
            f"first `scaffold rebase {run.id}`. Nothing was changed.",
        )
    unchecked = [key for key, shown_by in tested.items() if not shown_by]
    reviewed = [each.key for each in actions if is_review(each)]
    return "; ".join(_not_shown(unchecked, reviewed, ran=bool(results or gates)))


async def _landed_contract(context: RunContext, action: Action, baseline: Baseline | None) -> Contract:
    # With the timeouts that were used when its work landed.
    landed = [each for each in context.store.attempts.for_action(action.id) if each.outcome == "landed"]
    if not landed:
        return contract_in_force(context.store, action.id) or Contract()
    return await contract_with_timings(context, landed[-1], baseline) or Contract()


def _not_shown(unchecked: Sequence[str], reviewed: Sequence[str], *, ran: bool) -> Iterator[str]:
    if not ran:
        yield "there is no check and no gate that could be run on this selection"
    elif unchecked:
        yield f"there is no check that could show {join_limited(unchecked, MAX_NAMES)}"
    if reviewed:
        yield f"what reviews showed of {join_limited(reviewed, MAX_NAMES)} was about the whole work"
