"""Messages, errors and tables are as wide as the terminal; in a pipe each is one line."""

import os
import subprocess  # noqa: TID251 - the real command is called in a pipe
import sys

import pytest
from inline_snapshot import snapshot
from rich.cells import cell_len

from support.terminal import Screen, printed_lines

COMMANDS = (
    ("config",),
    ("config", "--list"),
    ("config", "budget_usd", "2.50"),
    ("trust", "--show"),
    ("init", "--dry-run"),
    ("run", "--plan", "none.yaml"),
    ("run", "--plan", "plan.yaml", "--model", "nothing"),
    ("run", "plan.yaml"),
    ("completion", "no-such-shell"),
    ("plan", "check", "plan.yaml"),
    ("plan", "check", "sound.yaml"),
    ("permissions", "check", "--", "git", "push", "--force", "origin", "main"),
)
UNSOUND = """\
version: 1
goals:
  - name: shop
    goal_state: [store_works]
    actions: [{key: store, preconditions: [schema_of_the_database_is_migrated], effects: [store_works]}]
"""


@pytest.fixture
def place(repository):
    """Return a repository with settings of its own and a plan, in a folder with a long name."""
    (repository / "plan.yaml").write_text(UNSOUND)
    (repository / "sound.yaml").write_text(UNSOUND.replace("preconditions: [schema_of_the_database_is_migrated], ", ""))
    commands = "".join(f"  - .venv/bin/python -m pip install package-{number}\n" for number in range(9))
    (repository / ".scaffold.yaml").write_text(
        f"setup:\n{commands}quality_gates:\n  test: python3 -m pytest -q tests\n"
    )
    return repository


def in_pipe(args, cwd):
    done = subprocess.run(
        [sys.executable, "-m", "scaffold", *args],
        cwd=cwd,
        env={name: value for name, value in os.environ.items() if name != "COLUMNS"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("columns", [40, 200])
@pytest.mark.parametrize("args", COMMANDS, ids=" ".join)
def test_what_a_command_says_fits_the_terminal_and_is_whole(args, columns, place):
    """AL-28: only a word, or a command to copy, may be wider than the terminal; nothing is lost."""
    columns = max(columns, 80) if args[0] == "init" else columns  # it prints a plan to be saved
    shown = printed_lines(args, cwd=place, columns=columns)
    assert [line for line in shown if cell_len(line) > columns and len(line.split()) > 1 and "`" not in line] == []
    assert "".join("".join(shown).split()) == "".join(in_pipe(args, place).split())


@pytest.mark.slow
def test_a_question_fits_the_terminal_and_so_do_its_answers(place):
    """AL-28: the answer is typed behind it."""
    argv = [sys.executable, "-m", "scaffold", "run", "internationalisation", "--model", "cassette:none.yaml"]
    env = {**os.environ, "TERM": "xterm", "COLUMNS": "40"}  # the variable comes before the terminal's own width
    screen = Screen(argv, cwd=place, env=env, columns=40)
    try:
        shown = screen.wait_for(r"\[y/N\]: *$")
        screen.type_line("n")
        screen.wait_for_exit()
    finally:
        screen.stop()
    assert shown == snapshot("""\
The task is only one word,
`internationalisation`. Go on? [y/N]:\
""")


@pytest.mark.slow
def test_an_error_is_two_lines_in_a_pipe_however_long_they_are(place):
    """BX-4: one line what, one line what to do."""
    what, fix = in_pipe(("run", "--plan", "none.yaml"), place).splitlines()
    assert what.endswith(f" {place / 'none.yaml'}")
    assert fix == snapshot("  Pass the path of a file that exists.")
