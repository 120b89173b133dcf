"""Commands that run to their end."""

import asyncio
import hashlib
import os
import select
import signal
import sys
from pathlib import Path

import pytest

from scaffold.host.process.command_runner import Containment, OutputCapture, run_command
from scaffold.host.process.pipes import ReaperPipe
from scaffold.host.process_identity import is_alive

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="needs the subreapers of Linux")
EITHER_WAY = pytest.mark.parametrize("containment", [None, Containment()], ids=["free", "contained"])

DAEMON = "(setsid sh -c 'echo $$ > daemon.pid; exec sleep 60' </dev/null >/dev/null 2>&1 &); "
STUBBORN = "trap '' TERM; sh -c 'echo $$ > deep.pid; while :; do sleep 60; done' & while :; do sleep 60; done"
UNTIL_THERE = "while [ ! -s daemon.pid ]; do sleep 0.01; done; "


@EITHER_WAY
async def test_a_command_returns_its_exit_code_and_both_outputs(sh, containment):
    finished = await sh("echo out; echo err >&2; exit 3", containment=containment)
    assert (finished.exit_code, finished.signal, finished.timed_out) == (3, None, False)
    assert (finished.stdout, finished.stderr, finished.truncated) == (b"out\n", b"err\n", False)
    assert finished.stdout_sha256 == hashlib.sha256(b"out\n").hexdigest()
    assert finished.duration_s > 0


@EITHER_WAY
async def test_a_command_ended_by_a_signal_has_no_exit_code(sh, containment):
    """An exit code of 128 + n and a signal n are different results."""
    killed, exited = (await sh("kill -SEGV $$", containment=containment), await sh("exit 139", containment=containment))
    assert (killed.exit_code, killed.signal) == (None, signal.SIGSEGV)
    assert (exited.exit_code, exited.signal) == (139, None)


@EITHER_WAY
@pytest.mark.parametrize(
    ("program", "code", "reason"),
    [("no-such-program", 127, b"No such file"), ("/etc/passwd", 126, b"Permission denied")],
)
async def test_a_program_that_cannot_start_is_reported_as_by_a_shell(tmp_path, env, containment, program, code, reason):
    finished = await run_command([program], cwd=tmp_path, env=env, timeout_s=10, containment=containment)
    assert finished.exit_code == code
    assert reason in finished.stderr
    assert program.encode() in finished.stderr


@EITHER_WAY
async def test_stdin_is_as_given_and_empty_by_default(sh, containment):
    payload = bytes(range(256)) * 4096
    assert (
        await sh("cat", stdin=payload, containment=containment, output=OutputCapture(limit_bytes=2_000_000))
    ).stdout == payload
    assert (await sh("cat", containment=containment)).stdout == b""


@EITHER_WAY
async def test_the_environment_is_exactly_as_given(tmp_path, containment):
    env = {"PATH": "/usr/bin:/bin", "LC_ALL": "C", "NAME": "Zoë"}
    finished = await run_command(["env"], cwd=tmp_path, env=env, timeout_s=10, containment=containment)
    assert sorted(finished.stdout.decode().splitlines()) == ["LC_ALL=C", "NAME=Zoë", "PATH=/usr/bin:/bin"]


@EITHER_WAY
async def test_arguments_need_not_be_utf_8(tmp_path, env, containment):
    finished = await run_command(
        ["printf", "%s", "a\udcff b\n"], cwd=tmp_path, env=env, timeout_s=10, containment=containment
    )
    assert finished.stdout == b"a\xff b\n"


@EITHER_WAY
async def test_a_broken_pipe_ends_a_contained_command_as_it_would_in_a_shell(sh, containment):
    """Python ignores SIGPIPE; the programs it starts must not."""
    finished = await sh("yes | head -c 1 >/dev/null; kill -PIPE $$; echo survived", containment=containment)
    assert finished.signal == signal.SIGPIPE


@EITHER_WAY
async def test_long_output_is_cut_in_the_middle_and_hashed_whole(sh, containment):
    finished = await sh("yes | head -c 20000000", output=OutputCapture(limit_bytes=1000), containment=containment)
    assert finished.truncated
    assert b"... 19999000 bytes omitted ..." in finished.stdout
    assert len(finished.stdout) < 1100
    assert finished.stdout_sha256 == hashlib.sha256(b"y\n" * 10_000_000).hexdigest()


async def test_all_output_is_written_to_a_file_in_order(sh, tmp_path):
    kept = tmp_path / "logs" / "check.log"
    await sh(
        "echo one; sleep 0.1; echo two >&2; sleep 0.1; echo three; yes | head -c 5000",
        output=OutputCapture(keep=kept, limit_bytes=10),
    )
    assert kept.read_bytes() == b"one\ntwo\nthree\n" + b"y\n" * 2500


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full, which fails each write like a full disk")
async def test_output_that_cannot_be_written_is_an_error(sh):
    with pytest.raises(OSError, match="No space left"):
        await sh("echo lost", output=OutputCapture(keep=Path("/dev/full")))


@EITHER_WAY
@pytest.mark.slow
async def test_a_timeout_ends_a_process_tree_that_ignores_sigterm(sh, tmp_path, process_in, eventually, containment):
    """BX-17"""
    task = asyncio.create_task(sh(STUBBORN, timeout_s=0.5, containment=containment))
    deep = await process_in(tmp_path / "deep.pid")
    assert is_alive(deep)
    finished = await task
    assert (finished.timed_out, finished.exit_code, finished.signal) == (True, None, signal.SIGKILL)
    await eventually(lambda: not is_alive(deep))


async def test_an_unsupervised_command_may_clean_up_after_a_timeout(sh):
    finished = await sh("trap 'echo tidied; exit 0' TERM; sleep 60 & wait", timeout_s=0.3)
    assert (finished.timed_out, finished.exit_code, finished.stdout) == (True, None, b"tidied\n")


