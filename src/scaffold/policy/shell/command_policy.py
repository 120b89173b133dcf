"""Decide a session's shell commands with a parser, git's configuration and the given rules; suggest patterns."""

import os
import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from scaffold.core.errors import GitError
from scaffold.git.repository_config import RepositoryConfig
from scaffold.policy.rule.command_patterns import format_pattern
from scaffold.policy.rule.ruleset import PolicyDecision
from scaffold.policy.rule.tool_rules import Rule
from scaffold.policy.shell.command_decision import decide_command, decide_parsed
from scaffold.policy.shell.decision_context import DecisionContext
from scaffold.policy.shell.parse.command_parser import CommandParser, ParserMissing, installed_parser
from scaffold.policy.shell.parsed_command import ParsedCommand, ParseResult, SimpleCommand, UnparsedCommand
from scaffold.policy.shell.risky_flags import has_flag_list
from scaffold.policy.shell.script_files import script_digests
from scaffold.policy.shell.workspace_paths import WorkspacePaths
from scaffold.policy.shell.wrappers import LAUNCH_SUBCOMMANDS, LAUNCHERS

BY_SUBCOMMAND = frozenset({
    *("git", "cargo", "go", "npm", "yarn", "pnpm", "uv", "poetry", "ruff", "make", "gmake", "just", "rake"),
})  # fmt: skip
"""Programs whose second word is a subcommand."""
BY_NAME = frozenset({
    *("pytest", "mypy", "flake8", "pylint", "black", "isort", "pyright", "eslint", "prettier", "tsc", "jest", "vitest"),
    *("mocha", "rspec", "phpunit", "ctest", "shellcheck", "yamllint", "markdownlint", "rubocop", "gofmt", "rustfmt"),
})  # fmt: skip
"""Programs that do one kind of thing, unless one of their risky flags changes it."""

_SUBCOMMAND = re.compile(r"[a-z][a-z0-9:_.-]*")


class ShellCommandPolicy:
    """Decides shell commands. Implements `policy.permission.call_decision.ShellPolicy`."""

    def __init__(self, environ: Mapping[str, str] | None = None, *, parser: Path | None = None) -> None:
        """Decide for the environment `environ`, by default our own; `parser` is the path of shfmt."""
        environ = os.environ if environ is None else environ
        bash = shutil.which("bash", path=environ.get("PATH")) is not None
        self._parser = CommandParser(parser or installed_parser(), bash=bash)
        self._settings = RepositoryConfig(environ)

    async def judge(self, command: str, context: DecisionContext) -> PolicyDecision:
        """Return the decision about a command, before mode and category; `ask` if git or shfmt fails."""
        try:
            return await decide_command(command, await self._with_settings(command, context), self._parser)
        except GitError as failure:
            # Without the settings nothing can be allowed, but what is denied needs none of them.
            denied = decide_parsed(self._parser.parse_first(command), context)
            asked = PolicyDecision("ask", "git", f"the git config of this repository cannot be read: {failure.what}")
            return denied if denied.decision == "deny" else asked
        except ParserMissing as missing:
            return PolicyDecision("ask", "shell", f"its effects are unknown: {missing.what}")

    async def suggest_pattern(self, command: str, context: DecisionContext) -> str | None:
        """Return a pattern that would allow this command and others like it; None if only its whole text could."""
        try:
            extended = await self._with_settings(command, context)
            parsed = await self._parser.read(command)
        except (GitError, ParserMissing):
            return None
        pattern = suggest_pattern(parsed, lambda simple: _is_read_only(simple, extended))
        if pattern is None:
            return None
        with_rule = msgspec.structs.replace(extended, allow=(*extended.allow, Rule("*", pattern)))
        # A suggestion that would not cover this very command, because of a path or a risky flag, is useless.
        return pattern if decide_parsed(parsed, with_rule).decision == "allow" else None

    def scripts(self, command: str, workspace: WorkspacePaths) -> tuple[tuple[str, str], ...]:
        """Return (name, digest) of each script file that a command runs."""
        return script_digests(command, workspace)

    async def _with_settings(self, command: str, context: DecisionContext) -> DecisionContext:
        """Return the context with the names of the repository's settings if the command may run git."""
        # Reading the settings runs git, which most commands do not need.
        if "git" not in command:
            return context
        settings = await self._settings.of(Path(context.workspace.root))
        return msgspec.structs.replace(context, settings=settings)


def _is_read_only(simple: SimpleCommand, context: DecisionContext) -> bool:
    alone = msgspec.structs.replace(simple, link="")
    return decide_parsed(ParsedCommand((alone,)), msgspec.structs.replace(context, allow=())).decision == "allow"


def suggest_pattern(parsed: ParseResult, read_only: Callable[[SimpleCommand], bool]) -> str | None:
    """Return the pattern of a rule for this and similar commands; None if there is no suitable one.

    All simple commands but one must only read, because a rule covers one program.
    """
    if isinstance(parsed, UnparsedCommand):
        return None
    active = [simple for simple in parsed.commands if not read_only(simple)]
    if len(active) != 1 or active[0].assignments or not active[0].words:
        return None
    words = _first_words(active[0])
    return format_pattern(words) if words else None


def _first_words(simple: SimpleCommand) -> tuple[str, ...]:
    """Return the first words that identify what the command does; empty for an unknown program."""
    words = _rule_words(tuple(word.text if word.literal else "" for word in simple.words))
    return words if words and has_flag_list(words) else ()


def _rule_words(texts: tuple[str, ...]) -> tuple[str, ...]:
    name, second, third = (*texts, "", "")[:3]
    # `./pytest` or `/tmp/git` are other programs than the rule would name.
    if "/" in name:
        return ()
    if name in BY_NAME:
        return (name,)
    if re.fullmatch(r"python[\d.]*", name) and second == "-m" and third in BY_NAME:
        return (name, second, third)
    if name not in BY_SUBCOMMAND or not _SUBCOMMAND.fullmatch(second):
        return ()
    if name in LAUNCHERS and second in LAUNCH_SUBCOMMANDS:
        # `npm run` alone would allow every script.
        return (name, second, third) if third and not third.startswith("-") else ()
    return (name, second)
