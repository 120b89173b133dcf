"""Suggest the pattern for the answer "always": it allows a command and others like it."""

import re
from collections.abc import Callable

from scaffold.policy.rule.patterns import format_pattern
from scaffold.policy.shell.script import ParseResult, SimpleCommand, UnparsedCommand
from scaffold.policy.shell.wrappers import LAUNCH_SUBCOMMANDS, LAUNCHERS, program_name

BY_SUBCOMMAND = frozenset({
    *("git", "cargo", "go", "npm", "yarn", "pnpm", "uv", "poetry", "hatch", "ruff", "pip", "pip3", "gh", "dotnet"),
    *("make", "gmake", "just", "rake", "tox", "nox", "gradle", "mvn", "bundle", "mix", "deno", "bun", "pdm", "rye"),
})  # fmt: skip
"""Programs whose second word is a subcommand."""
BY_NAME = frozenset({
    *("pytest", "mypy", "flake8", "pylint", "black", "isort", "pyright", "eslint", "prettier", "tsc", "jest", "vitest"),
    *("mocha", "rspec", "phpunit", "ctest", "shellcheck", "yamllint", "markdownlint", "rubocop", "gofmt", "rustfmt"),
})  # fmt: skip
"""Programs that do one kind of thing, whatever their arguments."""

_SUBCOMMAND = re.compile(r"[a-z][a-z0-9:_.-]*")


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
    texts = tuple(word.text if word.literal else "" for word in simple.words)
    name, second, third = (*texts, "", "")[:3]
    if name != program_name(simple.words[0]):
        return ()
    if name in BY_NAME:
        return (name,)
    if re.fullmatch(r"python[\d.]*", name) and second == "-m" and third in BY_NAME:
        return (name, second, third)
    if name not in BY_SUBCOMMAND or not _SUBCOMMAND.fullmatch(second):
        return ()
    if name in LAUNCHERS and second in LAUNCH_SUBCOMMANDS:
        return (name, second, third) if third and not third.startswith("-") else ()
    return (name, second)
