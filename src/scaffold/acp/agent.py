"""The agent side of the protocol: opens, lists, loads and closes sessions, and passes on prompts."""

import asyncio
import os
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, assert_never, cast

import msgspec
from acp import PROTOCOL_VERSION, schema
from acp.agent.connection import AgentSideConnection
from acp.exceptions import RequestError
from acp.interfaces import Agent, Client
from acp.utils import serialize_params
from msgspec import Struct, structs
from pydantic import BaseModel

from scaffold.acp.config_options import config_options, mode_state
from scaffold.acp.editor_session import INTERNAL_ERROR, INVALID_PARAMS, EditorSession, SessionSetup
from scaffold.agent.extensions.setup import ServersFile
from scaffold.core.errors import ScaffoldError, UsageError
from scaffold.extensions.protocol_lines import LineTransport, line_transport
from scaffold.host.installation import find_installation
from scaffold.host.protocol_streams import ProtocolStreams
from scaffold.store.user.conversations import StoredConversation
from scaffold.store.user_store import UserStore

EditorServer = schema.AcpMcpServer | schema.HttpMcpServer | schema.McpServerStdio | schema.SseMcpServer
FILE, SCOPE = "the editor", "user"  # as the user's own: they are the settings of the user's editor
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9]+")


class GivenServers(Struct, frozen=True):
    """The usable servers, and a line about each other one."""

    files: tuple[ServersFile, ...] = ()
    notes: tuple[str, ...] = ()


MAX_LISTED = 200
SetUp = Callable[[Path, StoredConversation | None], SessionSetup]
"""Returns how a session works in a folder, one that resumes a conversation or a new one; raises ScaffoldError."""
Servers = Sequence[EditorServer] | None


class EditorWork(Struct, frozen=True):
    """What the command line and the settings say about all sessions."""

    set_up: SetUp
    images: bool
    """Whether the configured model accepts images; a session with another one refuses them itself."""


