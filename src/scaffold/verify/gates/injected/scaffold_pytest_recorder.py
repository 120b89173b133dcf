"""A pytest plugin (pytest 5.4 or newer) that records the run and adds two canary tests.

One canary must fail and one must pass: if the runner reports otherwise, its other results cannot be trusted. No other
plugin sees the canaries' results, so they do not affect the exit code or `--maxfail`.
"""

import hashlib
import os
from pathlib import Path
from time import monotonic
from types import ModuleType
from typing import Any, Generator  # noqa: UP035 - that of collections.abc has no parameters before 3.9

import pytest
from _pytest import runner
from scaffold_originals import ReplacedFunctions  # type: ignore[import-not-found]
from scaffold_recorder import (  # type: ignore[import-not-found]
    MOST_ROUNDS,
    Note,
    derived,
    message_of,
    name_of_part,
    open_record,
    restore,
    system_errors,
    take_order,
    tidy,
)
from scaffold_stand_ins import StandIns  # type: ignore[import-not-found]

WORKER_INPUT_KEY = "scaffold_recorder"
OPTIONS_VARIABLE = "PYTEST_ADDOPTS"
BEFORE_7 = int(pytest.__version__.partition(".")[0]) < 7
NOT_FAILURES = (pytest.skip.Exception, pytest.xfail.Exception, pytest.exit.Exception)
"""Exceptions that a test may raise without failing."""

# At import: `-p` loads this module before any conftest, so that no project code ever sees the key.
_order = take_order()
_note = open_record(_order["folder"], _order["key"]) if _order else None
_replaced = ReplacedFunctions()
_keys = [derived(_order.pop("key"), "workers")] if _order else []
"""The key from which the keys of pytest-xdist workers are derived; empty without workers."""


def _installed_stand_ins(order: "dict[str, Any] | None") -> Any:
    """Return the stand-ins that an order for tests of an older version asks for, else None."""
    if not order or not order.get("stand_ins"):
        return None
    found = StandIns(order["stand_ins"])
    found.install()
    return found


