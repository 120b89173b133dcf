"""Cache git's latest answers about commits; a commit's contents never change."""

import os
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from scaffold.core.ids import Commit

ALL_SUBMODULES = "--ignore-submodules=none"
"""Overrides `ignore` in .gitmodules, which a candidate may have changed."""
DIFFERENCES = ("diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev", ALL_SUBMODULES)
MAX_KEPT = 64
"""The contents of a change's files are among them: each check of them asks."""
MAX_BYTES = 2 * 1024 * 1024
"""A longer answer is not cached."""
MAX_LISTINGS = 6
"""A listing of a large repository takes megabytes; neighbouring commits share most of theirs."""
ABSENT = "000000"
"""The mode of a path in the commit that does not have it."""
_ID = re.compile(r"(?:[0-9a-f]{40}|[0-9a-f]{64})(?::.*)?", re.DOTALL)
"""A full id, or `ID:PATH`."""


class TreeListing:
    """The paths of a tree with the mode and the id of each."""

    def __init__(self, paths: Sequence[str], entries: Mapping[str, tuple[str, str]]) -> None:
        """`paths` are in git's order, by their bytes; a submodule is the path of its folder.

        `entries` has (octal mode, object id) by path.
        """
        self.paths = tuple(paths)
        self._entries = entries

    @classmethod
    def from_records(cls, records: Iterable[str]) -> "TreeListing":
        """Return the listing in the records of `git ls-tree -r -z`: `MODE TYPE ID<tab>PATH`."""
        entries = dict[str, tuple[str, str]]()
        for record in records:
            details, _, path = record.partition("\t")
            mode, _, object_id = details.split()
            entries[path] = mode, object_id
        return cls(tuple(entries), entries)

    def with_mode(self, mode: str) -> dict[str, str]:
        """Return {path: object id} of the entries whose mode begins with `mode`, in git's order."""
        return {path: self._entries[path][1] for path in self.paths if self._entries[path][0].startswith(mode)}

    def blob(self, path: str) -> str:
        """Return the object id of a file or link at this very path; empty without one."""
        mode, object_id = self._entries.get(path, ("", ""))
        return object_id if mode.startswith(("100", "120")) else ""

    def changed(self, changes: Mapping[str, tuple[str, str] | None]) -> "TreeListing":
        """Return the listing after changes: (mode, id) by path, or None for a deleted path."""
        entries = {**self._entries, **{path: entry for path, entry in changes.items() if entry is not None}}
        gone = {path for path, entry in changes.items() if entry is None}
        for path in gone:
            del entries[path]
        kept = [path for path in self.paths if path not in gone] if gone else self.paths
        new = sorted((path for path in changes if path in entries and path not in self._entries), key=os.fsencode)
        # Both are in git's order, and so is the merged list.
        merged, at = list[str](), 0
        for path in new:
            place = bisect_left(kept, os.fsencode(path), lo=at, key=os.fsencode)
            merged += [*kept[at:place], path]
            at = place
        return TreeListing([*merged, *kept[at:]], entries)


class GitResult(Struct, frozen=True):
    """The exit code (one of those expected) and the output of a git command."""

    exit_code: int
    out: bytes
    err: bytes

    @property
    def line(self) -> str:
        """The output without its last newline; undecodable bytes become surrogate escapes."""
        return os.fsdecode(self.out.removesuffix(b"\n"))

    @property
    def records(self) -> list[str]:
        """The NUL-terminated parts of the output (`-z`), decoded like `line`."""
        return [os.fsdecode(part) for part in self.out.split(b"\0")[:-1]]


def _changes(differences: GitResult) -> Mapping[str, tuple[tuple[str, str], tuple[str, str]]]:
    """Return the former and the new (octal mode, object id) of each path."""
    found = {}
    for status, path in zip(differences.records[::2], differences.records[1::2], strict=True):
        former_mode, mode, former_id, new_id, _ = status.removeprefix(":").split()
        found[path] = (former_mode, former_id), (mode, new_id)
    return found


