"""What a test is, by its path: for whoever guards them, and for whoever runs them.

Detection asks more narrowly still (`gates.listing`): a runner that finds nothing would be a gate nobody passes.
"""

import re

PROSE = frozenset({"md", "rst"})
"""Endings of what is written for people, in which no runner finds a test."""
TEST_FOLDERS = frozenset({"tests", "test", "__tests__", "__snapshots__", "__mocks__", "testdata", "e2e", "cypress"})
"""Below these everything is a test, its data included."""
TEST_NAME = re.compile(
    r"test_.*\.py|.*_test\.(py|go|rb|exs)|tests\.py|conftest\.py|.*_spec\.rb|"
    r".*[._-](test|spec)\.[cm]?[jt]sx?|.*\.snap|.*(Test|Tests|IT)\.(java|kt|cs)"
)
"""How pytest, unittest, go, jest, vitest and their like find tests; cargo finds them in `tests/`. `testing.py` is as
often a part of the program, so it may be changed."""

_RUN = re.compile(
    r"(?:^|/)(?:test[^/]*\.py|[^/]*_tests?\.py|[^/]*_test\.go|[^/]+\.(?:test|spec)\.[cm]?[jt]sx?)$"
    r"|(?:^|/)__tests__/.*\.[cm]?[jt]sx?$"
    r"|(?:^|/)tests/.*\.rs$"
)


def is_test(path: str) -> bool:
    """Tell whether `path` is a test, or data beside tests: what nobody changes who is judged by it."""
    *folders, name = path.split("/")
    return not TEST_FOLDERS.isdisjoint(folders) or TEST_NAME.fullmatch(name) is not None


def is_test_file(path: str) -> bool:
    """Tell whether a runner may find tests in a file: what can be asked alone."""
    return _RUN.search(path) is not None
