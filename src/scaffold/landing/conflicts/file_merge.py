"""Resolve one file that git leaves in conflict, and certify that no line of either side is lost. Pure."""

from collections.abc import Callable, Mapping
from pathlib import PurePosixPath
from typing import Literal

from msgspec import Struct

from scaffold.core.printable_text import count_of
from scaffold.landing.conflicts.go_merge import merge_go_mod, merge_go_sum
from scaffold.landing.conflicts.json_merge import merge_json
from scaffold.landing.conflicts.line_merge import lost_lines, merge_union
from scaffold.landing.conflicts.not_mergeable import NotMergeable
from scaffold.landing.conflicts.python_merge import merge_python
from scaffold.landing.conflicts.toml_merge import merge_toml

Merge = Callable[[str, str, str], str]
Method = Literal["union", "manifest", "python"]

MANIFESTS: Mapping[str, Merge] = {
    "package.json": merge_json,
    "composer.json": merge_json,
    "pyproject.toml": merge_toml,
    "Cargo.toml": merge_toml,
    "go.mod": merge_go_mod,
    "go.sum": merge_go_sum,
}
"""How each manifest is merged, by the name of its file."""
RAISED_LINES = frozenset({"go.mod"})
"""Files in which a higher version replaces a lower one that the other side has, so that their lines may be lost."""


class FileVersions(Struct, frozen=True):
    """The three versions of a file that both sides changed."""

    path: str
    base: str
    ours: str
    theirs: str


class FileResolved(Struct, frozen=True, tag="resolved"):
    """Both sides' changes are in `text`."""

    text: str
    how: Method


class FileRefused(Struct, frozen=True, tag="refused"):
    """What cannot be resolved without knowing what is meant."""

    why: str


def merge_file(versions: FileVersions, *, union: bool = False) -> FileResolved | FileRefused:
    """Resolve a file by the merge for its kind; `union`: its lines are declared to be independent of each other."""
    name = PurePosixPath(versions.path).name
    how, merge = _method(name, union=union)
    if merge is None:
        return FileRefused("no merge is known for this kind of file")
    try:
        merged = merge(versions.base, versions.ours, versions.theirs)
    except NotMergeable as refused:
        return FileRefused(str(refused))
    lost = () if name in RAISED_LINES else _lost(versions, merged, how)
    if lost:
        return FileRefused(f"the merge would have lost {count_of(len(lost), 'line')}, e.g. {lost[0].strip()[:80]!r}")
    return FileResolved(merged, how)


def _method(name: str, *, union: bool) -> tuple[Method, Merge | None]:
    if union:
        return "union", merge_union
    if name in MANIFESTS:
        return "manifest", MANIFESTS[name]
    return "python", merge_python if name.endswith((".py", ".pyi")) else None


def _lost(versions: FileVersions, merged: str, how: Method) -> tuple[str, ...]:
    # In a manifest, a comma says only that another entry follows.
    normal = _without_comma if how == "manifest" else str.rstrip
    return lost_lines(versions.base, versions.ours, versions.theirs, merged, normal=normal)


def _without_comma(line: str) -> str:
    return line.strip().removesuffix(",")