class EditorAgent:
    """Implements the protocol's methods; the SDK calls them with checked parameters."""

    def __init__(self, work: EditorWork, store: UserStore, transport: LineTransport, group: asyncio.TaskGroup) -> None:
        self._set_up = work.set_up
        self._images = work.images
        self._store = store
        self._transport = transport
        self._group = group
        self._sessions: dict[str, EditorSession] = {}
        self._client: Client

    def on_connect(self, conn: Client) -> None:
        """Keep the connection."""
        self._client = conn

    def post(self, session_id: str, update: BaseModel) -> None:
        """Send an update, without waiting."""
        params = serialize_params(schema.SessionNotification(session_id=session_id, update=update))  # type: ignore[arg-type]
        self._transport.post({"jsonrpc": "2.0", "method": "session/update", "params": params})

    async def ask(
        self, session_id: str, call: schema.ToolCallUpdate, options: list[schema.PermissionOption]
    ) -> schema.RequestPermissionResponse:
        """Ask the user whether a call may run; raises RequestError or ConnectionError."""
        return await self._client.request_permission(session_id=session_id, tool_call=call, options=options)

    async def close(self) -> None:
        """Close all sessions."""
        for session in tuple(self._sessions.values()):
            await session.close()
        self._sessions.clear()

    async def initialize(self, **_: Any) -> schema.InitializeResponse:
        """Return our capabilities; we speak one version, whatever the editor offers."""
        reaches = find_spec("mcp") is not None
        capabilities = schema.AgentCapabilities(
            load_session=True,
            prompt_capabilities=schema.PromptCapabilities(image=self._images, audio=False, embedded_context=True),
            mcp_capabilities=schema.McpCapabilities(http=reaches, sse=reaches, acp=False),
            session_capabilities=schema.SessionCapabilities(
                list=schema.SessionListCapabilities(),
                resume=schema.SessionResumeCapabilities(),
                close=schema.SessionCloseCapabilities(),
            ),
        )
        return schema.InitializeResponse(
            protocol_version=PROTOCOL_VERSION,
            agent_capabilities=capabilities,
            auth_methods=[],
            agent_info=schema.Implementation(name="ralph", title="Ralph", version=find_installation().version),
        )

    async def authenticate(self, method_id: str, **_: Any) -> schema.AuthenticateResponse | None:
        """Refuse: keys are in the environment, logins are made by `ralph login`."""
        raise RequestError(INVALID_PARAMS, f"unknown login method `{method_id}`: set an API key, or run `ralph login`")

    async def new_session(self, cwd: str, mcp_servers: Servers = None, **_: Any) -> schema.NewSessionResponse:
        """Open a session with a new conversation."""
        session = await self._open_session(cwd, None, mcp_servers)
        return schema.NewSessionResponse(
            session_id=session.id,
            modes=mode_state(session.session),
            config_options=config_options(session.session, session.setup.models),
        )

    async def load_session(
        self, cwd: str, session_id: str, mcp_servers: Servers = None, **_: Any
    ) -> schema.LoadSessionResponse:
        """Open a stored conversation, and show it again."""
        session = await self._open_session(cwd, await self._load_conversation(session_id), mcp_servers)
        session.replay()
        return schema.LoadSessionResponse(
            modes=mode_state(session.session), config_options=config_options(session.session, session.setup.models)
        )

    async def resume_session(
        self, session_id: str, cwd: str, mcp_servers: Servers = None, **_: Any
    ) -> schema.ResumeSessionResponse:
        """Open a stored conversation without showing it again."""
        session = await self._open_session(cwd, await self._load_conversation(session_id), mcp_servers)
        return schema.ResumeSessionResponse(
            modes=mode_state(session.session), config_options=config_options(session.session, session.setup.models)
        )

    async def list_sessions(
        self, cwd: str | None = None, cursor: str | None = None, **_: Any
    ) -> schema.ListSessionsResponse:
        """Return the conversations, the most recently used first; all on one page."""
        if cursor:
            raise RequestError(INVALID_PARAMS, "there is only one page of sessions")
        if cwd is not None and "\0" in cwd:
            raise RequestError(INVALID_PARAMS, f"`{cwd}` is not the path of a folder")
        folder = None if cwd is None else await asyncio.to_thread(os.path.realpath, cwd)
        found = self._store.conversations.listed(folder, limit=MAX_LISTED)
        sessions = [
            schema.SessionInfo(
                session_id=each.id, cwd=each.cwd, title=each.title, updated_at=each.updated_at.isoformat()
            )
            for each in found
        ]
        return schema.ListSessionsResponse(sessions=sessions)

    async def close_session(self, session_id: str, **_: Any) -> schema.CloseSessionResponse | None:
        """Close a session; its conversation is kept."""
        session = self._require_session(session_id)
        del self._sessions[session_id]
        await session.close()
        return schema.CloseSessionResponse()

    async def fork_session(self, **_: Any) -> schema.ForkSessionResponse:
        """Refuse: conversations cannot be forked."""
        raise RequestError.method_not_found("session/fork")

    async def set_session_mode(self, session_id: str, mode_id: str, **_: Any) -> schema.SetSessionModeResponse | None:
        """Switch the mode."""
        await self._require_session(session_id).choose("mode", mode_id)
        return schema.SetSessionModeResponse()

    async def set_config_option(
        self, config_id: str, session_id: str, value: str | bool, **_: Any
    ) -> schema.SetSessionConfigOptionResponse | None:
        """Switch the mode, the model or the effort, and return all options."""
        session = self._require_session(session_id)
        await session.choose(config_id, str(value))
        return schema.SetSessionConfigOptionResponse(
            config_options=config_options(session.session, session.setup.models)
        )

    async def prompt(self, session_id: str, prompt: list[Any], **_: Any) -> schema.PromptResponse:
        """Take one turn."""
        return schema.PromptResponse(stop_reason=await self._require_session(session_id).prompt(prompt))

    async def cancel(self, session_id: str, **_: Any) -> None:
        """Cancel the turn of a session; nothing happens if it has none, or is not open."""
        if (session := self._sessions.get(session_id)) is not None:
            session.cancel()

    async def ext_method(self, method: str, params: dict[str, Any]) -> dict[str, Any]:  # noqa: ARG002 - the SDK's
        """Refuse: we have no methods of our own."""
        raise RequestError.method_not_found(f"_{method}")

    async def ext_notification(self, method: str, params: dict[str, Any]) -> None:
        """Ignore it."""

    def _require_session(self, session_id: str) -> EditorSession:
        if (session := self._sessions.get(session_id)) is None:
            raise RequestError(-32002, f"there is no open session `{session_id}`")
        return session

    async def _load_conversation(self, session_id: str) -> StoredConversation:
        # A conversation is open in one session at a time.
        if (session := self._sessions.pop(session_id, None)) is not None:
            await session.close()
        try:
            found = self._store.conversations.get(session_id)
        except UsageError:
            found = None
        # The beginning of an id finds a conversation, but is the id of no session.
        if found is None or found.id != session_id:
            raise RequestError(-32002, f"there is no session `{session_id}`")
        return found

    async def _open_session(self, cwd: str, stored: StoredConversation | None, servers: Servers) -> EditorSession:
        folder = Path(cwd)
        if not folder.is_absolute() or "\0" in cwd or not await asyncio.to_thread(folder.is_dir):
            raise RequestError(INVALID_PARAMS, f"`{cwd}` is not the absolute path of a folder")
        try:
            setup = self._set_up(folder, stored)
            if servers:
                given = given_servers(servers)
                options = structs.replace(setup.options, given_servers=given.files)
                setup = structs.replace(setup, options=options, notes=(*setup.notes, *given.notes))
            session = EditorSession(setup, self._store, self)
            await session.open(stored)
        except ScaffoldError as error:
            raise RequestError(INTERNAL_ERROR, error.in_full) from error
        self._sessions[session.id] = session
        # It begins once the answer is on its way: until then the editor knows no session of this name.
        self._group.create_task(session.announce())
        return session


