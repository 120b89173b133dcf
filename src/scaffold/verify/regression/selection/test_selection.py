"""Select the tests affected by a change: by name, package and tags, and the tests of its callers.

Pure functions. A test that is not selected here runs with the complete suite, at the latest at the end of the run.
"""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property

from msgspec import Struct

from scaffold.verify.paths.conventions import is_test_file
from scaffold.verify.paths.declared_paths import is_declared_path

MIN_TESTS = 5
"""If fewer tests than this are selected, the whole package is added."""
MAX_CHANGED = 200
"""A change of more files than this runs all tests."""

_AFFECTS_ALL = re.compile(
    r"(?:^|/)(?:conftest\.py|sitecustomize\.py|noxfile\.py|setup\.(?:py|cfg)|pyproject\.toml|(?:pytest|tox|mypy)\.ini"
    r"|\.pytest\.ini|requirements[^/]*\.(?:txt|in)|Pipfile|[^/]+\.lock|package(?:-lock)?\.json|pnpm-lock\.yaml"
    r"|pnpm-workspace\.yaml|npm-shrinkwrap\.json|\.npmrc|[jt]sconfig[^/]*\.json|\.babelrc[^/]*"
    r"|(?:jest|vitest|vite|babel|webpack|rollup)[^/]*\.config\.[^/]+|jest\.setup\.[^/]+|vitest\.setup\.[^/]+"
    r"|go\.(?:mod|sum|work)|Cargo\.toml|build\.rs|rust-toolchain[^/]*|Makefile|\.env[^/]*)$"
)
_STEM = re.compile(r"^(?:test_)?(?P<stem>.+?)(?:_tests?|\.test|\.spec)?\.(?P<kind>[^./]+)$")
NEUTRAL_FOLDERS = frozenset({"src", "lib", "tests", "test", "__tests__", "spec", "unit", "integration"})
"""Folder names that say what kind of files they contain, not what these are about."""
LANGUAGE_FAMILIES = {
    kind: family for family in ("py", "go", "rs", "js jsx ts tsx mjs cjs mts cts") for kind in family.split()
}


class Selection(Struct, frozen=True, kw_only=True):
    """The tests to run, by file."""

    reasons: Mapping[str, str] = {}
    """The reason for each test file."""
    run_all_reason: str = ""
    """Why all tests must run; empty if only the files above run."""

    @property
    def files(self) -> tuple[str, ...]:
        """The selected test files, sorted."""
        return tuple(sorted(self.reasons))


class PathIndex:
    """All paths of a commit, indexed for the selection."""

    def __init__(self, paths: Collection[str]) -> None:
        self.paths = frozenset(paths)

    @cached_property
    def tests(self) -> tuple[str, ...]:
        """The test files, sorted."""
        return tuple(sorted(filter(is_test_file, self.paths)))

    @cached_property
    def by_subject(self) -> Mapping[tuple[str, str], Sequence[str]]:
        """The test files by (name, language family) of the file that they test, judging by their names."""
        found = defaultdict(list)
        for path in self.tests:
            found[_subject_of(path)].append(path)
        return found

    @cached_property
    def by_folder(self) -> Mapping[str, Sequence[str]]:
        """The Go test files by folder, which is their package."""
        found = defaultdict(list)
        for path in self.tests:
            if path.endswith(".go"):
                found[path.rpartition("/")[0]].append(path)
        return found

    @cached_property
    def by_package(self) -> Mapping[str, Sequence[str]]:
        """The test files by each package that contains them, without neutral folders such as `src` and `tests`."""
        found = defaultdict(list)
        for path in self.tests:
            parts = _package_of(path).split("/")
            for length in range(1, len(parts) + 1):
                found["/".join(parts[:length])].append(path)
        return found


