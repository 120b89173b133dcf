"""One server of a pool: started, restarted with back-off, asked for its tools, and called."""

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import mcp_types
from mcp.shared.exceptions import MCPError
from msgspec import structs
from pydantic import ValidationError

from scaffold.core.printable_text import one_line, short_line
from scaffold.core.tool import ToolOutput
from scaffold.extensions.mcp.offers import Ask, Definition, OfferedTool, ServerState, ServerSummary, offered
from scaffold.extensions.mcp.server_config import MissingVariable, ServerConfig, expanded
from scaffold.extensions.mcp.server_connection import MAX_TOOLS, OpenCall, ServerConnection
from scaffold.extensions.mcp.server_login import NO_LOGIN, ServerLogin
from scaffold.extensions.mcp.stdio import ServerPlace, program_streams, server_command
from scaffold.extensions.mcp.tool_approvals import Approvals, SortedTools, approve_tools, sort_tools
from scaffold.extensions.mcp.web import address_streams
from scaffold.policy.secret.redaction import Redactor
from scaffold.policy.secret.sources import secret_values

FIRST_DELAY_S = 1.0
MAX_DELAY_S = 60.0
STABLE_S = 30.0  # after so long a run the next delay is the first one again
RELIST_S = 1.0  # between two lists of tools, however often a server says that they changed
MAX_RELISTS = 20  # on one connection
DOWNLOADERS = frozenset({"bunx", "npx", "pipx", "pnpm", "uvx", "yarn"})
MAX_SILENT = 2  # calls without an answer, one after the other, after which it is started again
MAX_REASON_CHARS = 300
CLOSE_S = 5.0


def no_logins(_config: ServerConfig) -> ServerLogin:
    """Return that nobody logs in."""
    return NO_LOGIN


