"""Long output for a real pager: what it does not take appears on the terminal."""

import os
import signal
import subprocess  # noqa: TID251 - a command is ended from outside
import sys
import textwrap

import click
import pytest

from scaffold.cli.render.terminal.paged_output import MAX_KEPT, paged
from scaffold.host.pager import find_pager
from support.scenario import wait_until

LONG, VERY_LONG = 1_000, 30_000
MISSING = "a-program-that-is-missing"


@pytest.fixture
def shown(tmp_path, monkeypatch, capfd):
    """Print numbered lines, one at a time, and return which the terminal got and which the pager printed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GIT_PAGER", raising=False)

    def show(pager, lines):
        monkeypatch.setenv("PAGER", pager)
        with (tmp_path / "terminal").open("w+") as terminal:
            before, sys.stdout = sys.stdout, terminal
            try:
                with paged(terminal):
                    for number in range(lines):
                        click.echo(f"{number:05} " + "x" * 60)
            finally:
                sys.stdout = before
            terminal.seek(0)
            return terminal.read().splitlines(), capfd.readouterr().out.splitlines()

    return show


@pytest.mark.parametrize(
    ("pager", "lines"),
    [(f"env {MISSING}", VERY_LONG), (f"exec {MISSING}", LONG), (MISSING, VERY_LONG), (MISSING, LONG), ("less '", LONG)],
)
def test_nothing_is_lost_if_the_pager_cannot_be_run(shown, pager, lines):
    """SC-19: also more than is kept for a pager that is running."""
    assert VERY_LONG * 67 > MAX_KEPT
    printed, paged_lines = shown(pager, lines)
    assert [line[:5] for line in printed] == [f"{number:05}" for number in range(lines)]
    assert paged_lines == []


@pytest.mark.parametrize(
    ("pager", "lines"), [("exec cat -", VERY_LONG), ("X=1 cat -", LONG), ("cat - | cat", LONG), ("(cat -)", LONG)]
)
def test_any_command_of_a_shell_is_a_pager(shown, pager, lines):
    """SC-19: as for git."""
    printed, paged_lines = shown(pager, lines)
    assert printed == []
    assert len(paged_lines) == lines


@pytest.mark.parametrize("lines", [LONG, VERY_LONG])
def test_what_follows_after_the_user_quit_is_not_printed(shown, lines):
    """SC-19."""
    printed, paged_lines = shown("head -2", lines)
    assert (printed, len(paged_lines)) == ([], 2)


@pytest.mark.parametrize("pager", [None, "less -R"])
def test_a_pager_inside_the_checkout_is_not_run(tmp_path, pager):
    """An agent may have written it."""
    folder = tmp_path / "repo" / "sub"
    for place in (tmp_path / "repo" / ".git", tmp_path / "repo" / "bin", folder):
        place.mkdir(parents=True)
    fake = tmp_path / "repo" / "bin" / "less"
    fake.write_text("#!/bin/sh\n")
    fake.chmod(0o755)
    path = os.pathsep.join((str(fake.parent), "bin", "/usr/bin", "/bin"))
    found = find_pager({"PATH": path, **({"PAGER": pager} if pager else {})}, folder)
    assert found is None or found.environ["PATH"] == "/usr/bin:/bin"
    assert find_pager({"PATH": str(fake.parent)}, folder) is None
    assert find_pager({"PATH": str(fake.parent)}, tmp_path / "other").command == "less"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_that_ends_the_command_ends_its_pager(tmp_path, number):
    """SC-19: a pager that is left behind would share the terminal with the shell."""
    pager = tmp_path / "pager"
    pager.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/new && mv {tmp_path}/new {tmp_path}/pid\nexec sleep 600\n")
    pager.chmod(0o755)
    program = """
        import sys
        from scaffold.cli.render.terminal.paged_output import paged
        with paged(sys.stdout):
            print("x\\n" * 1_000)
    """
    environ = {**os.environ, "PAGER": f"{pager} -R", "GIT_PAGER": f"{pager} -R"}
    argv = [sys.executable, "-c", textwrap.dedent(program)]
    command = subprocess.Popen(argv, env=environ, cwd=tmp_path.parent, stdout=subprocess.DEVNULL)
    assert wait_until((tmp_path / "pid").exists)
    command.send_signal(number)
    assert command.wait(30) == -number
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)
