"""Whether an agent may ask a human: each tier has a number of questions for each action. Pure."""

from typing import Literal

from msgspec import Struct

from scaffold.core.run_settings import Tier

QuestionKind = Literal["clarifying", "confirming", "discovering"]
"""Which of several things is meant | whether what the agent is about to do is right | why something is as it is."""
FAILED_EXECUTIONS = 5
"""After so many failed executions of an action, its agent may ask."""
OVERRIDE_QUESTIONS = 2
"""How many questions an open gate allows for an action."""


class AskingAgent(Struct, frozen=True, kw_only=True):
    """The parts of an agent's situation that decide whether it may ask."""

    tier: Tier
    asked: int
    """The questions that were asked for its action so far."""
    failed: int = 0
    """How often work of its action failed its checks."""
    protected: str = ""
    """A protected path that its work concerns; empty if there is none."""


def why_not_asked(agent: AskingAgent, kind: QuestionKind) -> str:
    """Return why the agent's question is not put to a human, as the end of a sentence; empty if it is."""
    tier = agent.tier
    # Only tiers without a limit ask why: the answer changes nothing about the work at hand.
    if kind == "discovering" and tier.questions is not None:
        return f"in the tier {tier.name} no human is asked why things are as they are"
    if tier.questions is None or agent.asked < tier.questions:
        return ""
    # A tier that asks nothing opens its gate when work fails again and again, or when it matters.
    if tier.questions == 0 and tier.question_gates:
        is_open = agent.failed >= FAILED_EXECUTIONS or bool(agent.protected)
        if not is_open:
            return (
                f"in the tier {tier.name} a human is asked only after {FAILED_EXECUTIONS} failed executions, or about "
                "protected areas"
            )
        return "" if agent.asked < OVERRIDE_QUESTIONS else f"{OVERRIDE_QUESTIONS} questions were asked already"
    if tier.questions == 0:
        return f"in the tier {tier.name} no human is asked"
    allowed = "1 question" if tier.questions == 1 else f"{tier.questions} questions"
    return f"the tier {tier.name} allows {allowed} for an action, and they were asked"
