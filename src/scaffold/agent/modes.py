"""Modes: what kind of work an agent is at. Words in its context, and where nothing is to be changed, a lock as well."""

from collections.abc import Callable, Mapping
from typing import Any, Literal, get_args

from scaffold.agent.prompts import mode_prompt
from scaffold.core.errors import UsageProblem
from scaffold.core.tool import Tool, ToolOutput
from scaffold.policy.paths import Refusal
from scaffold.tools.arguments import object_schema
from scaffold.tools.workspace import failed

Mode = Literal["default", "plan", "explore", "debug", "review"]
MODES: tuple[Mode, ...] = get_args(Mode)


def known_mode(word: str) -> Mode | None:
    """Return the mode of this name, None if there is none."""
    return next((mode for mode in MODES if mode == word.strip().lower()), None)


def parse_mode(word: str) -> Mode:
    """Return the mode a user named; UsageProblem if there is none of this name."""
    mode = known_mode(word)
    if mode is None:
        raise UsageProblem(f"there is no mode `{word}`", f"The modes are {', '.join(MODES)}.")
    return mode


def mode_words(mode: Mode) -> str:
    """Return what an agent is told in this mode; empty for the default one."""
    return "" if mode == "default" else mode_prompt(mode)


def unkept(mode: Mode) -> None:
    """Keep nothing."""


class Modes:
    """Which mode one agent is in."""

    def __init__(self, current: Mode = "default", keep: Callable[[Mode], None] = unkept) -> None:
        """Go on in `current`; `keep` is told of a new one before it counts, and may refuse by raising."""
        self._current: Mode = current
        self._keep = keep

    @property
    def current(self) -> Mode:
        """Return the mode as it is now."""
        return self._current

    def switch(self, name: str) -> Refusal | None:
        """Go on in another mode from the next request; return why not if there is none of this name."""
        mode = known_mode(name)
        if mode is None:
            return Refusal(f"There is no mode {name!r}; the modes are {', '.join(MODES)}.")
        if mode != self._current:
            self._keep(mode)
            self._current = mode
        return None


def switch_mode(modes: Modes) -> Tool:
    """Return the tool that lets an agent change its own mode."""

    async def run(args: Mapping[str, Any]) -> ToolOutput:
        before = modes.current
        refusal = modes.switch(args["mode"])
        if refusal is not None:
            return failed(refusal.reason)
        return ToolOutput(f"The mode is {modes.current} now (it was {before}).")

    return Tool(
        name="switch_mode",
        description=(
            "Change how you work from now on: plan (the result is a plan), explore (find out how things are), review "
            "(judge), debug (find a cause before you change anything), default. In plan, explore and review whatever "
            "is not known to only read is denied."
        ),
        schema=object_schema({"mode": {"type": "string", "enum": list(MODES)}}),
        category="memory",
        run=run,
    )
