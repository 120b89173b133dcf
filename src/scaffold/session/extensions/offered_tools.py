"""All tools of a session: its own, those of plugins and those of MCP servers, which may change between two turns."""

from collections.abc import Sequence

from scaffold.agent.extensions.plugin_access import AgentPlugins
from scaffold.agent.extensions.server_access import AgentServers
from scaffold.core.extension_set import Role
from scaffold.core.tool import Tool
from scaffold.policy.permission.approval_gate import ApprovalGate
from scaffold.session.extensions.subagent_role import tools_of_session
from scaffold.session.reporter import SessionObserver


class SessionToolbox:
    """The tools, each gated, watched by plugins and by the observer."""

    def __init__(
        self,
        own: Sequence[Tool],
        plugins: AgentPlugins,
        servers: AgentServers,
        gate: ApprovalGate,
        observer: SessionObserver,
        role: Role | None = None,
    ) -> None:
        """Offer `own`, which are gated already, and the others; of all of them those that a `role` keeps."""
        self._role = role
        self._own = own
        self._plugins = plugins
        self._servers = servers
        self._gate = gate
        self._observer = observer
        self._of_servers: tuple[Tool, ...] | None = None
        self._tools: tuple[Tool, ...] = ()

    def use(self, plugins: AgentPlugins) -> None:
        """Offer the tools of these plugins from now on."""
        self._plugins, self._of_servers = plugins, None

    async def now(self) -> tuple[Tool, ...]:
        """Return the tools; the same object until those of servers change."""
        of_servers, observer = await self._servers.tools(), self._observer
        if of_servers is not self._of_servers:
            others = map(self._gate.guard, (*self._plugins.tools, *of_servers))
            offered = tools_of_session((*self._own, *others), self._role)
            kept = filter(observer.keeps_tool, offered)
            watched = map(self._plugins.watch, (*kept, *observer.extra_tools))
            self._of_servers, self._tools = of_servers, tuple(map(observer.wrap_tool, watched))
        return self._tools
