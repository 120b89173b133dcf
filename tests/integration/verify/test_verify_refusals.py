"""Tests that fail because of what the sandbox forbids: named with the reason, in real sandboxes."""

import errno
import os
from pathlib import Path

import pytest
from inline_snapshot import snapshot
from msgspec import structs

from builders import sandbox_or_skip
from integration.verify.builders import run_gate_once, tree_in, write_files
from scaffold.core.proof.gates import Gate
from scaffold.host.sandbox.confinement import Confinement, SandboxSpec
from scaffold.host.sandbox.landlock import sandboxed_command as landlock
from scaffold.landing.facts.effect_evidence import describe_gate
from scaffold.verify.gates.observed_run import run_gate
from scaffold.verify.gates.refusals import describe_refused, refusal_reason
from scaffold.verify.gates.reports.runner_result import OsFailure
from scaffold.verify.regression.baseline_capture import gate_summary, unready_reason
from scaffold.verify.regression.comparison import compare_gate_runs

PYTEST = Gate(kind="test", command="python -m pytest -q", runner="pytest")
UNITTEST = Gate(kind="test", command="python -m unittest -q", runner="unittest")
TESTS = """
import os
import socket
from pathlib import Path

import pytest

OUT = Path({out!r})


def test_a_host():
    socket.create_connection(("192.0.2.1", 80), timeout=5)


def test_a_name():
    try:
        socket.getaddrinfo("scaffold.example.org", 80)
    except OSError as error:
        raise RuntimeError("cannot fetch") from error


@pytest.fixture
def saved():
    (OUT / "new").write_text("x")


def test_a_file_elsewhere(saved):
    pass


def test_while_handling():
    try:
        (OUT / "new").write_text("x")
    except OSError:
        assert not "handled"


@pytest.fixture
def cleaned():
    yield
    Path("nothing").unlink()


def test_before_a_failing_teardown(cleaned):
    (OUT / "new").write_text("x")


@pytest.mark.parametrize("put", [os.link, os.symlink])
def test_a_second_path(put, tmp_path):
    (tmp_path / "a").write_text("")
    put(tmp_path / "a", OUT / "new")


def test_a_secret():
    assert (OUT / "hidden" / "key").read_text() == "secret"


def test_a_missing_file():
    Path("nothing").read_text()


def test_own_error():
    raise PermissionError("not by the system")


def test_wrong():
    assert 1 == 2


def test_local():
    server = socket.create_server(("127.0.0.1", 0))
    socket.create_connection(server.getsockname()).close()


@pytest.mark.xfail
def test_foreseen():
    (OUT / "new").write_text("x")
"""


async def sandbox_at(level: str, top: Path, out: Path) -> SandboxSpec:
    """Return the sandbox of a level for the folder `top`; skip if this machine has no such level."""
    found = await sandbox_or_skip()
    if level == "landlock" and (reason := landlock.unsupported_reason()):
        pytest.skip(reason)
    if level == "bubblewrap" and found.level != "bubblewrap":
        pytest.skip(found.problem or "bubblewrap does not work here")
    hidden = out / "hidden"
    (out / "temporary").mkdir(parents=True)
    zone = Confinement(writable=(top,), temporary=out / "temporary", hidden=(hidden,))
    return SandboxSpec(level, zone, program=found.program)


