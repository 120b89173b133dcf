"""Keep paths inside a workspace. This guards against a model's mistakes; the sandbox guards against malice."""

import os
import unicodedata
from pathlib import Path

from msgspec import Struct


class Refusal(Struct, frozen=True):
    """The reason why a path may not be used, as a message for the model."""

    reason: str


def resolve_inside(root: Path, path: str) -> Path | Refusal:
    """Return `path` resolved, or why it may not be used.

    Relative paths start at `root`; absolute ones must be inside it. Symbolic links are resolved before the check.
    Any path inside a `.git`, at any depth, is refused. A name that exists in another normal form of Unicode means that.
    """
    if not path or "\0" in path:
        return Refusal("The path is empty or contains a NUL; give a path relative to the workspace.")
    try:
        workspace = root.resolve()
        target = _spelled_as_found(workspace / path)
        resolved = target.resolve()
        relative = os.path.relpath(target, workspace)
    except (OSError, RuntimeError, ValueError):
        return Refusal(f"{path!r} cannot be resolved (a symlink loop or an invalid name); use another path.")
    if not resolved.is_relative_to(workspace):
        inside = _same_end_inside(workspace, path)
        fix = f"did you mean {inside}?" if inside else "only paths inside it may be used, relative to it."
        return Refusal(f"{path!r} is outside the workspace; {fix}")
    # check the path before and after resolving: either may lead through a `.git`
    if any(part.casefold() == ".git" for part in (*Path(relative).parts, *resolved.relative_to(workspace).parts)):
        return Refusal(f"{path!r} belongs to git and is off limits; your work is committed for you.")
    return resolved


def _spelled_as_found(path: Path) -> Path:
    # macOS stores names decomposed, and models compose them: a second file of the same name would be made.
    if str(path).isascii() or os.path.lexists(path):
        return path
    folder, name = _spelled_as_found(path.parent), unicodedata.normalize("NFC", path.name)
    there = folder.iterdir() if not path.name.isascii() and folder.is_dir() else ()
    same = [each for each in there if unicodedata.normalize("NFC", each.name) == name]
    return same[0] if len(same) == 1 else folder / path.name


def _same_end_inside(workspace: Path, path: str) -> str:
    """Return the longest end of an absolute path that exists in the workspace; empty without one."""
    parts = Path(path).parts[1:] if path.startswith("/") else ()
    # A path that climbs out names another folder on purpose, and what belongs to git is refused anyway.
    if any(part == ".." or part.casefold() == ".git" for part in parts):
        return ""
    ends = ("/".join(parts[at:]) for at in range(len(parts)))
    return next((end for end in ends if os.path.lexists(workspace / end)), "")
