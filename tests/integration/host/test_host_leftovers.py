"""Temporary names that tell which process made them."""

import os
import re
import signal
import subprocess  # noqa: TID251 - a process that dies is a real one
import sys
import tempfile
from pathlib import Path

import pytest

from scaffold.host.atomic_files import write_atomic
from scaffold.host.leftovers import (
    left_by_dead_processes,
    made_by_dead_process,
    new_temporary_folder,
    own_mark,
    temporary_prefix,
)
from support.scenario import wait_until

MAKES_AND_DIES = """
import os, signal, sys, tempfile
from pathlib import Path
from scaffold.host.leftovers import new_temporary_folder, own_mark
folder = new_temporary_folder("x", None)
(folder / "socket").write_text("")
Path(sys.argv[1], f".state.json{own_mark()}abc").write_text("half")
print(folder)
sys.stdout.flush()
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """The system's temporary folder."""
    folder = tmp_path / "system"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    known, tempfile.tempdir = tempfile.tempdir, None  # found once, and kept
    yield folder
    tempfile.tempdir = known


def test_what_a_killed_process_left_is_found_and_nothing_else(tmp_path, temporary):
    """AL-15: in the system's temporary folder, and the unfinished write of a file, wherever it is."""
    tree = tmp_path / "tree" / "deep"
    tree.mkdir(parents=True)
    done = subprocess.run(
        [sys.executable, "-c", MAKES_AND_DIES, str(tree)], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    mine = new_temporary_folder("x", None)
    (temporary / "foreign").mkdir()
    (temporary / "scaffold-demo-abc").mkdir()
    write_atomic(tree / "state.json", b"whole")
    found = {*left_by_dead_processes([tree, tmp_path / "missing"])}
    assert {str(path) for path in found if path.parent == temporary} == {done.stdout.strip()}
    assert [re.sub(r"\.by-.*", "", path.name) for path in found if path.parent == tree] == [".state.json"]
    assert mine not in found


def test_a_killed_process_whose_exit_was_not_collected_is_dead(tmp_path, temporary):
    """AL-15: in a container, the first process often collects none."""
    argv = [sys.executable, "-c", MAKES_AND_DIES, str(tmp_path)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as zombie:
        left = zombie.stdout.read().strip()
        assert wait_until(lambda: made_by_dead_process(Path(left).name))
        assert zombie.returncode is None


def test_only_a_mark_of_this_machines_processes_is_judged():
    """Containers may share a temporary folder; their processes are unknown here, so what they made stays."""
    mark = own_mark()
    assert not made_by_dead_process(f"a{mark}b")
    _, pid, space, _ = re.split("[-.]", mark.removeprefix(".").removesuffix("."))
    assert made_by_dead_process(f"a.by-{pid}-{space}-00000000.b"), "a process that had our pid before us"
    assert not made_by_dead_process(f"a.by-{pid}-{space[::-1]}x-00000000.b"), "of another container"
    assert not made_by_dead_process("a.by-hand.b")
    assert not made_by_dead_process("plain")


def test_names_leave_room_for_the_path_of_a_socket(temporary):
    """Such a path has at most 103 bytes on macOS, whose temporary folder takes half of them."""
    assert len(temporary_prefix() + "abcdefgh/proxy.sock") <= 54 + len(str(os.getpid()))


def test_a_folder_in_a_given_parent_needs_no_mark(tmp_path):
    """Its parent's owner removes it, whoever made it."""
    folder = new_temporary_folder("gate", tmp_path / "new" / "parent")
    assert folder.name.startswith("gate-")
    assert ".by-" not in folder.name
