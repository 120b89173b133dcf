"""Stands in for `python -m unittest`: the same program, whose runner writes down what it does.

Two tests of ours run after the others, one of which must fail: they show whether failures are told at all.
"""

from __future__ import annotations

import sys
import unittest
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from scaffold_scribe import Note, open_record, take_order, tidy  # type: ignore[import-not-found]

NOT_LOADED = "unittest.loader._FailedTest."


class Result(unittest.TextTestResult):
    """Tells on the terminal what it always tells, and writes it down."""

    note: Note

    def startTest(self, test: Any) -> None:  # noqa: D102, N802 - unittest's names, here and below
        self.note("start", named(test))
        super().startTest(test)

    def addSuccess(self, test: Any) -> None:  # noqa: D102, N802
        self.note("outcome", named(test), "call", "passed", False)
        super().addSuccess(test)

    def addFailure(self, test: Any, err: Any) -> None:  # noqa: D102, N802
        self.note("outcome", named(test), "call", "failed", False)
        super().addFailure(test, err)

    def addError(self, test: Any, err: Any) -> None:  # noqa: D102, N802
        if test.id().startswith(NOT_LOADED):
            self.note("collection", named(test))
        when = "call" if isinstance(test, unittest.TestCase) else "setup"
        self.note("outcome", named(test), when, "failed", False)
        super().addError(test, err)

    def addSkip(self, test: Any, reason: str) -> None:  # noqa: D102, N802
        self.note("outcome", named(test), "setup", "skipped", False)
        super().addSkip(test, reason)

    def addExpectedFailure(self, test: Any, err: Any) -> None:  # noqa: D102, N802
        self.note("outcome", named(test), "call", "skipped", True)
        super().addExpectedFailure(test, err)

    def addUnexpectedSuccess(self, test: Any) -> None:  # noqa: D102, N802
        self.note("outcome", named(test), "call", "failed", True)
        super().addUnexpectedSuccess(test)

    def addSubTest(self, test: Any, subtest: Any, err: Any) -> None:  # noqa: D102, N802
        if err is not None:
            self.note("outcome", named(test), "call", "failed", False)
        super().addSubTest(test, subtest, err)


class Runner(unittest.TextTestRunner):
    """Runs all that is wanted, however much of it fails, then the two of ours."""

    order: dict[str, Any]
    note: Note

    def run(self, test: Any) -> Any:
        """Return the result of the tests; that of ours is written down alone."""
        self.failfast = False
        if self.order["only"]:
            test = unittest.TestSuite(each for each in flat(test) if wanted(each, frozenset(self.order["only"])))
        names = [named(each) for each in flat(test)]
        self.note("collected", names)
        result = super().run(test)
        if names:
            for ours in canaries(self.order["token"]):
                self._watch(ours)
        self.note("end", 0 if result.wasSuccessful() else 1)
        return result

    def _watch(self, ours: Any) -> None:
        silent: Any = unittest.TestResult()
        ours.run(silent)
        failed = bool(silent.failures or silent.errors) and not silent.wasSuccessful()
        self.note("canary", ours.id(), ours.raised, [("call", "failed" if failed else "passed", False)])


class Loader(unittest.TestLoader):
    """Leaves files alone that nobody asked for: as they are loaded they could change what others find."""

    order: dict[str, Any]

    def _match_path(self, path: str, full_path: str, pattern: str) -> bool:
        only = self.order["only"]
        asked = not all(each.endswith(".py") for each in only) or any(_same(full_path, each) for each in only)
        matching: bool = super()._match_path(path, full_path, pattern)
        return matching and (asked or not only)


def _same(path: str, other: str) -> bool:
    return Path(path).resolve() == Path(other).resolve()


def canaries(token: str) -> tuple[Any, Any]:
    """Return one test that must pass, then one that must fail."""

    class Canary(unittest.TestCase):
        raised = False

        def test_calm(self) -> None:
            pass

        def test_alarming(self) -> None:
            self.raised = True
            raise AssertionError(token)

    return Canary("test_calm"), Canary("test_alarming")


def flat(tests: Any) -> Iterator[Any]:
    """Yield the single tests of a suite in their order."""
    if not isinstance(tests, unittest.BaseTestSuite):
        yield tests
        return
    for each in tests:
        yield from flat(each)


def named(test: Any) -> str:
    """Return what a test is called, or the module that could not be loaded."""
    name: str = tidy(test.id().removeprefix(NOT_LOADED) if hasattr(str, "removeprefix") else test.id())
    return name


def wanted(test: Any, only: frozenset[str]) -> bool:
    """Tell whether a test is wanted by its name or its file's, or could not even be loaded."""
    module = sys.modules.get(type(test).__module__)
    file = Path(getattr(module, "__file__", None) or "nowhere").resolve()
    return test.id().startswith(NOT_LOADED) or named(test) in only or any(file == Path(each).resolve() for each in only)


def main() -> None:
    """Do what `python -m unittest` does with our arguments."""
    sys.argv[0] = "python -m unittest"
    order = take_order()
    if order is None:
        unittest.main(module=None)
        return
    key = order.pop("key")
    note = open_record(order["folder"], key)
    members = {"note": staticmethod(note)}
    result = type("TextTestResult", (Result,), members)
    runner: Any = type("TextTestRunner", (Runner,), {**members, "order": order, "resultclass": result})
    loader: Any = type("TestLoader", (Loader,), {"order": order})
    unittest.main(module=None, testRunner=runner, testLoader=loader())


if __name__ == "__main__":
    main()
