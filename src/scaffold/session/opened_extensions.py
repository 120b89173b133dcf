"""The extensions of a session, opened for it: hooks, plugins, and MCP servers."""

import os
from collections.abc import Callable, Sequence

from scaffold.agent.context.conversation_window import Conversation
from scaffold.agent.extensions.access import connect_servers, hook_mode, open_hooks, open_plugins, open_servers
from scaffold.agent.extensions.port import NO_EXTENSIONS, AgentExtensions, combined
from scaffold.agent.extensions.setup import ExtensionSetup, HookSession, ServerChoice
from scaffold.agent.skills import kept_tools
from scaffold.config.trusted_extensions import USER_SCOPE, mcp_files
from scaffold.core.extension_set import Role
from scaffold.core.tool import Tool
from scaffold.git.checkouts.worktree_metadata import find_checkout
from scaffold.host.sandbox.confinement import CommandSandbox
from scaffold.host.sandbox.level import LEVEL_CACHE
from scaffold.host.startup import importing
from scaffold.host.user_dirs import user_dirs
from scaffold.policy.command_sandbox import probe_level, require_agreement
from scaffold.policy.permission.approval_gate import ApprovalGate
from scaffold.policy.secret.redaction import Redactor
from scaffold.session.options import SessionOptions
from scaffold.session.reporter import SessionObserver
from scaffold.session.tool_setup import ToolSetup


class SessionToolbox:
    """The tools, each gated, watched by extensions and by the observer."""

    def __init__(
        self, own: Sequence[Tool], gate: ApprovalGate, observer: SessionObserver, role: Role | None = None
    ) -> None:
        """Offer `own`, which are gated, and the extensions' tools; a `role` keeps some of them."""
        self._role = role
        self._own = own
        self._gate = gate
        self._observer = observer
        self._extensions = NO_EXTENSIONS
        self._more: tuple[Tool, ...] | None = None
        self._tools: tuple[Tool, ...] = ()

    async def now(self, extensions: AgentExtensions) -> tuple[Tool, ...]:
        """Return the tools; the same object until the extensions or their tools change."""
        more, observer = await extensions.tools(), self._observer
        if more != self._more or extensions is not self._extensions:
            offered = kept_tools((*self._own, *map(self._gate.guard, more)), self._role)
            kept = filter(observer.keeps_tool, offered)
            watched = map(extensions.watch, (*kept, *observer.extra_tools))
            self._extensions, self._more, self._tools = extensions, more, tuple(map(observer.wrap_tool, watched))
        return self._tools


class SessionExtensions:
    """The extensions of a session; its plugins can be started again."""

    def __init__(self, options: SessionOptions) -> None:
        self._options = options
        self._hooks = self._plugins = self._servers = NO_EXTENSIONS
        self.now = NO_EXTENSIONS
        """All that are open as one; the same object until one is opened."""

    async def open(
        self, setup: ExtensionSetup, tools: ToolSetup, conversation: Callable[[], Conversation], *, is_subagent: bool
    ) -> None:
        """Open them; hooks see the calls of the gate of `tools`, and messages of the `conversation`, from now on."""
        self._setup = setup
        session = HookSession(
            environ=tools.environ,
            project=find_checkout(tools.cwd) or tools.cwd,
            transcript=str(user_dirs().cache / "outputs" / tools.conversation / "transcript.jsonl"),
            messages=lambda: conversation().kept,
            subagent=is_subagent,
            mode=lambda: hook_mode(
                tools.modes.current, yolo=tools.gate.rules.yolo, accepts_edits=tools.gate.accepts_edits
            ),
        )
        self._hooks = open_hooks(setup, self._options.extensions, session)
        tools.gate.hooks = self._hooks.calls
        await self.restart_plugins()
        self._servers = await session_servers(self._options, setup, is_subagent=is_subagent)
        self._combine_all()

    async def restart_plugins(self) -> None:
        """End the plugins, and start those that there are now."""
        await self._plugins.close()
        self._plugins = await open_plugins(self._setup, network=self._options.plugin_network)
        self._combine_all()

    def _combine_all(self) -> None:
        self.now = combined(self._hooks, self._plugins, self._servers)


def extension_setup(
    options: SessionOptions,
    sandbox: CommandSandbox | None,
    redactor: Redactor,
    *,
    session: str,
    tell: Callable[[str], object],
) -> ExtensionSetup:
    """Return what the extensions of a session work with; `tell` receives lines for the user."""
    return ExtensionSetup(
        cwd=options.cwd, session=session, environ=os.environ, sandbox=sandbox, redactor=redactor, tell=tell
    )


async def session_servers(
    options: SessionOptions, setup: ExtensionSetup, *, is_subagent: bool, only: tuple[str, ...] | None = None
) -> AgentExtensions:
    """Start the servers for the session's folder, or connect to those of the session that started this subagent.

    Subagents of the setup's session reach them by a socket; none do if it is empty. Of all servers those in `only`
    are started; None for all.
    """
    if is_subagent:
        # A session has no inbox: its user reads in the tool's answer that the server asked something.
        return connect_servers(options.mcp_socket) if options.mcp_socket else NO_EXTENSIONS
    if not options.mcp:
        return NO_EXTENSIONS
    files = (*mcp_files(options.cwd, once=options.trust_once, tell=setup.tell), *options.given_servers)
    socket = user_dirs().cache / "t" / setup.session / "mcp" if setup.session else None
    return await open_servers(setup, ServerChoice(files=files, only=only, socket=socket))


def project_programs(options: SessionOptions) -> list[str]:
    """Return the commands of a trusted folder's hooks and MCP servers, about which no tool call asks.

    Hooks that the user's own settings let run without a sandbox are left out.
    """
    hooks = [] if options.extensions.sandbox == "none" else options.extensions.hooks
    files = mcp_files(options.cwd, once=options.trust_once, tell=lambda _: None) if options.mcp else ()
    files = tuple(file for file in files if file.scope != USER_SCOPE)
    programs = [hook.command for hook in hooks if not hook.own]
    if files:
        with importing():
            from scaffold.agent.extensions.local_servers import configured_servers
        servers = configured_servers(ServerChoice(files=files), confined=True).servers
        programs += (server.shown for server in servers if server.transport == "stdio")
    return programs


async def require_session_agreement(options: SessionOptions, sandbox: CommandSandbox | None) -> None:
    """Raise TrustError if a folder's hooks and servers would run without a sandbox and without the user's agreement."""
    if sandbox is None and project_programs(options):
        level = await probe_level(options.cwd, os.environ, cache=user_dirs().cache / LEVEL_CACHE)
        require_agreement(options.sandbox, level)
