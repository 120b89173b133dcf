"""A run's compliance with its specification: the requirements, and each audit of them, from the store."""

import re
from typing import Any

import msgspec
from msgspec import Struct

from scaffold.core.model import Attempt, Goal, Run
from scaffold.core.printable_text import count_of
from scaffold.core.proof.specification_audit import AuditedRequirement, AuditRound, Requirement, RequirementId
from scaffold.core.states import Cancelled, Completed, Failed
from scaffold.plan.compliance.rounds import MAX_ROUNDS, gaps_name
from scaffold.plan.compliance.verdicts import audit_in
from scaffold.store.database import Store

CLAIM = "A verdict is what an agent says, by lines that exist. Facts come from contracts and gates alone."
"""Shown beside all verdicts."""

_NUMBER = re.compile(r"audit-(\d+)")


class Compliance(Struct, frozen=True, kw_only=True):
    """The requirements of a run's specification, and their verdicts in each audit."""

    requirements: tuple[Requirement, ...]
    audits: tuple[AuditRound, ...]
    """Audits whose goal has ended, oldest first."""
    has_tasks: bool
    """Whether there are tasks for the gaps of the last audit."""
    auditing: int | None
    """The number of the running audit; None without one."""

    @property
    def last(self) -> AuditRound | None:
        """The last audit that is over; None before it."""
        return self.audits[-1] if self.audits else None

    def verdict(self, requirement: RequirementId) -> AuditedRequirement | None:
        """Return the last audit's verdict on a requirement; None without one."""
        return next((each for each in (self.last.verdicts if self.last else ()) if each.id == requirement), None)

    @property
    def summary(self) -> str:
        """One line about how many requirements are met."""
        listed = count_of(len(self.requirements), "requirement")
        if self.last is None:
            return f"{listed}, not audited yet"
        met = len(self.last.met.intersection(each.id for each in self.requirements))
        at = f" of {self.last.commit[:8]}" if self.last.commit else ""
        return f"{met} of {listed} met, by audit {self.last.number}{at}"


def read_compliance(store: Store, run: Run) -> Compliance | None:
    """Return a run's compliance; None for a run whose specification is not audited."""
    if not run.settings.planning.until_complied:
        return None
    goals = store.goals.for_run(run.id)
    audits = [(number, goal) for goal in goals if (number := _audit_number(store, goal))]
    rounds = tuple(
        _audit_round(store, number, goal)
        for number, goal in audits
        if isinstance(goal.state, Completed | Failed | Cancelled)
    )
    last = rounds[-1].number if rounds else 0
    return Compliance(
        requirements=store.requirements.for_run(run.id),
        audits=rounds,
        has_tasks=any(goal.name == gaps_name(last) for goal in goals),
        auditing=next((number for number, _ in audits if number > last), None),
    )


def compliance_json(compliance: Compliance) -> dict[str, Any]:
    """Return the compliance as JSON: each requirement with its verdict and cited lines, and the rounds."""
    value = {
        "summary": compliance.summary,
        "claim": CLAIM,
        "requirements": [_requirement_json(compliance, each) for each in compliance.requirements],
        "rounds": [
            {"number": each.number, "commit": each.commit, "met": len(each.met), "requirements": each.verdicts}
            for each in compliance.audits
        ],
        "auditing": compliance.auditing,
        "max_rounds": MAX_ROUNDS,
    }
    return msgspec.to_builtins(value)  # type: ignore[no-any-return]


def _requirement_json(compliance: Compliance, requirement: Requirement) -> dict[str, Any]:
    said = compliance.verdict(requirement.id)
    return {
        "id": requirement.id,
        "text": requirement.text,
        "line": requirement.line,
        "verdict": said.verdict if said else None,
        "note": said.note if said else "",
        "evidence": [
            {"file": each.file, "line": each.line, "note": each.note} for each in (said.citations if said else ())
        ],
    }


def _audit_number(store: Store, goal: Goal) -> int | None:
    """Return the number of the audit that a goal is about; None for other goals."""
    found = _NUMBER.fullmatch(goal.name)
    actions = store.actions.for_goal(goal.id) if found else ()
    return int(found[1]) if found and any(action.method == "audit" for action in actions) else None


def _audit_round(store: Store, number: int, goal: Goal) -> AuditRound:
    made: list[Attempt] = []
    for action in store.actions.for_goal(goal.id):
        attempts = store.attempts.for_action(action.id) if action.method == "audit" else ()
        # Of an audit that was repeated, the attempt that was recorded last counts.
        made += [each for each in attempts if each.outcome == "recorded"][-1:]
    verdicts = [each for attempt in made if (audit := audit_in(attempt.verification)) for each in audit.requirements]
    commits = {attempt.base_sha for attempt in made}
    return AuditRound(number=number, commit=commits.pop() if len(commits) == 1 else None, verdicts=tuple(verdicts))
