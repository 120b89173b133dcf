"""`permissions check`: what the gate would do with a command or a tool call, and why; nothing is run."""

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import msgspec
from msgspec import Struct

from scaffold.cli.rules import rules_of
from scaffold.cli.safe import printable
from scaffold.cli.screen import json_option, print_json
from scaffold.cli.settings import load_settings
from scaffold.core.errors import ScaffoldError, UsageProblem
from scaffold.host.loop import run_async
from scaffold.policy.gate import Decision, Judgement, Rules
from scaffold.policy.judge import Scene, judge
from scaffold.policy.patterns import written
from scaffold.policy.request import call_by_name, category_of, wish_for
from scaffold.policy.rules import Rule, Wish
from scaffold.policy.shell.commands import Commands
from scaffold.policy.shell.places import Disk, Place
from scaffold.policy.shell.windows import Dialect, dialect_of, judge_windows

MOST_BYTES = 1_000_000
"""Of one line; a longer one is answered with an error."""

Prefixes = tuple[tuple[str, ...], ...]


class Request(Struct, frozen=True, kw_only=True):
    """One tool call to judge."""

    tool: str
    id: str | int | None = None
    args: Mapping[str, Any] = {}
    cwd: str = ""
    """The workspace, an absolute path; empty for the current directory. It need not exist."""
    allow: Prefixes = ()
    deny: Prefixes = ()


class Answer(Struct, frozen=True, kw_only=True):
    """What would become of it."""

    id: str | int | None
    decision: Decision
    reason: str
    rule: str


class Fault(Struct, frozen=True, kw_only=True):
    """A line that is no request."""

    id: str | int | None
    error: str


@click.group()
def permissions() -> None:
    """Say what agents may do."""


@permissions.command(context_settings={"ignore_unknown_options": False})
@click.argument("command", nargs=-1)
@click.option("--jsonl", "lines", is_flag=True, help="Judge one request a line of standard input.")
@json_option
def check(command: tuple[str, ...], *, lines: bool, as_json: bool) -> int:
    """Say what the gate would do with COMMAND, in a trusted folder and whatever the sandbox; nothing is run.

    One word is a command line as an agent writes it, several are its words. Exit code 0 whatever is decided.
    """
    if lines == bool(command):
        raise UsageProblem("nothing to judge, or too much", "Give a command after `--`, or `--jsonl` alone.")
    if lines:
        run_async(_judge_lines())
        return 0
    text = command[0] if len(command) == 1 else " ".join(_quoted(word) for word in command)
    answer = run_async(_Judge().answer(Request(tool="shell", args={"command": text})))
    if as_json:
        print_json(answer)
    else:
        click.echo(printable(f"{answer.decision}: {answer.reason} [{answer.rule}]"))
    return 0


async def _judge_lines() -> None:
    judge = _Judge()
    stream = sys.stdin.buffer
    while line := stream.readline(MOST_BYTES + 1):
        if len(line) > MOST_BYTES:
            while line and not line.endswith(b"\n"):
                line = stream.readline(MOST_BYTES)
            print_json(Fault(id=None, error=f"the line is longer than {MOST_BYTES:,} bytes"))
        elif line.strip():
            print_json(await _answered(judge, line))


async def _answered(judge: "_Judge", line: bytes) -> Answer | Fault:
    found: object = None
    try:
        found = json.loads(line)
        request = msgspec.convert(found, Request)
    except (ValueError, RecursionError, msgspec.ValidationError) as error:
        return Fault(id=_id(found), error=f"this is no request: {_short(error)}")
    try:
        return await judge.answer(request)
    except ScaffoldError as error:
        return Fault(id=_id(found), error=_sayable(error.in_full))


def _id(found: object) -> str | int | None:
    given = found.get("id") if isinstance(found, dict) else None
    return _sayable(given) if isinstance(given, str) else given if isinstance(given, int) else None


def _sayable(text: str) -> str:
    """Return the text as it can be written: half characters and what a terminal would act on are spelled out."""
    plain = text.encode(errors="backslashreplace").decode()
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in plain)


def _short(error: Exception) -> str:
    return ascii(str(error))[1:-1][:200]


def _quoted(word: str) -> str:
    """Return the word as a shell reads it back; what needs no quotes gets none."""
    plain = word and all(char.isascii() and (char.isalnum() or char in "-_./:=,@%+~*?") for char in word)
    return word if plain else "'" + word.replace("'", "'\\''") + "'"


def _workspace(cwd: str) -> str:
    """Return the absolute path of the workspace; it need not exist."""
    return os.path.normpath(os.path.join(Path.cwd(), cwd))  # noqa: PTH118 - `..` is taken out by the text


class _Judge:
    """Judges requests, each alone."""

    def __init__(self) -> None:
        self._commands = Commands()
        self._home = os.path.expanduser("~")  # noqa: PTH111 - a home that cannot be told stays `~`
        self._rules: dict[str, Rules] = {}

    async def answer(self, request: Request) -> Answer:
        judged = await self._judge(request)
        return Answer(
            id=_sayable(request.id) if isinstance(request.id, str) else request.id,
            decision=judged.decision,
            reason=_sayable(judged.reason),
            rule=_sayable(judged.rule),
        )

    async def _judge(self, request: Request) -> Judgement:
        place = Place(root=_workspace(request.cwd), home=self._home, files=Disk())
        wish = wish_for(call_by_name(request.tool, request.args), place)
        if named := _other_shell(request, wish):
            return judge_windows(*named, place)
        judged = await judge(wish, self._rules_for(request, wish, place), Scene(place=place), self._commands)
        if category_of(request.tool) is None and judged.decision != "deny":
            return Judgement("ask", "unknown", f"there is no tool `{request.tool}` here")
        return judged

    def _rules_for(self, request: Request, wish: Wish, place: Place) -> Rules:
        """Return what holds in the workspace as if it were trusted, and the rules of the request."""
        if place.root not in self._rules:
            folder = Path(place.root) if Path(place.root).is_dir() else None
            self._rules[place.root] = rules_of(load_settings(folder, os.environ, {}, trust_once=True))
        rules = self._rules[place.root]
        return msgspec.structs.replace(
            rules,
            allow=(*rules.allow, *(rule for words in request.allow if (rule := _rule(words, wish)))),
            deny=(*rules.deny, *(rule for words in request.deny if (rule := _rule(words, wish)))),
        )


def _rule(words: tuple[str, ...], wish: Wish) -> Rule | None:
    """Return a rule of a request: the first words of a command; for a page its host, last; else the tool, first."""
    if not words:
        return None
    match wish.kind:
        case "command":
            return Rule(wish.tool, written(words))
        case "url":
            return Rule(wish.tool, words[-1])
        case "path":
            return Rule(words[0], words[-1]) if len(words) > 1 else None
        case "text":
            return Rule(words[0], "*")


def _other_shell(request: Request, wish: Wish) -> tuple[Dialect, str] | None:
    """Return the shell of Windows that a request is for, and the command; None if it is for bash, or for no shell."""
    if wish.kind != "command":
        return None
    match request.args.get("shell", request.tool):
        case "powershell" | "pwsh":
            return dialect_of(wish.subject) or ("powershell", wish.subject)
        case "cmd":
            return dialect_of(wish.subject) or ("cmd", wish.subject)
        case _:
            return dialect_of(wish.subject)
