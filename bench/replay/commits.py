"""Which commits of a project are replayed, and what a planner would ask of each."""

import re
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

from msgspec import Struct, structs

from replay.place import Place
from replay.trial import Contract

MOST_FILES = 60
SOURCES = (".py", ".pyi", ".js", ".mjs", ".cjs", ".ts", ".mts", ".tsx", ".jsx", ".go", ".rs")
MANIFESTS = (
    "pyproject.toml",
    "setup.cfg",
    "setup.py",
    "tox.ini",
    "mypy.ini",
    "package.json",
    "tsconfig.json",
    "go.mod",
    "Cargo.toml",
)
BUILD_SCRIPTS = ("setup.py", "noxfile.py")
NOT_SOURCE = ("docs", "doc", "examples", "bench", "benchmarks", "profiler", "fuzzer", "scripts", ".github")
"""Folders whose files alone make no commit worth replaying; none of them has tests."""
TEST_FILE = re.compile(r"(test_.*|.*_tests?|tests?)\.py$|.*\.(test|spec)\.[cm]?[jt]sx?$|.*_test\.go$")
TEST_FOLDERS = {"test", "tests", "testing"}
TEST_IN_FOLDER = re.compile(r".*\.([cm]?[jt]s|rs)")
"""What is one of tests in such a folder, whatever its name: runners of these languages ask for the folder alone."""
REMOVALS = {"removes-files", "renames-files", "removes-tests"}
GLOB = re.compile(r"[*?\[\]{}]")
_TEST_IN_DIFF = re.compile(
    r"^([-+])\s*(?:async )?(?:def (test\w*)|(?:it|test|describe)\(\s*(['\"`].*?['\"`]))", re.MULTILINE
)


class Change(Struct, frozen=True, kw_only=True):
    """A commit as a piece of work."""

    commit: str
    base: str
    subject: str
    files: tuple[str, ...]
    """All paths that it adds, changes or removes."""
    tests: tuple[str, ...]
    """The test files among them that exist afterwards."""
    added: tuple[str, ...]
    removed: tuple[str, ...]
    """What it adds and removes besides tests; of a renamed file, the new and the old path."""
    kinds: tuple[str, ...]
    """What is notable: `removes-files`, `renames-files`, `removes-tests`, `configuration`, `tests`."""


class Wanted(Struct, frozen=True, kw_only=True):
    """How many commits are chosen of each kind, the newest first."""

    tested: int
    """Of source files and tests: what an agent is asked for, with the tests that show it."""
    untested: int
    """Of source files alone."""
    removals: int
    """Further ones that remove or rename tests or files."""
    configuration: int
    """Of manifests and configuration, without a source file; none is older than the other kinds."""


def find_changes(place: Place, revisions: str, wanted: Wanted) -> list[Change]:
    """Return the commits to replay among `revisions`."""
    chosen: list[Change] = []
    left = structs.asdict(wanted)
    code = ["--", *(f"*{ending}" for ending in SOURCES), *MANIFESTS]
    for commit in place.commits("--no-merges", "--min-parents=1", *revisions.split(), *code):
        if not (left["tested"] or left["untested"] or left["removals"]):
            break
        change = read_change(place, commit)
        kind = next((kind for kind in _wanted_as(change) if left[kind]), None) if change else None
        if change and kind:
            left[kind] -= 1
            chosen.append(change)
    return chosen


def _wanted_as(change: Change) -> Iterator[str]:
    """Yield the fields of `Wanted` that count the change."""
    if not any(map(_is_source, change.files)):
        yield "configuration"
        return
    if any(map(is_code, change.files)):
        yield "tested" if change.tests else "untested"
    if set(change.kinds) & REMOVALS:
        yield "removals"


def read_change(place: Place, commit: str) -> Change | None:
    """Return the commit as a piece of work; None if it is none of code, too large, or changes submodules."""
    base = place.git("rev-parse", f"{commit}^").strip()
    rows = place.git("diff", "--raw", "--no-renames", "-z", base, commit).split("\0")[:-1]
    entries = list(zip(rows[::2], rows[1::2], strict=True))
    files = tuple(path for _, path in entries)
    # One manifest alone is most often a new version of a dependency, or of the project itself.
    if len(files) > MOST_FILES or not (any(map(_is_source, files)) or len(set(files) & set(MANIFESTS)) > 1):
        return None
    if any("160000" in row for row, _ in entries) or any(GLOB.search(path) for path in files):
        return None
    deleted = {path for row, path in entries if row.endswith(" D")}
    tests = tuple(path for path in files if path not in deleted and is_test(path))
    return Change(
        commit=place.git("rev-parse", commit).strip(),
        base=base,
        subject=place.git("log", "-1", "--format=%s", commit).strip(),
        files=files,
        tests=tests,
        added=tuple(path for row, path in entries if row.endswith(" A") and not is_test(path)),
        removed=tuple(path for path in files if path in deleted and not is_test(path)),
        kinds=tuple(_kinds(place, base, commit, files)),
    )


def patch_of(place: Place, base: str, commit: str) -> bytes:
    """Return the whole change as text that `git apply` accepts: binary files, modes, links and removals included."""
    return place.git_bytes("diff", "--binary", "--full-index", "--no-renames", "--no-ext-diff", base, commit)


def contract_of(change: Change, *, focused: str, whole: str) -> Contract:
    """Return what a planner would ask for: the tests that the work is about, else all, and the files by their names."""
    check = focused.format(files=" ".join(change.tests)) if change.tests else whole
    return Contract(commands=(check,), must_exist=change.added, must_not_exist=change.removed)


def is_code(path: str) -> bool:
    """Return whether a file is one of source and not of tests."""
    return _is_source(path) and not is_test(path) and not TEST_FOLDERS & set(PurePosixPath(path).parts)


def is_test(path: str) -> bool:
    """Return whether a file is one of tests, by its name and its place."""
    name, folder = PurePosixPath(path).name, PurePosixPath(path).parent.name
    named = bool(TEST_FILE.fullmatch(name)) or (folder in TEST_FOLDERS and bool(TEST_IN_FOLDER.fullmatch(name)))
    return named and path.split("/", maxsplit=1)[0] not in NOT_SOURCE


def _kinds(place: Place, base: str, commit: str, files: Sequence[str]) -> Iterator[str]:
    statuses = place.git("diff", "--name-status", "-M", base, commit).split("\n")[:-1]
    if any(line.startswith("D") for line in statuses):
        yield "removes-files"
    if any(line.startswith("R") for line in statuses):
        yield "renames-files"
    if _tests_taken_out(place.git("diff", "-M", base, commit)):
        yield "removes-tests"
    if any(PurePosixPath(path).name in MANIFESTS for path in files):
        yield "configuration"
    if any(map(is_test, files)):
        yield "tests"


def _tests_taken_out(diff: str) -> set[str]:
    """Return the names of tests that the diff removes and adds nowhere, by their text: only to sort the table."""
    found = [(sign, name or title) for sign, name, title in _TEST_IN_DIFF.findall(diff)]
    return {name for sign, name in found if sign == "-"} - {name for sign, name in found if sign == "+"}


def _is_source(path: str) -> bool:
    parts = PurePosixPath(path).parts
    return parts[0] not in NOT_SOURCE and path not in BUILD_SCRIPTS and path.endswith(SOURCES)
