"""Slash commands: words for us, not for the model. One table of them, and their reading; others carry them out."""

import difflib
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, get_args

from msgspec import Struct

TasksView = Literal["list", "ready", "show"]

_COMMAND = re.compile(r"/(?P<name>[a-z][a-z_-]*)(?:\s+(?P<rest>.*))?", re.DOTALL | re.IGNORECASE)


class Help(Struct, frozen=True, tag="help"):
    """Tell which commands there are."""


class ShowModels(Struct, frozen=True, tag="show_models"):
    """Tell which model answers, and which are known."""


class SwitchModel(Struct, frozen=True, tag="switch_model"):
    """Let another model answer from now on."""

    model: str
    """A model string as it was typed."""


class ShowMode(Struct, frozen=True, tag="show_mode"):
    """Tell which mode the agent works in, and which there are."""


class SwitchMode(Struct, frozen=True, tag="switch_mode"):
    """Let the agent work in another mode from now on."""

    mode: str
    """A mode as it was typed."""


class ShowTasks(Struct, frozen=True, tag="show_tasks"):
    """Tell what the agent's list holds: all of it, what is not begun yet, or one entry."""

    view: TasksView = "list"
    number: int = 0
    """Which entry, for `show`."""


class ShowAgents(Struct, frozen=True, tag="show_agents"):
    """Tell which subagents there are, or all that is known of one."""

    name: str = ""


class ShowCost(Struct, frozen=True, tag="show_cost"):
    """Tell what was used."""


class ShowTools(Struct, frozen=True, tag="show_tools"):
    """Tell which tools there are, and what becomes of a call."""


class Compact(Struct, frozen=True, tag="compact"):
    """Shorten the conversation."""


class Clear(Struct, frozen=True, tag="clear"):
    """Begin a new conversation; the old one is kept."""


class Resume(Struct, frozen=True, tag="resume"):
    """Go on with another conversation; tell which there are where none is named."""

    conversation: str = ""


class Quit(Struct, frozen=True, tag="quit"):
    """End the talk."""


class Misunderstood(Struct, frozen=True, tag="misunderstood"):
    """It looks like a command and is none."""

    what: str
    fix: str


Command = (
    Help
    | ShowModels
    | SwitchModel
    | ShowMode
    | SwitchMode
    | ShowTasks
    | ShowAgents
    | ShowCost
    | ShowTools
    | Compact
    | Clear
    | Resume
    | Quit
    | Misunderstood
)


class Spelling(Struct, frozen=True, kw_only=True):
    """How one command is written, and what it does."""

    name: str
    words: str = ""
    """What may follow the name, for people."""
    summary: str
    read: Callable[[Sequence[str]], Command | None]
    """Takes the words that follow; None if they make no sense."""
    shots: bool = False
    """Whether it makes sense without a talk, too."""

    @property
    def usage(self) -> str:
        """Return how it is written."""
        return f"/{self.name} {self.words}".rstrip()


def parse_slash(line: str) -> Command | None:
    """Return the command that `line` is, None for words that are for the model; `/usr/bin is full` is for the model."""
    if line.rstrip() == "/":
        return Misunderstood("`/` alone is no command", "`/help` lists the commands.")
    found = _COMMAND.fullmatch(line.rstrip())
    if found is None:
        return None
    name, words = found["name"].lower(), (found["rest"] or "").split()
    spelling = SPELLINGS.get(name)
    if spelling is None:
        return _unknown(name)
    command = spelling.read(words)
    if command is None:
        given = f"`/{name} {' '.join(words)}`"
        return Misunderstood(
            f"{given if len(given) < 80 else f'`/{name}`'} is not how it goes", f"It is `{spelling.usage}`."
        )
    return command


def _unknown(name: str) -> Misunderstood:
    near = difflib.get_close_matches(name, SPELLINGS, n=1, cutoff=0.5)
    hint = f"Did you mean `/{near[0]}`? " if near else ""
    return Misunderstood(
        f"there is no command `/{name}`",
        f"{hint}`/help` lists the commands; begin with a space to say it to the model.",
    )


def _bare(command: Command) -> Callable[[Sequence[str]], Command | None]:
    """Return a reader of a command that takes no words."""
    return lambda words: None if words else command


def _named(bare: Command, named: Callable[[str], Command]) -> Callable[[Sequence[str]], Command | None]:
    """Return a reader of a command that takes one name, or none."""

    def read(words: Sequence[str]) -> Command | None:
        if len(words) > 1:
            return None
        return named(words[0]) if words else bare

    return read


def _tasks(words: Sequence[str]) -> Command | None:
    match [word.lower() for word in words]:
        case []:
            return ShowTasks()
        case [("list" | "ready") as view]:
            return ShowTasks(view)
        case ["show", number] if number.isdecimal() and len(number) < 10:
            return ShowTasks("show", int(number))
    return None


def _agents(words: Sequence[str]) -> Command | None:
    match words:
        case []:
            return ShowAgents()
        case ["show", name]:
            return ShowAgents(name)
    return None


COMMANDS = (
    Spelling(name="help", summary="these commands and keys", read=_bare(Help()), shots=True),
    Spelling(
        name="model",
        words="[NAME]",
        summary="which model answers, or let another one",
        read=_named(ShowModels(), SwitchModel),
        shots=True,
    ),
    Spelling(
        name="mode",
        words="[NAME]",
        summary="how the agent works, or let it work in another way",
        read=_named(ShowMode(), SwitchMode),
        shots=True,
    ),
    Spelling(
        name="tasks", words="[list | ready | show N]", summary="the agent's list of what to do", read=_tasks, shots=True
    ),
    Spelling(name="agents", words="[show ID]", summary="the subagents of this conversation", read=_agents, shots=True),
    Spelling(name="cost", summary="tokens and money, now and in all", read=_bare(ShowCost()), shots=True),
    Spelling(name="tools", summary="what the agent may ask for, and what needs your consent", read=_bare(ShowTools())),
    Spelling(name="compact", summary="shorten the conversation now", read=_bare(Compact())),
    Spelling(name="clear", summary="begin a new conversation; the old one is kept", read=_bare(Clear())),
    Spelling(
        name="resume",
        words="[ID]",
        summary="this directory's conversations, or go on with one",
        read=_named(Resume(), Resume),
        shots=True,
    ),
    Spelling(name="quit", summary="leave; also /exit, Ctrl-D", read=_bare(Quit())),
)
"""All commands, in the order people are told of them."""

SPELLINGS: Mapping[str, Spelling] = {each.name: each for each in COMMANDS} | {
    "exit": next(each for each in COMMANDS if each.name == "quit")
}
"""The commands by every name they have."""

ARGUMENTS: Mapping[str, Sequence[str]] = {"tasks": get_args(TasksView), "agents": ("show",)}
"""Words that may follow a name, where they are always the same."""
