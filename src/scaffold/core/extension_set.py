"""Hooks, skills, roles and commands that people write for their agents, as a session or a run uses them."""

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

HookEvent = Literal[
    "PreToolUse",
    "PostToolUse",
    "UserPromptSubmit",
    "SessionStart",
    "SessionEnd",
    "Stop",
    "SubagentStop",
    "TaskCompleted",
    "PreCompact",
    "WorktreeCreate",
    "WorktreeRemove",
]
"""When hooks run, in the words of the settings that people have."""
HookSandbox = Literal["all", "project", "none"]
"""Which hooks run in the sandbox of commands: all | only the project's | none."""


class Hook(Struct, frozen=True, kw_only=True):
    """A command that runs at an event."""

    event: HookEvent
    matcher: str = ""
    """For which tools, or which ways to start or end; empty for all."""
    command: str
    """For `/bin/sh`."""
    timeout_s: float
    source: str
    """The file that defines it, as people name it."""
    own: bool
    """Whether it is the user's own; else it is the project's."""
    scripts: tuple[str, ...] = ()
    """The files that it runs, if its text names them: relative to the project, or absolute."""


class Skill(Struct, frozen=True, kw_only=True):
    """Instructions that an agent reads when it needs them."""

    name: str
    description: str
    file: str
    """Its SKILL.md: relative to the project, or absolute if it is the user's own."""
    allowed_tools: tuple[str, ...] = ()
    """The tools it says it needs; that grants nothing."""


class Role(Struct, frozen=True, kw_only=True):
    """A kind of agent: its instructions, and what it may use of what its session has."""

    name: str
    description: str
    prompt: str
    source: str
    tools: tuple[str, ...] | None = None
    """The only tools it gets; None for all."""
    model: str = ""
    """A model string or a size; empty for the model of its session."""


class PromptCommand(Struct, frozen=True, kw_only=True):
    """A message that the user sends by name."""

    name: str
    description: str
    hint: str
    """The arguments, for people."""
    text: str
    """With `$ARGUMENTS` and `$1` for them."""
    source: str


class Extensions(Struct, frozen=True, kw_only=True):
    """The extensions of a session or a run. Stored with a run, so that all its processes use the same."""

    folder: str = ""
    """Where the project's files are that hooks and skills name; empty if it has none that are trusted."""
    digests: Mapping[str, str] = {}
    """Path relative to `folder` -> SHA-256 of the project's files, as the user trusts them."""
    hooks: tuple[Hook, ...] = ()
    skills: tuple[Skill, ...] = ()
    roles: tuple[Role, ...] = ()
    commands: tuple[PromptCommand, ...] = ()
    sandbox: HookSandbox = "all"

    @property
    def scripts(self) -> tuple[str, ...]:
        """The files of the project that its hooks run, relative to it."""
        names = (name for hook in self.hooks for name in hook.scripts if not name.startswith("/"))
        return tuple(dict.fromkeys(names))
