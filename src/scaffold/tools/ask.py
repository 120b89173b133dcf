"""A question for a human, where nobody else knows the answer."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from scaffold.core.tool import Tool, ToolOutput
from scaffold.tools.arguments import object_schema
from scaffold.tools.workspace import failed

Ask = Callable[[str, Sequence[str]], Awaitable[str]]
"""Returns a human's answer to a question with the answers it suggests, if any; may raise WaitsForHuman."""

LONGEST = 4_000
"""Characters of a question, and of each answer it suggests."""
MOST_OPTIONS = 10


def ask_human(ask: Ask) -> Tool:
    """Return the tool that asks a human; the answer is its result, and equal questions are asked once."""

    async def run(args: Mapping[str, Any]) -> ToolOutput:
        question, options = args["question"].strip(), args.get("options", ())
        if not question or len(question) > LONGEST:
            return failed(
                f"`question` is empty or longer than {LONGEST} characters; ask one thing, in a few sentences."
            )
        if len(options) > MOST_OPTIONS or any(len(option) > LONGEST for option in options):
            return failed(f"Suggest at most {MOST_OPTIONS} answers, each of at most {LONGEST} characters.")
        return ToolOutput(await ask(question, options))

    return Tool(
        name="ask_human",
        description=(
            "Ask a human one question that neither the task nor the repository answers. It may take long: ask only "
            "when a wrong guess would spoil the work."
        ),
        schema=object_schema(
            {"question": {"type": "string", "description": "All that is needed to answer it."}},
            options={
                "type": "array",
                "items": {"type": "string"},
                "description": "Answers to choose from, if there are a few; the human may give another one.",
            },
        ),
        category="memory",
        run=run,
    )
