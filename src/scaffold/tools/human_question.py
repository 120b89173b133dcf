"""The tools by which an agent reaches people: ask a question, ask for more files, file a finding."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, get_args

from msgspec import Struct

from scaffold.core.tool import Tool, ToolOutput
from scaffold.plan.question_budget import QuestionKind
from scaffold.tools.arguments import object_schema
from scaffold.tools.workspace import failed_answer

RequestHandler = Callable[[Sequence[str], str], Awaitable[ToolOutput]]
"""Takes the paths and the reason; returns what was granted or denied, or raises HumanDecisionRequired."""
MAX_PATHS = 20
MAX_PATH_CHARS = 300
MAX_REASON_CHARS = 2_000
ItemFiler = Callable[[str, str, Sequence[str]], ToolOutput]
"""Takes title, description and labels; returns what became of them."""
MAX_TITLE_CHARS = 200
MAX_TEXT_CHARS = 4_000
MAX_LABELS = 5
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


def file_item(file: ItemFiler) -> Tool:
    """Return the tool; `file` stores the item."""

    async def run(args: Mapping[str, Any]) -> ToolOutput:
        title, text = args["title"].strip(), args.get("description", "").strip()
        labels = tuple(args.get("labels", ()))
        if not title or len(title) > MAX_TITLE_CHARS:
            return failed_answer(f"Say in `title` what was found, in at most {MAX_TITLE_CHARS} characters.")
        if len(text) > MAX_TEXT_CHARS:
            return failed_answer(f"The `description` may have at most {MAX_TEXT_CHARS:,} characters.")
        if len(labels) > MAX_LABELS:
            return failed_answer(f"At most {MAX_LABELS} labels, please.")
        return file(title, text, labels)

    return Tool(
        name="file_item",
        description=(
            "File something you found that is outside of your task, so that it is not lost: a bug, a missing test, a "
            "design that will not hold up. People read it later; it is not worked on now and changes no plan."
        ),
        schema=object_schema(
            {"title": {"type": "string", "description": "What was found, in one line."}},
            description={"type": "string", "description": "Where it is, with file and line, and why it matters."},
            labels={"type": "array", "items": {"type": "string"}, "description": "Words such as `bug`."},
        ),
        category="memory",
        run=run,
    )


def request_files(ask: RequestHandler) -> Tool:
    """Return the tool that asks for a wider declaration of the task's files; `ask` decides."""

    async def run(args: Mapping[str, Any]) -> ToolOutput:
        paths, reason = tuple(dict.fromkeys(each.strip() for each in args["paths"])), args["reason"].strip()
        if not paths or len(paths) > MAX_PATHS or any(len(path) > MAX_PATH_CHARS for path in paths):
            return failed_answer(
                f"Name 1 to {MAX_PATHS} paths, folders or globs of at most {MAX_PATH_CHARS} characters in `paths`."
            )
        if not reason or len(reason) > MAX_REASON_CHARS:
            return failed_answer(f"Say why the task needs them, in `reason`, in at most {MAX_REASON_CHARS} characters.")
        return await ask(paths, reason)

    return Tool(
        name="request_files",
        description=(
            "Ask to change files that this task does not list. Ordinary paths are granted at once. Files that decide "
            "whether the work passes (existing tests, their configuration, protected paths) take a reviewer or a human "
            "and may take long: ask only if the task cannot be done without them. New tests in new files, and "
            "dependencies in manifests, need no request."
        ),
        schema=object_schema(
            {
                "paths": {
                    "type": "array",
                    "items": {"type": "string"},
                    "description": "Paths, folders or globs, relative to the root of the repository.",
                },
                "reason": {"type": "string", "description": "Why the task cannot be done without changing them."},
            }
        ),
        category="memory",
        run=run,
    )
