"""Instances and patches of a verifier data set, as published beside the results of public agents."""

import gzip
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

GZIP = b"\x1f\x8b"
FILE_DIFF = re.compile(rb"^diff --git ", re.MULTILINE)
_PATHS = re.compile(
    rb"^diff --git (?:a/(?P<old>.+?) b/(?P<new>.+)|\"a/(?P<old_q>.+?)\" \"b/(?P<new_q>.+)\")$", re.MULTILINE
)


class Instance(Struct, frozen=True, kw_only=True, tag_field="kind", tag="instance"):
    """A problem with the tests that its solution has to pass."""

    id: str
    repo: str
    """`owner/name`."""
    version: str
    base: str
    """The commit to start from."""
    gold: str
    test_patch: str
    f2p: tuple[str, ...]
    """Tests that have to go from fail to pass: ids, or bare names of functions."""
    p2p: tuple[str, ...]
    """Tests that have to keep passing."""
    test_cmd: str


class Patch(Struct, frozen=True, kw_only=True, tag_field="kind", tag="patch"):
    """A submitted solution of an instance."""

    id: str
    hash: str
    """Of its text; the same text is run once."""
    patch: str
    by: Annotated[tuple[tuple[str, bool], ...], Meta(min_length=1)]
    """Who graded it, and whether as a solution."""

    @property
    def recorded(self) -> bool | None:
        """Whether it is recorded as a solution; None if graders disagree."""
        verdicts = {verdict for _, verdict in self.by}
        return verdicts.pop() if len(verdicts) == 1 else None


class Problem(Struct, frozen=True):
    """An instance with its patches, each text once."""

    instance: Instance
    patches: tuple[Patch, ...]


def read_problems(path: Path) -> list[Problem]:
    """Return the problems of a file of JSON lines, gzip or not, in its order."""
    data = path.read_bytes()
    text = gzip.decompress(data) if data.startswith(GZIP) else data
    lines = [msgspec.json.decode(line, type=Instance | Patch) for line in text.splitlines() if line.strip()]
    patches: dict[str, dict[str, Patch]] = {}
    for line in lines:
        if isinstance(line, Patch):
            same = patches.setdefault(line.id, {})
            known = same.get(line.hash)
            same[line.hash] = msgspec.structs.replace(line, by=(*known.by, *line.by)) if known else line
    return [Problem(line, tuple(patches.get(line.id, {}).values())) for line in lines if isinstance(line, Instance)]


def files_tested(instance: Instance) -> tuple[str, ...]:
    """Return the files that the instance's test command names."""
    return tuple(word for word in instance.test_cmd.split() if word.endswith(".py"))


def paths_of(diff: bytes) -> tuple[str, ...]:
    """Return the paths that a diff touches, in its order."""
    found: dict[str, None] = {}
    for match in _PATHS.finditer(diff):
        for group in ("old", "new", "old_q", "new_q"):
            if match[group]:
                found[match[group].decode(errors="replace")] = None
    return tuple(found)


def without_paths(diff: bytes, paths: Sequence[str]) -> bytes:
    """Return the diff without the parts that touch one of these paths; unchanged if it is not one of git's."""
    if not FILE_DIFF.search(diff):
        return diff
    return b"".join(part for part in _parts(diff) if not set(paths_of(part)) & set(paths))


def only_paths(diff: bytes, paths: Sequence[str]) -> bytes:
    """Return the parts of the diff that touch one of these paths."""
    return b"".join(part for part in _parts(diff) if set(paths_of(part)) & set(paths))


def _parts(diff: bytes) -> Iterator[bytes]:
    """Yield the part of each file."""
    starts = [match.start() for match in FILE_DIFF.finditer(diff)]
    yield from (diff[start:end] for start, end in zip(starts, [*starts[1:], len(diff)], strict=True))
