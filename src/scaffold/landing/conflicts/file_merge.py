"""Resolve one file that git leaves in conflict, and certify the result. Pure."""

from collections.abc import Callable, Mapping
from pathlib import PurePosixPath
from typing import Literal

from msgspec import Struct

from scaffold.core.landing.conflict import FileVersions
from scaffold.landing.conflicts.certificate import require_complete
from scaffold.landing.conflicts.go_merge import merge_go_mod, merge_go_sum
from scaffold.landing.conflicts.json_merge import merge_json
from scaffold.landing.conflicts.line_merge import merge_union
from scaffold.landing.conflicts.not_mergeable import NotMergeable
from scaffold.landing.conflicts.python_merge import merge_python
from scaffold.landing.conflicts.toml_merge import merge_toml

Merge = Callable[[str, str, str], str]
Method = Literal["union", "manifest", "python", "rebase", "agent"]

METHODS: Mapping[Method, str] = {
    "union": "as a union of lines",
    "manifest": "by its entries",
    "python": "by its functions, classes and imports",
    "rebase": "by its commits, one after another",
    "agent": "by a merge agent",
}
"""How a file was resolved, for people."""
MANIFESTS: Mapping[str, Merge] = {
    "package.json": merge_json,
    "composer.json": merge_json,
    "pyproject.toml": merge_toml,
    "Cargo.toml": merge_toml,
    "go.mod": merge_go_mod,
    "go.sum": merge_go_sum,
}
"""How each manifest is merged, by the name of its file."""


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
    found = _merge_method(name, union=union)
    if found is None:
        return FileRefused("no merge is known for this kind of file")
    how, merge = found
    try:
        merged = merge(versions.base, versions.ours, versions.theirs)
        require_complete(versions, merged)
    except NotMergeable as refused:
        return FileRefused(str(refused))
    return FileResolved(merged, how)


def _merge_method(name: str, *, union: bool) -> tuple[Method, Merge] | None:
    """Return how a file is merged, by its name; None if there is no merge for its kind."""
    if union:
        return "union", merge_union
    if name in MANIFESTS:
        return "manifest", MANIFESTS[name]
    return ("python", merge_python) if name.endswith((".py", ".pyi")) else None
