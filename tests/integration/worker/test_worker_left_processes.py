"""Processes left by an agent are ended before its work is committed and checked."""

import sys
from pathlib import Path

import pytest

from scaffold.worker.attempt_records import CandidateReady
from support.harness import UNSANDBOXED, act, goal

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux: finds processes in /proc")
DAEMON = (
    "(setsid sh -c 'echo $$ >> {pid}; while :; do echo four > list; sleep 0.01; done' </dev/null >/dev/null 2>&1 &); "
    "while [ ! -s {pid} ]; do sleep 0.01; done; echo work > new"
)


def expect_gone(pid):
    """Check that the processes whose pids are in the file `pid` have ended: one for each time that the command ran."""
    pids = pid.read_text().split()
    assert pids
    assert not [each for each in pids if Path(f"/proc/{each}").exists()]


@LINUX
@pytest.mark.slow
async def test_a_daemon_cannot_fix_files_while_they_are_checked(harness, tmp_path):
    """BX-5, BX-17: it is ended with the command that started it; the checks see the commit."""
    pid = tmp_path / "pid"
    run = await harness.own(
        goal("g", act("a", check="grep -q four list; echo one > list; sleep 0.2; grep -q one list")), **UNSANDBOXED
    )
    ending = await harness.work(run, "a", DAEMON.format(pid=pid))
    assert isinstance(ending, CandidateReady)
    expect_gone(pid)


@LINUX
async def test_a_process_left_by_a_check_is_ended_with_it(harness, tmp_path):
    """BX-5: no check changes the tree of the next one."""
    pid = tmp_path / "pid"
    first = DAEMON.format(pid=pid)
    run = await harness.own(goal("g", act("a", check=first)), **UNSANDBOXED)
    assert isinstance(await harness.work(run, "a", "echo x > other"), CandidateReady)
    expect_gone(pid)
