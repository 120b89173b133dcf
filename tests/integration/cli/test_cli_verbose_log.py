"""The log of `--verbose` in real processes: it disturbs no work, shows no secrets, and leaves nothing behind."""

import os
import re
import signal
import subprocess  # noqa: TID251 - real processes, with a standard error of their own
import sys
from pathlib import Path

import pytest

SECRET = "q7Zp-2mXv-91Lk-tR5w-8Hd3"
LOG_LINE = re.compile(r"\d\d:\d\d:\d\d\.\d{3} \[\d+\] (.*)")
LOGS = """
import logging, os, signal, sys
from pathlib import Path
from scaffold.cli import verbose_log
os.environ['SCAFFOLD_VERBOSE_LOG'] = str(verbose_log.begin_log())
log = logging.getLogger("scaffold.test")
"""
SHOWS = """
import asyncio
async def show():
    async with verbose_log.showing_others(Path(os.environ['SCAFFOLD_VERBOSE_LOG'])):
        pass
"""


@pytest.fixture
def python(tmp_path):
    """Run code in a new process with its own temporary folder, after the log began."""
    (tmp_path / "tmp").mkdir()
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "TMPDIR": str(tmp_path / "tmp"), "LANG": "C.UTF-8"}

    def run(code, stderr=subprocess.PIPE, cwd=tmp_path):
        return subprocess.run(
            [sys.executable, "-c", LOGS + code],
            cwd=cwd,
            env=environ,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            timeout=60,
            check=False,
        )

    return run


def project(folder):
    """Make a folder whose `.env` holds the secret."""
    (folder / ".git").mkdir(parents=True)
    (folder / ".env").write_text(f"API_TOKEN={SECRET}\n")
    (folder / "sub").mkdir()
    return folder


@pytest.mark.parametrize("kind", [pytest.param("full", marks=pytest.mark.slow), "closed", "unread"])
def test_a_standard_error_that_takes_nothing_does_not_disturb_the_work(python, kind):
    """AL-26."""
    reader, writer = os.pipe()
    os.close(reader)
    with Path("/dev/full").open("w") as full:
        code = "os.close(2)\n" if kind == "closed" else ""
        done = python(
            f"{code}for number in range(3): log.debug('line %d', number)\nprint('worked')",
            stderr=writer if kind == "unread" else full,
        )
    os.close(writer)
    assert (done.returncode, done.stdout) == (0, "worked\n")


def test_a_folder_that_is_gone_does_not_disturb_the_work(python, tmp_path):
    done = python("os.mkdir('x'); os.chdir('x'); os.rmdir('../x')\nlog.debug('line'); print('worked')")
    assert (done.returncode, done.stdout) == (0, "worked\n"), done.stderr


def test_lines_of_others_have_no_escape_sequences(python):
    """SC-19: any process of the user can write to the file."""
    write = "Path(os.environ['SCAFFOLD_VERBOSE_LOG']).write_bytes(b'one\\x1b[2Jtwo\\r\\nthree\\x9b\\nbegun')\n"
    done = python(f"{write}{SHOWS}asyncio.run(show())")
    assert done.stderr == "one\\x1b[2Jtwo\\x0d\nthree\ufffd\n"


@pytest.mark.parametrize("place", ["link", pytest.param("pipe", marks=pytest.mark.slow)])
def test_a_link_or_a_pipe_in_place_of_the_file_is_not_used(python, tmp_path, place):
    """Neither read nor written, and nobody waits for it."""
    (tmp_path / "private").write_text("private\n")
    make = "os.symlink('private', name)" if place == "link" else "os.mkfifo(name)"
    swap = f"name = os.environ['SCAFFOLD_VERBOSE_LOG']; os.unlink(name); os.chdir({str(tmp_path)!r})\n"
    swap += f"name = os.environ['SCAFFOLD_VERBOSE_LOG'] = 'swapped'; {make}; verbose_log.join_log(Path(name))\n"
    done = python(f"{swap}log.debug('line')\n{SHOWS}asyncio.run(show())\nprint('worked')")
    assert done.stdout == "worked\n"
    assert "private" not in done.stderr
    assert (tmp_path / "private").read_text() == "private\n"


@pytest.mark.slow
def test_the_file_is_private_and_found_after_a_kill(python, tmp_path):
    """AL-15: its name tells whose it was."""
    killed = python("os.kill(os.getpid(), signal.SIGKILL)")
    assert killed.returncode == -signal.SIGKILL
    (left,) = (tmp_path / "tmp").iterdir()
    assert left.stat().st_mode & 0o777 == 0o600
    found = python(
        "from scaffold.host.leftovers import left_by_dead_processes\n"
        "print([path.name for path in left_by_dead_processes(())])"
    )
    assert found.stdout == f"{[left.name]}\n"
    assert [path.name for path in (tmp_path / "tmp").iterdir()] == [left.name]


@pytest.mark.parametrize(("words", "inside"), [(("-v", "-C", "DIR"), "sub"), (("-C", "DIR", "-v"), "")])
def test_secrets_of_the_folder_of_work_are_not_shown(tmp_path, words, inside):
    """AL-26: in whatever order the options come."""
    folder = project(tmp_path / "project") / inside
    ran = logged_by_scaffold(tmp_path, [each.replace("DIR", str(folder)) for each in words], folder)
    assert SECRET not in ran


def logged_by_scaffold(tmp_path, words, folder):
    """Return the log of a command line whose process logs the secret."""
    code = (
        "import logging, sys, click\n"
        "from scaffold.cli.global_options import add_global_options\n"
        "@click.command()\n"
        "def run(): logging.getLogger('scaffold.test').debug('uses %s', sys.stdin.read())\n"
        "add_global_options(run)\n"
        "run()\n"
    )
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "LANG": "C.UTF-8"}
    done = subprocess.run(
        [sys.executable, "-c", code, *words],
        cwd=tmp_path,
        env=environ,
        input=SECRET,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    (line,) = done.stderr.splitlines()
    assert LOG_LINE.fullmatch(line)[1].startswith("uses ")
    return line
