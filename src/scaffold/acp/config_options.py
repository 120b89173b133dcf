"""The options of a session in the editor: its mode, its model, the model's effort."""

from collections.abc import Mapping, Sequence
from typing import Literal, get_args

from acp.schema import (
    SessionConfigOptionBoolean,
    SessionConfigOptionSelect,
    SessionConfigSelectOption,
    SessionMode,
    SessionModeState,
)

from scaffold.agent.modes import CHOSEN_MODES
from scaffold.core.run_settings import Effort
from scaffold.session.agent_session import Session

ConfigOption = SessionConfigOptionSelect | SessionConfigOptionBoolean
OptionName = Literal["mode", "model", "effort"]
MODE_SUMMARIES: Mapping[str, str] = {
    "default": "works, and asks before it changes something",
    "accept-edits": "changes files in the folder without asking, in this session",
    "plan": "makes a plan, and changes nothing",
    "explore": "finds out how things are, and changes nothing",
    "debug": "looks for the cause first",
    "review": "judges what is there, and changes nothing",
}


def mode_state(session: Session) -> SessionModeState:
    """Return the modes and the current one."""
    modes = [SessionMode(id=mode, name=mode, description=MODE_SUMMARIES[mode]) for mode in CHOSEN_MODES]
    return SessionModeState(current_mode_id=session.modes.chosen, available_modes=modes)


def config_options(session: Session, models: Sequence[str]) -> list[ConfigOption]:
    """Return the options with their current values; `models` are offered besides the current one."""
    return [
        _select_option("mode", "Mode", "mode", session.modes.chosen, CHOSEN_MODES),
        _select_option("model", "Model", "model", session.model, dict.fromkeys([session.model, *models])),
        _select_option("effort", "Effort", "thought_level", session.agent.effort, get_args(Effort)),
    ]


def _select_option(
    name: OptionName,
    title: str,
    category: Literal["mode", "model", "thought_level"],
    current: str,
    choices: Sequence[str] | Mapping[str, None],
) -> SessionConfigOptionSelect:
    options = [SessionConfigSelectOption(value=choice, name=choice) for choice in choices]
    return SessionConfigOptionSelect(
        type="select", id=name, name=title, category=category, current_value=current, options=options
    )
