"""The ready actions of a run that may not start beside what runs."""

from msgspec import Struct

from scaffold.core.ids import ActionKey
from scaffold.core.model import Run
from scaffold.plan.collisions.rules import HeldBack
from scaffold.run.collision_board import held_back_actions
from scaffold.views.store_reader import StoreAccess, is_executed


class HeldBackAction(Struct, frozen=True):
    """An action, and what it waits for."""

    key: ActionKey
    why: HeldBack


def read_held_back(reader: StoreAccess, run: Run) -> tuple[HeldBackAction, ...]:
    """Return the actions of a run that is executed, in the order of its goals and the plan; none of another one."""
    store = reader.store
    if not is_executed(run):
        return ()
    with store.snapshot():
        found = held_back_actions(store, run)
        keys = {action.id: action.key for action in store.actions.of_run(run.id)} if found else {}
    return tuple(HeldBackAction(keys[action_id], why) for action_id, why in found.items())
