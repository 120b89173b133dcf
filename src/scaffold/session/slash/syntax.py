"""Slash commands: their table and parser. They are executed elsewhere, and the model does not see them."""

import difflib
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, get_args

from msgspec import Struct

from scaffold.core.extension_set import PromptCommand
from scaffold.core.run_settings import Effort

TasksView = Literal["list", "ready", "show"]
ServersVerb = Literal["list", "show", "approve", "login", "logout"]
DiffView = Literal["session", "turn"]

_COMMAND = re.compile(r"/(?P<name>[a-z][a-z0-9_-]*)(?:\s+(?P<rest>.*))?", re.DOTALL | re.IGNORECASE)


class Help(Struct, frozen=True, tag="help"):
    """List the commands."""


class ShowModels(Struct, frozen=True, tag="show_models"):
    """Show the current model and the known ones."""


class SwitchModel(Struct, frozen=True, tag="switch_model"):
    """Switch to another model."""

    model: str
    """A model string as typed."""


class ShowMode(Struct, frozen=True, tag="show_mode"):
    """Show the current mode and the available ones."""


class SwitchMode(Struct, frozen=True, tag="switch_mode"):
    """Switch to another mode."""

    mode: str
    """A mode as typed."""


class ShowEffort(Struct, frozen=True, tag="show_effort"):
    """Show how much the model thinks."""


class SwitchEffort(Struct, frozen=True, tag="switch_effort"):
    """Let the model think more or less from the next request on."""

    effort: str
    """A level as typed."""


class ShowTasks(Struct, frozen=True, tag="show_tasks"):
    """Show the agent's todo list: all of it, the entries not started, or one entry."""

    view: TasksView = "list"
    number: int = 0
    """The entry, for `show`."""


class ShowAgents(Struct, frozen=True, tag="show_agents"):
    """List the subagents, or show one in full."""

    name: str = ""


class ManageMemory(Struct, frozen=True, tag="memory"):
    """Show memories, or change them."""

    words: Sequence[str] = ()
    """The arguments as typed."""


class ShowCost(Struct, frozen=True, tag="show_cost"):
    """Show tokens and costs."""


class ShowTools(Struct, frozen=True, tag="show_tools"):
    """List the tools, and how a call of each is decided."""


class ShowPlugins(Struct, frozen=True, tag="show_plugins"):
    """List the plugins."""


class ManageServers(Struct, frozen=True, tag="mcp"):
    """List the MCP servers, show or approve what is withheld of one, log in or out there."""

    verb: ServersVerb = "list"
    server: str = ""


class ReloadPlugins(Struct, frozen=True, tag="reload_plugins"):
    """End the plugins, and start those that there are now."""


class ShowContext(Struct, frozen=True, tag="show_context"):
    """Show what fills the model's window."""


class Export(Struct, frozen=True, tag="export"):
    """Write the conversation to a file."""

    file: str = ""
    """A path as typed; empty for a new name."""


class ShowDiff(Struct, frozen=True, tag="show_diff"):
    """Show what changed in the working tree since the session began, or by the tools of the last turn."""

    view: DiffView = "session"


class Undo(Struct, frozen=True, tag="undo"):
    """Undo what the last turn's tools did to files."""


class Compact(Struct, frozen=True, tag="compact"):
    """Shorten the conversation."""


class Clear(Struct, frozen=True, tag="clear"):
    """Begin a new conversation; the old one is kept."""


class Resume(Struct, frozen=True, tag="resume"):
    """Resume another conversation; list them if none is named."""

    conversation: str = ""


class QuitSession(Struct, frozen=True, tag="quit"):
    """End the session."""


class ShowText(Struct, frozen=True, tag="show_text"):
    """Show the answer to a command that only one kind of REPL has."""

    text: Callable[[], str]
    """Returns the answer; ScaffoldError if there is none."""


class SendPrompt(Struct, frozen=True, tag="send_prompt"):
    """Send the message of a command that the user has written."""

    command: PromptCommand
    arguments: str
    """As typed."""


