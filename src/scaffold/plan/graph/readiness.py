"""Which actions can never become ready because of a failure."""

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from scaffold.core.ids import ActionId, Assertion
from scaffold.core.model import Action
from scaffold.core.plan import ActionKind
from scaffold.core.states import OTHERS_FIRST, awaited_inbox_id, status_of
from scaffold.plan.graph.reach import ORPHANED, ChainStep, ChainToken, forward_chain

DEAD_STATUSES = frozenset({"failed", "blocked", "cancelled", "skipped"})
"""Statuses of actions that will make nothing true."""


class ActionNode(Struct, frozen=True):
    """The part of an action that readiness depends on.

    `status` is the word users see, or `waiting` for one blocked until a human decides, or others ended: it is alive.
    """

    id: ActionId
    parent_id: ActionId | None
    preconditions: tuple[Assertion, ...]
    effects: tuple[Assertion, ...]
    status: str
    kind: ActionKind


def action_node(action: Action) -> ActionNode:
    """Return what readiness depends on of an action."""
    waits = awaited_inbox_id(action.state) is not None or action.state == OTHERS_FIRST
    return ActionNode(
        id=action.id,
        parent_id=action.parent_id,
        preconditions=action.preconditions,
        effects=action.effects,
        status="waiting" if waits else status_of(action.state),
        kind=action.kind,
    )


def blocked_by_failure(actions: Sequence[ActionNode], facts: frozenset[Assertion]) -> dict[ActionId, str]:
    """Return the pending actions that a failure keeps from ever becoming ready, with the reason to block them.

    The reason is `dependency_failed:<id>` with the failed, cancelled or skipped action at the root; of several, the
    nearest, then the first in order. `actions` are all actions of one goal. Left out are actions that a live action may
    still unblock, and actions that no failure blocks, e.g. on a cycle or with a precondition without provider. Pending
    and running compounds count as live, since they may be decomposed further.
    """
    index = {action.id: i for i, action in enumerate(actions)}
    steps = [_chain_step(i, action, index) for i, action in enumerate(actions)]
    # A live action may still become true in any way, so only what cannot hold even then is lost.
    possible = forward_chain(steps, facts).held
    waiters: dict[ChainToken, list[int]] = {}
    for i, action in enumerate(actions):
        if action.status in {"pending", "blocked"}:
            for need in _tokens_needed(action, index):
                if need not in possible:
                    waiters.setdefault(need, []).append(i)
    roots = _find_root_failures(actions, waiters)
    return {
        actions[i].id: f"dependency_failed:{actions[root].id}"
        for i, root in sorted(roots.items())
        if actions[i].status == "pending"
    }


def _chain_step(index: int, action: ActionNode, indexes: Mapping[ActionId, int]) -> ChainStep:
    """Return the action as a step: dead ones give nothing; live ones give their effects, if pending once ready."""
    # Failed, skipped and cancelled alike: none of them will run again on its own.
    if action.status in DEAD_STATUSES:
        return ChainStep(frozenset(), ())
    # Running actions need nothing any more.
    needs = frozenset(_tokens_needed(action, indexes)) if action.status == "pending" else frozenset[ChainToken]()
    return ChainStep(needs, (*action.effects, index))


def _tokens_needed(action: ActionNode, indexes: Mapping[ActionId, int]) -> Iterator[ChainToken]:
    yield from action.preconditions
    if action.parent_id is not None:
        yield indexes.get(action.parent_id, ORPHANED)


def _find_root_failures(actions: Sequence[ActionNode], waiters: Mapping[ChainToken, Sequence[int]]) -> dict[int, int]:
    """Return, for each action a failure reaches, the failure that reaches it first; failures map to themselves."""
    roots: dict[int, int] = {}
    # Failures first: what they reach is named after them, and only the other blocked actions are roots themselves.
    for statuses in (DEAD_STATUSES - {"blocked"}, {"blocked"}):
        failures = [i for i, action in enumerate(actions) if action.status in statuses and i not in roots]
        roots.update((i, i) for i in failures)
        reached = list(failures)
        # Breadth first, as the list grows while it is walked: the nearest root reaches an action first.
        for i in reached:
            tokens: tuple[ChainToken, ...] = (*actions[i].effects, i)
            for waiter in (waiter for token in tokens for waiter in waiters.get(token, ())):
                if waiter not in roots:
                    roots[waiter] = roots[i]
                    reached.append(waiter)
    return roots
