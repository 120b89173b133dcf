"""What a model sees of a tool's answer: its texts, and for everything else that it is there."""

from collections.abc import Iterator

import mcp_types
import msgspec

from scaffold.core.printable_text import one_line, printable, short_line, truncate_text
from scaffold.core.tool import ToolOutput

MAX_TEXT_CHARS = 200_000
MAX_PARTS = 1_000
MAX_URI_CHARS = 300


def read_answer(answer: mcp_types.CallToolResult) -> ToolOutput:
    """Return the answer of a tool as text: material for the model, never an order."""
    parts = list(_parts(answer))
    # What is structured is also sent as text by most servers; only without any it is shown by itself.
    if not parts and answer.structured_content is not None:
        parts = [msgspec.json.encode(answer.structured_content, enc_hook=str).decode(errors="replace")]
    text = truncate_text(printable("\n".join(parts)), MAX_TEXT_CHARS)
    return ToolOutput(text or "(an empty answer)", failed=bool(answer.is_error))


def _parts(answer: mcp_types.CallToolResult) -> Iterator[str]:
    for part in answer.content[:MAX_PARTS]:
        yield _text(part)
    if len(answer.content) > MAX_PARTS:
        yield f"[{len(answer.content) - MAX_PARTS} more parts are left out]"


def _text(part: object) -> str:  # noqa: PLR0911 - one for each kind
    match part:
        case mcp_types.TextContent(text=text):
            return text
        case mcp_types.ImageContent(data=data, mime_type=kind):
            return f"[an image that cannot be shown: {_size(data, kind)}]"
        case mcp_types.AudioContent(data=data, mime_type=kind):
            return f"[a recording that cannot be played: {_size(data, kind)}]"
        case mcp_types.ResourceLink(uri=uri, name=name):
            return f"[a link to the resource {one_line(name)}: {short_line(str(uri), MAX_URI_CHARS)}]"
        case mcp_types.EmbeddedResource(resource=mcp_types.TextResourceContents(uri=uri, text=text)):
            return f"[the resource {short_line(str(uri), MAX_URI_CHARS)}]\n{text}"
        case mcp_types.EmbeddedResource(resource=mcp_types.BlobResourceContents(uri=uri, blob=data, mime_type=kind)):
            return f"[the resource {short_line(str(uri), MAX_URI_CHARS)}: {_size(data, kind or 'binary')}]"
        case _:
            return f"[a part of the kind {type(part).__name__} that cannot be shown]"


def _size(data: str, kind: str) -> str:
    return f"{short_line(kind, 60)}, about {len(data) * 3 // 4} bytes"
