"""Invariants of work in the same files: the rules repeated as promised, as those in the code may be wrong."""

from collections.abc import Iterator

from scaffold.core.events import AttemptQueued
from scaffold.core.model import Action, Attempt, Goal, Run
from scaffold.store.database import Store

WORKING_PHASES = frozenset({"workspace", "executing", "verifying", "critiquing"})
MOST_OVERTAKEN = 4


def count_able_to_start(store: Store, run: Run, goal: Goal) -> int:
    """Return how many ready primitives of the goal may start together; too few if some are let go first."""
    ready = [each for each in store.actions.ready(goal.id, 99) if each.kind == "primitive"]
    if not run.settings.scheduling.collisions:
        return len(ready)
    if store.scheduling.held_back(run.id, overtaken=MOST_OVERTAKEN):
        return 0
    running = [each for each, _ in _changing(store, run)]
    # What was committed by work whose files are unknown.
    touched = {path for each in store.scheduling.open_work(run.id) if not each.files for path in each.touched}
    in_shared = len(_in_shared(store, run))
    able = 0
    for action in ready:
        is_full = _is_in_shared(action) and in_shared >= run.settings.scheduling.directory_agents
        meets = not touched.isdisjoint(action.files) or any(_collide(action, other) for other in running)
        if is_full or not action.files or meets:
            able += not action.files and not store.attempts.for_action(action.id)
            continue
        running.append(action)
        in_shared += _is_in_shared(action)
        able += 1
    return able


def nothing_runs_beside_what_it_collides_with(store: Store, run: Run, event: AttemptQueued) -> Iterator[str]:
    """AL-4: no two actions that may change the same files run, or wait to land, at the same time."""
    if not run.settings.scheduling.collisions:
        return
    held = {each.attempt_id for each in store.merge_queues.for_run(run.id) if each.state == "held"}
    changing = _changing(store, run)
    for action, _ in changing:
        for other, attempt in changing:
            if action.key == event.action and attempt.id not in held and _collide(action, other):
                yield f"{action.key} with {action.files} starts beside {other.key} with {other.files}"


def no_directory_has_more_agents_than_may(store: Store, run: Run, event: AttemptQueued) -> Iterator[str]:
    """AL-4: counted when one starts; one that a human has answered may go on besides."""
    found = _in_shared(store, run)
    if (
        event.action in {each.key for each in found}
        and run.settings.scheduling.collisions
        and len(found) > run.settings.scheduling.directory_agents
    ):
        yield f"{[each.key for each in found]} work in one directory"


def _in_shared(store: Store, run: Run) -> list[Action]:
    changing = _changing(store, run)
    working = [each for each, attempt in changing if attempt.phase in WORKING_PHASES and attempt.waits_for is None]
    return [each for each in working if _is_in_shared(each)]


def _is_in_shared(action: Action) -> bool:
    return any(path.startswith("shared/") for path in action.files)


def _changing(store: Store, run: Run) -> list[tuple[Action, Attempt]]:
    """Return the actions with an open attempt, without reviews."""
    open_ones = [each for each in store.attempts.open_of_run(run.id) if each.kind != "review"]
    actions = [(store.actions.get(each.action_id), each) for each in open_ones]
    return [(action, attempt) for action, attempt in actions if action is not None]


def _collide(one: Action, other: Action) -> bool:
    """Return whether two actions that name files, and no globs, name the same; repeated here as promised."""
    return one.id != other.id and not set(one.files).isdisjoint(other.files)
