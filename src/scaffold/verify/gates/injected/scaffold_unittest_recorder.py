"""Replacement for `python -m unittest` whose runner records what it does.

Two canary tests run after the others. One of them must fail, which shows whether failures are reported at all.
"""

import os
import sys
import traceback
import unittest
from fnmatch import fnmatch
from pathlib import Path
from time import monotonic
from typing import Any, Iterator  # noqa: UP035 - that of collections.abc has no parameters before 3.9

from scaffold_originals import ReplacedFunctions  # type: ignore[import-not-found]
from scaffold_recorder import MOST_ROUNDS, Note, message_of, name_of_part, open_record, system_errors, take_order, tidy  # type: ignore[import-not-found]
from scaffold_stand_ins import StandIns  # type: ignore[import-not-found]

NOT_LOADED = "unittest.loader._FailedTest."
LOADED_BY = "_scaffold_module"
"""The attribute of a test with the module that loaded it, if that is not the module of its class."""
NAME = "_scaffold_name"
"""The attribute of a test with its name; unittest takes several tests for equal."""


class RecordingResult(unittest.TextTestResult):
    """Prints results as usual and records them."""

    note: Note
    stand_ins: Any = None
    """Set if the tests are of an older version."""
    only: "frozenset[str]"
    """The tests asked for by name; of these, parts that pass are recorded, too."""
    replaced: ReplacedFunctions

    def stopTest(self, test: Any) -> None:  # noqa: D102, N802
        super().stopTest(test)
        self.replaced.look()

    def startTest(self, test: Any) -> None:  # noqa: D102, N802 - unittest's names, here and below
        self.note("start", name_of_test(test))
        if self.stand_ins:
            self.stand_ins.begin_test()
        super().startTest(test)

    def addSuccess(self, test: Any) -> None:  # noqa: D102, N802
        self.note("outcome", name_of_test(test), "call", "passed", False)
        super().addSuccess(test)

    def addFailure(self, test: Any, err: Any) -> None:  # noqa: D102, N802
        self._note_failure(test, "call", err)
        super().addFailure(test, err)

    def addError(self, test: Any, err: Any) -> None:  # noqa: D102, N802
        # unittest stands a test of its own in for a module that cannot be imported.
        if test.id().startswith(NOT_LOADED):
            self.note("collection", name_of_test(test))
        when = "call" if isinstance(test, unittest.TestCase) else "setup"
        self._note_failure(test, when, err)
        super().addError(test, err)

    def addSkip(self, test: Any, reason: str) -> None:  # noqa: D102, N802
        self.note("outcome", name_of_test(test), "setup", "skipped", False)
        super().addSkip(test, reason)

    def addExpectedFailure(self, test: Any, err: Any) -> None:  # noqa: D102, N802
        self.note("outcome", name_of_test(test), "call", "skipped", True)
        super().addExpectedFailure(test, err)

    def addUnexpectedSuccess(self, test: Any) -> None:  # noqa: D102, N802
        self.note("outcome", name_of_test(test), "call", "failed", True)
        super().addUnexpectedSuccess(test)

    def addSubTest(self, test: Any, subtest: Any, err: Any) -> None:  # noqa: D102, N802
        name = name_of_part(name_of_test(test), subtest._subDescription())  # noqa: SLF001 - there is no other way
        if err is not None:
            self._note_failure(test, "call", err)
            self._note_failure(test, "call", err, name)
        elif name in self.only:
            self.note("outcome", name, "call", "passed", False)
        super().addSubTest(test, subtest, err)

    def _note_failure(self, test: Any, when: str, err: Any, part: str = "") -> None:
        name = part or name_of_test(test)
        self.note("outcome", name, when, "failed", False)
        self.note("said", name, message_of("".join(traceback.format_exception_only(err[0], err[1]))))
        errors = system_errors(err[1])
        if errors:
            self.note("errors", name, errors)
        method = getattr(test, getattr(test, "_testMethodName", ""), None)
        found = self.stand_ins and self.stand_ins.unresolved(err[1], method)
        if found:
            self.note("unresolved", name, *found)


class RecordingRunner(unittest.TextTestRunner):
    """Runs all selected tests, even after failures, then the two canary tests."""

    order: "dict[str, Any]"
    note: Note
    replaced: ReplacedFunctions

    def run(self, test: Any) -> Any:
        """Return the result of the tests; the canaries' results are only recorded."""
        # Tests that did not run would count as missing.
        self.failfast = False
        number_tests(flattened(test))
        if self.order["only"]:
            test = unittest.TestSuite(
                each for each in flattened(test) if is_selected(each, frozenset(self.order["only"]))
            )
        names = [name_of_test(each) for each in flattened(test)]
        self.note("collected", names)
        result = super().run(RepeatedSuite(flattened(test), self.order["repeat_s"]) if self.order["repeat_s"] else test)
        if names:
            for canary in canary_tests(self.order["token"]):
                self._run_canary(canary)
        replaced = self.replaced.all()
        if replaced:
            self.note("replaced", replaced)
        self.note("end", 0 if result.wasSuccessful() else 1)
        return result

    def _run_canary(self, canary: Any) -> None:
        silent: Any = unittest.TestResult()
        canary.run(silent)
        failed = bool(silent.failures or silent.errors) and not silent.wasSuccessful()
        self.note("canary", canary.id(), canary.raised, [("call", "failed" if failed else "passed", False)])


