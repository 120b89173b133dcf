"""Output of commands, stored on disk as it comes, and shown in part."""

import os
import sys

import pytest
from inline_snapshot import snapshot

from scaffold.host.process.command_runner import CommandResult
from scaffold.tools.command.shell import shell
from scaffold.tools.command.spooled_output import CommandSpec, Spool, describe_exit, head_and_tail, run_spooled
from scaffold.tools.workspace import Workspace


def finished(**how):
    usual = {"exit_code": None, "signal": None, "timed_out": False, "stdout_sha256": "", "truncated": False}
    return CommandResult(**usual | {"stdout": b"", "stderr": b"", "duration_s": 1.5} | how)


def test_the_end_of_a_command_is_described_in_words():
    """RA-4: a timeout that is fixed, as that of a user's tool, is not offered to be raised."""
    late = finished(signal=9, timed_out=True)
    ends = [finished(exit_code=3), finished(signal=9), late, finished(signal=9, too_many_processes=True)]
    assert [*(describe_exit(end, "ask for more") for end in ends), describe_exit(late)] == snapshot(
        [
            "exit code 3 after 1.5 s",
            "killed by signal 9 after 1.5 s",
            "stopped at its time limit (ask for more) after 1.5 s",
            "stopped: it started more than 1000 processes after 1.5 s",
            "stopped at its time limit after 1.5 s",
        ]
    )


def test_a_short_stream_creates_no_file(tmp_path):
    spool = Spool(tmp_path / "out", "a", 3)
    for piece in (b"a", b"b", b"c"):
        spool.write(piece)
    assert (spool.file, spool.kept, list(tmp_path.iterdir())) == (None, 0, [])


def test_a_longer_stream_is_in_its_file_from_the_first_byte(tmp_path):
    spool = Spool(tmp_path / "out", "a", 3)
    for piece in (b"ab", b"cd", b"ef"):
        spool.write(piece)
    spool.close()
    assert spool.file.read_bytes() == b"abcdef"
    assert spool.file.stat().st_mode & 0o777 == 0o600
    assert (spool.kept, spool.problem) == (6, "")


def test_stored_output_is_bounded(tmp_path):
    spool = Spool(tmp_path, "a", 0, limit_bytes=5)
    for piece in (b"abc", b"def", b"ghi"):
        spool.write(piece)
    spool.close()
    assert spool.file.read_bytes() == b"abcde"
    assert spool.problem == snapshot("at most 5 bytes of a stream are saved")


def test_a_nearly_full_disk_is_not_filled(tmp_path):
    """RA-4."""
    spool = Spool(tmp_path, "a", 0, free_bytes=1 << 60)
    spool.write(b"abc")
    spool.close()
    assert (spool.file, spool.kept, list(tmp_path.iterdir())) == (None, 0, [])
    assert "bytes free" in spool.problem


def test_a_file_of_another_user_is_never_written(tmp_path):
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "output-a.txt").symlink_to("secret")
    spool = Spool(tmp_path, "a", 0)
    spool.write(b"abc")
    assert (spool.file, spool.problem) == (None, "File exists")
    assert (tmp_path / "secret").read_text() == "secret"


def test_shortened_output_says_how_much_is_missing():
    for total in (10, 11, 12, 1000):
        data = bytes(65 + n % 26 for n in range(total))
        text = head_and_tail(data, total, 10)
        head, _, rest = text.partition("\n... ")
        missing, _, tail = rest.partition(" bytes omitted ...\n")
        assert len(head) + len(tail) + int(missing or 0) == total
        assert data.startswith(head.encode())
        assert data.endswith(tail.encode())
        assert len(head) + len(tail) <= 10


async def test_short_output_is_shown_whole(tmp_path):
    command = CommandSpec(argv=["sh", "-c", "echo a; echo b >&2"], cwd=tmp_path, env=os.environ, timeout_s=9)
    output = await run_spooled(command)
    assert (output.stdout, output.stderr, output.kept) == ("a", "b", ())


async def test_two_streams_too_long_to_show_are_saved_apart(tmp_path):
    command = "seq 1 10000; seq 1 10000 >&2"
    spec = CommandSpec(
        argv=["sh", "-c", command], cwd=tmp_path, env=os.environ, timeout_s=9, outputs=tmp_path / "outputs"
    )
    kept = (await run_spooled(spec)).kept
    assert [line.split(" are in ")[0] for line in kept] == snapshot(
        [
            "--- all 48894 bytes of stdout (search_files finds lines in it)",
            "--- all 48894 bytes of stderr (search_files finds lines in it)",
        ]
    )
    assert len(list((tmp_path / "outputs").iterdir())) == 2


async def test_streams_that_are_one_stay_in_order(tmp_path):
    """RA-4."""
    command = "for i in 1 2 3; do echo out$i; echo err$i >&2; done"
    spec = CommandSpec(argv=["sh", "-c", command], cwd=tmp_path, env=os.environ, timeout_s=9, together=True)
    report = await run_spooled(spec)
    assert (report.stdout.split(), report.stderr) == (["out1", "err1", "out2", "err2", "out3", "err3"], "")


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="needs the subreapers of Linux")
async def test_a_command_that_starts_too_many_processes_is_reported(tmp_path):
    """RA-4: a fork bomb with a bound."""
    tool = shell(Workspace(tmp_path, {"PATH": os.environ["PATH"]}))
    output = await tool.run({"command": "for i in $(seq 1200); do sleep 20 & done; wait", "timeout_s": 60})
    assert output.failed
    assert output.content.startswith("stopped: it started more than 1000 processes after ")
