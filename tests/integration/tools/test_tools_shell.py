import asyncio
import os
import resource
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from scaffold.host.process_identity import identify
from scaffold.tools.command.shell import MAX_COMMAND_BYTES, shell
from scaffold.tools.command.spooled_output import MAX_FILES, MAX_TOTAL_BYTES
from scaffold.tools.workspace import MAX_ANSWER_CHARS, Workspace


@pytest.fixture
def sh(tmp_path):
    """Run a command in a new workspace."""
    env = {"PATH": os.environ["PATH"], "GREETING": "hello"}
    return lambda command, **args: shell(Workspace(tmp_path, env)).run({"command": command, **args})


async def test_a_command_runs_in_the_workspace_with_its_environment(sh, tmp_path):
    """RA-4."""
    output = await sh("pwd; echo oops >&2; echo $GREETING; cat; touch made")
    head, *rest = output.content.splitlines()
    assert head.startswith("exit code 0 after ")
    assert rest == ["--- output", str(tmp_path), "oops", "hello"], "both streams, in the order they were written"
    assert not output.failed
    assert (tmp_path / "made").exists()


async def test_a_command_that_only_changes_its_shell_says_that_this_is_lost(sh, tmp_path):
    """RA-4: each call is a new shell; other commands say nothing of it."""
    (tmp_path / "sub").mkdir()
    assert (await sh("cd sub")).content.splitlines()[-1] == snapshot(
        "--- This lasted for this call only. Put it before the command that needs it: `cd sub && COMMAND`"
    )
    for command, again in (("cd sub && export A=1",) * 2, ("export A=1; cd sub\n", "export A=1 && cd sub")):
        assert (await sh(command)).content.endswith(f": `{again} && COMMAND`")
    for command in ("cd sub && pwd", "cd nowhere", "cdx() { :; }; cdx", "true", "cd '" + "./" * 200 + "'"):
        assert "COMMAND" not in (await sh(command)).content


async def test_a_command_that_fails_says_how_it_ended(sh):
    """RA-4: where a file became too long, the number of a signal would not help."""
    for command, end in {
        "exit 3": "exit code 3 after ",
        "kill -9 $$": "killed by signal 9 after ",
        "ulimit -f 1; exec cat /dev/zero > long": "stopped: it exceeded the file size limit after ",
    }.items():
        output = await sh(command)
        assert (command, output.failed, output.content.startswith(end)) == (command, True, True)


async def test_a_command_is_stopped_at_its_timeout_with_its_output_so_far(sh):
    output = await sh("echo begun; sleep 60", timeout_s=0.5)
    assert output.failed
    assert output.content.startswith("stopped at its time limit")
    assert "begun" in output.content


async def test_long_output_is_shown_with_head_and_tail(sh):
    output = await sh("seq 1 100000; seq 200000 300000 >&2")
    assert len(output.content) < MAX_ANSWER_CHARS + 500
    lines = output.content.splitlines()
    assert lines[2] == "1"
    assert lines[-1] == "300000"
    assert output.content.count("bytes omitted") == 1


async def test_no_process_survives_the_command(sh):
    output = await sh("sleep 60 >/dev/null 2>&1 & echo $!")
    assert not output.failed
    assert identify(int(output.content.splitlines()[-1])) is None


@pytest.fixture
def kept(tmp_path):
    """Run a command whose long output is stored; return the answer with the file it names, if any."""
    env = {"PATH": os.environ["PATH"]}
    tool = shell(Workspace(tmp_path, env), tmp_path / "outputs")

    async def kept(command, **args):
        output = await tool.run({"command": command, **args})
        last = output.content.splitlines()[-1]
        return output, Path(last.partition(" are in ")[2].partition(" (")[0]) if " are in " in last else None

    return kept


async def test_output_too_long_to_show_is_stored_whole(kept):
    """RA-4."""
    output, file = await kept("seq 1 100000; echo oops >&2")
    assert "558900 bytes omitted" in output.content
    assert "\noops\n--- all 588900 bytes" in output.content
    assert file is not None
    assert file.read_text().splitlines() == [*(str(n) for n in range(1, 100_001)), "oops"]
    assert len(list(file.parent.iterdir())) == 1


