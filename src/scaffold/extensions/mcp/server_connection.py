"""A client of the SDK for one server: what it declares, what it lists, and what a call of a tool returns."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from contextvars import ContextVar
from functools import partial
from importlib.metadata import version
from typing import Any, Self

import mcp_types
import msgspec
from mcp.client.client import Client
from mcp.client.session import ClientRequestContext, IncomingMessage
from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage
from mcp_types.methods import validate_server_result
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from scaffold.core.errors import ScaffoldError
from scaffold.core.printable_text import one_line, printable, short_line, truncate_text
from scaffold.core.tool import ToolOutput
from scaffold.extensions.mcp.offers import Ask, Definition, Question

MAX_QUESTIONS = 3  # in one call; further ones are declined
MAX_QUESTION_CHARS = 2_000
MAX_FIELDS = 20
REFUSALS = frozenset({"", "cancel", "decline", "no", "none", "reject"})
YES = frozenset({"true", "yes", "y", "1", "on"})
DECLINED = mcp_types.ElicitResult(action="decline")
MAX_TEXT_CHARS = 200_000
MAX_PARTS = 1_000
MAX_URI_CHARS = 300
MAX_TOOLS = 200
"""Of one server; further ones are left out."""
MAX_PAGES = 50
MAX_INPUT_ROUNDS = 10
MAX_REASON_CHARS = 300
_CURRENT: ContextVar["OpenCall | None"] = ContextVar("open MCP call", default=None)


class OpenCall:
    """A call that runs: who can be asked for it, and how long it may still take."""

    def __init__(self, ask: Ask, timeout_s: float) -> None:
        self._ask = ask
        self._questions = 0
        self.limit = asyncio.timeout(timeout_s)
        self.failure: ScaffoldError | None = None
        """What ends the call, raised by who was asked."""

    async def elicit(self, server: str, params: mcp_types.ElicitRequestParams) -> mcp_types.ElicitResult:
        """Return the user's answer; the time of the call stands still meanwhile."""
        question = question_of(server, params)
        self._questions += 1
        if question is None or self._questions > MAX_QUESTIONS:
            return DECLINED
        now = asyncio.get_running_loop().time
        left_s = (self.limit.when() or now()) - now()
        self.limit.reschedule(None)
        try:
            reply = read_reply(question, await self._ask(question))
        except ScaffoldError as error:
            self.failure = error
            self.limit.reschedule(now())
            return DECLINED
        self.limit.reschedule(now() + left_s)
        return reply


class _CheckedStream:
    """A stream of messages, each of which is checked, and perhaps changed, before it is received."""

    def __init__(self, stream: Any, check: Callable[[Any], object]) -> None:
        self._stream = stream
        self._check = check

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    async def __aenter__(self) -> Self:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self._stream.__aexit__(*raised)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        item = await self._stream.__anext__()
        self._check(item)
        return item


