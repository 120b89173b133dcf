"""Decide a tool call: allow, ask or deny. Used by the approval gate and by `permissions check`.

In this order: absolute denials, the mode, "always" answers, rules and read-only commands, the category, `--yolo`, the
pause after denials.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from msgspec import Struct, structs

from scaffold.policy.rule.hosts import denied_url, metadata_host
from scaffold.policy.rule.ruleset import STRICTNESS, PolicyDecision, RuleSet
from scaffold.policy.rule.tool_rules import PermissionRequest
from scaffold.policy.secret.unreadable_files import secret_entry
from scaffold.policy.shell.workspace_paths import MAX_PATH_CHARS, DecisionContext, EmptyFileSystem, WorkspacePaths

READ_ONLY_MODES = frozenset({"plan", "explore", "review"})
"""Modes that allow no changes."""
MODE_INDEPENDENT = frozenset({"file_read", "memory", "subagent"})
"""Categories outside modes: a subagent has its own gate and mode."""
MAX_FOLLOWED = 200
"""Links are resolved in this many texts of one call; further texts are taken literally."""

ACCEPT_EDITS = "accept-edits"
"""The rule of changes of files that the user accepts without a question, and the name of that mode."""

_NOT_FILES = ("/dev/", "/proc/", "/sys/")


class ShellPolicy(Protocol):
    """Decides shell commands."""

    async def judge(self, command: str, context: DecisionContext) -> PolicyDecision:
        """Return the decision about a command, before mode and category: `deny`, `ask`, or `allow` by a rule.

        If the whole command only reads, the rule is `read-only`.
        """
        ...

    async def suggest_pattern(self, command: str, context: DecisionContext) -> str | None:
        """Return a pattern that would allow this command and others like it; None if only its whole text could."""
        ...

    def scripts(self, command: str, workspace: WorkspacePaths) -> tuple[tuple[str, str], ...]:
        """Return (name, digest) of each script file that a command runs."""
        ...

    async def parts(self, command: str, context: DecisionContext) -> Sequence[str]:
        """Return lines about the parts of a command, the most dangerous first; empty if it has only one."""
        ...


class LazyShellPolicy:
    """A `ShellPolicy` that is loaded at the first command."""

    def __init__(self, load: Callable[[], ShellPolicy]) -> None:
        self._load = load
        self._loaded: ShellPolicy | None = None

    async def judge(self, command: str, context: DecisionContext) -> PolicyDecision:
        """Return the decision about a command, before mode and category."""
        return await self._shell_policy().judge(command, context)

    async def suggest_pattern(self, command: str, context: DecisionContext) -> str | None:
        """Return a pattern that would allow this command and others like it."""
        return await self._shell_policy().suggest_pattern(command, context)

    def scripts(self, command: str, workspace: WorkspacePaths) -> tuple[tuple[str, str], ...]:
        """Return (name, digest) of each script file that a command runs."""
        return self._shell_policy().scripts(command, workspace)

    async def parts(self, command: str, context: DecisionContext) -> Sequence[str]:
        """Return lines about the parts of a command, the most dangerous first."""
        return await self._shell_policy().parts(command, context)

    def _shell_policy(self) -> ShellPolicy:
        if self._loaded is None:
            self._loaded = self._load()
        return self._loaded


class CallContext(Struct, frozen=True, kw_only=True):
    """The state of the session in which a call is made."""

    workspace: WorkspacePaths
    mode: str = "default"
    pause_s: float = 0.0
    """Seconds left of the pause after denials."""
    accepts_edits: bool = False
    """Whether the user accepts changes of the workspace's files without a question."""
    steers: Callable[[str], bool] = lambda _path: False
    """Returns whether a file decides what other programs run: accepting edits does not cover it."""


