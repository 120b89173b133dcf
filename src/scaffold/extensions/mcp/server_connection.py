"""A client of the SDK for one server: what it declares, what it lists, and what a call of a tool returns."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from importlib.metadata import version
from typing import Any

import mcp_types
from mcp.client.client import Client
from mcp.client.session import ClientRequestContext, IncomingMessage
from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from scaffold.core.errors import ScaffoldError
from scaffold.core.printable_text import short_line
from scaffold.core.tool import ToolOutput
from scaffold.extensions.mcp.call_result import read_answer
from scaffold.extensions.mcp.elicitation import DECLINED, MAX_QUESTIONS, question_of, read_reply
from scaffold.extensions.mcp.offers import Ask, Definition

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


class Connection:
    """One connection, while `client` is open; made anew after each failure."""

    def __init__(self, server: str, transport: Any, changed: Callable[[], object]) -> None:
        """Connect to nothing yet; `changed` is called when the server says that its tools are others now."""
        self._server = server
        self._changed = changed
        self._calls: list[OpenCall] = []
        self.client = Client(
            transport,
            client_info=mcp_types.Implementation(name="ralph", version=version("ralph-scaffold")),
            elicitation_callback=self._elicit,
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
        for _ in range(MAX_PAGES):
            page = await self.client.list_tools(cursor=cursor)
            found += (Definition(tool.name, tool.description or "", tool.input_schema) for tool in page.tools)
            cursor = page.next_cursor
            if cursor is None or len(found) > MAX_TOOLS:
                break
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

    async def _elicit(
        self, context: ClientRequestContext, params: mcp_types.ElicitRequestParams
    ) -> mcp_types.ElicitResult | mcp_types.ErrorData:
        del context  # it names the request, and not the call
        # An older server does not say which call it asks for: it is the latest one.
        call = _CURRENT.get() or (self._calls[-1] if self._calls else None)
        return DECLINED if call is None else await call.elicit(self._server, params)

    async def _handle(self, message: IncomingMessage) -> None:
        if isinstance(message, mcp_types.ToolListChangedNotification):
            self._changed()


Connect = Callable[[], Awaitable[Connection]]
