"""Write down what becomes of each test of pytest and unittest, and when their runs begin and end.

Results and reports stay as they are.
"""

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
MOST_ANCESTORS = 50
ONLY = "only"
"""The files whose tests alone pytest is to run, one in hex per line; missing if it is to run all."""


class OutcomePlugin:
    """A pytest plugin that writes the outcome of each phase of each test."""

    running = False
    """Whether pytest runs in this process; a run inside a test does not count."""

    def __init__(self, write, only):
        self._run = TestRun(write)
        self._write = write
        self._only = only
        self._root = ""

    def pytest_load_initial_conftests(self, early_config):
        OutcomePlugin.running = True
        # The run of a pytest-xdist worker counts as its controller's.
        if not is_xdist_worker():
            self._run.begin(root_of(early_config))

    def pytest_sessionstart(self, session):
        OutcomePlugin.running = True
        self._root = root_of(session.config)

    def pytest_sessionfinish(self):
        OutcomePlugin.running = False
        self._run.end()

    def pytest_collection_finish(self, session):
        for item in session.items:
            self._note_outcome("collected", item.nodeid)

    def pytest_collectreport(self, report):
        if report.outcome != "passed" and report.nodeid:
            self._note_outcome(report.outcome, report.nodeid)

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
            self._note_outcome(outcome, report.nodeid)

    def _note_outcome(self, outcome, nodeid):
        path, separator, name = nodeid.partition("::")
        self._write(outcome, os.path.join(self._root, path) + separator + name)


class TestRun:
    """One run of a test runner."""

    begun = 0
    """How many runs began in this process."""

    def __init__(self, write):
        self._write = write
        self._number = 0

    def begin(self, root):
        """Note the beginning, the folder of the run, and the processes above this one."""
        TestRun.begun += 1
        self._number = TestRun.begun
        self._write("began", "{} {} {}".format(self._number, ",".join(map(str, ancestors())), root))

    def end(self):
        """Note the end of a run that began."""
        if self._number:
            self._write("ended", str(self._number))


def observe_pytest(names, observer):
    """Give each plugin manager of pytest our plugin, unless pytest runs already."""
    # Before the project's own plugins, which may end the process on purpose.
    for hook in (OutcomePlugin.pytest_load_initial_conftests, OutcomePlugin.pytest_sessionfinish):
        names["hookimpl"](tryfirst=True)(hook)
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


def root_of(config):
    """Return the folder that pytest takes for the top of the project."""
    return str(getattr(config, "rootpath", None) or config.rootdir)


def is_xdist_worker():
    """Return True below the code that pytest-xdist sends to its workers."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__") != "__channelexec__":
        frame = frame.f_back
    return frame is not None


def ancestors():
    """Return the ids of the processes above this one, as far as the system tells."""
    found = [os.getppid()]
    try:
        while found[-1] > 1 and len(found) < MOST_ANCESTORS:
            with open("/proc/{}/stat".format(found[-1]), "rb") as file:
                found.append(int(file.read().rpartition(b")")[2].split()[1]))
    except (OSError, ValueError, IndexError):  # not Linux, or it has ended
        pass
    return found


class OuterResult:
    """The result that unittest's own run reports to; others are of tests that run tests."""

    def __init__(self, write):
        self._write = write
        self._run = TestRun(write)
        self._result = None

    def begin(self, result):
        """Begin a run, unless one is under way."""
        if self._result is None and not OutcomePlugin.running:
            self._result = result
            self._run.begin(os.getcwd())

    def end(self, result):
        """End the run of this result."""
        if self._result is result:
            self._run.end()
            self._result = None

    def write(self, result, outcome, test):
        """Write the outcome of one of the run's tests."""
        if not OutcomePlugin.running and self._result in (None, result):
            write_test(self._write, outcome, test)


def observe_unittest(names, observer):
    """Make the base class of all results record each outcome that it receives."""
    outer, kind = OuterResult(writer(observer.note)), names["TestResult"]
    for name, outcome in UNITTEST_OUTCOMES.items():
        setattr(kind, name, observed(getattr(kind, name), outcome, outer))
    kind.addSubTest = observed_subtest(kind.addSubTest, outer)
    kind.startTestRun = observed_run(kind.startTestRun, outer.begin)
    kind.stopTestRun = observed_run(kind.stopTestRun, outer.end)


def observed_run(original, tell):
    """Return a method of results that also tells of the beginning or the end of a run."""

    @functools.wraps(original)
    def method(self):
        tell(self)
        return original(self)

    return method


def observed(original, outcome, outer):
    """Return a method of results that also writes the outcome."""

    @functools.wraps(original)
    def method(self, test, *args, **options):
        outer.write(self, outcome, test)
        return original(self, test, *args, **options)

    return method


def observed_subtest(original, outer):
    """Return the method for subtests, which also writes those that failed."""

    @functools.wraps(original)
    def method(self, test, subtest, error):
        if error is not None:
            outer.write(self, "failed", test)
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
    """Return the file of a module that could not be imported, or None."""
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
