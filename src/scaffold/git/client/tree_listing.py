"""The paths of a tree, before and after changes. Pure."""

import os
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property


class TreeListing:
    """The paths of a tree with the mode and the id of each."""

    def __init__(self, paths: Sequence[str], entries: Mapping[str, tuple[str, str]]) -> None:
        """`paths` are in git's order, by their bytes; a submodule is the path of its folder.

        `entries` has (octal mode, object id) by path.
        """
        self.paths = tuple(paths)
        self._entries = entries

    @classmethod
    def of_records(cls, records: Iterable[str]) -> "TreeListing":
        """Return the listing in the records of `git ls-tree -r -z`: `MODE TYPE ID<tab>PATH`."""
        entries = dict[str, tuple[str, str]]()
        for record in records:
            details, _, path = record.partition("\t")
            mode, _, object_id = details.split()
            entries[path] = mode, object_id
        return cls(tuple(entries), entries)

    @cached_property
    def folders(self) -> frozenset[str]:
        """All folders of the paths, parent folders included."""
        found = set[str]()
        for path in self.paths:
            folder = path.rpartition("/")[0]
            while folder and folder not in found:
                found.add(folder)
                folder = folder.rpartition("/")[0]
        return frozenset(found)

    def of_mode(self, mode: str) -> dict[str, str]:
        """Return {path: object id} of the entries whose mode begins with `mode`, in git's order."""
        return {path: self._entries[path][1] for path in self.paths if self._entries[path][0].startswith(mode)}

    def changed(self, changes: Mapping[str, tuple[str, str] | None]) -> "TreeListing":
        """Return the listing after changes: (mode, id) by path, or None for a deleted path."""
        entries = {**self._entries, **{path: entry for path, entry in changes.items() if entry is not None}}
        gone = {path for path, entry in changes.items() if entry is None}
        for path in gone:
            del entries[path]
        kept = [path for path in self.paths if path not in gone] if gone else self.paths
        new = sorted((path for path in changes if path in entries and path not in self._entries), key=os.fsencode)
        return TreeListing(_merge_sorted(kept, new), entries)


def _merge_sorted(paths: Sequence[str], new: Sequence[str]) -> Sequence[str]:
    """Return both sequences merged in git's order; both are sorted that way."""
    merged, at = list[str](), 0
    for path in new:
        place = bisect_left(paths, os.fsencode(path), lo=at, key=os.fsencode)
        merged += paths[at:place]
        merged.append(path)
        at = place
    return [*merged, *paths[at:]]
