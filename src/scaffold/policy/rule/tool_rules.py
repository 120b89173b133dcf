"""Rules that allow or deny tool calls, written `TOOL:PATTERN`."""

import hashlib
import re
from fnmatch import fnmatchcase
from typing import Literal
from urllib.parse import urlsplit

from msgspec import Struct

from scaffold.core.errors import UsageError
from scaffold.core.tool import ToolCategory
from scaffold.policy.path.globs import matches
from scaffold.policy.rule.command_patterns import PrefixPattern, parse_pattern

SubjectKind = Literal["command", "path", "url", "text"]
SHELL_TOOLS = frozenset({"shell", "bash", "powershell", "pwsh", "cmd"})
"""Tools whose patterns match shell commands."""

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
    hook: str = ""
    """Why a hook wants a human to decide it, whatever the rules allow; empty if none does."""

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
    """A tool name or a glob over names."""
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
        if not self.is_for(request.tool):
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
        if not self.is_for(request.tool):
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

    def _is_at(self, path: str) -> bool:
        """Return whether a path matches; a pattern without a leading `/` matches only inside the workspace."""
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