class InvalidCommand(Struct, frozen=True, tag="invalid"):
    """A line that looks like a command but is not a valid one."""

    what: str
    fix: str


Command = (
    Help
    | ShowModels
    | SwitchModel
    | ShowMode
    | SwitchMode
    | ShowEffort
    | SwitchEffort
    | ShowTasks
    | ShowAgents
    | ManageMemory
    | ShowCost
    | ShowTools
    | ShowContext
    | ShowPlugins
    | ManageServers
    | ReloadPlugins
    | Export
    | ShowDiff
    | Undo
    | Compact
    | Clear
    | Resume
    | QuitSession
    | ShowText
    | SendPrompt
    | InvalidCommand
)


class CommandSyntax(Struct, frozen=True):
    """The syntax of one command."""

    name: str
    summary: str
    read: Callable[[Sequence[str]], Command | None]
    """Parses the arguments; None if they are invalid."""
    words: str = ""
    """Its arguments as shown in the usage line."""
    in_oneshot: bool = False
    """Whether it also works outside an interactive session."""
    completions: Sequence[str] = ()
    """Fixed words that may follow the name."""
    whole: bool = False
    """Whether its arguments are one text, as typed."""

    @property
    def usage(self) -> str:
        """The usage line."""
        return f"/{self.name} {self.words}".rstrip()


def _without_arguments(command: Command) -> Callable[[Sequence[str]], Command | None]:
    return lambda words: None if words else command


def _with_optional_name(bare: Command, named: Callable[[str], Command]) -> Callable[[Sequence[str]], Command | None]:
    def read(words: Sequence[str]) -> Command | None:
        if len(words) > 1:
            return None
        return named(words[0]) if words else bare

    return read


def _parse_servers(words: Sequence[str]) -> Command | None:
    match words:
        case []:
            return ManageServers()
        case ["show" | "approve" | "login" | "logout" as verb, server]:
            return ManageServers(verb, server)
        case _:
            return None


def _parse_tasks(words: Sequence[str]) -> Command | None:
    match [word.lower() for word in words]:
        case []:
            return ShowTasks()
        case [("list" | "ready") as view]:
            return ShowTasks(view)
        case ["show", number] if number.isdecimal() and len(number) < 10:
            return ShowTasks("show", int(number))
    return None


def _parse_agents(words: Sequence[str]) -> Command | None:
    match words:
        case []:
            return ShowAgents()
        case ["show", name]:
            return ShowAgents(name)
    return None


def _parse_plugins(words: Sequence[str]) -> Command | None:
    match [word.lower() for word in words]:
        case []:
            return ShowPlugins()
        case ["reload"]:
            return ReloadPlugins()
    return None


def _parse_diff(words: Sequence[str]) -> Command | None:
    match [word.lower() for word in words]:
        case []:
            return ShowDiff()
        case [("session" | "turn") as view]:
            return ShowDiff(view)
    return None


