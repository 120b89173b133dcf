"""Whether the run's evidence is about a tree that would be taken, and if not, why."""

from collections.abc import Collection

from scaffold.core.ids import Commit
from scaffold.core.model import Fact, Run
from scaffold.core.printable_text import count_of
from scaffold.core.states import Completed
from scaffold.git.commits import tree_of
from scaffold.landing.facts.stale_facts import ran_where_it_holds
from scaffold.run.context import RunContext
from scaffold.views.changes.session_commits import commits_between


def count_stale(context: RunContext, run: Run) -> int:
    """Return how many facts of the run must be checked again."""
    return sum(fact.state == "stale" for fact in _run_facts(context, run))


async def doubt_of(context: RunContext, run: Run, new: Commit, *, head: Commit) -> str:
    """Return why the run's evidence is not about the tree of `new`; empty if it is. `head` is the session branch's tip.

    A landing and the end of a run prove a tree with all gates. Facts that were rechecked in between, because the branch
    was rebased or its user committed to it, show only what their own checks show.
    """
    if stale := count_stale(context, run):
        return f"{count_of(stale, 'fact')} must be checked again first: `scaffold resume {run.id}` does it"
    session = await commits_between(context.git, context.store, run, old=run.base_sha, new=head)
    # Facts name the commit that was proven as a whole, which is that of the last candidate of a batch.
    shown = [fact for fact in _run_facts(context, run) if fact.state == "holds" and ran_where_it_holds(fact)]
    tree = await tree_of(context.git, new)
    checked = [fact for fact in shown if fact.commit in {each.commit for each in session if each.tree == tree}]
    if not checked:
        return "nothing was run on this combination of commits: the evidence is about other ones"
    if not _with_gates(context, run, checked, head=head):
        return f"the gates have not passed on it, only checks of actions: `scaffold resume {run.id}` runs them"
    return ""


def _with_gates(context: RunContext, run: Run, checked: Collection[Fact], *, head: Commit) -> bool:
    if isinstance(run.state, Completed) and any(fact.commit == head for fact in checked):
        return True
    baseline = context.store.baselines.for_run(run.id)
    if not run.settings.gates.enabled or (baseline is not None and not baseline.runs):
        return True
    attempts = context.store.attempts.for_run(run.id)
    # A landing is proven even if no gate runs on its paths.
    landed = {each.verification.commit for each in attempts if each.outcome == "landed" and each.verification}
    return any(
        fact.commit in landed or any(each.kind == "gate" and each.commit == fact.commit for each in fact.evidence)
        for fact in checked
    )


def _run_facts(context: RunContext, run: Run) -> list[Fact]:
    return [fact for goal in context.store.goals.for_run(run.id) for fact in context.store.facts.for_goal(goal.id)]
