"""The log of `--verbose`: what a command and the processes of its run do, and what is left of it."""

import json
import os
import signal

import pytest

from support.scenario import action, plan_of, shell, wait_until, write
from support.terminal import record_replies


@pytest.fixture
def temporary(scenario):
    """The system's temporary folder for the commands of the scenario."""
    folder = scenario.home / "temporary"
    folder.mkdir()
    scenario.environ["TMPDIR"] = str(folder)
    return folder


def planned(scenario, check):
    scenario.plan(plan_of(texts=[action("hello", effects=["hello_there"], check=check, files=["hello.txt"])]))
    scenario.cassette(hello=[write("hello.txt", "hello\n")])


@pytest.mark.slow
def test_the_log_tells_what_each_process_of_a_run_does(scenario, temporary):
    """AL-26: git commands, processes, checks and requests with their times, on standard error, without secrets."""
    secret = "sk-ant-" + "0123456789abcdef" * 2
    scenario.environ["MY_TOKEN"] = secret
    planned(scenario, f"test -f hello.txt # {secret}")
    done = scenario.run("--yes", "-v", "--quiet", code=0)
    assert "\ndone" not in done.stdout
    log = done.stderr
    for text in ("git rev-parse", "forked process", "/bin/sh -c 'test -f hello.txt", "answered after"):
        assert text in log, text
    assert secret not in log
    processes = {line.split("[", 1)[1].split("]", 1)[0] for line in log.splitlines() if "[" in line}
    assert len(processes) >= 2
    assert not list(temporary.iterdir())


@pytest.mark.slow
def test_a_background_run_logs_to_its_own_file(scenario, temporary):
    """AL-26: all of it, after the command that started it has ended; no file is left."""
    planned(scenario, "test -f hello.txt")
    sent = scenario.run("--yes", "-v", "--detach", code=0)
    assert wait_until(lambda: not scenario.processes())
    assert scenario.status()["run"]["status"] == "completed"
    (path,) = scenario.cache.glob("runs/*/*/logs/background.txt")
    log = path.read_text()
    for text in ("git rev-parse", "forked process", "/bin/sh -c 'test -f hello.txt", "answered after"):
        assert text in log, text
    assert f"the background process logs to {path}" in sent.stderr
    assert not list(temporary.iterdir())


@pytest.mark.slow
def test_the_file_of_a_killed_command_is_removed_by_the_next_owner(scenario, temporary):
    """AL-15."""
    go = scenario.out / "go"
    planned(scenario, f"until test -e {go}; do sleep 0.05; done; test -f hello.txt || test -e {go}")
    running = scenario.start(scenario.run_command("--yes", "-v", "--sandbox", "off", "--yolo"))
    assert wait_until(lambda: "until test -e" in scenario.said() and scenario.commands())
    os.kill(running.pid, signal.SIGKILL)
    running.wait()
    assert wait_until(lambda: not scenario.processes())
    assert list(temporary.glob("scaffold-log*"))
    go.touch()
    scenario.scaffold("resume", code=0)
    assert not list(temporary.glob("scaffold-log*"))


@pytest.mark.slow
def test_ralph_in_another_folder_shows_none_of_its_secrets(scenario):
    """AL-26: `--cwd` says where it works, without changing the current folder."""
    secret = "q7Zp-2mXv-91Lk-tR5w-8Hd3"
    folder = scenario.home / "elsewhere"
    folder.mkdir()
    (folder / ".env").write_text(f"API_TOKEN={secret}\n")
    model = record_replies(scenario, shell(f"echo {secret}"), "done")
    flags = ("--yolo", "--sandbox", "off", "--output-format", "json", "-v")
    done = scenario.scaffold("ralph", "say it", "--model", model, "--cwd", str(folder), *flags)
    assert json.loads(done.stdout)["result"] == "done"
    assert "echo " in done.stderr
    assert secret not in done.stderr
