"""`permissions check`: the decision of the approval gate about a command or a tool call; nothing runs."""

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import msgspec
from msgspec import Struct

from scaffold.cli.commands.options import json_option
from scaffold.cli.render.terminal.style import print_json
from scaffold.cli.render.terminal.text_layout import print_text
from scaffold.config.permission_settings import permission_rules
from scaffold.config.settings import load_settings
from scaffold.core.errors import ScaffoldError, UsageError
from scaffold.host.process.async_runner import run_async
from scaffold.policy.permission.call_decision import CallContext, decide_call
from scaffold.policy.permission.call_request import category_of, invocation_by_name, permission_request
from scaffold.policy.rule.ruleset import Decision, PolicyDecision, RuleSet
from scaffold.policy.rule.tool_rules import PermissionRequest, Rule, format_pattern
from scaffold.policy.shell.command_policy import ShellCommandPolicy
from scaffold.policy.shell.windows_commands import Dialect, decide_windows_command, dialect_of
from scaffold.policy.shell.workspace_paths import DiskFileSystem, WorkspacePaths

MAX_LINE_BYTES = 1_000_000  # a longer line is answered by an error

Prefixes = tuple[tuple[str, ...], ...]


class PermissionQuery(Struct, frozen=True, kw_only=True):
    """One tool call to judge."""

    tool: str
    id: str | int | None = None
    args: Mapping[str, Any] = {}
    cwd: str = ""
    """The workspace, an absolute path; empty for the current directory. It need not exist."""
    allow: Prefixes = ()
    deny: Prefixes = ()


class ExplainedDecision(Struct, frozen=True, kw_only=True):
    """The decision about a tool call."""

    id: str | int | None
    decision: Decision
    reason: str
    rule: str


class InvalidQuery(Struct, frozen=True, kw_only=True):
    """The answer to a line that is not a request."""

    id: str | int | None
    error: str


@click.group()
def permissions() -> None:
    """Show what agents may do."""


@permissions.command(context_settings={"ignore_unknown_options": False})
@click.argument("command", nargs=-1)
@click.option("--jsonl", "lines", is_flag=True, help="Judge one request per line of standard input.")
@json_option
def check(command: tuple[str, ...], *, lines: bool, as_json: bool) -> int:
    """Print the decision about COMMAND in a trusted folder, regardless of the sandbox; nothing runs.

    A single argument is a whole command line, several arguments are its words. The exit code is 0 for every decision.
    """
    if lines == bool(command):
        raise UsageError("pass either a command or `--jsonl`", "Add the command after `--`, or pass `--jsonl` alone.")
    if lines:
        run_async(_judge_lines())
        return 0
    text = command[0] if len(command) == 1 else " ".join(_shell_quote(word) for word in command)
    answer = run_async(_PermissionChecker().answer(PermissionQuery(tool="shell", args={"command": text})))
    if as_json:
        print_json(answer)
    else:
        print_text(f"{answer.decision}: {answer.reason} [{answer.rule}]")
    return 0


async def _judge_lines() -> None:
    judge = _PermissionChecker()
    stream = sys.stdin.buffer
    while line := stream.readline(MAX_LINE_BYTES + 1):
        if len(line) > MAX_LINE_BYTES:
            # The rest of the line is skipped, so that there is one answer for each line.
            while line and not line.endswith(b"\n"):
                line = stream.readline(MAX_LINE_BYTES)
            print_json(InvalidQuery(id=None, error=f"the line is longer than {MAX_LINE_BYTES:,} bytes"))
        elif line.strip():
            print_json(await _answer_line(judge, line))


async def _answer_line(judge: "_PermissionChecker", line: bytes) -> ExplainedDecision | InvalidQuery:
    found: object = None
    try:
        found = json.loads(line)
        request = msgspec.convert(found, PermissionQuery)
    except (ValueError, RecursionError, msgspec.ValidationError) as error:
        return InvalidQuery(id=_query_id(found), error=f"this is not a request: {ascii(str(error))[1:-1][:200]}")
    try:
        return await judge.answer(request)
    except ScaffoldError as error:
        return InvalidQuery(id=_query_id(found), error=_printable_escapes(error.in_full))


