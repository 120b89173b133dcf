"""The tool that replaces text in a file, named by the text itself."""

from collections.abc import Mapping
from typing import Any

from scaffold.core.printable_text import count_of
from scaffold.core.tool import Tool, ToolOutput
from scaffold.policy.path.containment import Refusal
from scaffold.tools.arguments import object_schema
from scaffold.tools.content.safe_open import FileContent, read_whole, replace_file
from scaffold.tools.content.seen_files import whole_content
from scaffold.tools.content.text_encoding import decode, encode_text
from scaffold.tools.content.text_replacement import TextReplacement, replace_text
from scaffold.tools.file.edit_lines import change_report
from scaffold.tools.file.read_write import MAX_READ_BYTES, PATH_SCHEMA
from scaffold.tools.workspace import Workspace, failed_answer, resolve_writable, run_in_thread


def edit(workspace: Workspace) -> Tool:
    """Return the tool that replaces one exact text in a file, or every occurrence of it.

    Encoding, line endings and the mode are kept.
    """

    def work(args: Mapping[str, Any]) -> ToolOutput:
        replaced = _replace_in_file(workspace, args)
        if isinstance(replaced, Refusal):
            return failed_answer(replaced.reason)
        places = f" {count_of(replaced.count, 'place')} replaced." if args.get("replace_all") else ""
        return ToolOutput(change_report(args["path"], replaced.diff) + places)

    return Tool(
        name="edit",
        description=(
            "Replace `old` by `new` in a text file. `old` must be the exact text, spaces included, and occur once: "
            "include lines around it, or set `replace_all`."
        ),
        schema=object_schema(
            {
                "path": PATH_SCHEMA,
                "old": {"type": "string", "description": "The text to replace, without line numbers."},
                "new": {"type": "string", "description": "What to put in its place; empty to delete it."},
            },
            replace_all={"type": "boolean", "description": "Replace every occurrence."},
        ),
        category="file_write",
        run=run_in_thread(work),
    )


def _replace_in_file(workspace: Workspace, args: Mapping[str, Any]) -> TextReplacement | Refusal:
    shown = args["path"]
    target = resolve_writable(workspace, shown)
    if isinstance(target, Refusal):
        return target
    content = read_whole(workspace.root, target, shown, limit_bytes=MAX_READ_BYTES)
    if isinstance(content, Refusal):
        return content
    if changed := workspace.seen.change_since(target, content, shown):
        return changed
    replaced = _replaced(content, args, shown)
    if isinstance(replaced, Refusal):
        return replaced
    data, replacement = replaced
    if refusal := replace_file(workspace.root, target, data, shown, origin=content.origin):
        return refusal
    workspace.seen.record_edits(target, whole_content(data), replacement.edits)
    return replacement


def _replaced(content: FileContent, args: Mapping[str, Any], shown: str) -> tuple[bytes, TextReplacement] | Refusal:
    """Return the new bytes of the file and what was replaced, or why nothing was."""
    decoded = decode(content.data)
    if decoded is None:
        return Refusal(f"{shown} is a binary file; change it with shell or python.")
    replacement = replace_text(decoded.text, args["old"], args["new"], everywhere=args.get("replace_all", False))
    if isinstance(replacement, Refusal):
        return Refusal(f"{shown}: {replacement.reason}")
    encoded = encode_text(replacement.text, decoded.encoding)
    return encoded if isinstance(encoded, Refusal) else (decoded.encoding.bom + encoded, replacement)
