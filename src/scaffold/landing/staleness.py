"""Which facts a change puts in question, and how each could be shown anew: a pure decision."""

from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec
from msgspec import Struct

from scaffold.core.ids import ActionId, AttemptId, Commit
from scaffold.core.model import Action, Fact
from scaffold.verify.review import gives_verdict

Renewal = Literal["contract", "review", "nothing"]
"""By which a fact could be shown anew: its checks can be run again, somebody has to judge again, neither."""


class Claim(Struct, frozen=True, kw_only=True):
    """What one action has shown, as far as it is in question."""

    action: Action
    facts: tuple[Fact, ...]

    @property
    def renewal(self) -> Renewal:
        """How it could be shown anew. Who judged looked at more than its checks, so these alone do not do."""
        if gives_verdict(self.action.role) or any(
            each.kind == "review" for fact in self.facts for each in fact.evidence
        ):
            return "review"
        held = self.action.contract
        return (
            "contract" if held is not None and (held.commands or held.must_exist or held.must_not_exist) else "nothing"
        )

    @property
    def attempt_id(self) -> AttemptId | None:
        """The attempt that has shown it, as its evidence says; None where that does not."""
        shown = (each.attempt_id for fact in self.facts for each in fact.evidence)
        return next((attempt_id for attempt_id in shown if attempt_id is not None), None)

    @property
    def named(self) -> str:
        """What people call it, e.g. `a_done, b_done of make-a`."""
        return f"{', '.join(fact.assertion for fact in self.facts)} of {self.action.key}"


def claims(shown: Iterable[tuple[Fact, Action]], *, besides: ActionId | None = None) -> tuple[Claim, ...]:
    """Return facts by the actions that have shown them, in plan order, besides those of one action."""
    by_action: dict[ActionId, tuple[Action, list[Fact]]] = {}
    for fact, action in shown:
        if action.id != besides:
            by_action.setdefault(action.id, (action, []))[1].append(fact)
    found = [Claim(action=action, facts=tuple(facts)) for action, facts in by_action.values()]
    return tuple(sorted(found, key=lambda claim: (claim.action.position, claim.action.id)))


def older_than(tip: Commit, questions: Sequence[Claim]) -> tuple[Claim, ...]:
    """Return the claims without the facts that were shown at the tip itself."""
    left = [msgspec.structs.replace(each, facts=tuple(f for f in each.facts if f.commit != tip)) for each in questions]
    return tuple(claim for claim in left if claim.facts)


def checkable(questions: Sequence[Claim]) -> tuple[Claim, ...]:
    """Return the claims whose checks can be run again."""
    return tuple(claim for claim in questions if claim.renewal == "contract")