def _query_id(found: object) -> str | int | None:
    given = found.get("id") if isinstance(found, dict) else None
    return _printable_escapes(given) if isinstance(given, str) else given if isinstance(given, int) else None


def _printable_escapes(text: str) -> str:
    # Input lines are printed again: surrogates cannot be, and control characters would reach the terminal.
    plain = text.encode(errors="backslashreplace").decode()
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in plain)


def _shell_quote(word: str) -> str:
    # Not `shlex.quote`: it quotes globs and `~`, which the user's shell has expanded or left on purpose.
    plain = word and all(char.isascii() and (char.isalnum() or char in "-_./:=,@%+~*?") for char in word)
    return word if plain else "'" + word.replace("'", "'\\''") + "'"


def _workspace_root(cwd: str) -> str:
    return os.path.normpath(os.path.join(Path.cwd(), cwd))  # noqa: PTH118 - lexically: it need not exist


class _PermissionChecker:
    """Decides requests, each independently."""

    def __init__(self) -> None:
        self._commands = ShellCommandPolicy()
        self._home = os.path.expanduser("~")  # noqa: PTH111 - an unknown home stays `~`
        self._rules: dict[str, RuleSet] = {}

    async def answer(self, request: PermissionQuery) -> ExplainedDecision:
        judged = await self._decide_query(request)
        return ExplainedDecision(
            id=_printable_escapes(request.id) if isinstance(request.id, str) else request.id,
            decision=judged.decision,
            reason=_printable_escapes(judged.reason),
            rule=_printable_escapes(judged.rule),
        )

    async def _decide_query(self, request: PermissionQuery) -> PolicyDecision:
        root = _workspace_root(request.cwd)
        workspace = WorkspacePaths(root=root, home=self._home, files=DiskFileSystem())
        call = permission_request(invocation_by_name(request.tool, request.args), workspace)
        if named := _windows_shell(request, call):
            return decide_windows_command(*named, workspace)
        judged = await decide_call(
            call, self._rules_for(request, call, workspace), CallContext(workspace=workspace), self._commands
        )
        if category_of(request.tool) is None and judged.decision != "deny":
            return PolicyDecision("ask", "unknown", f"there is no tool `{request.tool}` here")
        return judged

    def _rules_for(self, request: PermissionQuery, call: PermissionRequest, workspace: WorkspacePaths) -> RuleSet:
        # As if the folder were trusted, whose rules would count then.
        if workspace.root not in self._rules:
            folder = Path(workspace.root) if Path(workspace.root).is_dir() else None
            self._rules[workspace.root] = permission_rules(load_settings(folder, os.environ, {}, trust_once=True))
        rules = self._rules[workspace.root]
        return msgspec.structs.replace(
            rules,
            allow=(*rules.allow, *(rule for words in request.allow if (rule := _query_rule(words, call)))),
            deny=(*rules.deny, *(rule for words in request.deny if (rule := _query_rule(words, call)))),
        )


def _query_rule(words: tuple[str, ...], call: PermissionRequest) -> Rule | None:
    # A command prefix; a host, the last word; or a tool, the first one, with a path.
    if not words:
        return None
    match call.kind:
        case "command":
            return Rule(call.tool, format_pattern(words))
        case "url":
            return Rule(call.tool, words[-1])
        case "path":
            return Rule(words[0], words[-1]) if len(words) > 1 else None
        case "text":
            return Rule(words[0], "*")


def _windows_shell(request: PermissionQuery, call: PermissionRequest) -> tuple[Dialect, str] | None:
    if call.kind != "command":
        return None
    match request.args.get("shell", request.tool):
        case "powershell" | "pwsh":
            return dialect_of(call.subject) or ("powershell", call.subject)
        case "cmd":
            return dialect_of(call.subject) or ("cmd", call.subject)
        case _:
            return dialect_of(call.subject)