async def serve_editor(work: EditorWork, store: UserStore, streams: ProtocolStreams) -> None:
    """Work for the editor at the other end of the streams until it goes away."""
    async with line_transport(streams) as transport, asyncio.TaskGroup() as group:
        agent = EditorAgent(work, store, transport, group)
        connection = AgentSideConnection(
            cast("Agent", agent),
            transport,
            listening=False,
            use_unstable_protocol=True,  # `session/close` and `session/resume`
        )
        try:
            await connection.listen()
        finally:
            try:
                await agent.close()
            finally:
                # The editor has gone away, and with it the reader of answers that were under way.
                with suppress(OSError):
                    await connection.close()


def given_servers(servers: Sequence[EditorServer]) -> GivenServers:
    """Return the servers of an editor; characters that are invalid in a server's name become `-`."""
    entries: dict[str, Mapping[str, Any]] = {}
    notes = []
    for server in servers:
        name = _NOT_IN_NAMES.sub("-", server.name).strip("-")
        if isinstance(server, schema.AcpMcpServer):
            notes.append(f"the MCP server {server.name} is not used: it speaks through the editor")
        elif name in entries:
            notes.append(f"the MCP server {server.name} is not used: another one is named {name}")
        else:
            entries[name] = _server_entry(server)
    content = msgspec.json.encode({"mcpServers": entries})
    files = (ServersFile(FILE, content, SCOPE),) if entries else ()
    return GivenServers(files, tuple(notes))


def _server_entry(server: schema.HttpMcpServer | schema.McpServerStdio | schema.SseMcpServer) -> Mapping[str, Any]:
    match server:
        case schema.McpServerStdio():
            variables = {each.name: each.value for each in server.env}
            return {"command": server.command, "args": list(server.args), "env": variables}
        case schema.HttpMcpServer() | schema.SseMcpServer():
            headers = {each.name: each.value for each in server.headers}
            return {"type": server.type, "url": server.url, "headers": headers}
        case _:
            assert_never(server)