class McpServer:
    """One server. Whatever it does costs one line, and the calls that it does not answer."""

    def __init__(
        self,
        config: ServerConfig,
        place: ServerPlace,
        approvals: Approvals,
        tell: Callable[[str], object],
        withheld: Callable[["McpServer"], object],
        *,
        logins: Callable[[ServerConfig], ServerLogin] = no_logins,
    ) -> None:
        """Start it; `tell` takes lines for the user, `withheld` is called when tools need an approval."""
        self._logins = logins
        self._needs_login = False
        self._scope_line = ""
        self.config = config
        self.state: ServerState = "starting"
        self.sorted = SortedTools()
        self.tools: tuple[OfferedTool, ...] = ()
        self._place = place
        self._approvals = approvals
        self._tell = tell
        self._withheld = withheld
        self._told: set[str] = set()
        self._connection: ServerConnection | None = None
        self._protocol = ""
        self._starts = 0
        self._error = ""
        self._silent = 0
        self._redactor = Redactor()
        self._reason = ""
        self._settled = asyncio.Event()
        self._over = asyncio.Event()
        self._changed = asyncio.Event()
        self._closing = asyncio.Event()
        self._again = asyncio.Event()
        self._keeper = asyncio.create_task(self._keep_running())

    @property
    def summary(self) -> ServerSummary:
        """Its state, for a listing."""
        return ServerSummary(
            name=self.config.name,
            shown=self.config.shown,
            state=self.state,
            protocol=self._protocol,
            tools=len(self.tools),
            withheld=tuple(short_line(each.name, 100) for each in self.sorted.withheld),
            starts=self._starts,
            error=self._error,
        )

    async def settled(self) -> None:
        """Wait until it has started, or failed to."""
        await self._settled.wait()

    def approve(self, tools: Sequence[Definition]) -> None:
        """Approve these definitions, and no other ones that the server may list by now."""
        approve_tools(self._approvals, self.config, tools)
        self._sort_by_approval((*self.sorted.approved, *self.sorted.withheld))

    def shown(self) -> Sequence[Definition]:
        """Return what is withheld, and remember that the user sees it: another process may be the one that approves."""
        digests = {each.name: each.digest for each in self.sorted.withheld}
        self._approvals.approve(self.config.scope, self.config.name, f"shown {self.config.digest}", digests)
        return self.sorted.withheld

    def approve_shown(self) -> int:
        """Approve what is withheld and has not changed since it was shown; return how many tools that are."""
        shown = self._approvals.known(self.config.scope, f"shown {self.config.digest}")
        tools = [each for each in self.sorted.withheld if shown.get(each.name, each.digest) == each.digest]
        self.approve(tools)
        return len(tools)

    async def call(self, tool: OfferedTool, args: Mapping[str, Any], ask: Ask) -> ToolOutput:
        """Call a tool, and return its answer without the server's secrets; raises only what `ask` raises."""
        output = await self._call_once(tool, args, ask)
        return structs.replace(output, content=self._redactor.clean(output.content))

    async def _call_once(self, tool: OfferedTool, args: Mapping[str, Any], ask: Ask) -> ToolOutput:
        await self._settled.wait()
        name, connection = self.config.name, self._connection
        if connection is None:
            return ToolOutput(f"The MCP server {name} does not run: {self._error}.", failed=True)
        if tool not in self.tools:
            return ToolOutput(f"The MCP server {name} has no approved tool `{tool.name}` at the moment.", failed=True)
        call = OpenCall(ask, self.config.timeout_s)
        try:
            answer = await connection.call(tool.name, args, call)
        except TimeoutError:
            if call.failure is not None:
                raise call.failure from None
            self._silent += 1
            if self._silent >= MAX_SILENT:
                self._end_connection(f"it did not answer {MAX_SILENT} calls in a row")
            reason = f"did not answer within {self.config.timeout_s:g} s"
        except Exception as error:  # noqa: BLE001 - the SDK, and through it the server, may raise anything
            if call.failure is not None:
                raise call.failure from None
            # The process ends a moment after its stream.
            with contextlib.suppress(TimeoutError):
                closed = isinstance(error, MCPError) and error.code == mcp_types.CONNECTION_CLOSED
                async with asyncio.timeout(0.2 if closed else 0):
                    await self._over.wait()
            reason = f"gave no answer: {self._reason or described(error)}"
        else:
            self._silent = 0
            if answer.failed and self._scope_line:
                line, self._scope_line = self._scope_line, ""
                return structs.replace(answer, content=f"{answer.content}; {line}")
            return answer
        # One that wants a login has not begun anything.
        effects = "" if self._needs_login else " It is unknown whether the call had effects."
        return ToolOutput(f"The MCP server {name} {reason}.{effects}", failed=True)

    def needs_login(self, line: str) -> None:
        """End it until the user has logged in; implements `web.Refusals`."""
        self._needs_login = True
        self._end_connection(line)

    def needs_scope(self, line: str) -> None:
        """Keep what helps with the call that was refused; implements `web.Refusals`."""
        self._scope_line = line

    async def restart(self) -> None:
        """Start it again now, e.g. since the user has logged in, and wait until it has started or failed."""
        self._settled.clear()
        self._told.clear()
        self._again.set()
        self._end_connection("it was started again")
        if self._keeper.done():
            self._keeper = asyncio.create_task(self._keep_running())
        await self._settled.wait()

    async def close(self) -> None:
        """End it."""
        self._closing.set()
        self._again.set()
        self._end_connection("it was shut down")
        # One that is still starting has nothing to say goodbye to.
        await asyncio.wait([self._keeper], timeout=CLOSE_S if self._connection else 0)
        self._keeper.cancel()
        await asyncio.wait([self._keeper])
        self.state = "stopped"

    def _end_connection(self, reason: str) -> None:
        if not self._over.is_set():
            self._reason = reason
            self._over.set()

    async def _keep_running(self) -> None:
        now, delay_s = asyncio.get_running_loop().time, FIRST_DELAY_S
        while not self._closing.is_set():
            began = now()
            self._starts += 1
            self.state, self._reason, self._silent = "starting", "", 0
            self._over.clear()
            self._again.clear()
            self._needs_login, self._scope_line = False, ""
            again = await self._run_once()
            was_running, self._connection = self._connection is not None, None
            reason = self._redactor.clean(self._reason or "it ended")
            program, network = Path(self.config.command).name, self.config.network
            if not was_running and program in DOWNLOADERS and network != "hosts" and self._place.sandbox is not None:
                reason += (
                    f"; `{program}` downloads what it runs, and this server may reach no host: `network` in its entry"
                )
            self.state, self._error = "failed", reason
            if self._again.is_set() and not self._closing.is_set():
                continue
            self._settled.set()
            if self._closing.is_set():
                return
            what = "ended" if was_running and not self._needs_login else "does not run"
            # Once for each kind of failure: restarts would repeat the line every minute.
            if what not in self._told:
                self._told.add(what)
                rest = "; it is started again" if again and not self._needs_login else ""
                self._tell(f"MCP server {self.config.name} {what}: {self._error}{rest}")
            if not again:
                return
            delay_s = FIRST_DELAY_S if now() - began > STABLE_S else delay_s
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(delay_s):
                    await self._again.wait()
            delay_s = min(2 * delay_s, MAX_DELAY_S)

    async def _run_once(self) -> bool:
        # True if it is worth another try; `_reason` says why it ended.
        try:
            async with AsyncExitStack() as stack:
                await self._serve_connection(stack)
        except MissingVariable as error:
            self._end_connection(str(error))
            return False
        except TimeoutError:
            self._end_connection(f"it did not start within {self.config.start_timeout_s:g} s")
        except Exception as error:  # noqa: BLE001 - the SDK, and through it the server, may raise anything
            self._end_connection(described(error))
        return True

    async def _serve_connection(self, stack: AsyncExitStack) -> None:
        config = expanded(self.config, self._place.environ)
        self._redactor = server_redactor(config)
        if config.transport == "stdio":
            command = await stack.enter_async_context(server_command(config, self._place))
            transport: Any = program_streams(command, self._end_connection)
        else:
            transport = address_streams(config, self._logins(config), self)
        connection = ServerConnection(config.name, transport, self._changed.set)
        async with asyncio.timeout(config.start_timeout_s):
            client = await stack.enter_async_context(connection.client)
            await self._list_tools(connection)
        if self._over.is_set():
            return  # it was ended while it started
        self._protocol, self._error = one_line(client.protocol_version), ""
        self.state, self._connection = "running", connection
        self._settled.set()
        following = asyncio.create_task(connection.follow_changes())
        try:
            await self._renew_tools(connection)
        finally:
            following.cancel()
            await asyncio.wait([following])

    async def _renew_tools(self, connection: ServerConnection) -> None:
        # Bounded, because a server may say at any time that its tools changed.
        for _ in range(MAX_RELISTS):
            await self._first_of(self._over, self._changed)
            # What changes often is listed once a second.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(RELIST_S):
                    await self._over.wait()
            if self._over.is_set():
                return
            self._changed.clear()
            async with asyncio.timeout(self.config.start_timeout_s):
                await self._list_tools(connection)
        await self._over.wait()

    async def _list_tools(self, connection: ServerConnection) -> None:
        listed, has_more = await connection.list_tools()
        for name, why in connection.left_out.items():
            self._leave_out(name, why)
        if has_more and "many" not in self._told:
            self._told.add("many")
            self._tell(f"MCP server {self.config.name} offers more than {MAX_TOOLS} tools; the others are left out")
        self._sort_by_approval(listed)

    def _sort_by_approval(self, listed: Sequence[Definition]) -> None:
        before = self.sorted.withheld
        self.sorted = sort_tools(self._approvals, self.config, listed)
        self.tools = self._usable_tools(self.sorted.approved)
        if self.sorted.withheld and self.sorted.withheld != before:
            self._withheld(self)

    def _usable_tools(self, definitions: Sequence[Definition]) -> tuple[OfferedTool, ...]:
        tools: dict[str, OfferedTool] = {}
        for each in definitions:
            try:
                tool = offered(self.config.name, each)
            except ValueError as error:
                self._leave_out(each.name, str(error))
            else:
                if tool.called in tools:
                    self._leave_out(each.name, "another one has the same name")
                tools.setdefault(tool.called, tool)
        return tuple(tools.values())

    def _leave_out(self, tool: str, why: str) -> None:
        if tool not in self._told:
            self._told.add(tool)
            self._tell(f"MCP server {self.config.name}: its tool {short_line(tool, 100)} is left out: {why}")

    @staticmethod
    async def _first_of(*events: asyncio.Event) -> None:
        waiting = [asyncio.create_task(event.wait()) for event in events]
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in waiting:
                each.cancel()


def described(error: BaseException) -> str:
    """Return what went wrong, in one line."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return short_line(_error_text(error) or type(error).__name__, MAX_REASON_CHARS)


def _error_text(error: BaseException) -> str:
    match error:
        case MCPError():
            return error.message
        case ValidationError():
            first = error.errors(include_url=False, include_input=False)[0]
            place = ".".join(map(str, first["loc"]))
            return f"its answer is not valid for its version of the protocol: {place}: {first['msg']}"
        case _:
            return str(error)


def server_redactor(config: ServerConfig) -> Redactor:
    """Return what removes the secrets in the variables, headers, address and client of an expanded server."""
    # `Bearer TOKEN` is sent, and TOKEN is the secret.
    headers = {name.replace("-", "_"): (value.split() or [""])[-1] for name, value in config.headers.items()}
    client = {"CLIENT_SECRET": config.oauth.client_secret}
    query = dict(parse_qsl(urlsplit(config.url).query))
    return Redactor(*map(secret_values, (config.env, headers, query, {"URL": config.url}, client)))
