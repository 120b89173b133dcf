"""Prove a selection of a run's work on the very tree that would be taken: it is one that no landing has proven."""

from collections.abc import Collection, Iterator

from scaffold.core.contract import Verification
from scaffold.core.errors import GitError
from scaffold.core.model import Run
from scaffold.core.printable_text import join_limited
from scaffold.landing.batch_check import BatchVerifier
from scaffold.landing.checkout import LANDING
from scaffold.landing.checkouts import Checkouts
from scaffold.landing.fact_refresh import FactRefresher
from scaffold.landing.proof_setup import ProofSetup
from scaffold.landing.stale_facts import all_facts
from scaffold.landing.staleness import ProvenFacts
from scaffold.landing.taking.land import Work
from scaffold.run.context import RunContext
from scaffold.run.failure_summary import describe_failed_checks
from scaffold.verify.contract.checks import During

MAX_NAMES = 8


async def prove_selection(context: RunContext, run: Run, work: Work, *, during: During) -> str:
    """Run the contracts of the selected actions, and all gates, on the tree of `work`; only the run's owner may.

    Return why their result is no proof of all of it; empty if it is. GitError, with what failed, if one fails. No fact
    of the run changes: they are about the session branch.
    """
    setup, front = ProofSetup(context, run), Checkouts(context, run, [LANDING])
    refresher = FactRefresher(context, run, front, lambda: setup.baseline)
    chosen = {each.action for each in work.commits if each.action}
    groups = [each for each in all_facts(context.store, run) if each.action.key in chosen]
    try:
        tested = await refresher.test(groups, work.new, during=during)
        gates = await BatchVerifier(context, run, setup, front, refresher).run_all_gates(work.new, during=during)
    finally:
        await front.close()
    results = tuple(result for each in tested for result in each.results)
    shown = Verification(commit=work.new, results=results, gates=gates)
    if not shown.passed:
        failed = [f"the checks of {each.group.action.key}" for each in tested if each.failures]
        failed += [f"the gate {each.gate.name}" for each in shown.broken_gates]
        raise _refusal(context, run, work, failed, shown)
    return "; ".join(_not_shown(groups, ran=bool(results or gates)))


def _refusal(context: RunContext, run: Run, work: Work, failed: Collection[str], shown: Verification) -> GitError:
    what = f"this selection does not pass on {work.branch}: {join_limited([*failed], MAX_NAMES)}"
    return GitError(
        context.redactor.clean(f"{what}\n{describe_failed_checks(shown)}"),
        f"Take everything, which is proven together: `scaffold land {run.id}`. If {work.branch} has moved on, first "
        f"`scaffold rebase {run.id}`. Nothing was changed.",
    )


def _not_shown(groups: Collection[ProvenFacts], *, ran: bool) -> Iterator[str]:
    """Yield what no command can show of the selection."""
    if not ran:
        yield "there is no check and no gate that could be run on this selection"
    reviewed = [each.action.key for each in groups if each.recheck == "review"]
    if reviewed:
        yield f"what reviews showed of {join_limited(reviewed, MAX_NAMES)} was about the whole work"
