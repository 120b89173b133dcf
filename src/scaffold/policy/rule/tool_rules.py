"""Rules that allow or deny tool calls, written `TOOL:PATTERN`, and the patterns for shell commands."""

import hashlib
import re
import shlex
from collections.abc import Sequence
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Literal
from urllib.parse import urlsplit

from msgspec import Struct

from scaffold.core.errors import UsageError
from scaffold.core.tool import ToolCategory
from scaffold.policy.path.globs import matches

_OPERATOR = re.compile(r"[;|&<>()]+")


class PrefixPattern(Struct, frozen=True):
    """The first words of a command; the pattern does not constrain the rest."""

    globs: tuple[str, ...]

    def matches(self, words: Sequence[str]) -> bool:
        """Return whether a command with these words starts with the pattern."""
        return len(self.globs) <= len(words) and all(map(fnmatchcase, words, self.globs))


class RegexPattern(Struct, frozen=True):
    """A regular expression for a whole command: its words joined by single spaces, quoted where needed."""

    source: str

    def matches(self, words: Sequence[str]) -> bool:
        """Return whether the expression matches the whole command with these words."""
        return re.fullmatch(self.source, shlex.join(words)) is not None


CommandPattern = PrefixPattern | RegexPattern
SubjectKind = Literal["command", "path", "url", "text"]
SHELL_TOOLS = frozenset({"shell", "bash", "powershell", "pwsh", "cmd"})
"""Tools whose patterns match shell commands."""
EDITS = "file_write"
"""As the tool of a rule it stands for each tool that writes files: a file that may change may change by any of them."""
_ADDRESS = re.compile(r"(?:(?P<scheme>https?)://)?(?P<host>[^/]+)(?P<path>/.*)?")


class PermissionRequest(Struct, frozen=True, kw_only=True):
    """The facts about a tool call that decide whether it may run."""

    tool: str
    category: ToolCategory
    kind: SubjectKind
    subject: str
    """The command, the path as the model gave it (several: one a line), the URL, or else the arguments as JSON."""
    named: tuple[str, ...] = ()
    """The paths as the model gave them."""
    paths: tuple[str, ...] = ()
    """The known paths it would read or write, each as given and with links resolved.

    Without `..`; relative to the workspace if inside it.
    """
    args: str = ""
    """All arguments as JSON, sorted by name."""
    confined: bool = False
    """Whether the tool runs its commands in a sandbox."""
    read_only: bool = False
    """Whether the tool changes nothing, whatever its arguments."""

    scripts: tuple[tuple[str, str], ...] = ()
    """(name, digest) of the script files that a command runs: an approval holds for these contents."""
    title: str = ""
    """What the call is for, in the words of a program whose tool it is; empty for our own tools."""
    hook: str = ""
    """Why a hook requires a human's decision, whatever the rules allow; empty without one."""

    @property
    def digest(self) -> str:
        """The SHA-256 of tool, arguments and scripts, in hex; an approval is valid for this digest only."""
        text = "\n".join((self.tool, self.args, *self._script_lines))
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()

    @property
    def identity(self) -> tuple[str, str]:
        """The key of an "always" answer without a rule: the tool, and its subject with paths and scripts.

        Of several paths, also the arguments: the user has agreed to what becomes of each of them.
        """
        several = (self.args,) if len(self.named) > 1 else ()
        return self.tool, "\n".join((self.subject, *self.paths, *several, *self._script_lines))

    @property
    def _script_lines(self) -> tuple[str, ...]:
        return tuple(f"{name} {digest}" for name, digest in self.scripts)


class Rule(Struct, frozen=True):
    """A rule for the calls of a tool whose subject matches a pattern."""

    tool: str
    """A tool name or a glob over names, or `EDITS`."""
    pattern: str
    """For commands the first words, each a glob, or `/REGEX/`; for paths a glob with `**`; for URLs a host or an
    address, both with `*`; else a glob over the arguments as JSON."""

    def __str__(self) -> str:
        return f"{self.tool}:{self.pattern}"

    def is_for(self, tool: str) -> bool:
        """Return whether the rule applies to this tool."""
        return fnmatchcase(tool, self.tool)

    def allows(self, request: PermissionRequest) -> bool:
        """Return whether the rule allows this call: all of its paths must match. Always False for commands."""
        if not self._covers_tool(request):
            return False
        match request.kind:
            case "command":
                return False
            case "path":
                # An unknown path fits no rule, although `all` of nothing is true.
                return bool(request.paths) and all(self._is_at(path) for path in request.paths)
            case "url":
                return _address_fits(self.pattern, request.subject, strict=True)
            case "text":
                return fnmatchcase(request.subject, self.pattern)

    def denies(self, request: PermissionRequest) -> bool:
        """Return whether the rule denies this call: one matching path is enough. Always False for commands."""
        if not self._covers_tool(request):
            return False
        match request.kind:
            case "command":
                return False
            case "path":
                # A denial fits generously: also where it is unclear whether the pattern means a path in the workspace.
                return any(self._is_at(path) or matches(self.pattern, path) for path in request.paths)
            case "url":
                return _address_fits(self.pattern, request.subject, strict=False)
            case "text":
                return fnmatchcase(request.subject, self.pattern)

    def _covers_tool(self, request: PermissionRequest) -> bool:
        return self.is_for(request.tool) or self.tool == request.category == EDITS

    def _is_at(self, path: str) -> bool:
        # Without a leading `/`, a pattern is meant inside the workspace.
        return path.startswith("/") == self.pattern.startswith("/") and matches(self.pattern, path.lstrip("/"))


