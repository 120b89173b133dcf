"""Builders of landings that stopped midway."""

from builders import an_intent
from scaffold.core.ids import Commit
from scaffold.core.landing.branch_move import Intent
from scaffold.core.model import Run
from scaffold.git import commits
from scaffold.landing.facts.landing_record import session_ref
from support.harness import AUTHOR, COMMITTER, Harness


async def interrupted_landing(harness: Harness, run: Run, key: str, new: Commit | None = None) -> Intent:
    """Return the stored intent of a landing of an action's candidate, whose owner died before the branch moved.

    `new` is the commit that was to land; by default it has the files of the candidate.
    """
    git, attempt, tip = harness.context.git, harness.attempts(run, key)[-1], await harness.tip(run)
    if new is None:
        tree = await commits.tree_of(git, attempt.head_sha)
        new = await commits.commit_tree(git, tree, parents=[tip], message=key, author=AUTHOR, committer=COMMITTER)
    intent = an_intent(attempt, fence=run.fence, ref=session_ref(run), old=tip, new=new, commit=new)
    with harness.store.transaction(durable=True):
        harness.store.attempts.advance(
            attempt.id, fence=attempt.fence, phase="landing", verification=attempt.verification
        )
        harness.store.intents.add(intent)
    return intent
