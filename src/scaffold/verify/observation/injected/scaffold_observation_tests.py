"""Write down what becomes of each test of pytest and unittest; results and reports stay as they are."""

import functools
import os
import sys

UNITTEST_OUTCOMES = {
    "addSuccess": "passed",
    "addFailure": "failed",
    "addError": "failed",
    "addSkip": "skipped",
    "addExpectedFailure": "xfailed",
    "addUnexpectedSuccess": "xfailed",
}
NOT_LOADED = "_FailedTest"
ONLY = "only"
"""The files whose tests alone pytest is to run, one in hex per line; missing if it is to run all."""


class OutcomePlugin:
    """A pytest plugin that writes the outcome of each phase of each test."""

    running = False
    """Whether pytest runs in this process; a run inside a test is none of the project's."""

    def __init__(self, write, only):
        self._write = write
        self._only = only
        self._root = ""

    def pytest_sessionstart(self, session):
        OutcomePlugin.running = True
        self._root = str(getattr(session.config, "rootpath", None) or session.config.rootdir)

    def pytest_sessionfinish(self):
        OutcomePlugin.running = False

    def pytest_collectreport(self, report):
        if report.outcome != "passed" and report.nodeid:
            self._note(report.outcome, report.nodeid)

    def pytest_collection_modifyitems(self, config, items):
        if self._only:
            others = [
                item
                for item in items
                if os.path.realpath(str(getattr(item, "path", None) or item.fspath)) not in self._only
            ]
            items[:] = [item for item in items if item not in others]
            config.hook.pytest_deselected(items=others)

    def pytest_runtest_logreport(self, report):
        outcome = "xfailed" if hasattr(report, "wasxfail") else report.outcome
        if report.when == "call" or outcome != "passed":
            self._note(outcome, report.nodeid)

    def _note(self, outcome, nodeid):
        path, separator, name = nodeid.partition("::")
        self._write(outcome, os.path.join(self._root, path) + separator + name)


def observe_pytest(names, observer):
    """Give each plugin manager of pytest our plugin, unless pytest runs already."""
    manager = names["PytestPluginManager"]
    original = manager.__init__

    @functools.wraps(original)
    def init(self, *args, **options):
        original(self, *args, **options)
        if not OutcomePlugin.running:
            self.register(OutcomePlugin(writer(observer.note), only(observer.folder)), "scaffold_observation")

    manager.__init__ = init


def only(folder):
    """Return the real paths of the files whose tests alone are to run; empty for all."""
    try:
        with open(os.path.join(folder, ONLY)) as lines:
            return {os.path.realpath(os.fsdecode(bytes.fromhex(line.strip()))) for line in lines}
    except FileNotFoundError:
        return set()


def observe_unittest(names, observer):
    """Make the class of all results write down what it is told."""
    write = writer(observer.note)
    for name, outcome in UNITTEST_OUTCOMES.items():
        setattr(names["TestResult"], name, observed(getattr(names["TestResult"], name), outcome, write))
    names["TestResult"].addSubTest = observed_subtest(names["TestResult"].addSubTest, write)


def observed(original, outcome, write):
    """Return a method of results that also writes the outcome."""

    @functools.wraps(original)
    def method(self, test, *args, **options):
        write_test(write, outcome, test)
        return original(self, test, *args, **options)

    return method


def observed_subtest(original, write):
    """Return the method for subtests, which also writes those that failed."""

    @functools.wraps(original)
    def method(self, test, subtest, error):
        if error is not None:
            write_test(write, "failed", test)
        return original(self, test, subtest, error)

    return method


def write_test(write, outcome, test):
    """Write the outcome of a unittest under the name that pytest would give it."""
    try:
        kind = type(test)
        if kind.__name__ == NOT_LOADED:
            path = source_of(test._testMethodName)
            return write(outcome, path) if path else None
        path = getattr(sys.modules.get(kind.__module__), "__file__", None)
        method = getattr(test, "_testMethodName", None)
        if path and method:
            write(outcome, "::".join((os.path.abspath(path), kind.__qualname__, method)))
    except (AttributeError, OSError, TypeError, ValueError):  # no test like others
        pass
    return None


def source_of(module):
    """Return the file of a module that could not be imported; None if there is none."""
    path = module.replace(".", os.sep) + ".py"
    found = (os.path.abspath(os.path.join(folder or ".", path)) for folder in sys.path)
    return next((each for each in found if os.path.isfile(each)), None)


def writer(note):
    """Return a function that writes an outcome of this process, each once: a test may have thousands of parts."""
    written = set()

    def write(outcome, name):
        line = "{} {}".format(outcome, name.encode("unicode_escape").decode("ascii"))
        if line in written:
            return
        try:
            note("tests-{}".format(os.getpid()), line)
            written.add(line)
        except OSError:  # the folder is gone, or the disk is full
            pass

    return write
