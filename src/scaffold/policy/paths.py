"""Keeping paths inside a workspace: against a model's mistakes; a sandbox stands behind it against malice."""

import os
from pathlib import Path

from msgspec import Struct


class Refusal(Struct, frozen=True):
    """Why a path may not be touched, in words for the model."""

    reason: str


def confine(root: Path, path: str) -> Path | Refusal:
    """Return `path` resolved, or why it may not be touched.

    Relative paths start at `root`; absolute ones are fine inside it. Symbolic links are followed, as far as the path
    exists, before it is judged. Whatever lies in a `.git` at any depth is refused.
    """
    if not path or "\0" in path:
        return Refusal("The path is empty or has a NUL in it; give a path relative to the workspace.")
    try:
        home = root.resolve()
        wanted = home / path
        place = wanted.resolve()
        asked = os.path.relpath(wanted, home)
    except (OSError, RuntimeError, ValueError):
        return Refusal(f"{path!r} cannot be resolved (a loop of links, or no valid name); use another path.")
    if not place.is_relative_to(home):
        return Refusal(f"{path!r} is outside the workspace; only paths inside it may be used.")
    if any(part.casefold() == ".git" for part in (*Path(asked).parts, *place.relative_to(home).parts)):
        return Refusal(f"{path!r} belongs to git; it is off limits, and the work is committed for you.")
    return place