def parse_rule(text: str, *, denies: bool = False) -> Rule:
    """Return the parsed rule; raise UsageError if it could never match, or if it would allow every command."""
    tool, colon, pattern = text.partition(":")
    if not (tool.strip() and colon and pattern.strip()):
        raise UsageError(
            f"`{text}` is not a rule",
            'Write TOOL:PATTERN, e.g. `--allow "shell:git status"` or `--allow "write_file:docs/**"`.',
        )
    rule = Rule(tool.strip(), pattern.strip())
    if rule.tool not in SHELL_TOOLS:
        return rule
    parsed = parse_pattern(rule.pattern)
    if parsed is None:
        raise UsageError(
            f"the rule `{text}` can never match a command",
            "Write the first words of one command, or /REGEX/, without ; | & < > ( ), line breaks or open quotes.",
        )
    if parsed == PrefixPattern(()) and not denies:
        raise UsageError(f"the rule `{text}` would allow every command", "Use `--allow-category shell` for that.")
    return rule


def _address_fits(pattern: str, url: str, *, strict: bool) -> bool:
    """Return whether a URL matches `[SCHEME://]HOST[/PATH]`; `strict` rejects user names and non-ASCII hosts."""
    expected = _ADDRESS.fullmatch(pattern)
    try:
        parts = urlsplit(url)
        host = (parts.hostname or "").rstrip(".")
    except ValueError:
        return False
    # `https://docs.python.org@evil.example/` looks like the allowed host; letters of other scripts do as well.
    if expected is None or not host or (strict and (parts.username is not None or not host.isascii())):
        return False
    if expected["scheme"] not in {None, parts.scheme} or not fnmatchcase(host, expected["host"].casefold()):
        return False
    target = f"{parts.path or '/'}{'?' * bool(parts.query)}{parts.query}"
    return expected["path"] is None or fnmatchcase(target, expected["path"])


@lru_cache(maxsize=1024)
def parse_pattern(text: str) -> CommandPattern | None:
    """Return the parsed pattern; None if it could never match a simple command.

    A final `*` matches any further words, or none.
    """
    if "\n" in text:
        return None
    if len(text) > 2 and text.startswith("/") and text.endswith("/"):
        source = text[1:-1]
        try:
            re.compile(source)
        except (re.error, RecursionError, OverflowError):
            return None
        return RegexPattern(source)
    lexer = shlex.shlex(text, posix=True, punctuation_chars=";|&<>()")
    lexer.whitespace_split = True
    # A `#` in a pattern is a character like any other.
    lexer.commenters = ""
    try:
        words = tuple(lexer)
    except ValueError:
        return None
    # A rule is for one simple command; words of operators never occur in one.
    if not words or any(_OPERATOR.fullmatch(word) for word in words):
        return None
    return PrefixPattern(words[:-1] if words[-1] == "*" else words)


def escape_words(words: Sequence[str]) -> tuple[str, ...]:
    """Return globs that match exactly these words."""
    return tuple(re.sub(r"([*?\[])", r"[\1]", word) for word in words)


def format_pattern(words: Sequence[str]) -> str:
    """Return the pattern for commands that start with exactly these words."""
    pattern = " ".join(map(_quote_glob, escape_words(words)))
    # An empty quotation keeps a path between slashes from being read back as a regular expression.
    return f"''{pattern}" if pattern.startswith("/") and pattern.endswith("/") else pattern


def _quote_glob(glob: str) -> str:
    # `parse_pattern` must read the word back; glob characters stay unquoted.
    return glob if re.fullmatch(r"[\w@%+=:,./*?\[\]-]+", glob, re.ASCII) else shlex.quote(glob)