@pytest.mark.slow
@pytest.mark.parametrize("level", ["bubblewrap", pytest.param("landlock", marks=pytest.mark.slow)])
async def test_what_the_sandbox_forbids_is_named_and_nothing_else(tmp_path, level):
    """AL-10, BX-9: by pytest's own exceptions, in fixtures and behind other exceptions, too."""
    top, out = tmp_path.resolve() / "tree", tmp_path.resolve() / "elsewhere"
    write_files(out, {"hidden/key": "secret"})
    write_files(top, {"test_net.py": TESTS.format(out=str(out))})
    tree = structs.replace(tree_in(top), sandbox=await sandbox_at(level, top, out))
    found = await run_gate(PYTEST, tree, environment="here", timeout_s=60)
    assert found.problem is None, found.detail
    refused = {
        name.removeprefix("test_net.py::test_"): reason.rpartition(" ")[2] for name, reason in found.refused.items()
    }
    assert refused == {
        "a_secret": f"{out}/hidden/key",
        **dict.fromkeys(("a_host", "a_name"), "loopback"),
        **dict.fromkeys(("a_file_elsewhere", "while_handling", "before_a_failing_teardown"), f"{out}/new"),
        **dict.fromkeys(("a_second_path[link]", "a_second_path[symlink]"), f"{out}/new"),
    }
    assert found.outcomes["test_net.py::test_local"] == "passed"
    if level == "bubblewrap":
        evidence = describe_gate(compare_gate_runs(found, found))
        assert "test_net.py::test_a_file_elsewhere" in evidence
        assert gate_summary(found)["not_checkable"] == dict(found.refused)


@pytest.mark.slow
async def test_a_unix_socket_at_landlock_is_not_checkable(tmp_path):
    """BX-9: what only this level forbids; all tests together are a reason to stop."""
    top, out = tmp_path.resolve() / "tree", tmp_path.resolve() / "elsewhere"
    test = "import socket\n\ndef test_a():\n    socket.socket(socket.AF_UNIX)\n"
    write_files(top, {"test_a.py": test})
    tree = structs.replace(tree_in(top), sandbox=await sandbox_at("landlock", top, out))
    found = await run_gate(PYTEST, tree, environment="here", timeout_s=60)
    assert dict(found.refused) == snapshot({"test_a.py::test_a": "a system call was refused in the sandbox (EPERM)"})
    problem = unready_reason(found, given=False)
    assert problem is not None
    assert ("(1 ran)" in problem.what, "test_a.py::test_a" in problem.what) == (True, True)


async def test_unittest_names_them_too(tmp_path):
    """AL-10, BX-9: the set-up of a class counts for each of its tests, and one part of a test for the test."""
    top, out = tmp_path.resolve() / "tree", tmp_path.resolve() / "elsewhere"
    write = f"open({str(out / 'new')!r}, 'w')"
    tests = f"""
import unittest

class Prepared(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        {write}
    def test_a(self): pass
    def test_b(self): pass

class Alone(unittest.TestCase):
    def test_parts(self):
        for number in range(2):
            with self.subTest(number):
                {write}
    def test_wrong(self): self.assertEqual(1, 2)
    def test_fine(self): pass
"""
    write_files(top, {"test_u.py": tests})
    level = (await sandbox_or_skip()).level
    tree = structs.replace(tree_in(top), sandbox=await sandbox_at(level, top, out))
    found = await run_gate(UNITTEST, tree, environment="here", timeout_s=60)
    names = [f"test_u.{name}" for name in ("Alone.test_parts", "Prepared.test_a", "Prepared.test_b")]
    names += ["setUpClass (test_u.Prepared)", *(f"test_u.Alone.test_parts > [{number}]" for number in range(2))]
    reason = snapshot("the sandbox forbids access to NEW")
    assert {name: each.replace(f"{out}/new", "NEW") for name, each in found.refused.items()} == dict.fromkeys(
        names, reason
    )


async def test_without_a_sandbox_nothing_is_refused(tmp_path):
    test = "import unittest\n\nclass A(unittest.TestCase):\n    def test_a(self): open('/proc/nothing/here')\n"
    shown = await run_gate_once(write_files(tmp_path, {"test_a.py": test}), UNITTEST)
    assert (dict(shown.outcomes), shown.refused) == ({"test_a.A.test_a": "failed"}, {})