def _joined_differences(*parts: tuple[GitResult, bool]) -> GitResult:
    """Return what differences come to one after another; `True` with those that are to be read backwards."""
    changes = dict[str, tuple[tuple[str, str], tuple[str, str]]]()
    for differences, is_back in parts:
        for path, change in _changes(differences).items():
            was, now = reversed(change) if is_back else change
            changes[path] = changes.get(path, (was, now))[0], now
    records = [
        f":{was[0]} {now[0]} {was[1]} {now[1]} {_kind_of_change(was[0], now[0])}\0{path}\0"
        for path, (was, now) in sorted(changes.items(), key=lambda each: os.fsencode(each[0]))
        if was != now
    ]
    return GitResult(0, os.fsencode("".join(records)), b"")


def _kind_of_change(former: str, mode: str) -> str:
    if ABSENT in {former, mode}:
        return "A" if former == ABSENT else "D"
    # The first three digits are the type: file, link, submodule.
    return "M" if former[:3] == mode[:3] else "T"


class Answers:
    """Successful answers by command and tree listings by commit. Only full ids are cached."""

    def __init__(self) -> None:
        # In order of use, so that the first entries are the oldest.
        self._results: dict[tuple[str, ...], GitResult] = {}
        self._listings: dict[Commit, TreeListing] = {}

    def find(self, command: tuple[str, ...]) -> GitResult | None:
        """Return the cached answer to a command with its arguments and commits, or None."""
        found = self._results.pop(command, None)
        if found is not None:
            self._results[command] = found
        return found

    def keep(self, command: tuple[str, ...], commits: tuple[str, ...], result: GitResult) -> None:
        """Cache the answer to a command about commits, unless one is named by anything but its id: names move."""
        if all(map(_ID.fullmatch, commits)) and result.exit_code == 0 and len(result.out) <= MAX_BYTES:
            self._results[(*command, *commits)] = result
            for oldest in [*self._results][:-MAX_KEPT]:
                del self._results[oldest]

    def difference(self, old: Commit, new: Commit) -> GitResult | None:
        """Return the cached answer to DIFFERENCES about two commits, or one derived from others; else None.

        The other way round is known, too, and the way by a third commit that was compared with both.
        """
        if (found := self.find((*DIFFERENCES, old, new))) is not None:
            return found
        asked = [(key[-2], key[-1], result) for key, result in self._results.items() if key[:-2] == DIFFERENCES]
        ways = [(before, after, (result, False)) for before, after, result in asked]
        ways += [(after, before, (result, True)) for before, after, result in asked]
        first = {old: ()} | {after: (part,) for before, after, part in ways if before == old}
        last = {before: part for before, after, part in ways if after == new}
        third = next((each for each in first if each in last), None)
        if third is None:
            return None
        derived = _joined_differences(*first[third], last[third])
        self.keep(DIFFERENCES, (old, new), derived)
        return derived

    def listing(self, commit: Commit) -> TreeListing | None:
        """Return the cached listing of a commit's tree, or one derived from another by their difference; else None."""
        found = self._listings.pop(commit, None)
        for other in () if found else self.listed():
            if (known := self.difference(other, commit)) is not None:
                entries = {path: now if now[0] != ABSENT else None for path, (_, now) in _changes(known).items()}
                found = self._listings[other].changed(entries)
                break
        if found is not None:
            self.keep_listing(commit, found)
        return found

    def keep_listing(self, commit: Commit, listing: TreeListing) -> None:
        """Cache the listing of a commit's tree."""
        if _ID.fullmatch(commit):
            self._listings[commit] = listing
            for oldest in [*self._listings][:-MAX_LISTINGS]:
                del self._listings[oldest]

    def listed(self) -> Iterator[Commit]:
        """Yield the commits whose listings are cached, latest first."""
        yield from reversed([*self._listings])