class ServerConnection:
    """One connection, while `client` is open; each restart makes a new one."""

    def __init__(self, server: str, transport: Any, changed: Callable[[], object]) -> None:
        """Connect to nothing yet; `changed` is called when the server says that its tools are others now."""
        self._server = server
        self._changed = changed
        self._calls: list[OpenCall] = []
        self._lists = False
        self.left_out: dict[str, str] = {}
        """The tools that the last list defined in breach of the protocol, each with the reason."""
        self.client = Client(
            self._checked_streams(transport),
            client_info=mcp_types.Implementation(name="ralph", version=version("ralph-scaffold")),
            elicitation_callback=self._ask_user,
            message_handler=self._handle,
            input_required_max_rounds=MAX_INPUT_ROUNDS,
            cache=None,
        )

    async def list_tools(self) -> tuple[list[Definition], bool]:
        """Return the definitions of its tools, and whether there are more than MAX_TOOLS."""
        if self.client.server_capabilities.tools is None:
            return [], False
        found: list[Definition] = []
        cursor: str | None = None
        self._lists, self.left_out = True, {}
        for _ in range(MAX_PAGES):
            page = await self.client.list_tools(cursor=cursor)
            found += (Definition(tool.name, tool.description or "", tool.input_schema) for tool in page.tools)
            cursor = page.next_cursor
            if cursor is None or len(found) > MAX_TOOLS:
                break
        self._lists = False
        return found[:MAX_TOOLS], cursor is not None or len(found) > MAX_TOOLS

    async def follow_changes(self) -> None:
        """Wait for changes of the tools, as long as the connection lasts; an older server says them by itself."""
        tools = self.client.server_capabilities.tools
        if self.client.protocol_version not in MODERN_PROTOCOL_VERSIONS or tools is None or not tools.list_changed:
            return
        # A server that does not, or no longer, say so is listed again when it is started again.
        with contextlib.suppress(MCPError, ListenNotSupportedError, SubscriptionLost):
            async with self.client.listen(tools_list_changed=True) as changes:
                async for _ in changes:
                    self._changed()

    async def call(self, tool: str, args: Mapping[str, Any], call: OpenCall) -> ToolOutput:
        """Call a tool; TimeoutError after the call's time, else what the SDK raises."""
        token = _CURRENT.set(call)
        self._calls.append(call)
        try:
            async with call.limit:
                return read_answer(await self.client.call_tool(tool, dict(args)))
        except MCPError as refused:
            if refused.code == mcp_types.CONNECTION_CLOSED:
                raise
            message = short_line(refused.message, MAX_REASON_CHARS)
            return ToolOutput(f"The MCP server {self._server} refused the call: {message}", failed=True)
        finally:
            self._calls.remove(call)
            _CURRENT.reset(token)

    @asynccontextmanager
    async def _checked_streams(self, transport: Any) -> AsyncIterator[Any]:
        async with transport as (received, *rest):
            yield _CheckedStream(received, self._leave_out_tools), *rest

    def _leave_out_tools(self, item: Any) -> None:
        # The SDK refuses a whole list for one tool in it.
        match item:
            case SessionMessage(message=mcp_types.JSONRPCResponse(result=result)) if self._lists:
                validate = partial(validate_server_result, "tools/list", self.client.protocol_version)
                for check in (validate, partial(mcp_types.ListToolsResult.model_validate, by_name=False)):
                    for place, why in sorted(wrong_tools(check, result).items(), reverse=True):
                        tool = result["tools"].pop(place)
                        name = tool.get("name") if isinstance(tool, dict) else None
                        self.left_out[name if isinstance(name, str) else f"number {place + 1}"] = why
            case _:
                pass

    async def _ask_user(
        self, context: ClientRequestContext, params: mcp_types.ElicitRequestParams
    ) -> mcp_types.ElicitResult | mcp_types.ErrorData:
        del context  # it names the request, and not the call
        # An older server does not say which call it asks for: it is the latest one.
        call = _CURRENT.get() or (self._calls[-1] if self._calls else None)
        return DECLINED if call is None else await call.elicit(self._server, params)

    async def _handle(self, message: IncomingMessage) -> None:
        if isinstance(message, mcp_types.ToolListChangedNotification):
            self._changed()


Connect = Callable[[], Awaitable[ServerConnection]]


def read_answer(answer: mcp_types.CallToolResult) -> ToolOutput:
    """Return the answer of a tool as text: material for the model, never an order."""
    parts = [_part_text(part) for part in answer.content[:MAX_PARTS]]
    if len(answer.content) > MAX_PARTS:
        parts.append(f"[{len(answer.content) - MAX_PARTS} more parts are left out]")
    # What is structured is also sent as text by most servers; only without any it is shown by itself.
    if not parts and answer.structured_content is not None:
        parts = [msgspec.json.encode(answer.structured_content, enc_hook=str).decode(errors="replace")]
    text = truncate_text(printable("\n".join(parts)), MAX_TEXT_CHARS)
    return ToolOutput(text or "(an empty answer)", failed=bool(answer.is_error))