async def decide_call(
    request: PermissionRequest, rules: RuleSet, context: CallContext, shell: ShellPolicy
) -> PolicyDecision:
    """Return the decision about a tool call, without asking the user and without side effects."""
    found = await _by_rules_and_paths(request, rules, context.workspace, shell)
    if found is not None and found.decision == "deny":
        return found
    # Before "always" and the rules: a mode restricts what they allow, too.
    if context.mode in READ_ONLY_MODES and not _changes_nothing(request, found):
        prefix = f"{found.reason}; " if request.kind == "command" and found is not None else ""
        fix = "leave it with switch_mode first if that is what the user wants"
        return PolicyDecision(
            "deny", f"mode:{context.mode}", f"{prefix}the mode {context.mode} allows no changes; {fix}"
        )
    if request.identity in rules.always:
        return PolicyDecision("allow", "always", "the user always allows it")
    if found is not None and found.decision == "allow":
        return found
    decided = _by_category(request, rules, found, context)
    # Last: it only spares the user questions, and must not be in the way of what is allowed anyway.
    if decided.decision == "ask" and context.pause_s > 0:
        reason = f"{decided.reason}; {request.category} was denied too often, try again in {context.pause_s:.1f} s"
        return PolicyDecision("deny", "pause", reason)
    return decided


def context_for(rules: RuleSet, workspace: WorkspacePaths, tool: str) -> DecisionContext:
    """Return the context for deciding a command of this tool."""
    return DecisionContext(
        workspace=workspace,
        allow=tuple(rule for rule in rules.allow if rule.is_for(tool)),
        deny=tuple(rule for rule in rules.deny if rule.is_for(tool)),
        reading_allowed=rules.decision_for("shell") != "deny",
    )


async def _by_rules_and_paths(
    request: PermissionRequest, rules: RuleSet, workspace: WorkspacePaths, shell: ShellPolicy
) -> PolicyDecision | None:
    """Return the decision by rules and paths, whatever the category; None if neither applies."""
    if request.kind == "command":
        return await shell.judge(request.subject, context_for(rules, workspace, request.tool))
    if denied := _final_denial(request, workspace):
        return denied
    if rule := next((rule for rule in rules.deny if rule.denies(request)), None):
        return PolicyDecision("deny", f"deny:{rule}", f"the rule `{rule}` denies it")
    # Each path needs a rule: one that is not allowed makes the call a question.
    each = [structs.replace(request, paths=(path,)) for path in request.paths] or [request]
    found = [next((str(rule) for rule in rules.allow if rule.allows(part)), None) for part in each]
    if allowing := (() if None in found else tuple(dict.fromkeys(filter(None, found)))):
        named = "`, `".join(allowing)
        plural = len(allowing) > 1
        return PolicyDecision(
            "allow", ", ".join(allowing), f"the rule{'s' * plural} `{named}` allow{'s' * (not plural)} it"
        )
    return _path_question(request) if request.kind == "path" else None


def _final_denial(request: PermissionRequest, workspace: WorkspacePaths) -> PolicyDecision | None:
    """Return the denial that nothing can override; None without one. Not for commands."""
    if request.kind == "url":
        return denied_url(request.subject)
    if request.kind == "path":
        return _by_path(request.named, request.paths, workspace, writes=request.category == "file_write")
    if request.category in {"mcp", "plugin"}:
        # Resolving links touches the disk for each text; arguments of thousands of texts must not hold up the session.
        unfollowed = structs.replace(workspace, files=EmptyFileSystem())
        for at, text in enumerate(_argument_texts(request)):
            if denied := _by_text(text, workspace if at < MAX_FOLLOWED else unfollowed):
                return denied
        return None
    return None


def _by_path(
    named: tuple[str, ...], reached: tuple[str, ...], workspace: WorkspacePaths, *, writes: bool
) -> PolicyDecision | None:
    """Return the denial if no agent may use one of the files; else None."""
    if not all(map(_is_valid, named)):
        return PolicyDecision("deny", "path", "the path is empty, too long, contains a NUL or is not valid text")
    # `reached` has the paths as written and with links resolved; each of them must be allowed.
    for each in reached:
        if writes and (entry := workspace.protected_path(each)):
            return PolicyDecision(
                "deny", f"protected:{entry}", f"{each} is protected ({entry}): agents must not write it"
            )
        whole = f"{workspace.root.rstrip('/')}/{each}" if not each.startswith("/") else each
        if entry := secret_entry(whole):
            return PolicyDecision(
                "deny", f"secret:{entry}", f"{each} contains secrets ({entry}): agents must not access it"
            )
        # Reading a device or a file of the kernel may block for ever or have an effect.
        if f"{whole}/".startswith(_NOT_FILES):
            return PolicyDecision("deny", "device", f"{each} is not a regular file")
    return None


