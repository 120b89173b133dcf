"""Commands whose standard input is closed, empty or rubbish say what is missing, and wait for nothing."""

import os
import pty
import subprocess  # noqa: TID251 - the real command is called with such an input
import sys

import pytest

MODEL = ("--model", "local:x@http://127.0.0.1:1/v1")
WITHOUT_TASK = (
    MODEL,
    (),
    ("run",),
    ("run", "-"),
    ("run", "--spec", "-"),
    ("plan",),
    ("plan", "-"),
    ("ralph", *MODEL),
    ("ralph", "-p"),
    ("ralph", "-c"),
)
"""Commands that need a task and are given none."""
OTHERS = (
    ("chat", *MODEL),
    ("plan", "check", "-"),
    ("permissions", "check", "--jsonl"),
    ("memory", "add", "-"),
    ("learn", "add", "-"),
    ("send", "store", "-"),
    ("mcp",),
    ("acp",),
    ("status",),
    ("purge",),
)
"""Others that read their input, or ask at a terminal."""
INPUTS = {
    "null": '"$0" -m scaffold "$@" </dev/null',
    "closed": '"$0" -m scaffold "$@" <&-',
    "empty": 'printf "" | "$0" -m scaffold "$@"',
    "rubbish": r'printf "\000\377\001" | "$0" -m scaffold "$@"',
}
"""By name, how a shell gives it to a command."""


def called(args, given):
    """Return a command that has ended, with this standard input."""
    return subprocess.run(
        ["sh", "-c", INPUTS[given], sys.executable, *args],
        env={name: value for name, value in os.environ.items() if name != "SCAFFOLD_MODEL"},
        capture_output=True,
        check=False,
    )


@pytest.mark.parametrize("given", ["null", "closed"])
def test_without_a_command_and_a_task_it_says_that_there_is_no_task(given, repository):
    """SC-19: also with options of `run`; nothing is started."""
    done = called(MODEL, given)
    assert (done.returncode, done.stdout) == (64, b"")
    what, fix = done.stderr.decode().splitlines()
    assert (what, "scaffold run" in fix) == ("error: there is no task", True)


@pytest.mark.slow
@pytest.mark.parametrize("given", INPUTS)
def test_every_command_that_needs_a_task_says_so(given, repository):
    """SC-19: the same for an input that is closed, empty, or no text."""
    ended = {args: called(args, given) for args in WITHOUT_TASK}
    said = b"standard input is not " if given == "rubbish" else b"there is no task"
    assert {args: done for args, done in ended.items() if done.returncode != 64 or said not in done.stderr} == {}


@pytest.mark.slow
@pytest.mark.parametrize("given", INPUTS)
def test_no_command_waits_for_an_input_that_never_comes_or_fails_on_it(given, repository):
    """BX-4: an error is two lines, and never a bug."""
    ended = {args: called(args, given) for args in OTHERS}
    assert {args: done for args, done in ended.items() if done.returncode not in {0, 4, 64}} == {}
    assert [
        args for args, done in ended.items() if b"This is a bug" in done.stderr or b"Traceback" in done.stderr
    ] == []


def test_help_says_what_works_without_a_command(scaffold):
    """SC-19: options of `run` stand where there is no command."""
    assert "with options of `run` such as `--model M`" in " ".join(scaffold("--help").out.split())


@pytest.mark.slow
def test_a_chat_whose_output_is_no_terminal_is_not_started(repository):
    """RA-18: `scaffold --model M | less` says so, and asks nothing that nobody sees."""
    terminal, side = pty.openpty()
    try:
        words = [sys.executable, "-m", "scaffold", *MODEL]
        done = subprocess.run(words, stdin=side, capture_output=True, check=False)
    finally:
        os.close(side)
        os.close(terminal)
    assert (done.returncode, done.stdout, b"a chat needs a terminal" in done.stderr) == (64, b"", True)
