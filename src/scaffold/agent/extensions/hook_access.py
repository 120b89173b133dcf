"""An agent's hooks, loaded only if there are some: without one, an agent runs the same code as before."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from msgspec import Struct

from scaffold.agent.io_port import do_nothing
from scaffold.agent.turn_loop import TurnResult
from scaffold.core.conversation import Image, Text, WaitingTurn
from scaffold.core.extension_set import Extensions
from scaffold.core.tool import Tool, ToolOutput
from scaffold.host.sandbox.confinement import SandboxSpec
from scaffold.host.startup import lazy_import
from scaffold.policy.permission.call_decision import READ_ONLY_MODES
from scaffold.policy.permission.call_hooks import CallHooks, CheckedCall
from scaffold.policy.secret.redaction import Redactor

OPEN = "scaffold.agent.extensions.opened_hooks:OpenedHooks"
"""Takes a HookSetup."""

Prompt = str | Sequence[Text | Image] | WaitingTurn


class TakesTurns(Protocol):
    """An agent."""

    async def turn(self, prompt: Any, /) -> TurnResult:
        """Take one turn."""
        ...


class HookSetup(Struct, frozen=True, kw_only=True):
    """What the hooks of an agent work with."""

    extensions: Extensions
    cwd: Path
    project: Path
    """The folder for `CLAUDE_PROJECT_DIR`."""
    environ: Mapping[str, str]
    """That of its commands."""
    sandbox: SandboxSpec | None
    """That of its commands; None for none."""
    session: str
    transcript: str = ""
    """The file with what the agent did; empty if there is none."""
    write_transcript: Callable[[], object] = do_nothing
    """Writes that file, before hooks that want to know what the agent did."""
    subagent: bool = False
    mode: Callable[[], str] = lambda: "default"
    """The mode of permissions, in the words that hooks know."""
    redactor: Redactor
    tell: Callable[[str], object]
    """Takes a line for the user."""


class AgentHooks(CallHooks, Protocol):
    """The hooks of an agent."""

    @property
    def reads_input(self) -> bool:
        """Whether one reads what the user says before the agent does."""
        ...

    async def user_input(self, words: str) -> str:
        """Return what goes with the user's words; ScaffoldError if a hook refuses them."""
        ...

    async def turn(self, agent: TakesTurns, prompt: Prompt) -> TurnResult:
        """Let the agent take a turn, and go on as long as hooks want it to; ScaffoldError if one cannot judge."""
        ...

    async def started(self, source: str) -> None:
        """Run the hooks at the start of a session: `startup`, `resume` or `clear`."""
        ...

    async def ended(self, reason: str) -> None:
        """Run the hooks at the end of a session."""
        ...

    async def may_compact(self, trigger: str) -> bool:
        """Return whether the conversation may be shortened: `manual` or `auto`."""
        ...

    async def incomplete(self, task: str, subject: str) -> str:
        """Return why a task must not count as completed; empty if it may."""
        ...

    async def worktree_created(self, name: str) -> None:
        """Run the hooks for the worktree in which the agent begins; ScaffoldError if it must not."""
        ...

    async def worktree_removed(self, name: str) -> None:
        """Run the hooks for the worktree that the agent leaves; they may not write there."""
        ...


class NoHooks:
    """The hooks of an agent without any."""

    reads_input = False

    async def user_input(self, words: str) -> str:  # noqa: ARG002 - there is no hook
        """Return nothing."""
        return ""

    async def turn(self, agent: TakesTurns, prompt: Prompt) -> TurnResult:
        """Let the agent take a turn."""
        return await agent.turn(prompt)

    async def started(self, source: str) -> None:
        """Do nothing."""

    async def ended(self, reason: str) -> None:
        """Do nothing."""

    async def may_compact(self, trigger: str) -> bool:  # noqa: ARG002 - there is no hook
        """Return True."""
        return True

    async def incomplete(self, task: str, subject: str) -> str:  # noqa: ARG002 - there is no hook
        """Return nothing."""
        return ""

    async def worktree_created(self, name: str) -> None:
        """Do nothing."""

    async def worktree_removed(self, name: str) -> None:
        """Do nothing."""

    async def before(self, tool: Tool, args: Mapping[str, Any]) -> CheckedCall:  # noqa: ARG002 - there is no hook
        """Return the call."""
        return CheckedCall(args=args)

    async def after(self, tool: Tool, args: Mapping[str, Any], output: ToolOutput) -> ToolOutput:  # noqa: ARG002
        """Return the result."""
        return output


NO_HOOKS = NoHooks()


def hook_mode(mode: str, *, yolo: bool) -> str:
    """Return how calls are permitted, in the words that hooks know."""
    if mode in READ_ONLY_MODES:
        return "plan"
    return "bypassPermissions" if yolo else "default"


def open_hooks(setup: HookSetup) -> AgentHooks:
    """Return the hooks of an agent."""
    if not setup.extensions.hooks:
        return NO_HOOKS
    opened: AgentHooks = lazy_import(OPEN)(setup)
    return opened