@EITHER_WAY
async def test_a_cancelled_command_has_ended_when_the_cancellation_arrives(sh, tmp_path, process_in, containment):
    task = asyncio.create_task(sh("echo $$ > it.pid; exec sleep 60", containment=containment))
    command = await process_in(tmp_path / "it.pid")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not is_alive(command)


@LINUX
async def test_a_second_cancellation_does_not_save_the_command(sh, tmp_path, process_in):
    """BX-17, RA-19."""
    brood = "for i in $(seq 100); do sleep 60 & done; echo $! > it.pid; wait"
    task = asyncio.create_task(sh(brood, containment=Containment()))
    last = await process_in(tmp_path / "it.pid")
    task.cancel()
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not is_alive(last)


async def test_a_command_cancelled_during_its_start_never_begins(sh, tmp_path):
    """BX-17, RA-19: its reaper was there, and we were too busy to notice."""
    task = asyncio.create_task(sh("touch begun; exec sleep 60", containment=Containment()))
    await asyncio.sleep(0)
    select.select([], [], [], 0.3)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not (tmp_path / "begun").exists()


@pytest.mark.parametrize(
    "containment", [pytest.param(None, marks=pytest.mark.slow), Containment()], ids=["free", "contained"]
)
async def test_a_process_that_keeps_the_output_open_does_not_block_us(sh, tmp_path, process_in, containment):
    finished = await sh("sleep 600 & echo $! > it.pid; echo done", containment=containment, timeout_s=300)
    assert (finished.exit_code, finished.timed_out, finished.stdout) == (0, False, b"done\n")
    left = await process_in(tmp_path / "it.pid")
    assert (left is None) == (containment is not None)
    if left:
        await sh(f"kill -9 {left.pid}")


@LINUX
async def test_a_daemon_ends_with_the_contained_command_that_started_it(sh, tmp_path, process_in):
    """BX-17"""
    finished = await sh(DAEMON + UNTIL_THERE + "exit 5", containment=Containment())
    assert finished.exit_code == 5
    assert await process_in(tmp_path / "daemon.pid") is None


@LINUX
@pytest.mark.slow
async def test_a_daemon_ends_with_a_contained_command_that_runs_out_of_time(sh, tmp_path, process_in):
    """BX-17"""
    finished = await sh(DAEMON + UNTIL_THERE + "sleep 60", timeout_s=1, containment=Containment())
    assert finished.timed_out
    assert await process_in(tmp_path / "daemon.pid") is None


@LINUX
async def test_many_generations_end_with_their_contained_command(sh):
    """BX-17"""
    await sh(
        "for i in 1 2 3 4 5 6 7 8 9; do (sh -c 'sleep 61.25 & setsid sleep 61.25 &' &); done", containment=Containment()
    )
    assert (await sh("ps -eo args | grep -c '^slee[p] 61.25'")).stdout == b"0\n"


async def test_a_killed_reaper_counts_as_its_command_and_ends_it(sh, tmp_path, process_in, eventually):
    """RA-4: a command that kills its reaper gains nothing."""
    task = asyncio.create_task(
        sh("echo $PPID > keeper.pid; echo $$ > it.pid; exec sleep 60", containment=Containment())
    )
    keeper, command = await process_in(tmp_path / "keeper.pid"), await process_in(tmp_path / "it.pid")
    await sh(f"kill -KILL {keeper.pid}")
    finished = await task
    assert (finished.exit_code, finished.signal) == (None, signal.SIGKILL)
    await eventually(lambda: not is_alive(command))


@LINUX
def test_an_owner_that_dies_as_the_command_begins_leaves_no_process(tmp_path, monkeypatch):
    """BX-17: a reaper without an owner ends what it was told to start."""
    monkeypatch.chdir(tmp_path)
    reaper = ReaperPipe(["sleep", "60"])
    theirs = [os.dup(end) for end in reaper.passed]
    reaper.begin()
    reaper.close()
    for end in theirs:
        os.set_inheritable(end, True)
    argv = [*reaper.argv[:4], *map(str, theirs), *reaper.argv[6:]]
    keeper = os.posix_spawn(argv[0], argv, os.environ)
    assert os.waitstatus_to_exitcode(os.waitpid(keeper, 0)[1]) == 0
    for end in theirs:
        os.close(end)
    assert not [
        process
        for process in Path("/proc").glob("[0-9]*")
        if process.name != str(os.getpid()) and _place_of(process) == str(tmp_path)
    ]


def _place_of(process):
    try:
        return str((process / "cwd").readlink())
    except OSError:
        return ""


async def test_concurrent_commands_do_not_hold_each_other_s_pipes(sh, tmp_path):
    """A leaked write end would keep the quick ones waiting for the slow one."""
    async with asyncio.TaskGroup() as group:
        slow = group.create_task(sh("while [ ! -e over ]; do sleep 0.01; done", containment=Containment()))
        quick = [group.create_task(sh("echo $$", containment=Containment() if bool(n % 2) else None)) for n in range(6)]
        await asyncio.wait(quick)
        assert not slow.done()
        (tmp_path / "over").touch()
    assert slow.result().exit_code == 0


def descriptors():
    return sorted(path.name for path in Path("/dev/fd").iterdir())


async def test_no_descriptor_is_left_open(sh):
    await sh("true", containment=Containment())
    before = descriptors()
    for containment in (None, Containment()):
        await sh("cat", containment=containment, stdin=b"x")
        await sh("sleep 60", containment=containment, timeout_s=0.1)
        await run_command(["no-such-program"], cwd=Path("/"), env={}, timeout_s=1, containment=containment)
    assert descriptors() == before
