"""Recognise tests by their paths, to protect them and to select them.

Gate detection is stricter (`gates.project_files`): a test gate whose runner finds no tests could never pass.
"""

import re

PROSE_SUFFIXES = frozenset({"md", "rst"})
"""Suffixes of documentation, in which no runner finds tests."""
TEST_FOLDERS = frozenset({"tests", "test", "__tests__", "__snapshots__", "__mocks__", "testdata", "e2e", "cypress"})
"""Every file below these counts as a test, including data."""
SPEC_FOLDERS = frozenset({"spec", "specs"})
"""Only scripts below these count as tests, and not inside the program's own folders: others hold specifications."""
SOURCE_FOLDERS = frozenset({"src", "lib"})
"""Folders of programs, in which `spec/` or `test.js` may not be about tests."""
TEST_NAME = re.compile(
    r"test_.*\.py|.*_test\.(py|go|rb|exs)|tests\.py|conftest\.py|.*_spec\.rb|"
    r".*[._-](test|spec)\.[cm]?[jt]sx?|.*[a-z0-9]Spec\.[cm]?jsx?|.*\.snap|.*(Test|Tests|IT)\.(java|kt|cs)"
)
"""The file names of tests for pytest, unittest, go, jest, vitest and similar runners; cargo finds them in `tests/`.
`testing.py` is often part of the program, so it is not included."""

LOCK_FILES = frozenset({
    *("package-lock.json", "npm-shrinkwrap.json", "yarn.lock", "pnpm-lock.yaml", "bun.lock", "composer.lock"),
    *("Cargo.lock", "poetry.lock", "uv.lock", "pdm.lock", "Pipfile.lock", "Gemfile.lock", "flake.lock"),
})  # fmt: skip
"""Files that a tool computes from a manifest, so merging their lines is always wrong."""

_SCRIPT = re.compile(r".*\.[cm]?[jt]sx?")
_SCRIPT_NAME = re.compile(r"tests?\.[cm]?[jt]sx?|test-.*\.[cm]?[jt]sx?")
"""Names of tests for Node's own runner, ava and tape, outside the program's own folders."""
_RUNNABLE = re.compile(
    r"(?:^|/)(?:test[^/]*\.py|[^/]*_tests?\.py|[^/]*_test\.go|[^/]+\.(?:test|spec)\.[cm]?[jt]sx?)$"
    r"|(?:^|/)[^/]*[a-z0-9]Spec\.[cm]?jsx?$"
    r"|(?:^|/)__tests__/.*\.[cm]?[jt]sx?$"
    r"|(?:^|/)tests/.*\.rs$"
)
_MARK = re.compile(r"^test[_-]|[._-](?:tests?|spec)$|(?<=[a-z0-9])(?:Tests?|Spec|IT)$")
"""What a runner's convention adds to the name of the module that a test is about."""


def tested_module(path: str) -> str:
    """Return the name of the module that a test is about, by its runner's convention: `calc` for `test_calc.py`."""
    return _MARK.sub("", path.rpartition("/")[2].rpartition(".")[0])


def is_test(path: str) -> bool:
    """Return True if `path` is a test or test data, which a change judged by it must not alter."""
    *folders, name = path.split("/")
    if not TEST_FOLDERS.isdisjoint(folders) or TEST_NAME.fullmatch(name):
        return True
    is_spec = not SPEC_FOLDERS.isdisjoint(folders) and _SCRIPT.fullmatch(name) is not None
    return SOURCE_FOLDERS.isdisjoint(folders) and (is_spec or _SCRIPT_NAME.fullmatch(name) is not None)


def is_test_file(path: str) -> bool:
    """Return True if a runner may find tests in the file, so that it can be run alone."""
    if _RUNNABLE.search(path):
        return True
    # `test-utils.js` is rather a helper of tests.
    return path.rpartition("/")[2].partition(".")[0] == "test" and _SCRIPT.fullmatch(path) is not None and is_test(path)


def is_lock_file(path: str) -> bool:
    """Return whether a path is named like a file that only its tool makes."""
    return path.rpartition("/")[2] in LOCK_FILES
