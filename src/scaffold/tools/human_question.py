"""The tool that asks a human a question."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from scaffold.core.tool import Tool, ToolOutput
from scaffold.tools.arguments import object_schema
from scaffold.tools.workspace import failed_answer

QuestionHandler = Callable[[str, Sequence[str]], Awaitable[str]]
"""Takes a question and its suggested answers (may be empty); returns the human's answer or raises WaitsForHuman."""

MAX_CHARS = 4_000
"""Characters of a question and of each suggested answer."""
MAX_OPTIONS = 10


def ask_human(ask: QuestionHandler) -> Tool:
    """Return the tool that asks a human; its result is the answer. `ask` asks equal questions only once."""

    async def run(args: Mapping[str, Any]) -> ToolOutput:
        question, options = args["question"].strip(), args.get("options", ())
        if not question or len(question) > MAX_CHARS:
            return failed_answer(
                f"`question` is empty or longer than {MAX_CHARS} characters; ask one thing, in a few sentences."
            )
        if len(options) > MAX_OPTIONS or any(len(option) > MAX_CHARS for option in options):
            return failed_answer(f"Suggest at most {MAX_OPTIONS} answers, each of at most {MAX_CHARS} characters.")
        return ToolOutput(await ask(question, options))

    return Tool(
        name="ask_human",
        description=(
            "Ask a human one question that neither the task nor the repository answers. The answer may take a long "
            "time: ask only when a wrong guess would ruin the work."
        ),
        schema=object_schema(
            {"question": {"type": "string", "description": "The question, with everything needed to answer it."}},
            options={
                "type": "array",
                "items": {"type": "string"},
                "description": "Suggested answers, if there are a few; the human may give another.",
            },
        ),
        category="memory",
        run=run,
    )