async def test_short_output_is_not_stored(kept, tmp_path):
    _, file = await kept("seq 1 100")
    assert file is None
    assert not (tmp_path / "outputs").exists()


async def test_only_the_latest_outputs_are_stored(kept, tmp_path):
    (tmp_path / "outputs").mkdir()
    for n in range(MAX_FILES):
        old = tmp_path / "outputs" / f"output-{n}.txt"
        old.touch()
        os.utime(old, (n, n))
    _, file = await kept("seq 1 100000")
    names = {entry.name for entry in (tmp_path / "outputs").iterdir()}
    assert names == {f"output-{n}.txt" for n in range(1, MAX_FILES)} | {file.name}


async def test_a_file_that_cannot_be_removed_does_not_lose_the_answer(kept, tmp_path):
    for n in range(MAX_FILES):
        (tmp_path / "outputs" / f"output-{n}.txt").mkdir(parents=True)
    output, file = await kept("seq 1 100000")
    assert not output.failed
    assert file.read_text().endswith("\n100000\n")


async def test_stored_outputs_are_bounded_in_bytes_too(kept, tmp_path):
    (tmp_path / "outputs").mkdir()
    for n in range(3):
        old = tmp_path / "outputs" / f"output-{n}.txt"
        old.touch()
        os.truncate(old, MAX_TOTAL_BYTES // 2 - 200_000)
        os.utime(old, (n, n))
    _, file = await kept("seq 1 100000")
    assert {entry.name for entry in (tmp_path / "outputs").iterdir()} == {"output-2.txt", file.name}


async def test_a_cancelled_command_leaves_no_output_behind(kept, tmp_path):
    running = asyncio.create_task(kept("seq 1 100000; touch said; sleep 60"))
    while not (tmp_path / "said").exists():  # noqa: ASYNC110 - another process cannot set an event of ours
        await asyncio.sleep(0.01)
    assert len(list(tmp_path.glob("outputs/output-*"))) == 1
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert list(tmp_path.glob("outputs/*")) == []


async def test_a_folder_that_cannot_store_output_does_not_lose_the_answer(tmp_path):
    (tmp_path / "outputs").touch()
    tool = shell(Workspace(tmp_path, {"PATH": os.environ["PATH"]}), tmp_path / "outputs")
    output = await tool.run({"command": "seq 1 100000"})
    assert not output.failed
    assert output.content.splitlines()[-1].startswith("--- output was not saved: ")


FLOODS = {
    "invalid UTF-8": "head -c {} /dev/zero | tr '\\0' '\\377'; printf end",
    "zeros": "head -c {} /dev/zero; printf end",
    "one line": "yes | tr -d '\\n' | head -c {}; printf end",
}


@pytest.mark.slow
@pytest.mark.parametrize("flood", FLOODS.values(), ids=FLOODS)
async def test_endless_output_without_a_newline_is_stored_and_not_kept_in_memory(kept, flood):
    """RA-4, RA-19."""
    size = 200_000_000
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    output, file = await kept(flood.format(size), timeout_s=100)
    assert not output.failed
    assert len(output.content) < MAX_ANSWER_CHARS + 500
    assert output.content.splitlines()[-2].endswith("end")
    assert file.stat().st_size == size + 3
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 30_000
    file.unlink()


@pytest.mark.slow
async def test_children_that_never_end_are_ended_with_the_command(sh, tmp_path):
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
async def test_a_command_that_cannot_run_is_refused(sh, command):
    output = await sh(command)
    assert output.failed
    assert "escapes" in output.content


async def test_a_command_that_is_too_long_is_refused_with_an_alternative(sh):
    """RA-4: the longest one runs, one byte more is refused with an alternative."""
    assert (await sh("#" * MAX_COMMAND_BYTES)).content.startswith("exit code 0")
    output = await sh("#" * (MAX_COMMAND_BYTES + 1))
    assert output.failed
    assert "write_file" in output.content
