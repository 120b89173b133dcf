"""`permissions check`: what the gate would do with a command or a tool call, and why; nothing is run."""

import asyncio
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import msgspec
from msgspec import Struct

from scaffold.cli.safe import printable
from scaffold.cli.screen import json_option, print_json
from scaffold.core.errors import UsageProblem
from scaffold.git.command import Git
from scaffold.policy.gate import Decision, Judgement
from scaffold.policy.request import PathCall, category_of, judge_arguments, judge_category, judge_fetch, judge_path
from scaffold.policy.shell.decision import Ground, judge_command
from scaffold.policy.shell.places import Disk, Place
from scaffold.policy.shell.reading import Reader, installed_parser
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


@click.group(hidden=True)
def permissions() -> None:
    """Ask what agents may do."""


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
        asyncio.run(_judge_lines())
        return 0
    text = command[0] if len(command) == 1 else " ".join(_quoted(word) for word in command)
    answer = asyncio.run(_Judge().answer(Request(tool="shell", args={"command": text})))
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
    return await judge.answer(request)


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
        self._reader = Reader(installed_parser())
        self._home = os.path.expanduser("~")  # noqa: PTH111 - a home that cannot be told stays `~`
        self._settings: dict[str, frozenset[str]] = {}

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
        texts = {name: value for name, value in request.args.items() if isinstance(value, str)}
        match category_of(request.tool):
            case "shell" if "command" in texts:
                return await self._shell(request, texts, place)
            case "file_read" | "file_write" as category:
                path = texts.get("path", texts.get("file_path", "."))
                return judge_path(PathCall(tool=request.tool, path=path, writes=category == "file_write"), place)
            case "network" if "url" in texts:
                return judge_fetch(texts["url"], request.allow)
            case "mcp":
                return judge_arguments(request.tool, request.args, place, request.allow)
            case None:
                return judge_arguments(request.tool, request.args, place, ())
            case _:
                return judge_category(request.tool)

    async def _shell(self, request: Request, texts: Mapping[str, str], place: Place) -> Judgement:
        command = texts["command"]
        named: tuple[Dialect, str] | None = dialect_of(command)
        match texts.get("shell", request.tool):
            case "powershell" | "pwsh":
                named = named or ("powershell", command)
            case "cmd":
                named = named or ("cmd", command)
        if named:
            return judge_windows(*named, place)
        settings = await self._settings_of(place.root) if "git" in command else frozenset[str]()
        ground = Ground(place=place, allow=request.allow, deny=request.deny, settings=settings)
        return await judge_command(command, ground, self._reader)

    async def _settings_of(self, root: str) -> frozenset[str]:
        """Return the names of the settings of the repository in `root`, and its hooks; none if there is none."""
        if root not in self._settings:
            self._settings[root] = await repository_settings(Path(root))
        return self._settings[root]


async def repository_settings(root: Path) -> frozenset[str]:
    """Return the names of a repository's own settings, `hook.NAME` for each of its hooks; none without a repository."""
    if not (root / ".git").exists():
        return frozenset()
    git = Git(root, environ=os.environ)
    listed = await git("config", "--list", "--show-scope", "--name-only", "-z")
    fields = [os.fsdecode(field) for field in listed.out.split(b"\0")]
    names = {name for scope, name in zip(fields[::2], fields[1::2], strict=False) if scope in {"local", "worktree"}}
    shared = await git("rev-parse", "--git-common-dir")
    folder = root / os.fsdecode(shared.out.rstrip(b"\n")) / "hooks"
    files = folder.iterdir() if folder.is_dir() else ()
    return frozenset(names | {f"hook.{file.name}" for file in files if not file.name.endswith(".sample")})