_stand_ins = _installed_stand_ins(_order)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: Any) -> None:
    """Start recording; a pytest-xdist worker uses the order that its controller passed on."""
    order, note, stand_ins = _order, _note, _stand_ins
    if not getattr(config.option, "tx", None) and not getattr(config.option, "numprocesses", None):
        # Without workers the key is not needed again, and project code could find it in this process.
        _keys.clear()
    received = getattr(config, "workerinput", {}).pop(WORKER_INPUT_KEY, None)
    if received:
        restore(received["environ"])
        order, note = received, open_record(received["folder"], bytes.fromhex(received["key"]), received["record"])
        stand_ins = _installed_stand_ins(received)
    if order and note:
        # A run that stops at the first failure would leave most tests without a report.
        config.option.maxfail = 0
        # In another order each time, tests that depend on their order would fail with one tree and pass with another.
        config.option.randomly_reorganize = False
        # A file that cannot be loaded must not hide what the others show: it may be of an older version, or be written
        # before the code that it tests.
        config.option.continue_on_collection_errors = True
        recorder = RecorderPlugin(order, note, stand_ins)
        config.pluginmanager.register(recorder, "scaffold-watch")
        config.pluginmanager.register((OldFileFilter if BEFORE_7 else FileFilter)(recorder), "scaffold-files")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes(specs: "list[Any]") -> None:
    """Make pytest-xdist workers load this plugin, too; they find it by the same environment variables."""
    if _order and _keys:
        for spec in specs:
            spec.env[OPTIONS_VARIABLE] = f"{os.environ.get(OPTIONS_VARIABLE, '')} -p {__name__}".strip()


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Pass the order to a pytest-xdist worker."""
    if _order and _keys:
        record = f"record-{node.gateway.id}"
        kept = {name: _order[name] for name in ("folder", "only", "token", "environ", "stand_ins")}
        node.workerinput[WORKER_INPUT_KEY] = {**kept, "record": record, "key": derived(_keys[0], record).hex()}


class RecorderPlugin:
    """Records collected tests, which of them start and raise, and the runner's reports."""

    def __init__(self, order: "dict[str, Any]", note: Note, stand_ins: Any = None) -> None:
        self._stand_ins = stand_ins
        self._only = frozenset(order["only"])
        self._token = order["token"]
        self._note = note
        self._raised: set[str] = set()
        # Workers run only some of the tests that they collect.
        self._repeat_s: float = order.get("repeat_s", 0.0)
        self._items: list[Any] = []

    def ignores(self, path: Path, config: Any) -> "bool | None":
        """Return True for a file without selected tests."""
        if not self._only or path.name == "__init__.py" or path.is_dir():
            return None
        return None if str(path) in self._selected_files(config) else True

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_collection_modifyitems(
        self, session: Any, config: Any, items: "list[Any]"
    ) -> Generator[None, Any, None]:
        """After all other plugins: drop the tests that are not selected, and add the canaries."""
        yield
        if self._only:
            self._select_items(config, items)
        self._note("collected", [tidy(item.nodeid) for item in items])
        self._items = [*items]
        if items:
            # In the folder of the last test, so that its conftest, which may
            # change reports, applies to the canaries as well.
            canaries = canary_tests(session, path_of(items[-1]).parent, self._token)
            config.pluginmanager.register(CanaryPlugin(canaries, self._note, self._raised), "scaffold-canaries")
            items.extend(canaries)

    def pytest_collectstart(self) -> None:
        """Forget the removed names that another file used."""
        if self._stand_ins:
            self._stand_ins.begin_test()

    def pytest_collectreport(self, report: Any) -> None:
        """Record a collection error."""
        if report.failed:
            self._note("collection", tidy(report.nodeid))

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Record the start of a test."""
        if self._stand_ins:
            self._stand_ins.begin_test()
        self._note("start", tidy(nodeid))

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtestloop(self) -> Generator[None, Any, None]:
        """Run the tests again, with all of their fixtures made anew, as long as a whole round fits into the time."""
        began = monotonic()
        yield
        took, end = monotonic() - began, monotonic() + self._repeat_s
        for _ in range(MOST_ROUNDS - 1):
            began = monotonic()
            if not self._items or began + took > end:
                break
            for number, item in enumerate(self._items, start=1):
                following = self._items[number : number + 1]
                runner.runtestprotocol(item, nextitem=following[0] if following else None)
            took = monotonic() - began

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: Any) -> None:
        """Look for replaced assertions after the test's own fixtures have finished, before its module's."""
        teardown = item.teardown  # the last that pytest calls for an item, before it goes on to the item's module

        def look_after_teardown() -> None:
            try:
                teardown()
            finally:
                _replaced.look()

        item.teardown = look_after_teardown

    @pytest.hookimpl(hookwrapper=True, trylast=True)
    def pytest_runtest_call(self, item: Any) -> Generator[None, Any, None]:
        """Record whether a test raises, inside of any hook that could hide it."""
        outcome = yield
        raised = outcome.excinfo is not None and not issubclass(outcome.excinfo[0], NOT_FAILURES)
        if raised != (item.nodeid in self._raised):
            (self._raised.add if raised else self._raised.discard)(item.nodeid)
            self._note("raised", tidy(item.nodeid), raised)

    def pytest_exception_interact(self, node: Any, call: Any) -> None:
        """Record the errors of the operating system, or the removed name, that made a test fail."""
        if call.excinfo is None:
            return
        errors = system_errors(call.excinfo.value)
        if errors:
            self._note("errors", tidy(node.nodeid), errors)
        # An error of the import of a test file is the cause of pytest's own.
        raised = call.excinfo.value.__cause__ if isinstance(node, pytest.Module) else None
        found = self._stand_ins and self._stand_ins.unresolved(
            raised or call.excinfo.value, getattr(node, "function", None)
        )
        if found:
            self._note("unresolved", tidy(node.nodeid), *found)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: Any) -> None:
        """Record the report of a test; passed set-up and teardown phases are left out."""
        names = [tidy(report.nodeid)]
        # A subtest has the name of its test, too: one that is mended must not stand for another one.
        part = _part_of(report)
        if part and (report.failed or name_of_part(names[0], part) in self._only):
            names.append(name_of_part(names[0], part))
        for name in names:
            if report.when == "call" or not report.passed:
                self._note("outcome", name, *_phase_report(report))
            if report.failed:
                said = message_of(getattr(getattr(report.longrepr, "reprcrash", None), "message", report.longrepr))
                if said:
                    self._note("said", name, said)

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: Any) -> Generator[None, Any, None]:
        """Record the end of the session, and the functions that were replaced in it."""
        replaced = _replaced.all()
        yield
        if replaced:
            self._note("replaced", replaced)
        self._note("end", int(session.exitstatus))

    def _selected_files(self, config: Any) -> "frozenset[str]":
        names = {each.partition("::")[0] for each in self._only}
        folders = (os.getcwd(), str(config.rootdir if BEFORE_7 else config.rootpath))  # noqa: PTH109 - fast, because it is called for each file
        return frozenset(os.path.normpath(os.path.join(folder, name)) for name in names for folder in folders)  # noqa: PTH118

    def _select_items(self, config: Any, items: "list[Any]") -> None:
        whole = {os.path.abspath(each) for each in self._only if "::" not in each}  # noqa: PTH100
        partition: tuple[list[Any], list[Any]] = ([], [])
        for item in items:
            names = (item.nodeid, tidy(item.nodeid), item.nodeid.partition("::")[0])
            has_part = any(each.startswith(name_of_part(tidy(item.nodeid), "")) for each in self._only)
            is_selected = has_part or not self._only.isdisjoint(names) or str(path_of(item)) in whole
            partition[is_selected].append(item)
        dropped, items[:] = partition
        if dropped:
            config.hook.pytest_deselected(items=dropped)


class FileFilter:
    """Ignores the files without selected tests."""

    def __init__(self, recorder: RecorderPlugin) -> None:
        self._recorder = recorder

    def pytest_ignore_collect(self, collection_path: Path, config: Any) -> "bool | None":
        """Ignore a file without selected tests."""
        return self._recorder.ignores(collection_path, config)


class OldFileFilter:
    """Does the same before pytest 7, which introduced paths of `pathlib`."""

    def __init__(self, recorder: RecorderPlugin) -> None:
        self._recorder = recorder

    def pytest_ignore_collect(self, path: Any, config: Any) -> "bool | None":
        """Ignore a file without selected tests."""
        return self._recorder.ignores(Path(str(path)), config)


class CanaryPlugin:
    """Runs the two canaries like any other test, but reports them only to the record."""

    def __init__(self, canaries: "list[Any]", note: Note, raised: "set[str]") -> None:
        self._ours = frozenset(canaries)
        self._note = note
        self._raised = raised

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: Any) -> None:
        """Exclude the canaries from the number of collected tests."""
        session.testscollected -= len(self._ours)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: Any, nextitem: Any) -> "bool | None":
        """Run a canary; leave other tests to other plugins."""
        if item not in self._ours:
            return None
        # `log=False`: no reporter and no other plugin gets these reports, so
        # the exit code and the counts are the project's own.
        reports = runner.runtestprotocol(item, log=False, nextitem=nextitem)
        self._note("canary", item.nodeid, item.nodeid in self._raised, [_phase_report(report) for report in reports])
        return True


class _VirtualModule(pytest.Module):
    """A test module without a file, in the folder of a real one, so that the folder's conftest applies to it."""

    def _getobj(self) -> ModuleType:
        return ModuleType("scaffold_canaries")


