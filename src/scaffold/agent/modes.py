"""Modes: the kind of work an agent does, as instructions in its context; read-only modes also deny writing tools."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal, get_args

from scaffold.agent.prompts import mode_prompt
from scaffold.core.errors import UsageError
from scaffold.core.tool import Tool, ToolOutput
from scaffold.policy.path.containment import Refusal
from scaffold.policy.permission.approval_gate import ApprovalGate
from scaffold.policy.permission.call_decision import ACCEPT_EDITS, READ_ONLY_MODES
from scaffold.tools.arguments import object_schema
from scaffold.tools.workspace import failed_answer

Mode = Literal["default", "plan", "explore", "debug", "review"]
MODES: tuple[Mode, ...] = get_args(Mode)
CHOSEN_MODES = ("default", ACCEPT_EDITS, *MODES[1:])
"""The modes that a user may choose: an agent has no way to accept its own edits."""
CYCLED_MODES = ("default", ACCEPT_EDITS, "plan")
"""What one key chooses, in this order."""


def find_mode(word: str) -> Mode | None:
    """Return the mode with this name; None if there is none."""
    return next((mode for mode in MODES if mode == word.strip().lower()), None)


def parse_mode(word: str) -> Mode:
    """Return the mode a user named; UsageError if there is none."""
    mode = find_mode(word)
    if mode is None:
        raise UsageError(f"there is no mode `{word}`", f"The modes are {', '.join(MODES)}.")
    return mode


def mode_instructions(mode: Mode) -> str:
    """Return the prompt of this mode; empty for the default mode."""
    return "" if mode == "default" else mode_prompt(mode)


def ignore_mode(mode: Mode) -> None:
    """Do nothing."""


class CurrentMode:
    """The current mode of one agent."""

    def __init__(self, current: Mode = "default", keep: Callable[[Mode], None] = ignore_mode) -> None:
        """`keep` is called with a new mode before it takes effect, and may refuse it by raising."""
        self._current: Mode = current
        self._keep = keep
        self.gate: ApprovalGate | None = None
        """The gate whose user may accept edits; None where nobody can."""

    @property
    def current(self) -> Mode:
        """The current mode."""
        return self._current

    @contextmanager
    def during(self, mode: Mode) -> Iterator[None]:
        """Work in a mode for a while, without keeping it; another that was chosen meanwhile stays."""
        before, self._current = self._current, mode
        try:
            yield
        finally:
            if self._current == mode:
                self._current = before

    @property
    def chosen(self) -> str:
        """The mode as its user sees it: accepted edits are one, unless the agent may change nothing now."""
        accepts = self.gate is not None and self.gate.accepts_edits and self._current not in READ_ONLY_MODES
        return ACCEPT_EDITS if accepts else self._current

    def choose(self, name: str) -> None:
        """Switch to one of `CHOSEN_MODES`; accepted edits last for this session only. UsageError if there is none."""
        accepts = self.gate is not None and name.strip().lower() == ACCEPT_EDITS
        self.switch("default" if accepts else parse_mode(name))
        if self.gate is not None:
            self.gate.accept_edits(accepts=accepts)

    def cycle(self) -> None:
        """Switch to the next of `CYCLED_MODES`; from another mode to the first one."""
        after = dict(zip(CYCLED_MODES, (*CYCLED_MODES[1:], CYCLED_MODES[0]), strict=True))
        self.choose(after.get(self.chosen, CYCLED_MODES[0]))

    def switch(self, name: str) -> Refusal | None:
        """Switch the mode from the next request on; return a Refusal if there is no mode with this name."""
        mode = find_mode(name)
        if mode is None:
            return Refusal(f"There is no mode {name!r}; the modes are {', '.join(MODES)}.")
        if mode != self._current:
            # First: a mode that cannot be stored must not take effect.
            self._keep(mode)
            self._current = mode
        return None


def switch_mode_tool(modes: CurrentMode) -> Tool:
    """Return the tool that lets an agent change its own mode."""

    async def run(args: Mapping[str, Any]) -> ToolOutput:
        before = modes.current
        refusal = modes.switch(args["mode"])
        if refusal is not None:
            return failed_answer(refusal.reason)
        return ToolOutput(f"The mode is now {modes.current} (it was {before}).")

    return Tool(
        name="switch_mode",
        description=(
            "Change how you work from now on: debug looks for the cause first; plan, explore and review allow only "
            "calls that are known to be read-only."
        ),
        schema=object_schema({"mode": {"type": "string", "enum": list(MODES)}}),
        category="memory",
        run=run,
    )
