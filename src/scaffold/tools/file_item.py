"""The tool that files what an agent finds outside of its task."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from scaffold.core.tool import Tool, ToolOutput
from scaffold.tools.arguments import object_schema
from scaffold.tools.workspace import failed_answer

ItemFiler = Callable[[str, str, Sequence[str]], ToolOutput]
"""Takes title, description and labels; returns what became of them."""

MAX_TITLE_CHARS = 200
MAX_TEXT_CHARS = 4_000
MAX_LABELS = 5


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
