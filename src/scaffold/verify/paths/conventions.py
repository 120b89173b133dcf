"""Recognise tests by their paths, to protect them and to select them.

Gate detection is stricter (`gates.project_files`): a test gate whose runner finds no tests could never pass.
"""

import re

PROSE_SUFFIXES = frozenset({"md", "rst"})
"""Suffixes of documentation, in which no runner finds tests."""
TEST_FOLDERS = frozenset({"tests", "test", "__tests__", "__snapshots__", "__mocks__", "testdata", "e2e", "cypress"})
"""Every file below these counts as a test, including data."""
TEST_NAME = re.compile(
    r"test_.*\.py|.*_test\.(py|go|rb|exs)|tests\.py|conftest\.py|.*_spec\.rb|"
    r".*[._-](test|spec)\.[cm]?[jt]sx?|.*\.snap|.*(Test|Tests|IT)\.(java|kt|cs)"
)
"""The file names of tests for pytest, unittest, go, jest, vitest and similar runners; cargo finds them in `tests/`.
`testing.py` is often part of the program, so it is not included."""

_RUNNABLE = re.compile(
    r"(?:^|/)(?:test[^/]*\.py|[^/]*_tests?\.py|[^/]*_test\.go|[^/]+\.(?:test|spec)\.[cm]?[jt]sx?)$"
    r"|(?:^|/)__tests__/.*\.[cm]?[jt]sx?$"
    r"|(?:^|/)tests/.*\.rs$"
)


def is_test(path: str) -> bool:
    """Return True if `path` is a test or test data, which a change judged by it must not alter."""
    *folders, name = path.split("/")
    return not TEST_FOLDERS.isdisjoint(folders) or TEST_NAME.fullmatch(name) is not None


def is_test_file(path: str) -> bool:
    """Return True if a runner may find tests in the file, so that it can be run alone."""
    return _RUNNABLE.search(path) is not None
