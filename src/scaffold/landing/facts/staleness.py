"""The facts a change affects, and how each can be rechecked. Pure."""

from collections.abc import Collection, Iterable, Sequence
from typing import Literal

import msgspec
from msgspec import Struct

from scaffold.core.ids import ActionId, AttemptId, Commit
from scaffold.core.model import Action, Fact
from scaffold.verify.contract.review_verdict import is_review

Recheck = Literal["contract", "review", "nothing"]
"""How a fact can be re-proven: run its checks again, have it reviewed again, or not at all."""
RUN_AT_A_COMMIT = frozenset({"contract", "gate", "review"})
"""The kinds of evidence that are about all of a commit's tree."""


class ProvenFacts(Struct, frozen=True, kw_only=True):
    """The facts that one action proved, and how they can be re-proven."""

    action: Action
    facts: tuple[Fact, ...]

    @property
    def recheck(self) -> Recheck:
        """How it can be re-proven. A review considered more than the checks, so these alone are not enough for it."""
        if is_review(self.action):
            return "review"
        contract = self.action.contract
        if contract is not None and (contract.commands or contract.must_exist or contract.must_not_exist):
            return "contract"
        return "nothing"

    @property
    def attempt_id(self) -> AttemptId | None:
        """The attempt that proved it, according to its evidence; None if that names none."""
        shown = (each.attempt_id for fact in self.facts for each in fact.evidence)
        return next((attempt_id for attempt_id in shown if attempt_id is not None), None)

    @property
    def label(self) -> str:
        """Its name in messages, e.g. `a_done, b_done of make-a`."""
        return f"{', '.join(fact.assertion for fact in self.facts)} of {self.action.key}"


def group_by_action(
    shown: Iterable[tuple[Fact, Action]], *, besides: Collection[ActionId] = ()
) -> tuple[ProvenFacts, ...]:
    """Return the facts grouped by the action that proved them, in plan order, except those of the actions `besides`."""
    by_action: dict[ActionId, tuple[Action, list[Fact]]] = {}
    for fact, action in shown:
        if action.id not in besides:
            by_action.setdefault(action.id, (action, []))[1].append(fact)
    found = [ProvenFacts(action=action, facts=tuple(facts)) for action, facts in by_action.values()]
    return tuple(sorted(found, key=lambda group: (group.action.position, group.action.id)))


def shown_before(tip: Commit, groups: Sequence[ProvenFacts]) -> tuple[ProvenFacts, ...]:
    """Return the groups without the facts that were proven at the tip itself."""
    # Facts of one action may be proven at different commits, so each fact is judged by itself.
    left = [msgspec.structs.replace(each, facts=tuple(f for f in each.facts if f.commit != tip)) for each in groups]
    return tuple(group for group in left if group.facts)


def ran_where_it_holds(fact: Fact) -> bool:
    """Return whether a check, a gate or a review ran at the very commit at which the fact holds.

    Not so if the commit was made anew: for another base, or by a user who changed the branch.
    """
    return any(each.commit == fact.commit and each.kind in RUN_AT_A_COMMIT for each in fact.evidence)


def recheckable(groups: Sequence[ProvenFacts]) -> tuple[ProvenFacts, ...]:
    """Return the groups whose checks can be run again."""
    return tuple(group for group in groups if group.recheck == "contract")
