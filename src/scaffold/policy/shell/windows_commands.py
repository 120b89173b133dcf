"""Decide PowerShell and cmd commands: a strict read-only subset is allowed, all else needs approval."""

import re
from collections.abc import Mapping
from typing import Literal

from scaffold.policy.rule.ruleset import PolicyDecision
from scaffold.policy.secret.unreadable_files import secret_entry
from scaffold.policy.shell.workspace_paths import WorkspacePaths

Dialect = Literal["powershell", "cmd"]

_PLAIN: Mapping[Dialect, re.Pattern[str]] = {
    "powershell": re.compile(r"[A-Za-z0-9 _./\\:*?+=-]*"),
    "cmd": re.compile(r"[A-Za-z0-9 _./\\:*?-]*"),
}
_SWITCHES: Mapping[Dialect, Mapping[str, frozenset[str]]] = {
    "powershell": {
        "get-childitem": frozenset(
            {"-recurse", "-force", "-name", "-file", "-directory", "-depth", "-filter", "-path"}
        ),
        "get-content": frozenset({"-path", "-totalcount", "-tail", "-raw", "-encoding", "-head"}),
        "get-item": frozenset({"-path", "-force"}),
        "get-location": frozenset(),
        "get-date": frozenset(),
        "get-filehash": frozenset({"-path", "-algorithm"}),
        "measure-object": frozenset({"-line", "-word", "-character"}),
        "resolve-path": frozenset({"-path", "-relative"}),
        "select-string": frozenset({"-path", "-pattern", "-simplematch", "-casesensitive", "-list", "-context"}),
        "test-path": frozenset({"-path", "-pathtype"}),
        "write-output": frozenset(),
    },
    "cmd": {
        "dir": frozenset({"/b", "/s", "/a", "/o", "/w", "/p"}),
        "type": frozenset(),
        "ver": frozenset(),
        "vol": frozenset(),
        "where": frozenset(),
        "findstr": frozenset({"/s", "/i", "/n", "/m", "/r", "/l"}),
    },
}
_GLOB = re.compile(r"[\w-]*[*?]?[\w-]*\.[A-Za-z]\w*")
_DEVICE = re.compile(r"(con|prn|aux|nul|conin\$|conout\$|com\d|lpt\d)(\..*)?", re.IGNORECASE)
_DRIVE = re.compile(r"[A-Za-z]:|[A-Za-z]{2,}:")


def dialect_of(command: str) -> tuple[Dialect, str] | None:
    """Return (dialect, command) for a text like `powershell: ...` or `cmd: ...`; None without such a prefix."""
    name, colon, rest = command.partition(":")
    match name.strip().casefold():
        case "powershell" | "pwsh" if colon:
            return "powershell", rest.strip()
        case "cmd" if colon:
            return "cmd", rest.strip()
        case _:
            return None


def decide_windows_command(dialect: Dialect, command: str, workspace: WorkspacePaths) -> PolicyDecision:
    """Return the decision about one command line in `dialect`."""
    words = command.split(" ")
    for word in words:
        for path in workspace.reached(word.replace("\\", "/"), frozenset({workspace.root}), tilde=False):
            if entry := secret_entry(path):
                return PolicyDecision(
                    "deny", f"secret:{entry}", f"{word} contains secrets ({entry}): agents must not read it"
                )
    # There is no parser for these shells, so quotes, variables, pipes and escapes are refused as a whole.
    if not _PLAIN[dialect].fullmatch(command) or not command.strip():
        return _ask_because(dialect, "it contains more than plain words")
    name, *rest = [word for word in words if word]
    known = _SWITCHES[dialect].get(name.casefold())
    if known is None:
        return _ask_because(dialect, f"`{name}` is not known to be read-only")
    for word in rest:
        marked = word.startswith("-") or (dialect == "cmd" and word.startswith("/"))
        if marked and word.casefold() not in known:
            return _ask_because(dialect, f"`{word}` is not known to be read-only")
        if not marked and (problem := _operand_problem(word, workspace)):
            return _ask_because(dialect, problem)
    return PolicyDecision("allow", "read-only", f"`{name}` only reads")


def _operand_problem(word: str, workspace: WorkspacePaths) -> str | None:
    """Return why an operand may not be a file in the workspace; None if it is one."""
    path = word.replace("\\", "/")
    name = path.rpartition("/")[2]
    if _DRIVE.match(word) or any(map(workspace.outside, workspace.reached(path, frozenset({workspace.root})))):
        return f"{word} is outside the workspace"
    if _DEVICE.fullmatch(name):
        return f"{word} is a device"
    if set(path) & set("*?") and not (_GLOB.fullmatch(name) and not set(path.rpartition("/")[0]) & set("*?")):
        return f"{word} may match any file"
    return None


def _ask_because(dialect: Dialect, reason: str) -> PolicyDecision:
    return PolicyDecision("ask", "shell", f"{dialect}: {reason}")
