"""Globs over repository paths, with a real `**`."""

from collections.abc import Iterable
from fnmatch import fnmatchcase
from functools import lru_cache


def matches(glob: str, path: str) -> bool:
    """Return whether `path` (relative, `/` between segments) or one of its parent folders matches `glob`.

    `*`, `?` and the classes `[a-z]`, `[!a]` match within a segment; `**` matches any number of segments, and at the
    end everything inside. Globs are anchored at the root: `**/x` matches `x` anywhere, `x` only at the top.
    """
    names = path.split("/")
    # The set of positions reached replaces backtracking, so that a glob with many stars takes no exponential time.
    reached = {0}
    for segment in _glob_segments(glob):
        if segment == "**":
            reached = set(range(min(reached), len(names) + 1))
        else:
            reached = {at + 1 for at in reached if at < len(names) and fnmatchcase(names[at], segment)}
        if not reached:
            return False
    return True


def matches_any(globs: Iterable[str], path: str) -> bool:
    """Return whether `path` matches one of the globs."""
    return any(matches(each, path) for each in globs)


@lru_cache(maxsize=1024)
def _glob_segments(glob: str) -> tuple[str, ...]:
    segments = tuple(segment for segment in glob.split("/") if segment not in {"", "."})
    return (*segments, "*") if segments[-1:] in {("**",), ()} else segments