def canary_tests(session: Any, folder: Path, token: str) -> "list[Any]":
    """Return one test that must pass and one that must fail, with new names each time."""

    def calm() -> None:
        return None

    def alarming() -> None:
        raise AssertionError(token)

    path = folder / f"test_{_canary_name(token, 0)}.py"
    place = {"fspath": type(session.fspath)(str(path))} if BEFORE_7 else {"path": path}
    module = _VirtualModule.from_parent(session, **place)
    tests = ((_canary_name(token, 1), calm), (_canary_name(token, 2), alarming))
    return [pytest.Function.from_parent(module, name=f"test_{name}", callobj=test) for name, test in tests]


def path_of(item: Any) -> Path:
    """Return the path of a test's file."""
    return Path(str(item.fspath if BEFORE_7 else item.path))


def _canary_name(token: str, number: int) -> str:
    return hashlib.blake2b(f"{token}{number}".encode(), digest_size=6).hexdigest()


def _part_of(report: Any) -> str:
    """Return the description of a subtest, by its message and values; empty for a whole test."""
    context = getattr(report, "context", None)
    if context is None:
        return ""
    values = ", ".join(f"{name}={value!r}" for name, value in sorted((getattr(context, "kwargs", None) or {}).items()))
    return f"[{getattr(context, 'msg', None)}] ({values})"


def _phase_report(report: Any) -> "tuple[str, str, bool]":
    return report.when, report.outcome, hasattr(report, "wasxfail")
