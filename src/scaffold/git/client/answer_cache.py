"""Cache git's latest answers about commits; a commit's contents never change."""

import os
import re
from collections.abc import Iterator

from msgspec import Struct

from scaffold.core.ids import Commit
from scaffold.git.client.tree_listing import TreeListing

MAX_KEPT = 24
MAX_BYTES = 2 * 1024 * 1024
"""A longer answer is not cached."""
MAX_LISTINGS = 6
"""A listing of a large repository takes megabytes; neighbouring commits share most of theirs."""

_ID = re.compile(r"(?:[0-9a-f]{40}|[0-9a-f]{64})(?::.*)?", re.DOTALL)
"""A full id, or `ID:PATH`."""


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

    def listing(self, commit: Commit) -> TreeListing | None:
        """Return the cached listing of a commit's tree, or None."""
        found = self._listings.pop(commit, None)
        if found is not None:
            self._listings[commit] = found
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
