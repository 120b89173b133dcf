"""Use ripgrep, if installed, to skip files that cannot match: they lack a word that every match contains."""

import os
import re
import shutil
import string
from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path

from scaffold.host.process.command_runner import OutputCapture, run_command
from scaffold.tools.content.near_paths import SKIPPED_FOLDERS, walk_order
from scaffold.tools.workspace import Workspace

_PLAIN = frozenset(string.ascii_letters + string.digits + "_ \"'#%&,/:;<=>@`~!-")
_REPEATED = re.compile(r"\{\d*,?\d*\}")
_NOT_READ = re.compile(r"\\[xuUN0-9]|\(\?#")
"""Syntax we do not analyse: characters by number, group references, comments."""
TIMEOUT_S = 30
LIST_LIMIT_BYTES = 20_000_000
_EVERYTHING = ("--no-config", "--no-messages", "--no-ignore", "--hidden", "--text", "--mmap")
"""--mmap: a huge file without newlines is not read into memory."""
_SKIPPED = ("--glob=!.git", *(f"--glob=!{name}/" for name in sorted(SKIPPED_FOLDERS)))


async def candidate_files(workspace: Workspace, folder: Path, pattern: re.Pattern[str]) -> Sequence[Path] | None:
    """Return the files below `folder` that `pattern` may match, in walk order; None if unknown.

    Unknown: ripgrep is missing or failed, or the pattern has no required word. Ripgrep searches for fixed words only,
    so its different regular expression syntax does not matter.
    """
    program = _ripgrep_path(workspace)
    words = required_literals(pattern)
    if program is None or words is None:
        return None
    # Joined with `=`, so that a word that begins with a dash is not taken for an option.
    patterns = (f"--regexp={word}" for word in words)
    finished = await run_command(
        [program, "--files-with-matches", "--null", "--fixed-strings", *_EVERYTHING, *_SKIPPED, *patterns, "./"],
        cwd=folder,
        env=workspace.own_env,
        timeout_s=TIMEOUT_S,
        output=OutputCapture(limit_bytes=LIST_LIMIT_BYTES),
    )
    if finished.exit_code not in {0, 1} or finished.truncated:
        return None
    found = (Path(os.fsdecode(name)) for name in finished.stdout.split(b"\0") if name)
    return [folder / path for path in sorted(found, key=walk_order)]


def _ripgrep_path(workspace: Workspace) -> str | None:
    # A program inside the workspace is not trusted: an agent may have written it.
    found = shutil.which("rg", path=workspace.own_env["PATH"])
    if found is None or not Path(found).is_absolute():
        return None
    return None if Path(found).resolve().is_relative_to(workspace.root.resolve()) else found


def required_literals(pattern: re.Pattern[str]) -> tuple[str, ...] | None:
    """Return ASCII words of which every match of `pattern` contains at least one.

    None if unknown: the pattern ignores case or white space, or an alternative has no literal word.
    """
    if pattern.flags & (re.IGNORECASE | re.VERBOSE) or _NOT_READ.search(pattern.pattern):
        return None
    words = []
    for alternative in _split_alternatives(pattern.pattern):
        word = max(_literal_runs(alternative), key=len, default="")
        if not word:
            return None
        words.append(word)
    return tuple(dict.fromkeys(words))


def _split_alternatives(pattern: str) -> list[list[str]]:
    parts: list[list[str]] = [[]]
    at = 0
    while at < len(pattern):
        end = _piece_end(pattern, at)
        piece = pattern[at:end]
        if piece == "|":
            parts.append([])
        else:
            parts[-1].append(piece)
        at = end
    return parts


def _piece_end(pattern: str, at: int) -> int:
    match pattern[at]:
        case "\\":
            return at + 2
        case "[":
            inner = at + (2 if pattern[at + 1] == "^" else 1)
            if pattern[inner] == "]":  # a leading `]` is literal
                inner += 1
            while pattern[inner] != "]":
                inner += 2 if pattern[inner] == "\\" else 1
            return inner + 1
        case "(":
            inner = at + 1
            while pattern[inner] != ")":
                inner = _piece_end(pattern, inner)
            return inner + 1
        case "{" if repeated := _REPEATED.match(pattern, at):
            return repeated.end()
        case _:
            return at + 1


def _literal_runs(pieces: list[str]) -> list[str]:
    runs = [""]
    for piece, after in zip_longest(pieces, pieces[1:], fillvalue=""):
        is_escaped = len(piece) == 2 and piece[0] == "\\" and piece[1].isascii() and not piece[1].isalnum()
        plain = piece[-1] if piece in _PLAIN or is_escaped else ""
        # What follows makes this character optional, or may: a repetition can be zero times.
        if after[:1] in {"*", "?", "{"}:
            plain = ""
        runs[-1] += plain
        if not plain or after == "+":
            runs.append("")
    return runs