def select_tests(
    changed: Collection[str],
    index: PathIndex,
    *,
    callers: Collection[str] = (),
    tagged: Mapping[str, Collection[str]] = {},
    sizes: Mapping[str, int] = {},
) -> Selection:
    """Return the tests for the `changed` paths, which may have been deleted.

    `callers` are the files that mention a changed name; `tagged` maps paths, folders and globs to their test files;
    `sizes` are the known numbers of tests by file (1 if unknown); a file of any name may have some, as doctests.
    """
    total = _reason_for_all(changed, sizes)
    if total:
        return Selection(run_all_reason=total)
    reasons: dict[str, str] = {}
    for path, why in _related_tests(changed, index, callers, tagged):
        reasons.setdefault(path, why)
    # A handful of tests found by name may miss what a change breaks next to them.
    few = sum(sizes.get(path, 1) for path in reasons) < MIN_TESTS
    reasons |= dict.fromkeys(sizes.keys() & set(changed) & index.paths, "it changed itself")
    return _with_packages(changed, index, reasons) if few else Selection(reasons=reasons)


def _reason_for_all(changed: Collection[str], sizes: Mapping[str, int]) -> str:
    if len(changed) > MAX_CHANGED:
        return f"{len(changed)} files changed"
    found = next((path for path in sorted(changed) if _AFFECTS_ALL.search(path)), None)
    if found is None:
        # A runner is asked for files of its language only.
        found = next((path for path in sorted(sizes.keys() & set(changed)) if not _subject_of(path)[1]), None)
    return f"{found} changed, which can affect every test" if found else ""


def _related_tests(
    changed: Collection[str], index: PathIndex, callers: Iterable[str], tagged: Mapping[str, Collection[str]]
) -> Iterator[tuple[str, str]]:
    for path in sorted(changed):
        if is_test_file(path) and path in index.paths:
            yield path, "it changed itself"
        yield from ((test, f"it tests {path}") for test in _tests_of_file(path, index))
        for entry, tests in tagged.items():
            if is_declared_path(path, (entry,)):
                yield from ((test, f"it has a tag of {entry}") for test in sorted(tests))
    for path in sorted(callers):
        if is_test_file(path):
            yield path, "it mentions what changed"
        else:
            yield from ((test, f"it tests {path}, which mentions what changed") for test in _tests_of_file(path, index))


def _tests_of_file(path: str, index: PathIndex) -> Iterator[str]:
    """Yield the test files named after a file whose package is the same, the end of the file's package, or empty.

    For Go these are all test files in the folder, because a package is tested as a whole.
    """
    subject = _subject_of(path)
    if subject[1] == "go":
        yield from index.by_folder.get(path.rpartition("/")[0], ())
        return
    if not subject[1] or is_test_file(path):
        return
    package = _package_of(path)
    for test in index.by_subject.get(subject, ()):
        test_package = _package_of(test)
        if not test_package or test_package == package or package.endswith(f"/{test_package}"):
            yield test


def _with_packages(changed: Collection[str], index: PathIndex, reasons: Mapping[str, str]) -> Selection:
    """Add the tests in the packages of the changed paths; select all tests if a path has no package with tests."""
    added: dict[str, str] = {}
    for path in sorted(changed):
        package = _package_of(path)
        parts = package.split("/") if package else []
        packages = ("/".join(parts[first:length]) for length in range(len(parts), 0, -1) for first in range(length))
        package = next((name for name in packages if name in index.by_package), "")
        if not package:
            return Selection(run_all_reason=f"no package with tests contains {path}")
        added |= dict.fromkeys(index.by_package[package], f"it is in the package of {path}")
    return Selection(reasons={**added, **reasons})


def _subject_of(path: str) -> tuple[str, str]:
    """Return (name, language family) of a file, or of the file it tests; the family is empty for other languages."""
    name = path.rpartition("/")[2]
    found = _STEM.match(name)
    if found is None or found["kind"] not in LANGUAGE_FAMILIES:
        return name, ""
    return found["stem"], LANGUAGE_FAMILIES[found["kind"]]


def _package_of(path: str) -> str:
    return "/".join(part for part in path.split("/")[:-1] if part not in NEUTRAL_FOLDERS)
