"""Which tests have to do with a change: those beside it, in its package, of its tags, of whoever calls what changed.

Pure, and no model: a test that is left out here runs when the whole does, at the latest at the end of the run.
"""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property

from msgspec import Struct

from scaffold.verify.declaration import declared
from scaffold.verify.testlike import is_test_file

FEWEST = 5
"""With fewer tests than this the whole package is asked."""
MOST_CHANGED = 200
"""A change of more files than this is one of everything."""

_FOUNDATION = re.compile(
    r"(?:^|/)(?:conftest\.py|sitecustomize\.py|noxfile\.py|setup\.(?:py|cfg)|pyproject\.toml|(?:pytest|tox|mypy)\.ini"
    r"|\.pytest\.ini|requirements[^/]*\.(?:txt|in)|Pipfile|[^/]+\.lock|package(?:-lock)?\.json|pnpm-lock\.yaml"
    r"|pnpm-workspace\.yaml|npm-shrinkwrap\.json|\.npmrc|[jt]sconfig[^/]*\.json|\.babelrc[^/]*"
    r"|(?:jest|vitest|vite|babel|webpack|rollup)[^/]*\.config\.[^/]+|jest\.setup\.[^/]+|vitest\.setup\.[^/]+"
    r"|go\.(?:mod|sum|work)|Cargo\.toml|build\.rs|rust-toolchain[^/]*|Makefile|\.env[^/]*)$"
)
_STEM = re.compile(r"^(?:test_)?(?P<stem>.+?)(?:_tests?|\.test|\.spec)?\.(?P<kind>[^./]+)$")
ROOTS = frozenset({"src", "lib", "tests", "test", "__tests__", "spec", "unit", "integration"})
"""Folders that say what is in them, not what it is about."""
FAMILIES = {kind: family for family in ("py", "go", "rs", "js jsx ts tsx mjs cjs mts cts") for kind in family.split()}


class Selection(Struct, frozen=True, kw_only=True):
    """The tests to run, by file."""

    reasons: Mapping[str, str] = {}
    """Why each file of tests is asked."""
    whole: str = ""
    """Why all there is has to run; empty where the files do."""

    @property
    def files(self) -> tuple[str, ...]:
        """The files of tests, sorted."""
        return tuple(sorted(self.reasons))


class Index:
    """All paths of a commit, by what focus asks for."""

    def __init__(self, paths: Collection[str]) -> None:
        self.paths = frozenset(paths)

    @cached_property
    def tests(self) -> tuple[str, ...]:
        """The files of tests, sorted."""
        return tuple(sorted(filter(is_test_file, self.paths)))

    @cached_property
    def by_subject(self) -> Mapping[tuple[str, str], Sequence[str]]:
        """The files of tests by the name and the language of what they seem to test."""
        found = defaultdict(list)
        for path in self.tests:
            found[_subject(path)].append(path)
        return found

    @cached_property
    def by_folder(self) -> Mapping[str, Sequence[str]]:
        """The files of tests of Go by the folder they are in, which is their package."""
        found = defaultdict(list)
        for path in self.tests:
            if path.endswith(".go"):
                found[path.rpartition("/")[0]].append(path)
        return found

    @cached_property
    def by_package(self) -> Mapping[str, Sequence[str]]:
        """The files of tests by each of the packages they are in: folders, and those above, roots left out."""
        found = defaultdict(list)
        for path in self.tests:
            parts = _package(path).split("/")
            for length in range(1, len(parts) + 1):
                found["/".join(parts[:length])].append(path)
        return found


def select(
    changed: Collection[str],
    index: Index,
    *,
    callers: Collection[str] = (),
    tagged: Mapping[str, Collection[str]] = {},
    sizes: Mapping[str, int] = {},
) -> Selection:
    """Choose the tests for the paths that `changed`, whether they are still there or not.

    `callers` are files that mention what changed, `tagged` files of tests by the paths, folders or globs that they are
    for, `sizes` how many tests are known to be in a file; one where that is not known.
    """
    total = _reason_for_all(changed)
    if total:
        return Selection(whole=total)
    reasons: dict[str, str] = {}
    for path, why in _near(changed, index, callers, tagged):
        reasons.setdefault(path, why)
    if sum(sizes.get(path, 1) for path in reasons) >= FEWEST:
        return Selection(reasons=reasons)
    return _wider(changed, index, reasons)


def _reason_for_all(changed: Collection[str]) -> str:
    if len(changed) > MOST_CHANGED:
        return f"{len(changed)} files changed"
    found = next((path for path in sorted(changed) if _FOUNDATION.search(path)), None)
    return f"{found} changed, which everything rests on" if found else ""


def _near(
    changed: Collection[str], index: Index, callers: Iterable[str], tagged: Mapping[str, Collection[str]]
) -> Iterator[tuple[str, str]]:
    for path in sorted(changed):
        if is_test_file(path) and path in index.paths:
            yield path, "it changed itself"
        yield from ((test, f"it tests {path}") for test in _beside(path, index))
        for entry, tests in tagged.items():
            if declared(path, (entry,)):
                yield from ((test, f"it has a tag of {entry}") for test in sorted(tests))
    for path in sorted(callers):
        if is_test_file(path):
            yield path, "it mentions what changed"
        else:
            yield from ((test, f"it tests {path}, which mentions what changed") for test in _beside(path, index))


def _beside(path: str, index: Index) -> Iterator[str]:
    """Yield the tests of a file: named for it, and in its folder, in one of tests, or in one of a like package.

    A package of Go is tested as one: all that are in the folder.
    """
    subject = _subject(path)
    if subject[1] == "go":
        yield from index.by_folder.get(path.rpartition("/")[0], ())
        return
    if not subject[1] or is_test_file(path):
        return
    package = _package(path)
    for test in index.by_subject.get(subject, ()):
        theirs = _package(test)
        if not theirs or theirs == package or package.endswith(f"/{theirs}"):
            yield test


def _wider(changed: Collection[str], index: Index, reasons: Mapping[str, str]) -> Selection:
    """Add the packages of what changed; where a path is in none that has tests, everything has to run."""
    added: dict[str, str] = {}
    for path in sorted(changed):
        package = _nearest(_package(path), index)
        if not package:
            return Selection(whole=f"no package of tests is around {path}")
        added |= dict.fromkeys(index.by_package[package], f"it is in the package of {path}")
    return Selection(reasons={**added, **reasons})


def _nearest(package: str, index: Index) -> str:
    """Return the smallest package around that has tests; empty if only the whole has any."""
    parts = package.split("/") if package else []
    packages = ("/".join(parts[first:length]) for length in range(len(parts), 0, -1) for first in range(length))
    return next((name for name in packages if name in index.by_package), "")


def _subject(path: str) -> tuple[str, str]:
    """Return the name of what a file is, or tests, and the family of its language; empty for no language of ours."""
    name = path.rpartition("/")[2]
    found = _STEM.match(name)
    if found is None or found["kind"] not in FAMILIES:
        return name, ""
    return found["stem"], FAMILIES[found["kind"]]


def _package(path: str) -> str:
    """Return the folders that say what a file is about."""
    return "/".join(part for part in path.split("/")[:-1] if part not in ROOTS)
