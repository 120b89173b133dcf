"""After an audit: gaps become tasks, until all requirements are met or there is no more progress."""

import re
from collections.abc import Sequence

from msgspec import Struct

from scaffold.core.ids import ActionKey, Assertion, Commit
from scaffold.core.plan import ActionSpec, GoalSpec
from scaffold.core.printable_text import count_of, join_limited
from scaffold.core.proof.specification_audit import AuditRound, Requirement, RequirementId

MAX_ROUNDS = 10
"""Of one run."""
ROUNDS_WITHOUT_GAIN = 2
"""The number in a row after which it is given up."""
REQUIREMENTS_PER_AUDIT = 20
"""More are divided among several auditors."""
CHARACTERS_PER_AUDIT = 12_000
"""Of the requirements of one auditor, whose prompt has room for them."""
AUDITOR = "auditor"
"""The role of the agents that audit."""
MAX_SHOWN = 10
_AUDIT_TASK = "Say of each requirement below whether the work so far meets it, with the lines that show it."
_RESERVED = re.compile(r"(?:audit|gaps)-\d")


class StartAudit(Struct, frozen=True, tag="audit"):
    """Audit all requirements at the branch's tip."""

    number: int


class CloseGaps(Struct, frozen=True, tag="gaps"):
    """Work on what the audit with this number did not find to be met."""

    number: int
    gaps: tuple[RequirementId, ...]


class Complied(Struct, frozen=True, tag="complied"):
    """The last audit found all requirements met."""


class GaveUp(Struct, frozen=True, tag="gave_up"):
    """Not all requirements are met, and another round is not worth it."""

    reason: str


NextRound = StartAudit | CloseGaps | Complied | GaveUp


class ComplianceView(Struct, frozen=True, kw_only=True):
    """All inputs to the decision about the next round of a run whose goals have all been reached."""

    requirements: tuple[Requirement, ...]
    audits: tuple[AuditRound, ...]
    """Those that are over, oldest first."""
    has_tasks: bool
    """Whether there have been tasks for the gaps of the last audit."""
    tip: Commit
    """Of the session branch."""

    @property
    def gaps(self) -> tuple[RequirementId, ...]:
        """The requirements that the last audit did not find to be met."""
        met = self.audits[-1].met if self.audits else frozenset()
        return tuple(each.id for each in self.requirements if each.id not in met)


def next_round(view: ComplianceView) -> NextRound:
    """Return the step after the audits so far.

    An audit counts for the commit at which it was made: if the branch has moved since, the next one decides.
    """
    last = view.audits[-1] if view.audits else None
    if last is None:
        return StartAudit(1)
    # An audit of an older commit, or one before the tasks for its gaps, says nothing about the tip.
    is_current = last.commit == view.tip and not view.has_tasks
    if is_current and not view.gaps:
        return Complied()
    if is_current and rounds_without_gain(view.audits) >= ROUNDS_WITHOUT_GAIN:
        return GaveUp(
            f"{_so_far(view)}, and {ROUNDS_WITHOUT_GAIN} rounds in a row gained nothing: {_gap_verdicts(view)}"
        )
    if last.number >= MAX_ROUNDS:
        return GaveUp(f"{_so_far(view)} after {MAX_ROUNDS} rounds, which is the limit: {_gap_verdicts(view)}")
    return CloseGaps(last.number, view.gaps) if is_current else StartAudit(last.number + 1)


def rounds_without_gain(audits: Sequence[AuditRound]) -> int:
    """Return the number of audits at the end that found no more requirements met than an earlier one."""
    # The best so far counts: a round that only makes up for a loss has gained nothing.
    best, idle = 0, 0
    for audit in audits:
        idle = 0 if len(audit.met) > best else idle + 1
        best = max(best, len(audit.met))
    return idle


def _so_far(view: ComplianceView) -> str:
    met = len(view.requirements) - len(view.gaps)
    return f"{met} of {count_of(len(view.requirements), 'requirement')} are met by the last audit"


def _gap_verdicts(view: ComplianceView) -> str:
    said = {each.id: each.verdict for each in view.audits[-1].verdicts}
    return join_limited([f"{each} {said.get(each, 'unclear')}" for each in view.gaps], MAX_SHOWN)


def is_reserved(name: str) -> bool:
    """Return whether a goal or an action with this name could be one of a round."""
    return _RESERVED.match(name) is not None


def audit_key(number: int) -> ActionKey:
    """Return the name of the goal of the audit with this number, and of its first action."""
    return ActionKey(f"audit-{number}")


def gaps_name(number: int) -> str:
    """Return the name of the goal of the tasks for the gaps of the audit with this number."""
    return f"gaps-{number}"


def audit_goal(number: int, requirements: Sequence[Requirement]) -> GoalSpec:
    """Return the goal of an audit of all requirements; many are divided among several actions."""
    parts = _split_requirements(requirements)
    actions: list[ActionSpec] = []
    for place, part in enumerate(parts, 1):
        key = audit_key(number) if len(parts) == 1 else ActionKey(f"{audit_key(number)}.{place}")
        span = part[0].id if len(part) == 1 else f"{part[0].id} to {part[-1].id}"
        actions.append(
            ActionSpec(
                key=key,
                title=f"Audit {number}: {span}",
                description=_AUDIT_TASK,
                acceptance=tuple(each.criterion for each in part),
                role=AUDITOR,
                method="audit",
                effects=(Assertion(f"audited:{key}"),),
            )
        )
    # Each part is a goal state of its own, so that no requirement is left out if one auditor fails.
    return GoalSpec(
        name=audit_key(number),
        description=f"Audit {number} has a verdict on each of {count_of(len(requirements), 'requirement')}.",
        goal_state=tuple(effect for action in actions for effect in action.effects),
        actions=tuple(actions),
    )


def _split_requirements(requirements: Sequence[Requirement]) -> Sequence[Sequence[Requirement]]:
    """Return the requirements in groups that fit into one prompt each, in their order."""
    parts: list[list[Requirement]] = []
    size = 0
    for each in requirements:
        size += len(each.criterion)
        # Auditors get whole requirements, and not more than their prompt has room for.
        if not parts or len(parts[-1]) == REQUIREMENTS_PER_AUDIT or size > CHARACTERS_PER_AUDIT:
            parts.append([])
            size = len(each.criterion)
        parts[-1].append(each)
    return parts
