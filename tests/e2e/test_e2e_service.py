"""`service` and `resume --interrupted`: interrupted runs continue after a reboot."""

import os
import plistlib
import shutil
import signal
import subprocess

import pytest
from inline_snapshot import snapshot

from support.scenario import COMMAND_S, action, plan_of, shell, wait_until, write


def test_without_an_interrupted_run_nothing_is_started(scenario):
    """The unit does not fail at each boot."""
    done = scenario.scaffold("resume", "--interrupted")
    assert (done.returncode, done.stderr) == snapshot((0, "no run was interrupted\n"))


def test_the_unit_is_valid_and_names_no_secret(scenario, tmp_path):
    """AL-27: systemd itself is asked, where it is installed."""
    scenario.environ |= {"OPENAI_API_KEY": "sk-secret-123", "SCAFFOLD_DATABASE_URL": ""}
    done = scenario.scaffold("service", "--for", "systemd", code=0)
    assert "secret" not in done.stdout
    assert "systemctl --user enable" in done.stderr
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd is not installed")
    unit = tmp_path / "scaffold-test.service"
    unit.write_text(done.stdout)
    judged = subprocess.run(
        ["systemd-analyze", "verify", "--user", str(unit)],
        env={"PATH": os.environ["PATH"], "XDG_RUNTIME_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=COMMAND_S,
        check=False,
    )
    assert unit.name not in judged.stdout + judged.stderr, judged.stderr


def test_the_agent_for_macos_is_valid(scenario):
    done = scenario.scaffold("service", "--for", "launchd")
    read = plistlib.loads(done.stdout.encode())
    assert read["WorkingDirectory"] == str(scenario.repo)
    assert read["ProgramArguments"][-2:] == ["resume", "--interrupted"]


def test_a_run_that_does_not_exist_is_refused(scenario):
    done = scenario.scaffold("service", "nothing", code=64)
    assert "there is no run" in done.stderr


@pytest.mark.slow
def test_the_command_of_the_unit_continues_what_was_interrupted_and_nothing_else(scenario):
    """AL-27, OR-10: as after a power cut; a run that its user paused stays paused."""
    scenario.plan(plan_of(shop=[action("a", effects=["done"], check="test -f a")]))
    scenario.cassette(a=[shell("sleep 2"), write("a", "1\n")])
    paused = scenario.start(scenario.run_command("--yes"))
    assert wait_until(scenario.commands)
    paused.send_signal(signal.SIGINT)
    assert paused.wait(COMMAND_S) == 130
    interrupted = scenario.start(scenario.run_command("--yes"))
    assert wait_until(scenario.commands)
    interrupted.kill()
    interrupted.wait(COMMAND_S)
    unit = plistlib.loads(scenario.scaffold("service", "--for", "launchd").stdout.encode())
    done = subprocess.run(
        unit["ProgramArguments"],
        cwd=unit["WorkingDirectory"],
        env={"HOME": str(scenario.home), **unit["EnvironmentVariables"]},
        capture_output=True,
        text=True,
        timeout=COMMAND_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    scenario.scaffold("attach", code=0)
    shown = scenario.scaffold("resume", "--interrupted")
    assert shown.stderr == snapshot("no run was interrupted\n")
    states = [scenario.status(name)["run"]["status"] for name in session_runs(scenario)]
    assert sorted(states) == ["completed", "paused"]


def session_runs(scenario):
    branches = scenario.git("branch", "--list", "session-*", "--format=%(refname:short)").split()
    return [branch.removeprefix("session-") for branch in branches]
