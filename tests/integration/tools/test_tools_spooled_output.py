"""What commands say, kept on disk while it comes, and told in bounds."""

import os
import sys

import pytest

from scaffold.host.process.command import CommandResult
from scaffold.tools.command.shell import shell
from scaffold.tools.command.spooled_output import CommandSpec, Spool, cut_middle, describe_exit, run_spooled
from scaffold.tools.workspace import Workspace


def finished(**how):
    usual = {"exit_code": None, "signal": None, "timed_out": False, "stdout_sha256": "", "truncated": False}
    return CommandResult(**usual | {"stdout": b"", "stderr": b"", "duration_s": 1.5} | how)


@pytest.mark.parametrize(
    ("how", "said"),
    [
        (finished(exit_code=3), "exit code 3 after 1.5 s"),
        (finished(signal=9), "killed by signal 9 after 1.5 s"),
        (finished(signal=9, timed_out=True), "stopped at its time limit (ask for more) after 1.5 s"),
        (finished(signal=9, crowded=True), "stopped: it started more than 1000 processes after 1.5 s"),
    ],
)
def test_how_a_command_ended_is_said_in_words(how, said):
    """RA-4."""
    assert describe_exit(how, "ask for more") == said


def test_where_no_more_time_can_be_had_none_is_spoken_of():
    """RA-4: a tool of the user's takes no timeout_s."""
    assert describe_exit(finished(signal=9, timed_out=True)) == "stopped at its time limit after 1.5 s"


def test_a_short_stream_makes_no_file(tmp_path):
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


def test_no_more_is_kept_than_may_be(tmp_path):
    spool = Spool(tmp_path, "a", 0, limit_bytes=5)
    for piece in (b"abc", b"def", b"ghi"):
        spool.write(piece)
    spool.close()
    assert spool.file.read_bytes() == b"abcde"
    assert spool.problem == "at most 5 bytes of a stream are saved"


def test_a_disk_that_is_nearly_full_is_left_alone(tmp_path):
    """RA-4."""
    spool = Spool(tmp_path, "a", 0, free_bytes=1 << 60)
    spool.write(b"abc")
    spool.close()
    assert (spool.file, spool.kept, list(tmp_path.iterdir())) == (None, 0, [])
    assert "bytes free" in spool.problem


def test_another_s_file_is_never_written(tmp_path):
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "output-a.txt").symlink_to("secret")
    spool = Spool(tmp_path, "a", 0)
    spool.write(b"abc")
    assert (spool.file, spool.problem) == (None, "File exists")
    assert (tmp_path / "secret").read_text() == "secret"


@pytest.mark.parametrize("total", [10, 11, 12, 1000])
def test_what_is_cut_says_how_much_is_missing(total):
    data = bytes(65 + n % 26 for n in range(total))
    text = cut_middle(data, total, 10)
    head, _, rest = text.partition("\n... ")
    missing, _, tail = rest.partition(" bytes left out ...\n")
    assert len(head) + len(tail) + int(missing or 0) == total
    assert data.startswith(head.encode())
    assert data.endswith(tail.encode())
    assert len(head) + len(tail) <= 10


async def test_output_of_a_few_words_is_told_whole(tmp_path):
    command = CommandSpec(argv=["sh", "-c", "echo a; echo b >&2"], cwd=tmp_path, env=os.environ, timeout_s=9)
    told = await run_spooled(command)
    assert (told.stdout, told.stderr, told.kept) == ("a", "b", ())


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells who comes from whom")
async def test_a_command_that_starts_too_many_processes_is_told_so(tmp_path):
    """RA-4: a fork bomb, one that would stop by itself."""
    tool = shell(Workspace(tmp_path, {"PATH": os.environ["PATH"]}))
    output = await tool.run({"command": "for i in $(seq 1200); do sleep 20 & done; wait", "timeout_s": 60})
    assert output.failed
    assert output.content.startswith("stopped: it started more than 1000 processes after ")
