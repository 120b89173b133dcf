"""Which actions are ready, and which can never become so again."""

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from scaffold.core.ids import ActionId, Assertion
from scaffold.core.plan import Kind
from scaffold.plan.reach import ORPHANED, Step, Token, forward_chain

DEAD = frozenset({"failed", "blocked", "cancelled", "skipped"})
"""Statuses of actions that make nothing true any more."""


class Node(Struct, frozen=True):
    """As much of an action as readiness depends on.

    `status` is the word users see, or `waiting` for one that is blocked until a human decides: it has not failed.
    """

    id: ActionId
    parent_id: ActionId | None
    preconditions: tuple[Assertion, ...]
    effects: tuple[Assertion, ...]
    status: str
    kind: Kind


def ready(actions: Sequence[Node], facts: frozenset[Assertion]) -> tuple[ActionId, ...]:
    """Return the actions that may start, in order: pending, all preconditions facts, the parent (if any) running.

    This is the definition, written to be read; the store keeps counters instead.
    """
    running = {action.id for action in actions if action.status == "running"}
    return tuple(
        action.id
        for action in actions
        if action.status == "pending"
        and facts.issuperset(action.preconditions)
        and (action.parent_id is None or action.parent_id in running)
    )


def stranded(actions: Sequence[Node], facts: frozenset[Assertion]) -> dict[ActionId, str]:
    """Return the pending actions that a failure keeps from ever becoming ready, with the reason to block them.

    The reason is `dependency_failed:<id>` with the id of the failed, cancelled or skipped action at the root of it;
    of several, the nearest, then the first in order. `actions` are all actions of one goal. An action that somebody
    living may still help is not stranded, nor is one that no failure is to blame for: a precondition that nobody ever
    provided, a cycle. A compound that is pending or runs counts as living: it may be broken down further.
    """
    index = {action.id: i for i, action in enumerate(actions)}
    steps = [_step(i, action, index) for i, action in enumerate(actions)]
    possible = forward_chain(steps, facts).held
    roots = _roots(actions, _waiters(actions, index, possible))
    return {
        actions[i].id: f"dependency_failed:{actions[root].id}"
        for i, root in sorted(roots.items())
        if actions[i].status == "pending"
    }


def _step(index: int, action: Node, indexes: Mapping[ActionId, int]) -> Step:
    """Translate: the dead give nothing, the living give their effects, the pending only after what they wait for."""
    if action.status in DEAD:
        return Step(frozenset(), ())
    needs = frozenset(_needs(action, indexes)) if action.status == "pending" else frozenset[Token]()
    return Step(needs, (*action.effects, index))


def _needs(action: Node, indexes: Mapping[ActionId, int]) -> Iterator[Token]:
    yield from action.preconditions
    if action.parent_id is not None:
        yield indexes.get(action.parent_id, ORPHANED)


def _waiters(
    actions: Sequence[Node], indexes: Mapping[ActionId, int], possible: frozenset[Token]
) -> dict[Token, list[int]]:
    """Map what can never hold any more to those who wait for it."""
    waiters: dict[Token, list[int]] = {}
    for i, action in enumerate(actions):
        if action.status in {"pending", "blocked"}:
            for need in _needs(action, indexes):
                if need not in possible:
                    waiters.setdefault(need, []).append(i)
    return waiters


def _roots(actions: Sequence[Node], waiters: Mapping[Token, Sequence[int]]) -> dict[int, int]:
    """Map actions to the failure that reaches them first, failures to themselves.

    Blocked actions are reached like the pending; one that no failure reaches was blocked for its own reasons.
    """
    roots: dict[int, int] = {}
    for statuses in (DEAD - {"blocked"}, {"blocked"}):
        failures = [i for i, action in enumerate(actions) if action.status in statuses and i not in roots]
        roots.update((i, i) for i in failures)
        reached = list(failures)
        for i in reached:
            tokens: tuple[Token, ...] = (*actions[i].effects, i)
            for waiter in (waiter for token in tokens for waiter in waiters.get(token, ())):
                if waiter not in roots:
                    roots[waiter] = roots[i]
                    reached.append(waiter)
    return roots
