"""A prompt that is worked on in rounds, each with a fresh context (`PROMPT.md`)."""

from msgspec import Struct

from scaffold.plan.source.task import empty_document

PROMPT_FILE = "PROMPT.md"
"""The name by which such a file is known; its text has no structure of its own."""
MAX_ROUNDS = 50


class PromptLoop(Struct, frozen=True, kw_only=True):
    """What to do in each round, and how many rounds there are at most."""

    prompt: str
    max_rounds: int = MAX_ROUNDS


def read_prompt_loop(text: str, *, name: str) -> PromptLoop:
    """Return the loop; raise PlanInvalid if the prompt is empty."""
    prompt = text.removeprefix("\ufeff")
    if not prompt.strip():
        raise empty_document(name, "the prompt is empty", "Write what to do in each round.")
    return PromptLoop(prompt=prompt)
