"""A run of tests leaves nothing behind, also after Ctrl-C."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from support.run_folder import processes_with
from support.scenario import COMMAND_S, wait_until

CONFTEST = """\
from support.run_folder import begin as pytest_configure, end as pytest_unconfigure
"""
TEST = """\
import os, subprocess, tempfile, time


def test_it(tmp_path):
    folder = tempfile.mkdtemp()
    for variables in ({}, {"HOME": f"{tmp_path}/home", "TMPDIR": folder}):
        environ = {**os.environ, **variables}
        subprocess.Popen(["sleep", "600"], env=environ, stdout=subprocess.DEVNULL, start_new_session=True)
    open("folder", "w").write(folder)
    if os.environ["WAITS"]:
        time.sleep(600)
"""


@pytest.mark.slow
@pytest.mark.parametrize("is_interrupted", [False, True])
def test_a_run_ends_its_processes_and_deletes_its_folder(tmp_path, is_interrupted):
    """They are those of its workers, too, which end without a chance to tidy up."""
    (tmp_path / "conftest.py").write_text(
        f"import sys\n\nsys.path.append({str(Path(__file__).parents[1])!r})\n{CONFTEST}"
    )
    (tmp_path / "test_it.py").write_text(TEST)
    home = tmp_path / "home"
    environ = {**os.environ, "HOME": str(home), "TMPDIR": str(tmp_path), "WAITS": "yes" * is_interrupted}
    argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:randomly", "-n", "1", "test_it.py"]
    noted = tmp_path / "folder"
    with subprocess.Popen(argv, cwd=tmp_path, env=environ, stdout=subprocess.PIPE) as run:
        wait_until(lambda: run.poll() is not None or (noted.exists() and noted.read_text()))
        if is_interrupted:
            run.send_signal(signal.SIGINT)
        said, _ = run.communicate(timeout=COMMAND_S)
    assert run.returncode == (2 if is_interrupted else 0), said.decode()
    assert not Path(noted.read_text()).parent.exists()
    assert processes_with(f"TMPDIR={tmp_path}", f"HOME={tmp_path}") == []