@pytest.mark.slow
async def test_exceptions_of_any_kind_do_not_disturb_the_record(tmp_path):
    """BX-4: cycles, groups, lying subclasses, odd paths."""
    top, out = tmp_path.resolve() / "tree", tmp_path.resolve() / "elsewhere"
    tests = """
OUT = "@out@"

class Odd(OSError):
    errno = filename = property(lambda self: 1 / 0)

class Lying(Exception):
    __class__ = OSError

def raising(error):
    def test():
        raise error
    return test

cycle = OSError(13, "denied", OUT + "/a")
cycle.__context__ = ValueError()
cycle.__context__.__context__ = cycle
ERRORS = [
    Odd(13, "denied", OUT + "/b"), cycle, OSError(13, "denied", OUT.encode() + b"/c\\xff"),
    OSError(13, "denied", OUT + "/d\\udcff\\n\\x1b"),
    OSError(13, "denied", 7), OSError("text"), OSError(13, "denied", "x" * 100_000),
    Lying(),
]
for number, error in enumerate(ERRORS):
    globals()[f"test_{number}"] = raising(error)

def test_fine(): pass
"""
    write_files(top, {"test_odd.py": tests.replace("@out@", str(out))})
    level = (await sandbox_or_skip()).level
    tree = structs.replace(tree_in(top), sandbox=await sandbox_at(level, top, out))
    found = await run_gate(PYTEST, tree, environment="here", timeout_s=60)
    assert found.problem is None, found.detail
    assert sorted(found.outcomes.values()) == ["failed"] * 8 + ["passed"]
    assert all(reason.isprintable() for reason in found.refused.values())
    assert {"test_odd.py::test_0", "test_odd.py::test_1", "test_odd.py::test_2"} <= found.refused.keys()


def test_an_error_is_judged_by_number_path_and_what_is_allowed(tmp_path):
    top = tmp_path.resolve() / "w"
    forbidden = {
        (errno.EACCES, "src/a", "loopback"): None,
        (errno.EROFS, ".git/config", "loopback"): f"{top}/.git/config",
        (errno.EACCES, "../x", "loopback"): f"{tmp_path.resolve()}/x",
        (errno.EACCES, "/tmp/own/a", "loopback"): None,
        (errno.EROFS, "/tmp/other", "loopback"): "/tmp/other",
        (errno.EACCES, "/dev/null", "loopback"): "/dev/null",
        (errno.EPERM, "/proc/sys/kernel/x", "loopback"): None,
        (errno.ENOENT, "/nothing/at/all", "loopback"): None,
        (errno.ENOENT, "/tmp/nothing-like-this", "loopback"): None,
        (errno.EEXIST, "/etc", "loopback"): None,
        (errno.ENETUNREACH, None, "none"): "none",
        (errno.ENETUNREACH, None, "open"): None,
        (errno.ECONNREFUSED, None, "loopback"): None,
    }
    found = {}
    for number, path, network in forbidden:
        zone = Confinement(
            writable=(top,),
            temporary=Path("/tmp/own"),
            protected=(top / ".git",),
            hidden=(top / ".env",),
            network=network,
        )
        reason = refusal_reason(OsFailure(number, path, resolving=False), zone, top)
        found[number, path, network] = reason and reason.rpartition(" ")[2]
    assert found == forbidden


@pytest.mark.skipif(os.geteuid() == 0, reason="root may access everything")
def test_what_the_user_may_not_access_either_is_not_the_sandboxs_doing(tmp_path):
    closed = tmp_path.resolve() / "closed"
    closed.mkdir(mode=0o500)
    zone = Confinement(writable=(tmp_path.resolve() / "w",), temporary=tmp_path.resolve() / "t")
    failure = OsFailure(errno.EACCES, str(closed / "x"), resolving=False)
    assert refusal_reason(failure, zone, tmp_path.resolve() / "w") is None


def test_many_tests_are_counted_and_three_named():
    text = describe_refused({f"t{number}": "why" for number in range(5)})
    assert text == snapshot("5 tests not checkable here: t0 (why), t1 (why), t2 (why) and 2 more")
