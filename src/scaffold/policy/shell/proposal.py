"""The rule that would allow a command and others like it: what "always" makes of a consent."""

import re
from collections.abc import Callable

from scaffold.policy.patterns import written
from scaffold.policy.shell.script import NotUnderstood, Reading, Simple
from scaffold.policy.shell.wrappers import LAUNCHERS, LAUNCHES, name_of

BY_SUBCOMMAND = frozenset({
    *("git", "cargo", "go", "npm", "yarn", "pnpm", "uv", "poetry", "hatch", "ruff", "pip", "pip3", "gh", "dotnet"),
    *("make", "gmake", "just", "rake", "tox", "nox", "gradle", "mvn", "bundle", "mix", "deno", "bun", "pdm", "rye"),
})  # fmt: skip
"""Programs whose second word says what they do."""
BY_NAME = frozenset({
    *("pytest", "mypy", "flake8", "pylint", "black", "isort", "pyright", "eslint", "prettier", "tsc", "jest", "vitest"),
    *("mocha", "rspec", "phpunit", "ctest", "shellcheck", "yamllint", "markdownlint", "rubocop", "gofmt", "rustfmt"),
})  # fmt: skip
"""Programs that do one kind of thing, whatever they are given."""

_SUBCOMMAND = re.compile(r"[a-z][a-z0-9:_.-]*")


def proposed(reading: Reading, only_reads: Callable[[Simple], bool]) -> str | None:
    """Return the pattern of a rule that is meant by whoever allows such a command for good; None if there is none.

    All but one of its parts must only read: a rule is about one program.
    """
    if isinstance(reading, NotUnderstood):
        return None
    doing = [simple for simple in reading.commands if not only_reads(simple)]
    if len(doing) != 1 or doing[0].assignments or not doing[0].words:
        return None
    words = _first_words(doing[0])
    return written(words) if words else None


def _first_words(simple: Simple) -> tuple[str, ...]:
    """Return the words that say what kind of thing a command does; none if that is not known of its program."""
    texts = tuple(word.text if word.literal else "" for word in simple.words)
    name, second, third = (*texts, "", "")[:3]
    if name != name_of(simple.words[0]):
        return ()
    if name in BY_NAME:
        return (name,)
    if re.fullmatch(r"python[\d.]*", name) and second == "-m" and third in BY_NAME:
        return (name, second, third)
    if name not in BY_SUBCOMMAND or not _SUBCOMMAND.fullmatch(second):
        return ()
    if name in LAUNCHERS and second in LAUNCHES:
        return (name, second, third) if third and not third.startswith("-") else ()
    return (name, second)
