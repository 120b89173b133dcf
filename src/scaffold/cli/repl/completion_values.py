"""Names that may follow a command: models, modes, subagents, conversations."""

from collections.abc import Sequence

from scaffold.agent.modes import MODES
from scaffold.config.schema import SIZES
from scaffold.llm.registry.cards import known_models
from scaffold.session.current_conversation import CurrentConversation
from scaffold.session.slash_queries import MODE_SUMMARIES


def completion_values(command: str, chair: CurrentConversation) -> Sequence[tuple[str, str]]:
    """Return what may follow a command of this name, each with a word about it; nothing for most."""
    match command:
        case "model":
            return [*((size, "") for size in sorted(SIZES)), *((known.model, "") for known in known_models())]
        case "mode":
            return [(mode, MODE_SUMMARIES.get(mode, "")) for mode in MODES]
        case "resume":
            found = chair.listed()
            return [(each.id, " ".join(each.title.split())) for each in found]
        case "agents":
            return [(agent.name, agent.task) for agent in chair.session.peers.roster()]
    return ()
