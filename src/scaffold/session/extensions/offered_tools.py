"""All tools of a session: its own, and those of its extensions, which may change between two turns."""

from collections.abc import Sequence

from scaffold.agent.extensions.port import NO_EXTENSIONS, AgentExtensions
from scaffold.core.extension_set import Role
from scaffold.core.tool import Tool
from scaffold.policy.permission.approval_gate import ApprovalGate
from scaffold.session.extensions.subagent_role import tools_of_session
from scaffold.session.reporter import SessionObserver


class SessionToolbox:
    """The tools, each gated, watched by extensions and by the observer."""

    def __init__(
        self, own: Sequence[Tool], gate: ApprovalGate, observer: SessionObserver, role: Role | None = None
    ) -> None:
        """Offer `own`, which are gated already, and those of extensions; of all of them those that a `role` keeps."""
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
            offered = tools_of_session((*self._own, *map(self._gate.guard, more)), self._role)
            kept = filter(observer.keeps_tool, offered)
            watched = map(extensions.watch, (*kept, *observer.extra_tools))
            self._extensions, self._more, self._tools = extensions, more, tuple(map(observer.wrap_tool, watched))
        return self._tools
