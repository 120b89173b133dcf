"""What a pool of servers offers: tools, their state, and calls of them. Imports nothing of the protocol's SDK."""

import hashlib
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal, Protocol

import msgspec
from msgspec import Struct

from scaffold.core.printable_text import printable, short_line, truncate_text
from scaffold.core.tool import ToolOutput
from scaffold.extensions.tool_schema import plain_schema, tool_schema

MAX_TOOL_NAME_CHARS = 64
MAX_DESCRIPTION_CHARS = 4_000
MARK_CHARS = 6
_FORBIDDEN = re.compile(r"[^A-Za-z0-9_-]")

ServerState = Literal["starting", "running", "failed", "stopped"]


class Definition(Struct, frozen=True):
    """A tool as its server defines it: what the user's approval is for."""

    name: str
    description: str
    schema: Mapping[str, Any]

    @property
    def digest(self) -> str:
        """Return a hash of all that the model would see of it, and of what it would not."""
        content = msgspec.json.encode((self.name, self.description, self.schema), order="deterministic")
        return hashlib.sha256(content).hexdigest()


class OfferedTool(Struct, frozen=True):
    """A tool that agents may call."""

    server: str
    name: str
    """The server's own name for it."""
    called: str
    """The name under which agents call it."""
    description: str
    schema: dict[str, Any]


class ServerSummary(Struct, frozen=True, kw_only=True):
    """One server for a listing; all of it is printable."""

    name: str
    shown: str
    """What is started or called."""
    state: ServerState
    protocol: str = ""
    """The version that was agreed on; empty before."""
    tools: int = 0
    withheld: tuple[str, ...] = ()
    """Its tools that changed since the user approved them."""
    starts: int = 0
    error: str = ""
    """The last one; empty if there was none."""


class Question(Struct, frozen=True):
    """What a server asks the user during a call."""

    server: str
    text: str
    fields: Mapping[str, Any] = {}
    """The schema of the properties of the answer, by name."""
    required: tuple[str, ...] = ()


Ask = Callable[[Question], Awaitable[str | None]]
"""Returns the user's words; None if there is no user to ask. May raise what ends the call."""


class ServerPool(Protocol):
    """Servers that are shared."""

    async def tools(self) -> tuple[OfferedTool, ...]:
        """Return the approved tools of the servers that run, once each has started or failed."""
        ...

    async def call(self, tool: OfferedTool, args: Mapping[str, Any], ask: Ask) -> ToolOutput:
        """Call a tool; whatever goes wrong is in the output. Raises only what `ask` raises."""
        ...

    async def overview(self) -> tuple[ServerSummary, ...]:
        """Return the state of each server."""
        ...

    async def close(self) -> None:
        """End what this process started."""
        ...


async def ask_nobody(_question: Question) -> str | None:
    """Return None: there is no user to ask."""
    return None


def offered(server: str, definition: Definition) -> OfferedTool:
    """Return the tool of a server as agents see it; ValueError if its schema cannot be used."""
    return OfferedTool(
        server=server,
        name=definition.name,
        called=called_name(server, definition.name),
        description=truncate_text(printable(definition.description or definition.name), MAX_DESCRIPTION_CHARS),
        schema=tool_schema(plain_schema(definition.schema)),
    )


def called_name(server: str, tool: str) -> str:
    """Return `mcp_SERVER_TOOL`; characters that providers reject become `-`, and a long name ends in a hash."""
    name = f"mcp_{server}_{tool}"
    plain = _FORBIDDEN.sub("-", name)
    if len(plain) <= MAX_TOOL_NAME_CHARS and plain == name:
        return name
    mark = hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()[:MARK_CHARS]
    return f"{plain[: MAX_TOOL_NAME_CHARS - MARK_CHARS - 1]}-{mark}"


def asked_text(question: Question) -> str:
    """Return the question as the user reads it: who asks, what, and how to answer."""
    lines = [f"The MCP server {question.server} asks: {question.text}"]
    names = ", ".join(map(_field_text, question.fields.items()))
    if len(question.fields) == 1:
        lines.append(f"It expects: {names}.")
    elif question.fields:
        lines.append(f"Answer with lines `name: value` or a JSON object of: {names}.")
    return "\n".join([*lines, "`decline` declines. Give it no passwords."])


def suggested_answers(question: Question) -> tuple[str, ...]:
    """Return the answers to choose from; empty if it takes any."""
    if len(question.fields) != 1:
        return () if question.fields else ("yes", "decline")
    (field,) = question.fields.values()
    field = field if isinstance(field, dict) else {}
    if field.get("type") == "boolean":
        return ("yes", "no")
    choices = field.get("enum")
    return tuple(str(each) for each in choices) if isinstance(choices, list) else ()


def _field_text(named: tuple[str, Any]) -> str:
    name, field = named
    field = field if isinstance(field, dict) else {}
    about = short_line(str(field.get("description") or field.get("title") or field.get("type") or ""), 100)
    return f"`{short_line(name, 60)}`{f' ({about})' if about else ''}"
