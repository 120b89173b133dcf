import asyncio
import os

import pytest

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


@pytest.mark.parametrize("command", ["echo a\0b", "echo \ud800"])
async def test_what_no_system_can_run_is_refused(sh, command):
    output = await sh(command)
    assert output.failed
    assert "escapes" in output.content
