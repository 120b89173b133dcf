"""What the agent of an attempt may use."""

from collections.abc import Mapping

from msgspec import Struct, field

from scaffold.agent.extensions.port import NO_EXTENSIONS, AgentExtensions
from scaffold.core.ports import Model
from scaffold.core.tool import Tool
from scaffold.worker.human.file_requests import DeclarationReviewer, no_reviewer
from scaffold.worker.human.inbox_approval import InboxApprover
from scaffold.worker.story.edits import AskedEdits


class AgentCapabilities(Struct, frozen=True, kw_only=True):
    """The models, people and extensions that an attempt's agent and its advisers work with."""

    model: Model
    """The model of the work."""
    side_models: Mapping[str, Model] = {}
    """The models of agents that advise on the work, by role, where they are not `model`."""
    human: InboxApprover
    reviewer: DeclarationReviewer = no_reviewer
    """Decides requests for files that judge the work, before a human is asked."""
    extensions: AgentExtensions = NO_EXTENSIONS
    """The hooks, plugins and MCP servers of the run."""
    extension_tools: tuple[Tool, ...] = ()
    """The tools of these, not gated; the same for the whole attempt."""
    asked_edits: AskedEdits = field(default_factory=AskedEdits)
    """What the agent asks to change in its story by the tool."""

    def model_of(self, role: str) -> Model:
        """Return the model of an agent that advises on the work in this role."""
        return self.side_models.get(role, self.model)
