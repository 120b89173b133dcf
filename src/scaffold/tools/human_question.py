"""The tool that asks a human a question."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, get_args

from msgspec import Struct

from scaffold.core.tool import Tool, ToolOutput
from scaffold.plan.question_budget import QuestionKind
from scaffold.tools.arguments import object_schema
from scaffold.tools.workspace import failed_answer

MAX_CHARS = 4_000
"""Characters of a question, of each suggested answer, and of an assumption."""
MAX_OPTIONS = 10


class HumanQuestion(Struct, frozen=True, kw_only=True):
    """A question of an agent."""

    text: str
    options: tuple[str, ...] = ()
    """Suggested answers."""
    kind: QuestionKind = "clarifying"
    assumption: str = ""
    """What the agent assumes if no human is asked; empty if it has not decided that."""


QuestionHandler = Callable[[HumanQuestion], Awaitable[str]]
"""Returns the human's answer, or what the agent is to do without one; raises HumanDecisionRequired."""


def ask_human(ask: QuestionHandler) -> Tool:
    """Return the tool that asks a human; its result is the answer. `ask` asks equal questions only once."""

    async def run(args: Mapping[str, Any]) -> ToolOutput:
        question, options = args["question"].strip(), tuple(args.get("options", ()))
        assumption, kind = args.get("assumption", "").strip(), args.get("kind", "clarifying")
        if not question or len(question) > MAX_CHARS:
            return failed_answer(
                f"`question` is empty or longer than {MAX_CHARS} characters; ask one thing, in a few sentences."
            )
        if len(options) > MAX_OPTIONS or any(len(option) > MAX_CHARS for option in options):
            return failed_answer(f"Suggest at most {MAX_OPTIONS} answers, each of at most {MAX_CHARS} characters.")
        if len(assumption) > MAX_CHARS:
            return failed_answer(f"`assumption` is longer than {MAX_CHARS} characters; say it in a sentence.")
        return ToolOutput(await ask(HumanQuestion(text=question, options=options, kind=kind, assumption=assumption)))

    return Tool(
        name="ask_human",
        description=(
            "Ask a human one question that neither the task nor the repository answers. The answer may take a long "
            "time, and only a few questions are allowed: ask only when a wrong guess would ruin the work. If you are "
            "told that no human is asked, decide yourself."
        ),
        schema=object_schema(
            {"question": {"type": "string", "description": "The question, with everything needed to answer it."}},
            options={
                "type": "array",
                "items": {"type": "string"},
                "description": "Suggested answers, if there are a few; the human may give another.",
            },
            kind={
                "type": "string",
                "enum": list(get_args(QuestionKind)),
                "description": (
                    "clarifying: which of several things is meant; confirming: whether what you are about to do is "
                    "right; discovering: why something is as it is."
                ),
            },
            assumption={
                "type": "string",
                "description": "What you assume if no human is asked; it is shown to the user.",
            },
        ),
        category="memory",
        run=run,
    )
