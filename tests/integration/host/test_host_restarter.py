"""The restarter: when it runs its command again, and when it stops."""

import os
import signal
import subprocess  # noqa: TID251 - the restarter itself, as a program
import sys
import textwrap
from pathlib import Path

import pytest

from scaffold.host.process import restarter
from support.scenario import wait_until

WITHOUT_PAUSES = "import sys; sys.path.append(sys.argv[1]); import restarter; restarter.PAUSES_S = (0.0,)"
FOLDER = str(Path(restarter.__file__).parent)


def restarting(tmp_path, body):
    """Run a command with the restarter until both have ended; return the options that each start of it got.

    `body` is Python with `number`, counting from 1, and `tell`; what happens in it ends the command.
    """
    log = tmp_path / "starts"
    command = tmp_path / "command.py"
    head = """
        import argparse, os, signal, sys
        parser = argparse.ArgumentParser()
        parser.add_argument("--report", type=int)
        parser.add_argument("--after", type=int)
        parser.add_argument("--give-up", action="store_true")
        given = parser.parse_args()
        with open({log!r}, "a") as log:
            print(given.after, given.give_up, os.getpid() == os.getsid(0), file=log)
        number = len(open({log!r}).readlines())
        tell = lambda line: os.write(given.report, f"{{line}}\\n".encode())
    """
    command.write_text(textwrap.dedent(head).format(log=str(log)) + textwrap.dedent(body))
    program = f"{WITHOUT_PAUSES}; restarter.main(sys.argv[2:])"
    argv = [sys.executable, "-I", "-S", "-c", program, FOLDER, sys.executable, "-I", str(command)]
    subprocess.run(argv, timeout=60, check=True)
    return [tuple(line.split()) for line in log.read_text().splitlines()]


def test_a_command_that_ended_as_somebody_wanted_is_not_run_again(tmp_path):
    """AL-27, OR-10: never after a signal that asks to end, nor after an end that was decided."""
    ends = [f"os.kill(os.getpid(), signal.{name})" for name in ("SIGTERM", "SIGINT", "SIGHUP")]
    ends += ["os._exit(130)", "os._exit(0)", *(f"tell('ended'); os._exit({code})" for code in (1, 2, 3))]
    for number, end in enumerate(ends):
        folder = tmp_path / str(number)
        folder.mkdir()
        body = f"signal.signal(signal.SIGINT, signal.SIG_DFL); tell('progress 1'); {end}"
        assert (end, len(restarting(folder, body))) == (end, 1)


@pytest.mark.parametrize(
    ("how", "code"),
    [
        ("os.kill(os.getpid(), signal.SIGKILL)", "-9"),
        ("os.kill(os.getpid(), signal.SIGSEGV)", "-11"),
        ("raise ValueError", "1"),
    ],
)
def test_a_command_that_was_killed_or_crashed_is_run_again_and_told_how(tmp_path, how, code):
    """SC-16, AL-27: each start leads its own session."""
    started = restarting(tmp_path, f"tell('progress 1')\nif number == 2: os._exit(0)\n{how}")
    assert started == [("None", "False", "True"), (code, "False", "True")]


def test_a_command_that_never_started_is_not_run_again(tmp_path):
    assert len(restarting(tmp_path, "os.kill(os.getpid(), signal.SIGKILL)")) == 1


@pytest.mark.slow
def test_only_deaths_without_progress_count(tmp_path):
    """SC-16: any number of deaths with progress, and no more than the limit without."""
    progressing = 2 * restarter.LIMIT
    body = f"tell(f'progress {{min(number, {progressing})}}'); os.kill(os.getpid(), signal.SIGKILL)"
    started = restarting(tmp_path, body)
    without = [start for start in started if start[1] == "True"]
    assert len(started) == progressing + restarter.LIMIT + 1
    assert without == started[-1:], "the last one only records that it is over"


def test_a_death_before_progress_is_reported_counts(tmp_path):
    started = restarting(tmp_path, "if number == 1: tell('progress 1')\nos.kill(os.getpid(), signal.SIGKILL)")
    assert len(started) == 1 + restarter.LIMIT + 1


def test_the_command_survives_its_restarter(tmp_path):
    """AL-27: whoever ends the restarter ends restarts, and nothing else."""
    alive, done = tmp_path / "alive", tmp_path / "done"
    script = f"echo $$ > {alive}.new; mv {alive}.new {alive}; while test -e {alive}; do sleep 0.05; done; touch {done}"
    argv = [sys.executable, "-I", "-S", restarter.__file__, "/bin/sh", "-c", script]
    parent = subprocess.Popen(argv)
    assert wait_until(alive.exists)
    pid = int(alive.read_text())
    parent.terminate()
    parent.wait(10)
    os.kill(pid, 0)
    alive.unlink()
    assert wait_until(done.exists)


def test_a_program_that_is_missing_ends_the_restarter(tmp_path):
    argv = [sys.executable, "-I", "-S", restarter.__file__, str(tmp_path / "nothing")]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=30, check=True)
    assert "cannot start" in done.stdout


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_restarter_is_small(tmp_path):
    """It stays in memory as long as the run: a few megabytes of its own."""
    argv = [sys.executable, "-I", "-S", restarter.__file__, "/bin/sh", "-c", "exec sleep 60"]
    parent = subprocess.Popen(argv)
    children = Path(f"/proc/{parent.pid}/task/{parent.pid}/children")
    try:
        assert wait_until(children.read_text)
        rollup = Path(f"/proc/{parent.pid}/smaps_rollup").read_text()
        own_kb = sum(int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Private_"))
        assert own_kb < 6_000
    finally:
        for pid in [*map(int, children.read_text().split()), parent.pid]:
            os.kill(pid, signal.SIGTERM)
        parent.wait(10)
