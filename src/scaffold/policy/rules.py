"""Rules that allow a tool call beforehand, as `TOOL:PATTERN`."""

from fnmatch import fnmatchcase
from typing import Literal

from msgspec import Struct

from scaffold.core.errors import UsageProblem
from scaffold.core.tool import Category
from scaffold.policy.command import SPECIAL, plain_words
from scaffold.policy.globs import matches

SubjectKind = Literal["command", "path", "text"]


class Wish(Struct, frozen=True, kw_only=True):
    """A tool call as far as it matters for whether it may run."""

    tool: str
    category: Category
    kind: SubjectKind
    subject: str
    """The command, the path as the model gave it, the URL, or else the arguments as JSON."""
    paths: tuple[str, ...] = ()
    """What it would read or write as far as can be told, each as it is named and as it is reached through links.

    Without `..`, and relative to the workspace if inside.
    """


class Rule(Struct, frozen=True):
    """Allows calls of a tool whose subject fits a pattern."""

    tool: str
    """A name or a glob over names."""
    pattern: str
    """For commands: words they begin with, each a glob; for paths: a glob that knows `**`; else: a glob."""

    def __str__(self) -> str:
        return f"{self.tool}:{self.pattern}"

    def fits(self, wish: Wish) -> bool:
        """Tell whether the rule allows this call; of commands it only ever allows plain ones."""
        if not fnmatchcase(wish.tool, self.tool):
            return False
        match wish.kind:
            case "command":
                return _begins(plain_words(wish.subject) or (), plain_words(self.pattern) or ())
            case "path":
                return bool(wish.paths) and all(matches(self.pattern, path) for path in wish.paths)
            case "text":
                return fnmatchcase(wish.subject, self.pattern)


def parse_rule(text: str) -> Rule:
    """Return the rule a user wrote; UsageProblem if it could never allow anything."""
    tool, colon, pattern = text.partition(":")
    if not (tool.strip() and colon and pattern.strip()):
        raise UsageProblem(
            f"`{text}` is no rule",
            'Write TOOL:PATTERN, e.g. `--allow "shell:git status"` or `--allow "write_file:docs/**"`.',
        )
    rule = Rule(tool.strip(), pattern.strip())
    if rule.tool == "shell" and not plain_words(rule.pattern):
        raise UsageProblem(
            f"the rule `{text}` would never allow a command",
            f"A rule is for plain commands: leave out {' '.join(SPECIAL.strip())}, line breaks and open quotes.",
        )
    return rule


def _begins(words: tuple[str, ...], pattern: tuple[str, ...]) -> bool:
    return 0 < len(pattern) <= len(words) and all(
        fnmatchcase(word, wanted) for word, wanted in zip(words, pattern, strict=False)
    )
