"""Names that may follow a command: models, modes, subagents, conversations."""

from collections.abc import Sequence

from scaffold.agent.modes import MODES
from scaffold.cli.inquiry import MODE_SUMMARIES
from scaffold.cli.repl.chair import Chair
from scaffold.cli.setting import SIZES
from scaffold.llm.registry import known_models


def names_for(command: str, chair: Chair) -> Sequence[tuple[str, str]]:
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
            return [(agent.name, agent.task) for agent in chair.session.company.roster()]
    return ()
