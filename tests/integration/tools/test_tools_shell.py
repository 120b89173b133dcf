import asyncio
import os
import resource
from pathlib import Path

import pytest

from scaffold.tools.outputs import KEPT_BYTES, KEPT_FILES
from scaffold.tools.shell import shell
from scaffold.tools.workspace import ANSWER_LIMIT, Workspace


@pytest.fixture
def sh(tmp_path):
    """Run a command in a fresh workspace."""
    env = {"PATH": os.environ["PATH"], "GREETING": "hello"}
    return lambda command, **args: shell(Workspace(tmp_path, env)).run({"command": command, **args})


async def test_a_command_runs_in_the_workspace_with_its_environment(sh, tmp_path):
    """RA-4."""
    output = await sh("pwd; echo $GREETING; cat; echo oops >&2; touch made")
    head, *rest = output.content.splitlines()
    assert head.startswith("exit code 0 after ")
    assert rest == ["--- stdout", str(tmp_path), "hello", "--- stderr", "oops"]
    assert not output.failed
    assert (tmp_path / "made").exists()


async def test_a_failing_command_is_a_failed_answer_with_its_exit_code(sh):
    output = await sh("exit 3")
    assert output.failed
    assert output.content.startswith("exit code 3 after ")


async def test_a_command_that_a_signal_ends_says_which(sh):
    output = await sh("kill -9 $$")
    assert output.failed
    assert output.content.startswith("killed by signal 9 after ")


async def test_a_command_is_stopped_at_its_time_limit_with_what_it_said_so_far(sh):
    output = await sh("echo begun; sleep 60", timeout_s=0.5)
    assert output.failed
    assert output.content.startswith("stopped at its time limit")
    assert "begun" in output.content


async def test_much_output_is_shown_with_head_and_tail(sh):
    output = await sh("seq 1 100000; seq 200000 300000 >&2")
    assert len(output.content) < ANSWER_LIMIT + 500
    lines = output.content.splitlines()
    assert lines[2] == "1"
    assert lines[-1] == "300000"
    assert output.content.count("characters left out") == 2


async def test_nothing_goes_on_after_the_command(sh, tmp_path):
    await sh("(sleep 0.4; touch late) >/dev/null 2>&1 &")
    await asyncio.sleep(0.8)
    assert not (tmp_path / "late").exists()


@pytest.fixture
def kept(tmp_path):
    """Run a command whose long output is kept, and return the answer with the file it names, if any."""
    env = {"PATH": os.environ["PATH"]}
    tool = shell(Workspace(tmp_path, env), tmp_path / "outputs")

    async def kept(command, **args):
        output = await tool.run({"command": command, **args})
        last = output.content.splitlines()[-1]
        return output, Path(last.rpartition(" is in ")[2]) if " is in " in last else None

    return kept


async def test_output_too_long_to_be_shown_is_kept_whole(kept):
    """RA-4."""
    output, file = await kept("seq 1 100000; echo oops >&2")
    assert "characters left out" in output.content
    assert file is not None
    lines = file.read_text().splitlines()
    assert lines[:2] == ["--- stdout", "1"]
    assert lines[100_000:] == ["100000", "", "--- stderr", "oops", ""]


async def test_short_output_is_not_kept(kept, tmp_path):
    _, file = await kept("seq 1 100")
    assert file is None
    assert not (tmp_path / "outputs").exists()


async def test_only_the_latest_outputs_are_kept(kept, tmp_path):
    (tmp_path / "outputs").mkdir()
    for n in range(KEPT_FILES):
        old = tmp_path / "outputs" / f"output-{n}.txt"
        old.touch()
        os.utime(old, (n, n))
    _, file = await kept("seq 1 100000")
    names = {entry.name for entry in (tmp_path / "outputs").iterdir()}
    assert names == {f"output-{n}.txt" for n in range(1, KEPT_FILES)} | {file.name}


async def test_a_folder_that_cannot_keep_it_does_not_lose_the_answer(tmp_path):
    (tmp_path / "outputs").touch()
    tool = shell(Workspace(tmp_path, {"PATH": os.environ["PATH"]}), tmp_path / "outputs")
    output = await tool.run({"command": "seq 1 100000"})
    assert not output.failed
    assert output.content.splitlines()[-1].startswith("--- not kept on disk: ")


async def test_a_gigabyte_without_a_line_break_is_bounded_in_memory_and_on_disk(kept):
    """RA-4, RA-19."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    output, file = await kept("head -c 1000000000 /dev/zero | tr '\\0' '\\377'; printf end", timeout_s=100)
    assert not output.failed
    assert len(output.content) < ANSWER_LIMIT + 500
    assert output.content.splitlines()[-2].endswith("end")
    assert file is not None
    assert KEPT_BYTES < file.stat().st_size < KEPT_BYTES + 1_000
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 400_000


async def test_many_children_that_never_end_end_with_the_command(sh, tmp_path):
    spawn = "for i in $(seq 100); do (setsid sleep 600 & ) ; echo $i; done; touch spawned; sleep 600"
    output = await sh(spawn, timeout_s=2)
    assert output.failed
    assert (tmp_path / "spawned").exists()
    assert _living_in(tmp_path) == []


def _living_in(folder):
    return [link for link in Path("/proc").glob("[0-9]*/cwd") if _leads_to(link) == folder]


def _leads_to(link):
    try:
        return link.readlink()
    except OSError:
        return None


@pytest.mark.parametrize("command", ["echo a\0b", "echo \ud800"])
async def test_what_no_system_can_run_is_refused(sh, command):
    output = await sh(command)
    assert output.failed
    assert "escapes" in output.content
