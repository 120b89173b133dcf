"""A conversation as a Markdown file for people."""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, count
from pathlib import Path

import msgspec

from scaffold.agent.context.attachments import ATTACHMENT_PREFIX
from scaffold.core.conversation import AssistantMessage, Image, Message, Text, Thinking, ToolCall, ToolResult
from scaffold.core.errors import UsageError
from scaffold.core.printable_text import count_of
from scaffold.host.wall_clock import zoned_time
from scaffold.store.user.conversations import StoredConversation
from scaffold.views.text_format import format_usage

_QUOTED = re.compile(r"([\"'])(?P<name>.+)\1")
_BACKTICKS = re.compile("`{3,}")


def conversation_markdown(stored: StoredConversation, messages: Sequence[Message]) -> str:
    """Return the whole conversation as Markdown; images are only named."""
    title = " ".join(stored.title.split()) or "Conversation"
    began = zoned_time(stored.created_at)
    origin = f"Conversation {stored.id} of ralph in `{stored.cwd}`, begun {began}.\n"
    head = (f"# {title}", f"{origin}{format_usage(stored.usage)}, {stored.model}.")
    return "\n\n".join(chain(head, *map(_message_paragraphs, messages))) + "\n"


def export_path(folder: Path, home: Path, named: str, conversation: str) -> Iterable[Path]:
    """Return where to write: the file as the user named it, or else default names in `folder`, one after another."""
    if quoted := _QUOTED.fullmatch(named):
        named = quoted["name"]
    if named:
        # Never a file called `~`: `rm -r ~` would remove the home instead of it.
        return (home / named[2:] if named == "~" or named.startswith("~/") else folder / named,)
    name = f"ralph-{conversation.replace('/', '-')}"
    return (folder / f"{name}{f'-{number}' if number > 1 else ''}.md" for number in count(1))


def write_new_file(paths: Iterable[Path], text: str) -> Path:
    """Write a file that does not exist yet to the first path that is free, and return it; UsageError otherwise."""
    for path in paths:
        try:
            with path.open("x", encoding="utf-8", errors="backslashreplace") as file:
                file.write(text)
        except FileExistsError:
            continue
        except OSError as error:
            raise UsageError(f"{path} cannot be written: {error.strerror}", "Name another file.") from error
        return path
    raise UsageError("the file exists, and is never overwritten", "Name another file, or none for a new name.")


def _message_paragraphs(message: Message) -> Iterator[str]:
    own = isinstance(message, AssistantMessage)
    if own or any(not isinstance(part, ToolResult) for part in message.parts):
        yield "## Ralph" if own else "## You"
    for part in message.parts:
        yield from _part_paragraph(part)


def _part_paragraph(part: Text | Image | Thinking | ToolCall | ToolResult) -> Iterator[str]:
    match part:
        case Text(text=text) if text.startswith(ATTACHMENT_PREFIX):
            name, _, content = text.partition("\n")
            yield f"{name}\n\n{_code_block(content)}" if content else name
        case Text(text=text):
            yield text.strip()
        case Image(media_type=kind, data=data):
            yield f"(an image, {kind}, {count_of(len(data), 'byte')})"
        case Thinking(text=text):
            if text.strip():
                yield "\n".join(f"> {line}".rstrip() for line in text.strip().split("\n"))
        case ToolCall(name=name, args=args):
            shown = msgspec.json.format(msgspec.json.encode(args)).decode()
            yield f"### Call of `{name}`\n\n{_code_block(shown, 'json')}"
        case ToolResult(name=name, content=content, failed=failed):
            yield f"### Result of `{name}`{', which failed' if failed else ''}\n\n{_code_block(content)}"


def _code_block(text: str, language: str = "") -> str:
    fence = "`" * max(3, *(len(found) + 1 for found in _BACKTICKS.findall(text)), 3)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"
