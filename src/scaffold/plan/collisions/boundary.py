"""Where an action may change files, and where two of them meet."""

import functools
import unicodedata
from collections.abc import Iterator
from itertools import takewhile

from msgspec import Struct

MAX_ENTRIES = 400
"""Of more entries, their folders count, so that an action with thousands of files is compared as fast as others."""
WILDCARDS = frozenset("*?[")


class FirstName(Struct, frozen=True):
    """The first names of paths that a glob allows: `*.py` is any name that ends with `.py`."""

    begin: str
    end: str
    glob: str
    """As it was written."""

    def may_be(self, name: str) -> bool:
        """Return whether it may match the name."""
        return name.startswith(self.begin) and name.endswith(self.end)

    def may_equal(self, other: "FirstName") -> bool:
        """Return whether there may be a name that both match."""
        # The names may overlap in the middle, so a common prefix and suffix are enough.
        begins = self.begin.startswith(other.begin) or other.begin.startswith(self.begin)
        return begins and (self.end.endswith(other.end) or other.end.endswith(self.end))


class Boundary(Struct, frozen=True):
    """The files that an action may change, as paths that are compared without regard to case."""

    paths: dict[str, str]
    """The path of each entry, of a glob its fixed prefix: as compared -> as written. Empty: the whole repository."""
    folders: frozenset[str]
    """The folders around these paths."""
    first_names: tuple[FirstName, ...] = ()
    """Of globs without a fixed prefix: what their first names may be."""

    @property
    def tops(self) -> frozenset[str]:
        """The first names of the paths."""
        return frozenset(path.partition("/")[0] for path in self.paths)


@functools.lru_cache(maxsize=8192)
def boundary_of(files: tuple[str, ...], *, literal: bool = False) -> Boundary:
    """Return the boundary of paths, folders and globs; an entry outside of the repository does not count.

    `literal`: they are all paths, whose names may have the characters of globs.
    """
    paths, first_names = dict[str, str](), dict[str, FirstName]()
    for entry in files:
        names = _path_names(entry)
        if names is None:
            # We change nothing outside of the repository.
            continue
        fixed = names if literal else list(takewhile(WILDCARDS.isdisjoint, names))
        if not fixed and names and names[0] != "**":
            # A glob such as `*.py` has no fixed folder: only its first name narrows it.
            first = compared(names[0])
            special = [place for place, char in enumerate(first) if char in "*?[]"]
            first_names.setdefault(first, FirstName(first[: special[0]], first[special[-1] + 1 :], names[0]))
        else:
            written = "/".join(names[: len(fixed)])
            paths.setdefault(compared(written), written)
    # Sorted, so that the same files always give the same messages.
    kept = dict(sorted(_merge_paths(paths).items()))
    folders = frozenset(folder for path in kept for folder in above(path))
    return Boundary(kept, folders, tuple(first_names[each] for each in sorted(first_names)[:MAX_ENTRIES]))


def compared(path: str) -> str:
    """Return a path as it is compared: some file systems know neither case nor ways to write an accent."""
    return path if path.isascii() and path.islower() else unicodedata.normalize("NFC", path).casefold()


def above(path: str) -> Iterator[str]:
    """Yield the folders around a path, the innermost first; the last one is the top of the repository, empty."""
    while path:
        path = path.rpartition("/")[0]
        yield path


def meet(one: Boundary, other: Boundary) -> tuple[str, ...]:
    """Return the overlap of two boundaries, as compared, in order: equal paths, the inner of nested ones, first names.

    Paths meet if they are equal or one is around the other; so do globs, by their fixed prefixes. A glob without one
    meets what its first name may be.
    """
    found = set[str]()
    for mine, theirs in ((one, other), (other, one)):
        found.update(
            path for path in mine.paths if path in theirs.paths or any(each in theirs.paths for each in above(path))
        )
        tops = theirs.tops if mine.first_names else ()
        for first in mine.first_names:
            # An empty top is the whole repository.
            found.update(first.glob for top in tops if not top or first.may_be(top))
            found.update(first.glob for name in theirs.first_names if first.may_equal(name))
    return tuple(sorted(found))


def _path_names(entry: str) -> list[str] | None:
    """Return the names of a path; None if it leaves the repository."""
    names = list[str]()
    for name in entry.strip().split("/"):
        if name == "..":
            if not names:
                return None
            names.pop()
        elif name not in {"", "."}:
            names.append(name)
    return names


# The characters between are left out: a path is only compared by what every match begins with.
# The deepest level gives way first, so that the boundary stays as narrow as it can.
def _merge_paths(paths: dict[str, str]) -> dict[str, str]:
    """Return the paths without those inside of others; of too many, their folders."""
    while len(paths) > 1:
        kept = {path: written for path, written in paths.items() if not any(each in paths for each in above(path))}
        if len(kept) <= MAX_ENTRIES:
            return kept
        deepest = max(path.count("/") for path in kept)
        paths = {
            path.rpartition("/")[0] if path.count("/") == deepest else path: (
                written.rpartition("/")[0] if path.count("/") == deepest else written
            )
            for path, written in kept.items()
        }
    return paths
