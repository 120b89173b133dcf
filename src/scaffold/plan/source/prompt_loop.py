"""A prompt that is worked on in rounds, each with a fresh context (`PROMPT.md`)."""

from msgspec import Struct

from scaffold.core.ids import ActionKey, Assertion
from scaffold.core.plan import ActionSpec, GoalSpec, Plan
from scaffold.plan.source.dag import done_assertion
from scaffold.plan.source.task import empty_document

NAME = "task"
DONE = Assertion("done")
MAX_TITLE_CHARS = 200
"""Length limit of the goal's description; the action's description is the whole request."""


PROMPT_FILE = "PROMPT.md"
"""The name by which such a file is known; its text has no structure of its own."""
MAX_ROUNDS = 50


class PromptLoop(Struct, frozen=True, kw_only=True):
    """The prompt of each round, and the most rounds."""

    prompt: str
    max_rounds: int = MAX_ROUNDS


def read_prompt_loop(text: str, *, name: str) -> PromptLoop:
    """Return the loop; raise PlanInvalid if the prompt is empty."""
    prompt = text.removeprefix("\ufeff")
    if not prompt.strip():
        raise empty_document(name, "the prompt is empty", "Write what to do in each round.")
    return PromptLoop(prompt=prompt)


def round_goal(loop: PromptLoop, number: int) -> GoalSpec:
    """Return the goal of one round: an agent with a fresh context gets the prompt, and may change nothing."""
    # Nothing is checked: what an agent does in a round is up to its prompt.
    key = ActionKey(f"round-{number}")
    action = ActionSpec(
        key=key,
        description=loop.prompt,
        notes=(
            f"This is round {number} of at most {loop.max_rounds}. Each begins anew, on what earlier ones have landed. "
            "A round that changes nothing is the last one: change nothing if nothing is left to do, and say so."
        ),
        method="round",
        effects=(done_assertion(key),),
    )
    description = f"Round {number} of at most {loop.max_rounds} has ended."
    return GoalSpec(name=key, description=description, goal_state=action.effects, actions=(action,))


def single_action_plan(request: str) -> Plan:
    """Return a plan with one action, described by the whole request; the request must not be empty."""
    action = ActionSpec(key=ActionKey(NAME), description=request, effects=(DONE,))
    return Plan(goals=(GoalSpec(name=NAME, description=request_title(request), goal_state=(DONE,), actions=(action,)),))


def request_title(request: str) -> str:
    """Return the first line of a request, cut to `MAX_TITLE_CHARS`."""
    first = request.strip().partition("\n")[0].strip()
    return first if len(first) <= MAX_TITLE_CHARS else f"{first[: MAX_TITLE_CHARS - 1]}…"