# In the order of `/help`.
COMMANDS = (
    CommandSyntax("help", "these commands and keys", _without_arguments(Help()), in_oneshot=True),
    CommandSyntax(
        "model",
        "show the model, or switch to another one",
        _with_optional_name(ShowModels(), SwitchModel),
        words="[NAME]",
        in_oneshot=True,
    ),
    CommandSyntax(
        "mode",
        "show the mode the agent works in, or switch to another one",
        _with_optional_name(ShowMode(), SwitchMode),
        words="[NAME]",
        in_oneshot=True,
    ),
    CommandSyntax(
        "effort",
        "show how much the model thinks, or change it for this conversation",
        _with_optional_name(ShowEffort(), SwitchEffort),
        words="[LEVEL]",
        in_oneshot=True,
        completions=get_args(Effort),
    ),
    CommandSyntax(
        "tasks",
        "the agent's todo list",
        _parse_tasks,
        words="[list | ready | show N]",
        in_oneshot=True,
        completions=get_args(TasksView),
    ),
    CommandSyntax(
        "agents",
        "the subagents of this conversation",
        _parse_agents,
        words="[show ID]",
        in_oneshot=True,
        completions=("show",),
    ),
    CommandSyntax(
        "memory",
        "what is remembered beyond this conversation",
        ManageMemory,
        words="[COMMAND ...]",
        in_oneshot=True,
        completions=("help", "list", "search", "show", "edit", "forget", "add", "indices", "stats", "drop"),
    ),
    CommandSyntax(
        "cost", "tokens and costs, for this session and in total", _without_arguments(ShowCost()), in_oneshot=True
    ),
    CommandSyntax("tools", "the agent's tools, and which need your approval", _without_arguments(ShowTools())),
    CommandSyntax(
        "plugins",
        "your plugins: their hooks and tools, and what went wrong; reload: end them and start them anew",
        _parse_plugins,
        words="[reload]",
        in_oneshot=True,
        completions=("reload",),
    ),
    CommandSyntax(
        "mcp",
        "your MCP servers; show, approve, login, logout",
        _parse_servers,
        words="[COMMAND SERVER]",
        in_oneshot=True,
        completions=("show", "approve", "login", "logout"),
    ),
    CommandSyntax("context", "what fills the model's window, in tokens", _without_arguments(ShowContext())),
    CommandSyntax(
        "export",
        "write the conversation to a new Markdown file",
        lambda words: Export(" ".join(words)),
        words="[FILE]",
        in_oneshot=True,
    ),
    CommandSyntax(
        "diff",
        "what changed since the session began; with turn: what the tools changed since your last message",
        _parse_diff,
        words="[session | turn]",
        completions=get_args(DiffView),
    ),
    CommandSyntax("undo", "take back what the last turn's file tools changed", _without_arguments(Undo())),
    CommandSyntax("compact", "shorten the conversation now", _without_arguments(Compact())),
    CommandSyntax("clear", "start a new conversation; the old one is kept", _without_arguments(Clear())),
    CommandSyntax(
        "resume",
        "choose a conversation to resume, or resume this one",
        _with_optional_name(Resume(), Resume),
        words="[ID]",
        in_oneshot=True,
    ),
    CommandSyntax("quit", "exit; also /exit, Ctrl-D", _without_arguments(QuitSession())),
)
ALIASES: Mapping[str, str] = {"exit": "quit"}


def with_own_commands(own: Sequence[CommandSyntax]) -> tuple[CommandSyntax, ...]:
    """Return all commands of a REPL that has `own` ones; they replace general ones of the same name."""
    names = {each.name for each in own}
    return (*own, *(each for each in COMMANDS if each.name not in names))


def parse_slash(line: str, commands: Sequence[CommandSyntax] = COMMANDS) -> Command | None:
    """Return the command in `line`; None for text to the model, e.g. `/usr/bin is full`."""
    if line.rstrip() == "/":
        return InvalidCommand("`/` alone is not a command", "`/help` lists the commands.")
    # A path has a second slash or a character that no name has, so it goes to the model.
    found = _COMMAND.fullmatch(line.rstrip())
    if found is None:
        return None
    name, rest = found["name"].lower(), found["rest"] or ""
    syntax = next((each for each in commands if each.name == ALIASES.get(name, name)), None)
    if syntax is None:
        near = difflib.get_close_matches(name, [*(each.name for each in commands), *ALIASES], n=1, cutoff=0.5)
        hint = f"Did you mean `/{near[0]}`? " if near else ""
        return InvalidCommand(
            f"there is no command `/{name}`",
            f"{hint}`/help` lists the commands; begin with a space to send the line to the model.",
        )
    words = [rest] if syntax.whole else rest.split()
    command = syntax.read(words)
    if command is None:
        given = f"`/{name} {' '.join(words)}`"
        shown = given if len(given) < 80 else f"`/{name}`"
        return InvalidCommand(f"{shown} has invalid arguments", f"Usage: `{syntax.usage}`.")
    return command
