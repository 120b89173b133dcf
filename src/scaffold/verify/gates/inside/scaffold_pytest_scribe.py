"""A plugin of pytest (7 or newer) that writes down what it does, and has two tests of ours run among the others.

One of them must fail and one must pass: a runner that tells it otherwise tells nothing true of the others either.
No plugin but this one sees how they end, so that they count for nothing: not for the exit code, nor for `--maxfail`.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Generator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from _pytest import runner
from scaffold_scribe import Note, derived, open_record, restore, take_order, tidy  # type: ignore[import-not-found]

OURS = "scaffold_scribe"
OPTIONS = "PYTEST_ADDOPTS"
CALM = (pytest.skip.Exception, pytest.xfail.Exception, pytest.exit.Exception)
"""What a test may raise without having failed."""

_order = take_order()
_note = open_record(_order["folder"], _order["key"]) if _order else None
_keys = [derived(_order.pop("key"), "workers")] if _order else []
"""What workers of pytest-xdist get theirs from; empty where there are none."""


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: Any) -> None:
    """Begin to watch, in a worker of pytest-xdist by the order that it was handed."""
    order, note = _order, _note
    if not getattr(config.option, "tx", None) and not getattr(config.option, "numprocesses", None):
        _keys.clear()
    handed = getattr(config, "workerinput", {}).pop(OURS, None)
    if handed:
        restore(handed["environ"])
        order, note = handed, open_record(handed["folder"], bytes.fromhex(handed["key"]), handed["record"])
    if order and note:
        config.option.maxfail = 0
        config.pluginmanager.register(Watch(order, note), "scaffold-watch")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes(specs: list[Any]) -> None:
    """Have the workers of pytest-xdist load this, too: they look for it where we were found, in the environment."""
    if _order and _keys:
        for spec in specs:
            spec.env[OPTIONS] = f"{os.environ.get(OPTIONS, '')} -p {__name__}".strip()


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Hand the order to a worker of pytest-xdist."""
    if _order and _keys:
        record = f"record-{node.gateway.id}"
        kept = {name: _order[name] for name in ("folder", "only", "token", "environ")}
        node.workerinput[OURS] = {**kept, "record": record, "key": derived(_keys[0], record).hex()}


class Watch:
    """Notes what is collected, what begins, what raises, and what is told of it."""

    def __init__(self, order: dict[str, Any], note: Note) -> None:
        self._only = frozenset(order["only"])
        self._token = order["token"]
        self._note = note
        self._raised: set[str] = set()

    def pytest_ignore_collect(self, collection_path: Path, config: Any) -> bool | None:
        """Leave files alone in which nothing is wanted."""
        if not self._only or collection_path.name == "__init__.py" or collection_path.is_dir():
            return None
        return None if str(collection_path) in self._files(config) else True

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_collection_modifyitems(self, session: Any, config: Any, items: list[Any]) -> Generator[None, Any, None]:
        """Once all others have chosen: drop what is not wanted, add what is ours."""
        yield
        if self._only:
            self._select(config, items)
        self._note("collected", [tidy(item.nodeid) for item in items])
        if items:
            ours = canaries(session, Path(items[-1].path).parent, self._token)
            config.pluginmanager.register(Canaries(ours, self._note, self._raised), "scaffold-canaries")
            items.extend(ours)

    def pytest_collectreport(self, report: Any) -> None:
        """Note what cannot be collected."""
        if report.failed:
            self._note("collection", tidy(report.nodeid))

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Note which test begins."""
        self._note("start", tidy(nodeid))

    @pytest.hookimpl(hookwrapper=True, trylast=True)
    def pytest_runtest_call(self, item: Any) -> Generator[None, Any, None]:
        """Note which test raises, nearer to it than whoever may want to hide that."""
        outcome = yield
        raised = outcome.excinfo is not None and not issubclass(outcome.excinfo[0], CALM)
        if raised != (item.nodeid in self._raised):
            (self._raised.add if raised else self._raised.discard)(item.nodeid)
            self._note("raised", tidy(item.nodeid), raised)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: Any) -> None:
        """Note what is told of a test; that its fixtures were well says nothing."""
        if report.when == "call" or not report.passed:
            self._note("outcome", tidy(report.nodeid), *_told(report))

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: Any) -> Generator[None, Any, None]:
        """Note that this is all."""
        yield
        self._note("end", int(session.exitstatus))

    def _files(self, config: Any) -> frozenset[str]:
        """Return the absolute paths of the files in which something is wanted."""
        names = {each.partition("::")[0] for each in self._only}
        places = (os.getcwd(), str(config.rootpath))  # noqa: PTH109 - as fast as can be: asked for each file
        return frozenset(os.path.normpath(os.path.join(place, name)) for name in names for place in places)  # noqa: PTH118

    def _select(self, config: Any, items: list[Any]) -> None:
        """Drop the tests that are not wanted, by their own name or by their file's."""
        whole = {os.path.abspath(each) for each in self._only if "::" not in each}  # noqa: PTH100
        sorted_out: tuple[list[Any], list[Any]] = ([], [])
        for item in items:
            is_wanted = not self._only.isdisjoint(_names(item)) or str(item.path) in whole
            sorted_out[is_wanted].append(item)
        gone, items[:] = sorted_out
        if gone:
            config.hook.pytest_deselected(items=gone)


class Canaries:
    """Runs the two tests of ours as every test is run, and tells nobody but us."""

    def __init__(self, ours: list[Any], note: Note, raised: set[str]) -> None:
        self._ours = frozenset(ours)
        self._note = note
        self._raised = raised

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: Any) -> None:
        """Leave ours out of the count of what is to be done."""
        session.testscollected -= len(self._ours)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: Any, nextitem: Any) -> bool | None:
        """Run one of ours; the others are left to others."""
        if item not in self._ours:
            return None
        reports = runner.runtestprotocol(item, log=False, nextitem=nextitem)
        self._note("canary", item.nodeid, item.nodeid in self._raised, [_told(report) for report in reports])
        return True


class _Folderless(pytest.Module):
    """A file of tests that is not there, beside one that is: what holds for that folder holds for it."""

    def _getobj(self) -> ModuleType:
        return ModuleType("scaffold_canaries")


def canaries(session: Any, folder: Path, token: str) -> list[Any]:
    """Return one test that must pass, then one that must fail, under names that are new each time."""

    def calm() -> None:
        return None

    def alarming() -> None:
        raise AssertionError(token)

    module = _Folderless.from_parent(session, path=folder / f"test_{_name(token, 0)}.py")
    tests = ((_name(token, 1), calm), (_name(token, 2), alarming))
    return [pytest.Function.from_parent(module, name=f"test_{name}", callobj=test) for name, test in tests]


def _name(token: str, number: int) -> str:
    return hashlib.blake2b(f"{token}{number}".encode(), digest_size=6).hexdigest()


def _told(report: Any) -> tuple[str, str, bool]:
    return report.when, report.outcome, hasattr(report, "wasxfail")


def _names(item: Any) -> tuple[str, str, str]:
    return item.nodeid, tidy(item.nodeid), item.nodeid.partition("::")[0]
