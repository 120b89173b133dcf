"""The directories of a repository over which its agents are spread: packages, or folders below the source root."""

import functools
from collections.abc import Collection, Iterable, Sequence

from msgspec import Struct

from scaffold.plan.collisions.boundary import above, boundary_of, compared

COMPANIONS = frozenset(
    {
        *("test", "tests", "testing", "spec", "specs", "__tests__", "e2e", "testdata", "fixtures"),
        *("doc", "docs", "documentation", "example", "examples", "bench", "benches", "benchmarks"),
    }
)
"""Folders whose files belong to source elsewhere: what changes a test with its source works on the source."""
NO_SOURCE = frozenset({"__init__.py", "py.typed"})
"""Files that a folder may have beside the only folder with source."""


class SourceLayout(Struct, frozen=True):
    """Where a repository has its source; of one that is not known, nothing is limited."""

    root: str = ""
    """The folder that has all source; empty for the top of the repository."""
    packages: tuple[str, ...] = ()
    """The members of workspaces. Where there are some, they are the directories."""
    folders: tuple[str, ...] = ()
    """The folders with source in `root`, without companions and those that have packages."""

    @property
    def is_spread(self) -> bool:
        """Whether there is more than one directory: agents can be spread over several alone."""
        return len(self.packages) + len(self.folders) > 1

    def directories_of(self, files: tuple[str, ...]) -> tuple[str, ...]:
        """Return the directories in which an action with these files works, as compared; none if it does not matter.

        Files in no directory, at the top or in the source root itself, do not count. What is outside of the source,
        such as documents, counts for its own top-level directory, but only for an action that has nothing else.
        """
        return _package_folders(self, files) if self.is_spread else ()


def layout_of(paths: Iterable[str], packages: Collection[str] = ()) -> SourceLayout:
    """Return the layout of a repository with these files, and these members of workspaces."""
    folders, with_files = _folder_tree(paths)
    members = tuple(sorted({each for each in packages if each in folders} - {""}))
    # Members of a workspace are named by the project, which knows better than a guess by folders.
    if members:
        around = {folder for each in members for folder in (each, *above(each))}
        others = (each for each in _source_children(folders, "") if each not in around)
        return SourceLayout(packages=members, folders=tuple(others))
    root, inside = "", _source_children(folders, "")
    # A chain of folders that hold only one another, such as `src/app`, is not a choice: what is below it is.
    while len(inside) == 1 and not (root and root in with_files):
        deeper = _source_children(folders, inside[0])
        if not deeper:
            break
        root, inside = inside[0], deeper
    return SourceLayout(root=root, folders=tuple(inside))


def _folder_tree(paths: Iterable[str]) -> tuple[dict[str, set[str]], set[str]]:
    inside, with_files = {"": set[str]()}, set[str]()
    for path in paths:
        folder, _, name = path.rpartition("/")
        # A folder with nothing but `__init__.py` has no source of its own.
        if name not in NO_SOURCE and not name.startswith("."):
            with_files.add(folder)
        while folder and folder not in inside:
            inside[folder] = set()
            folder = folder.rpartition("/")[0]
    for folder in [*inside]:
        if folder:
            inside[folder.rpartition("/")[0]].add(folder)
    return inside, with_files


def _source_children(folders: dict[str, set[str]], folder: str) -> Sequence[str]:
    names = ((each, each.rpartition("/")[2].lower()) for each in sorted(folders.get(folder, ())))
    return [each for each, name in names if name not in COMPANIONS and not name.startswith(".")]


@functools.lru_cache(maxsize=8192)
def _package_folders(layout: SourceLayout, files: tuple[str, ...]) -> tuple[str, ...]:
    packages, known = frozenset(map(compared, layout.packages)), frozenset(map(compared, layout.folders))
    boundary = boundary_of(files)
    root = compared(layout.root)
    source, outside, has_source = set[str](), set[str](), bool(boundary.first_names or "" in boundary.paths)
    for path in filter(None, boundary.paths):  # an action that may change everything runs alone anyway
        package = next((each for each in (path, *above(path)) if each in packages), None)
        if package is not None:
            source.add(package)
            continue
        is_below = not root or path == root or path.startswith(f"{root}/")
        names = path[len(root) + bool(root) :].split("/") if is_below else path.split("/")
        first = "/".join(filter(None, (root if is_below else "", names[0])))
        is_folder = len(names) > 1 or first in known
        # A file in the source root belongs to no directory: it would hold back everybody.
        if is_below and names[0] not in COMPANIONS and not names[0].startswith("."):
            has_source = True
            source.update([first] if is_folder else [])
        # Documents and the like count only for an action that changes nothing else.
        elif is_folder or "." not in names[0]:
            outside.add(path.split("/")[0])
    return tuple(sorted(source if source or has_source else outside))