def _is_valid(path: str) -> bool:
    # surrogate escapes (U+DC80 to U+DCFF) stand for undecodable bytes in real names; other surrogates are invalid
    invalid = any("\ud800" <= char <= "\udc7f" or "\udd00" <= char <= "\udfff" for char in path)
    return not (invalid or not path or len(path) > MAX_PATH_CHARS or "\0" in path)


def _by_text(text: str, workspace: WorkspacePaths) -> PolicyDecision | None:
    """Return the denial if a text, read as a URL or path, must not reach a foreign tool; else None."""
    words = text.split(maxsplit=1)
    if "://" in text and len(words) == 1 and (host := metadata_host(words[0])):
        return PolicyDecision("deny", "metadata", f"{host} is a cloud metadata service with credentials")
    path = text.removeprefix("file://")
    if not path or "\0" in path or len(path) > MAX_PATH_CHARS:
        return None
    tilde = path == "~" or path.startswith("~/")
    reached = tuple(map(workspace.within, workspace.reached(path, frozenset({workspace.root}), tilde=tilde)))
    denied = _by_path((path,), reached, workspace, writes=True)
    # Most texts are no paths at all, so being too long or oddly encoded is no reason to deny them.
    return denied if denied is not None and denied.rule.startswith(("protected:", "secret:")) else None


def _path_question(request: PermissionRequest) -> PolicyDecision | None:
    """Return the question that a path raises even if its category is allowed; None without one."""
    if outside := next((path for path in request.paths if path.startswith("/")), None):
        return PolicyDecision("ask", "outside", f"{outside} is outside the workspace")
    # A control character could change what the question shows on a terminal.
    if odd := next((path for path in request.named if any(ord(char) < 32 or ord(char) == 127 for char in path)), None):
        return PolicyDecision("ask", "path", f"the path contains a control character ({ascii(odd)[1:-1]})")
    return None


def _changes_nothing(request: PermissionRequest, found: PolicyDecision | None) -> bool:
    if request.kind == "command":
        return found is not None and found.rule == "read-only"
    return request.read_only or request.category in MODE_INDEPENDENT


def _by_category(
    request: PermissionRequest, rules: RuleSet, found: PolicyDecision | None, context: CallContext
) -> PolicyDecision:
    # The user's own `allow` for a category answers the question in `found`.
    decision = rules.decision_for(request.category, confined=request.confined)
    # A default of `allow`, such as python in a sandbox, does not answer a question that a path or a rule raises.
    asks = found is not None and not (decision == "allow" and request.category in rules.categories)
    if asks and STRICTNESS[decision] < STRICTNESS["ask"]:
        decision = "ask"
    if decision == "ask" and rules.yolo:
        return PolicyDecision("allow", "--yolo", "--yolo allows what would need approval")
    if decision == "ask" and found is not None:
        return PolicyDecision("ask", found.rule, found.reason)
    concern = _edit_concern(request, rules, context)
    if decision == "ask" and context.accepts_edits and _is_edit(request) and not concern:
        return PolicyDecision("allow", ACCEPT_EDITS, "the user accepts edits in this folder")
    return PolicyDecision(decision, "category", _category_reason(request, decision, concern))


def _is_edit(request: PermissionRequest) -> bool:
    # What names no path could be written anywhere.
    return (request.category, request.kind) == ("file_write", "path") and bool(request.paths)


def _edit_concern(request: PermissionRequest, rules: RuleSet, context: CallContext) -> str:
    """Return why a change of these files deserves a look, also where edits are accepted; empty if it does not."""
    for path in request.paths if request.category == "file_write" else ():
        if area := rules.areas.area_of(path):
            return f"; the path is in a protected area ({area})"
        if context.accepts_edits and context.steers(path):
            return f"; accepting edits does not cover {path}, which decides what other programs run"
    return ""


def _category_reason(request: PermissionRequest, decision: str, concern: str) -> str:
    match decision:
        case "allow":
            return f"{request.category} is allowed"
        case "deny":
            return f"{request.category} is disabled here"
        case _:
            return f"{request.tool} needs approval ({request.category}){concern}"


def _argument_texts(request: PermissionRequest) -> Iterator[str]:
    """Yield every string in the arguments at any depth, keys included."""
    pending: list[object] = [json.loads(request.args or "{}")]
    while pending:
        match pending.pop():
            case str() as text:
                yield text
            case dict() as table:
                pending += (*table, *table.values())
            case list() as items:
                pending += items