def _part_text(part: object) -> str:  # noqa: PLR0911 - one for each kind
    match part:
        case mcp_types.TextContent(text=text):
            return text
        case mcp_types.ImageContent(data=data, mime_type=kind):
            return f"[an image that cannot be shown: {_data_size(data, kind)}]"
        case mcp_types.AudioContent(data=data, mime_type=kind):
            return f"[a recording that cannot be played: {_data_size(data, kind)}]"
        case mcp_types.ResourceLink(uri=uri, name=name):
            return f"[a link to the resource {one_line(name)}: {short_line(str(uri), MAX_URI_CHARS)}]"
        case mcp_types.EmbeddedResource(resource=mcp_types.TextResourceContents(uri=uri, text=text)):
            return f"[the resource {short_line(str(uri), MAX_URI_CHARS)}]\n{text}"
        case mcp_types.EmbeddedResource(resource=mcp_types.BlobResourceContents(uri=uri, blob=data, mime_type=kind)):
            return f"[the resource {short_line(str(uri), MAX_URI_CHARS)}: {_data_size(data, kind or 'binary')}]"
        case _:
            return f"[a part of the kind {type(part).__name__} that cannot be shown]"


def _data_size(data: str, kind: str) -> str:
    return f"{short_line(kind, 60)}, about {len(data) * 3 // 4} bytes"


def question_of(server: str, params: mcp_types.ElicitRequestParams) -> Question | None:
    """Return the question; None for one that we do not ask, as it would send the user to an address."""
    if not isinstance(params, mcp_types.ElicitRequestFormParams):
        return None
    schema = dict(params.requested_schema or {})
    fields = schema.get("properties")
    if not isinstance(fields, dict) or len(fields) > MAX_FIELDS:
        fields = {}
    required = tuple(str(name) for name in schema.get("required") or () if name in fields)
    return Question(server, truncate_text(printable(params.message), MAX_QUESTION_CHARS), fields, required)


def read_reply(question: Question, words: str | None) -> mcp_types.ElicitResult:
    """Return what the user's words mean to the server; words that do not answer it decline."""
    kinds = [field.get("type") if isinstance(field, dict) else None for field in question.fields.values()]
    # `no` answers a question for a boolean, and declines any other.
    if words is None or (words.strip().lower() in REFUSALS and kinds != ["boolean"]):
        return DECLINED
    given = _given_values(question, words.strip())
    content = {}
    for name, field in question.fields.items():
        if name in given:
            content[name] = _typed_value(given[name], field)
        elif isinstance(field, dict) and "default" in field:
            content[name] = field["default"]
    if any(name not in content for name in question.required):
        return DECLINED
    return mcp_types.ElicitResult(action="accept", content=content)


def _given_values(question: Question, words: str) -> Mapping[str, Any]:
    try:
        table = msgspec.json.decode(words)
    except (msgspec.DecodeError, RecursionError):
        table = None
    if isinstance(table, dict):
        return table
    if len(question.fields) == 1:
        return dict.fromkeys(question.fields, words)
    pairs = (line.partition(":") for line in words.splitlines())
    return {name.strip(): value.strip() for name, found, value in pairs if found}


def _typed_value(value: Any, field: Any) -> Any:
    kind = field.get("type") if isinstance(field, dict) else None
    text = value.strip() if isinstance(value, str) else value
    try:
        if kind == "boolean" and isinstance(text, str):
            return text.lower() in YES
        if kind == "integer":
            return int(text)
        if kind == "number":
            return float(text)
    except (TypeError, ValueError):
        return value
    if kind == "array" and isinstance(text, str):
        return [each.strip() for each in text.split(",")]
    return value


def wrong_tools(check: Callable[[Any], object], result: Any) -> dict[int, str]:
    """Return the places of the tools in a list for which the check fails, each with its first reason."""
    wrong: dict[int, str] = {}
    try:
        check(result)
    except KeyError:
        pass  # a version of the protocol without a schema
    except ValidationError as error:
        for each in error.errors(include_url=False, include_input=False):
            match each["loc"]:
                case ("tools", int(place), *rest):
                    where = ".".join(map(str, rest))
                    wrong.setdefault(place, f"{where}: {each['msg']}" if where else each["msg"])
                case _:
                    pass
    return wrong
