"""What the agent of an attempt may use."""

from collections.abc import Mapping

from msgspec import Struct, field

from scaffold.agent.extensions.port import NO_EXTENSIONS, AgentExtensions
from scaffold.core.ports import Model
from scaffold.core.tool import Tool
from scaffold.worker.agent.agent_source import AgentSource
from scaffold.worker.human.file_requests import DeclarationReviewer, no_reviewer
from scaffold.worker.human.inbox_approval import InboxApprover
from scaffold.worker.story.edits import AskedEdits


class AgentCapabilities(Struct, frozen=True, kw_only=True):
    """The models, people and extensions that an attempt's agent and its advisers work with."""

    model: Model | None
    """The model of the work; None if a program does it."""
    advisers: Mapping[str, AgentSource] = {}
    """Who takes the turns of agents that advise on the work, by role, where that is not `model`."""
    human: InboxApprover
    reviewer: DeclarationReviewer = no_reviewer
    """Decides requests for files that judge the work, before a human is asked."""
    extensions: AgentExtensions = NO_EXTENSIONS
    """The hooks, plugins and MCP servers of the run."""
    extension_tools: tuple[Tool, ...] = ()
    """The tools of these, not gated; the same for the whole attempt."""
    asked_edits: AskedEdits = field(default_factory=AskedEdits)
    """What the agent asks to change in its story by the tool."""

    @property
    def work_model(self) -> Model:
        """The model of the work, which an agent of ours does."""
        if self.model is None:
            raise LookupError("model")
        return self.model

    def adviser(self, role: str) -> AgentSource:
        """Return who takes the turns of an agent that advises on the work in this role."""
        return self.advisers.get(role) or self.work_model
