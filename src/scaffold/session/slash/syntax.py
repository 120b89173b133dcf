"""Slash commands: their table and parser. They are executed elsewhere, and the model does not see them."""

import difflib
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
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


class ShowGoals(Struct, frozen=True, tag="show_goals"):
    """Show what the conversation is about and the agent's steps: all of them, those not started, or one."""

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
    """A path as typed; empty for a new name, `-` to show it."""


class ShowDiff(Struct, frozen=True, tag="show_diff"):
    """Show what changed in the working tree since the session began, or by the tools of the last turn."""

    view: DiffView = "session"


class StartReview(Struct, frozen=True, tag="review"):
    """Let the agent review a change, in mode `review`."""

    change: str = ""
    """A branch, a commit or a range; empty for what is not committed."""
    focus: str = ""
    """What to look at, as typed."""


class Undo(Struct, frozen=True, tag="undo"):
    """Undo what the last turn's tools did to files."""


class Compact(Struct, frozen=True, tag="compact"):
    """Shorten the conversation."""

    focus: str = ""
    """What the summary must keep, as typed; with it, the model writes the summary."""


class Clear(Struct, frozen=True, tag="clear"):
    """Begin a new conversation; the old one is kept."""


class Resume(Struct, frozen=True, tag="resume"):
    """Resume another conversation; list them if none is named."""

    conversation: str = ""


class QuitSession(Struct, frozen=True, tag="quit"):
    """End the session."""


class ShowText(Struct, frozen=True, tag="show_text"):
    """Show the answer to a command that only one kind of REPL has, or how a command is used."""

    text: Callable[[], str | Awaitable[str]]
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
    | ShowGoals
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
    | StartReview
    | Undo
    | Compact
    | Clear
    | Resume
    | QuitSession
    | ShowText
    | SendPrompt
    | InvalidCommand
)


AgentCommand = SendPrompt | StartReview
"""Commands that are a turn of the agent."""


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
    examples: Sequence[str] = ()
    """Whole lines."""
    replaceable: bool = False
    """Whether a command of the user's own replaces it: it only sends a message, which they may word better."""

    @property
    def usage(self) -> str:
        """The usage line."""
        return f"/{self.name} {self.words}".rstrip()

    def explain(self) -> str:
        """How it is used, with the words that it takes and examples."""
        takes = [f"It takes {', '.join(self.completions)}."] if self.completions else []
        examples = ["Examples:", *(f"  {each}" for each in self.examples)] if self.examples else []
        return "\n".join([f"{self.usage}: {self.summary}.", *takes, *examples])


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


def _parse_goals(words: Sequence[str]) -> Command | None:
    match [word.lower() for word in words]:
        case []:
            return ShowGoals()
        case [("list" | "ready") as view]:
            return ShowGoals(view)
        case ["show", number] if number.isdecimal() and len(number) < 10:
            return ShowGoals("show", int(number))
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


ITEMS = "the items of this repository that have not ended, as `scaffold item` lists them"


# In the order of `/help`.
COMMANDS = (
    CommandSyntax("help", "these commands and keys", _without_arguments(Help()), in_oneshot=True),
    CommandSyntax(
        "model",
        "choose another model of those that your keys and servers offer, or switch to one by its name",
        _with_optional_name(ShowModels(), SwitchModel),
        words="[NAME]",
        in_oneshot=True,
        examples=("/model large", "/model anthropic:claude-sonnet-4-5", "/model local:qwen3@http://127.0.0.1:8080/v1"),
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
        "goals",
        "what this conversation is about, and the agent's steps to it",
        _parse_goals,
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
        examples=("/memory search the port of Redis", "/memory help"),
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
        "write the conversation to a new Markdown file; -: show it",
        lambda words: Export(" ".join(words)),
        words="[FILE | -]",
        in_oneshot=True,
    ),
    CommandSyntax(
        "diff",
        "what changed since the session began; with turn: what the tools changed since your last message",
        _parse_diff,
        words="[session | turn]",
        completions=get_args(DiffView),
    ),
    CommandSyntax(
        "review",
        "let the agent review what is not committed, or a branch, a commit or a range; it changes nothing",
        lambda words: StartReview(*words[0].split(maxsplit=1)),
        words="[REVISION [FOCUS]]",
        in_oneshot=True,
        whole=True,
        replaceable=True,
    ),
    CommandSyntax("undo", "take back what the last turn's file tools changed", _without_arguments(Undo())),
    CommandSyntax(
        "compact",
        "shorten the conversation now; with instructions, the model writes the summary and keeps what they say",
        lambda words: Compact(words[0].strip()),
        words="[INSTRUCTIONS]",
        whole=True,
    ),
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
ASKS_FOR_HELP = (["?"], ["--help"], ["-h"])


def item_command(answer: Callable[[Sequence[str]], str], *, more: str = "", what: str = ITEMS) -> CommandSyntax:
    """Return `/tasks`: `answer` tells of items by `list`, `ready` and `show ID`; by any one word if there is `more`."""

    def read(words: Sequence[str]) -> Command | None:
        view = words[0].lower() if words else ""
        known = view in get_args(TasksView)
        fits = len(words) == 2 if view == "show" else len(words) < 2 and (known or not view or bool(more))
        return ShowText(partial(answer, [view, *words[1:]] if known else words)) if fits else None

    shown = f"[{more}list | ready | show ID]"
    return CommandSyntax("tasks", what, read, words=shown, in_oneshot=True, completions=get_args(TasksView))


def with_own_commands(own: Sequence[CommandSyntax]) -> tuple[CommandSyntax, ...]:
    """Return all commands of a REPL that has `own` ones; they replace general ones of the same name."""
    names = {each.name for each in own}
    return (*own, *(each for each in COMMANDS if each.name not in names))


def command_line(command: AgentCommand) -> str:
    """Return the line of a command."""
    words = (
        (command.command.name, command.arguments)
        if isinstance(command, SendPrompt)
        else ("review", command.change, command.focus)
    )
    return f"/{' '.join(filter(None, words))}"


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
    return _read_arguments(syntax, words)


def _read_arguments(syntax: CommandSyntax, words: Sequence[str]) -> Command:
    command = syntax.read(words)
    # A command of the user's own may take these words itself.
    if words in ASKS_FOR_HELP and not isinstance(command, SendPrompt):
        return ShowText(syntax.explain)
    if command is not None:
        return command
    # Without its arguments, or with no more than a word that wants others.
    if set(words) <= set(syntax.completions):
        return ShowText(syntax.explain)
    given = f"`/{syntax.name} {' '.join(words)}`"
    shown = given if len(given) < 80 else f"`/{syntax.name}`"
    return InvalidCommand(f"{shown} has invalid arguments", f"Usage: `{syntax.usage}`.")
