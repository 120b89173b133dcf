"""Rules that decide about a tool call beforehand, as `TOOL:PATTERN`."""

import hashlib
import re
from fnmatch import fnmatchcase
from typing import Literal
from urllib.parse import urlsplit

from msgspec import Struct

from scaffold.core.errors import UsageProblem
from scaffold.core.tool import Category
from scaffold.policy.globs import matches
from scaffold.policy.patterns import Words, read_pattern

SubjectKind = Literal["command", "path", "url", "text"]
SHELLS = frozenset({"shell", "bash", "powershell", "pwsh", "cmd"})
"""Tools whose patterns are for commands."""

_ADDRESS = re.compile(r"(?:(?P<scheme>https?)://)?(?P<host>[^/]+)(?P<path>/.*)?")


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
    args: str = ""
    """All arguments as JSON, by name in order."""
    confined: bool = False
    """What it starts runs in a sandbox."""
    only_reads: bool = False
    """The tool changes nothing, whatever it is given."""

    @property
    def digest(self) -> str:
        """What a consent is bound to: the SHA-256 of the tool and all its arguments, in hex."""
        return hashlib.sha256(f"{self.tool}\n{self.args}".encode("utf-8", "surrogatepass")).hexdigest()

    @property
    def same(self) -> tuple[str, str]:
        """What makes two calls the same to somebody who allows one for good: the tool, and what it is about."""
        return self.tool, "\n".join((self.subject, *self.paths))


class Rule(Struct, frozen=True):
    """Is about calls of a tool whose subject fits a pattern."""

    tool: str
    """A name or a glob over names."""
    pattern: str
    """For commands: words they begin with, each a glob, or `/REGEX/`; for paths: a glob that knows `**`; for web
    pages: a host or an address, both with `*`; else: a glob over the arguments as JSON."""

    def __str__(self) -> str:
        return f"{self.tool}:{self.pattern}"

    def is_for(self, tool: str) -> bool:
        """Tell whether the rule is about this tool at all."""
        return fnmatchcase(tool, self.tool)

    def allows(self, wish: Wish) -> bool:
        """Tell whether the rule allows this call, which is no command: every path must fit, however it is reached."""
        if not self.is_for(wish.tool):
            return False
        match wish.kind:
            case "command":
                return False
            case "path":
                return bool(wish.paths) and all(self._is_at(path) for path in wish.paths)
            case "url":
                return _address_fits(self.pattern, wish.subject, strict=True)
            case "text":
                return fnmatchcase(wish.subject, self.pattern)

    def denies(self, wish: Wish) -> bool:
        """Tell whether the rule denies this call, which is no command: one of its paths is enough."""
        if not self.is_for(wish.tool):
            return False
        match wish.kind:
            case "command":
                return False
            case "path":
                return any(self._is_at(path) or matches(self.pattern, path) for path in wish.paths)
            case "url":
                return _address_fits(self.pattern, wish.subject, strict=False)
            case "text":
                return fnmatchcase(wish.subject, self.pattern)

    def _is_at(self, path: str) -> bool:
        """Tell whether a path fits; a pattern without a `/` before it is about the workspace alone."""
        return path.startswith("/") == self.pattern.startswith("/") and matches(self.pattern, path.lstrip("/"))


def parse_rule(text: str, *, denies: bool = False) -> Rule:
    """Return the rule a user wrote; UsageProblem if it could never fit anything, or would allow every command."""
    tool, colon, pattern = text.partition(":")
    if not (tool.strip() and colon and pattern.strip()):
        raise UsageProblem(
            f"`{text}` is no rule",
            'Write TOOL:PATTERN, e.g. `--allow "shell:git status"` or `--allow "write_file:docs/**"`.',
        )
    rule = Rule(tool.strip(), pattern.strip())
    if rule.tool not in SHELLS:
        return rule
    meant = read_pattern(rule.pattern)
    if meant is None:
        raise UsageProblem(
            f"the rule `{text}` would never fit a command",
            "Write the first words of one command, or /REGEX/; leave out ; | & < > ( ), line breaks and open quotes.",
        )
    if meant == Words(()) and not denies:
        raise UsageProblem(f"the rule `{text}` would allow every command", "Say so with `--allow-category shell`.")
    return rule


def _address_fits(pattern: str, url: str, *, strict: bool) -> bool:
    """Tell whether a URL fits `[SCHEME://]HOST[/PATH]`; `strict` takes no user names and none but ASCII letters."""
    wanted = _ADDRESS.fullmatch(pattern)
    try:
        parts = urlsplit(url)
        host = (parts.hostname or "").rstrip(".")
    except ValueError:
        return False
    if wanted is None or not host or (strict and (parts.username is not None or not host.isascii())):
        return False
    if wanted["scheme"] not in {None, parts.scheme} or not fnmatchcase(host, wanted["host"].casefold()):
        return False
    where = f"{parts.path or '/'}{'?' * bool(parts.query)}{parts.query}"
    return wanted["path"] is None or fnmatchcase(where, wanted["path"])
