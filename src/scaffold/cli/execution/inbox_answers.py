"""What a line typed at a question about an inbox item means."""

from datetime import datetime
from typing import Literal, assert_never

from scaffold.cli.approval_answers import parse_answer
from scaffold.core.model import DecisionScope, InboxItem
from scaffold.core.printable_text import utf8_safe
from scaffold.orchestrator.user_control.inbox_decisions import DECISION_LIFETIME, InboxDecision
from scaffold.plan.failures.answers import CHOICES, choices_text, chosen_answer
from scaffold.policy.permission.approval_gate import DenyBecause

Later = Literal["later"]
SCOPES: dict[str, DecisionScope] = {"a": "action", "action": "action", "g": "goal", "goal": "goal", "run": "run"}
"""The answers that approve a request, and equal ones to come, in a part of the run."""

APPROVAL_CHOICES = """\
y yes, once   a yes, for the action   g for the goal   run for the run
n no   no, because ...   later (or Ctrl-D): decide in the inbox"""
QUESTION_CHOICES = "Type your answer and Enter. Ctrl-D: later, in the inbox"


def answer_choices(item: InboxItem) -> str:
    """Return the possible answers and their meaning, in lines of at most 80 columns."""
    if choices := item.detail.get(CHOICES):
        return f"{choices_text(choices)}\nCtrl-D: later, in the inbox"
    return QUESTION_CHOICES if item.kind == "question" else APPROVAL_CHOICES


def decision_of(item: InboxItem, words: str, now: datetime) -> InboxDecision | Later | None:
    """Return the decision that a line stands for, as the commands of the inbox would make it; None if it is none."""
    words = words.strip()
    if (choices := item.detail.get(CHOICES)) and chosen_answer(choices, words) is None:
        return None
    if item.kind == "question":
        return InboxDecision(to="answered", words=utf8_safe(words)) if words else None
    if words.lower() in {"l", "later"}:
        return "later"
    return _about_approval(words, now + DECISION_LIFETIME)


def _about_approval(words: str, until: datetime) -> InboxDecision | None:
    if scope := SCOPES.get(words.lower()):
        return InboxDecision(to="approved", words=None, scope=scope, valid_until=until)
    match parse_answer(words):
        case "allow":
            return InboxDecision(to="approved", words=None, scope="call", valid_until=until)
        case "deny":
            return InboxDecision(to="rejected", words=None, valid_until=until)
        case DenyBecause(reason=reason):
            return InboxDecision(to="rejected", words=utf8_safe(reason), valid_until=until)
        case "always" | None:
            return None
        case other:
            assert_never(other)
