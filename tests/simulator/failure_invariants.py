"""What must hold of failures in every run: how many there are, and what an action fails for."""

from collections.abc import Iterator

from scaffold.core.model import Run
from scaffold.core.states import reason_of
from scaffold.run.failures.escalation_question import GIVEN_UP
from scaffold.store.database import Store
from simulator.story_invariants import own_failures_allowed


def own_failures_are_bounded(store: Store, run: Run, key: str, failures: int) -> Iterator[str]:
    """SC-20: an action has as many own failures as allowed, and one more with another approach."""
    action = store.actions.by_key(run.id, key)
    most = run.settings.limits.attempts + (action.extra_attempts if action else 0)
    if failures > most:
        yield f"{key} failed {failures} times, but only {most} are allowed"


def an_action_fails_only_for_its_own_failures(store: Store, run: Run, key: str, failures: int) -> Iterator[str]:
    """SC-20: crashes, conflicts, budgets and people do not count as failures; a human may give it up, if asked."""
    action = store.actions.by_key(run.id, key)
    if action is not None and (reason_of(action.state) or "").startswith(GIVEN_UP):
        return
    if action is not None and action.kind == "primitive" and failures < own_failures_allowed(run, action):
        yield f"{key} failed permanently after {failures} own failures: {reason_of(action.state)}"