class RepeatedSuite(unittest.TestSuite):
    """Runs its tests one after another, and all of them again as long as a whole round fits into the time."""

    _cleanup = False
    """Tests are not removed once they have run."""

    def __init__(self, tests: "Iterator[Any]", seconds: float) -> None:
        super().__init__(tests)
        self._seconds = seconds

    def __iter__(self) -> Iterator[Any]:
        """Yield the tests of each round."""
        end = None
        for _ in range(MOST_ROUNDS):
            began = monotonic()
            yield from super().__iter__()
            now = monotonic()
            # The first round is what was asked for anyway.
            end = end or now + self._seconds
            if now + (now - began) > end:
                return


class SelectingLoader(unittest.TestLoader):
    """Loads only the selected files, because loading a file can influence the others.

    It loads all files if one is not a test file, because another file loads its doctests.
    """

    order: "dict[str, Any]"

    def _match_path(self, path: str, full_path: str, pattern: str) -> bool:
        only = self.order["only"]
        found = all(fnmatch(os.path.basename(each), pattern) for each in only)  # noqa: PTH119 - few imports
        selected = not found or any(Path(full_path).resolve() == Path(each).resolve() for each in only)
        matching: bool = super()._match_path(path, full_path, pattern)
        return matching and (selected or not only)

    def loadTestsFromModule(self, module: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: D102, N802
        found = super().loadTestsFromModule(module, *args, **kwargs)
        for test in flattened(found):
            # A module may import the tests of another one: they run in both.
            if type(test).__module__ != module.__name__ and not test.id().startswith(NOT_LOADED):
                setattr(test, LOADED_BY, module)
        return found


def canary_tests(token: str) -> "tuple[Any, Any]":
    """Return one test that must pass, then one that must fail."""

    class Canary(unittest.TestCase):
        raised = False

        def test_calm(self) -> None:
            pass

        def test_alarming(self) -> None:
            self.raised = True
            raise AssertionError(token)

    return Canary("test_calm"), Canary("test_alarming")


def flattened(tests: Any) -> Iterator[Any]:
    """Yield the single tests of a suite in their order."""
    if not isinstance(tests, unittest.BaseTestSuite):
        yield tests
        return
    for each in tests:
        yield from flattened(each)


def name_of_test(test: Any) -> str:
    """Return the name of a test, or of the module that could not be loaded."""
    name: str = getattr(test, NAME, None) or _plain_name(test)
    return name


def number_tests(tests: "Iterator[Any]") -> None:
    """Give each test a name of its own: a suite may hold several tests of one class and method."""
    seen: dict[str, int] = {}
    for test in tests:
        name = _plain_name(test)
        seen[name] = seen.get(name, 0) + 1
        setattr(test, NAME, name if seen[name] == 1 else tidy(f"{name} ({seen[name]})"))


def _plain_name(test: Any) -> str:
    name: str = test.id()
    module, own = getattr(test, LOADED_BY, None), f"{type(test).__module__}."
    if module is not None and name.startswith(own):
        name = f"{module.__name__}.{name[len(own) :]}"
    # Python before 3.9 has no `removeprefix`.
    return str(tidy(name.replace(NOT_LOADED, "", 1) if name.startswith(NOT_LOADED) else name))


def is_selected(test: Any, only: "frozenset[str]") -> bool:
    """Return True if a test is selected by its name, part or file, or represents a module that failed to load."""
    module = getattr(test, LOADED_BY, None) or sys.modules.get(type(test).__module__)
    doctest = getattr(test, "_dt_test", None)
    path = module and getattr(module, "__file__", None) if doctest is None else doctest.filename
    file = Path(path or "nowhere").resolve()
    return (
        test.id().startswith(NOT_LOADED)
        or name_of_test(test) in only
        or any(each.startswith(name_of_part(name_of_test(test), "")) for each in only)
        or any(file == Path(each).resolve() for each in only)
    )


def main() -> None:
    """Run `python -m unittest` with the arguments of this process."""
    sys.argv[0] = "python -m unittest"
    order = take_order()
    if order is None:
        unittest.main(module=None)
        return
    key = order.pop("key")
    note = open_record(order["folder"], key)
    members = {"note": staticmethod(note), "replaced": ReplacedFunctions()}
    stand_ins = StandIns(order["stand_ins"]) if order.get("stand_ins") else None
    if stand_ins:
        stand_ins.install()
    own = {"stand_ins": stand_ins, "only": frozenset(order["only"])}
    result = type("TextTestResult", (RecordingResult,), {**members, **own})
    runner: Any = type("TextTestRunner", (RecordingRunner,), {**members, "order": order, "resultclass": result})
    loader: Any = type("TestLoader", (SelectingLoader,), {"order": order})
    unittest.main(module=None, testRunner=runner, testLoader=loader())


if __name__ == "__main__":
    main()
