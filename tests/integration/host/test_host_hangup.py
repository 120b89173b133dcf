"""Commands of a process whose terminal is closed."""

import sys

import pytest

from scaffold.host.process.command_runner import run_command

IN_A_TERMINAL = """
import asyncio, os, pathlib, pty, signal, sys
from scaffold.host.process.command_runner import Containment, run_command

here = pathlib.Path.cwd()
pid, terminal = pty.fork()
if pid == 0:
    signal.signal(signal.SIGHUP, lambda *_: (here / "hung-up").touch())
    script = "trap 'touch harmed' HUP; touch begun; while [ ! -e hung-up ]; do sleep 0.05; done; sleep 0.1; touch done"
    containment = Containment() if sys.argv[1] == "contained" else None
    asyncio.run(run_command(["sh", "-c", script], cwd=here, env=os.environ, timeout_s=20, containment=containment))
    os._exit(0)
while not (here / "begun").exists():
    signal.sigtimedwait([signal.SIGCHLD], 0.05)
os.close(terminal)
os.killpg(pid, signal.SIGHUP)  # as a shell does with its jobs
os.waitpid(pid, 0)
"""


@pytest.mark.parametrize("containment", ["free", "contained"])
async def test_a_command_survives_the_closing_of_our_terminal(tmp_path, env, containment):
    """RA-4: a closed terminal."""
    output = await run_command([sys.executable, "-c", IN_A_TERMINAL, containment], cwd=tmp_path, env=env, timeout_s=30)
    assert output.exit_code == 0, output.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["begun", "done", "hung-up"]
