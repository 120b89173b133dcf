"""What a run shows while it lasts: rows at a terminal, lines in a pipe, four kinds of changes with `--quiet`."""

import re
import signal
import subprocess

import click
import pytest
from inline_snapshot import snapshot
from rich.cells import cell_len

from support.scenario import COMMAND_S, action, plan_of, wait_until, write
from support.terminal import CTRL_C, Screen

UNCONFINED = ("--yes", "--sandbox", "off", "--yolo")
"""So that a check sees the file it waits for."""
PRIVATE_MODE = "\x1b[?"
"""Begins each sequence that sets a mode of the terminal, such as a hidden cursor."""


@pytest.fixture
def held(scenario):
    """A run whose only check lasts until `out/go` exists; return the file."""
    go = scenario.out / "go"
    check = f"until test -e {go}; do sleep 0.05; done; test -f hello.txt || test -e {go}"
    scenario.plan(plan_of(texts=[action("hello", effects=["hello_there"], check=check, files=["hello.txt"])]))
    scenario.cassette(hello=[write("hello.txt", "hello\n")])
    return go


@pytest.fixture
def terminal(scenario):
    """Start a run in a terminal; it is ended with the test."""
    started = []

    def start(*flags, columns=80, rows=24, **environ):
        env = {**scenario.environ, "TERM": "xterm-256color", **environ}
        argv = scenario.run_command(*UNCONFINED, *flags)
        started.append(Screen(argv, cwd=scenario.repo, env=env, columns=columns, rows=rows))
        return started[-1]

    yield start
    for each in started:
        each.stop()
    scenario.wait_for_end()


@pytest.mark.slow
def test_in_a_pipe_a_line_says_what_runs_and_how_long_it_took_last(scenario, held):
    """AL-26, SC-19: one plain line for each change; nothing is cut or drawn again."""
    text = ""
    for _ in range(2):
        held.unlink(missing_ok=True)
        with (scenario.home / "printed").open("w+") as printed:
            argv, env = scenario.run_command(*UNCONFINED), scenario.environ
            run = subprocess.Popen(argv, cwd=scenario.repo, env=env, stdin=subprocess.DEVNULL, stdout=printed)
            path = scenario.home / "printed"
            assert wait_until(lambda path=path: "running  hello#1: check" in path.read_text())
            held.touch()
            assert run.wait(COMMAND_S) == 0
            text = path.read_text()
        scenario.git("branch", "-D", re.search(r"landing on (\S+)", text)[1])
    (line,) = [line for line in text.splitlines() if "running  hello#1" in line][:1]
    assert re.search(rf"hello#1: check `until test -e {held}; .*` \(last \d+ s\)$", line)
    assert "\x1b" not in text


@pytest.mark.slow
@pytest.mark.parametrize(("columns", "rows"), [(60, 15), (200, 50)])
def test_at_a_terminal_a_row_shows_the_check_until_it_ends(scenario, held, terminal, columns, rows):
    """AL-26, BX-12: events stay above; no mode of the terminal is set."""
    screen = terminal(columns=columns, rows=rows)
    screen.wait_for(r"^▶ hello#1 +workspace +check: until.* \d s\b")
    # The emulated screen has no wider lines, whatever was written.
    rows_drawn = [click.unstyle(row) for row in re.findall(r"\r\x1b\[2K([^\r\n]+)", screen.raw)]
    assert any(row.startswith("▶ hello#1") for row in rows_drawn)
    assert [row for row in rows_drawn if cell_len(row) > columns] == []
    held.touch()
    assert screen.wait_for_exit() == 0
    assert re.search(r"^\d\d:\d\d:\d\d  landed   hello as ", screen.text, re.MULTILINE)
    assert "▶ hello#1" not in screen.text
    assert PRIVATE_MODE not in screen.raw


@pytest.mark.slow
def test_a_narrow_terminal_shows_the_four_kinds_of_changes_alone(held, terminal):
    """AL-26: there is no room for the rest; the report at the end stays."""
    screen = terminal(columns=59)
    screen.wait_for(r"^\d\d:\d\d:\d\d  started  hello")
    held.touch()
    assert screen.wait_for_exit() == 0
    told = re.findall(r"\d\d:\d\d:\d\d  (\w+)", screen.raw)
    assert told == ["started", "done"]
    assert "▶ hello#1" not in screen.raw
    assert "landed 1 action" in screen.text


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["interrupt", "killed"])
def test_a_run_that_is_ended_leaves_the_terminal_as_it_was(scenario, held, terminal, ending):
    """AL-26, AL-27."""
    screen = terminal()
    screen.wait_for(r"^▶ hello#1 ")
    if ending == "killed":
        screen.child.kill(signal.SIGKILL)
        assert screen.wait_for_exit() == -signal.SIGKILL
    else:
        screen.send(CTRL_C)
        screen.wait_for("stopping: nothing new starts")
        assert screen.wait_for_exit() == 130
        assert "▶ hello#1" not in screen.text
    assert PRIVATE_MODE not in screen.raw


@pytest.mark.slow
@pytest.mark.parametrize("environ", [{"TERM": "dumb"}, {"CI": "1"}])
def test_a_dumb_terminal_and_ci_get_plain_lines(held, terminal, environ):
    """AL-26, SC-19."""
    screen = terminal(**environ)
    screen.wait_for(r"^\d\d:\d\d:\d\d  running  hello#1: check `until")
    held.touch()
    assert screen.wait_for_exit() == 0
    assert "\x1b[" not in screen.raw.replace("\x1b[0m", "").replace("\x1b[1m", "").replace("\x1b[32m", "")


@pytest.mark.slow
def test_quiet_prints_four_kinds_of_changes_and_the_end(scenario):
    """AL-26: tasks that start, complete or are blocked, and errors, each with its reason; then the report."""
    made = [action("good", effects=["good"], check="true"), action("bad", effects=["bad"], check="false")]
    scenario.plan(plan_of(g=[*made, action("after", effects=["after"], needs=["bad"], check="true")]))
    scenario.cassette(good=[write("good.txt", "1\n")], bad=[write("bad.txt", "1\n")], after=["never"])
    done = scenario.run(*UNCONFINED, "--quiet")
    assert (done.returncode, done.stderr) == (1, "")
    told, _, report = done.stdout.partition("\n\n")
    lines = [" ".join(line.split()[1:3]) for line in told.splitlines()]
    assert sorted(lines) == snapshot(
        [
            "blocked after:",
            "done good",
            "error bad:",
            "error bad:",
            "error bad:",
            "error bad:",
            "error g:",
            "started bad:",
            "started bad:",
            "started bad:",
            "started good:",
        ]
    )
    assert report.strip().startswith("✗ run ")
    assert scenario.scaffold("status", "--changes").stdout.strip() == told
    changes = scenario.json("status", "--changes")["changes"]
    assert {(each["kind"], each["action"], (each["reason"] or "")[:18]) for each in changes} == snapshot(
        {
            ("blocked", "after", "dependency_failed:"),
            ("completed", "good", ""),
            ("error", "bad", "attempt 1, contrac"),
            ("error", "bad", "attempt 2, contrac"),
            ("error", "bad", "attempt 3, contrac"),
            ("error", "bad", "contract_failed in"),
            ("error", None, "g: failed: `after`"),
            ("started", "bad", "attempt 1"),
            ("started", "bad", "attempt 2"),
            ("started", "bad", "attempt 3"),
            ("started", "good", "attempt 1"),
        }
    )


@pytest.mark.slow
def test_attach_begins_with_what_goes_on_now(scenario, held):
    """SC-18, AL-28: then comes what led to it; a dumb terminal gets lines without escape codes."""
    scenario.run(*UNCONFINED, "--detach", code=0)
    assert wait_until(lambda: "hello#1" in scenario.scaffold("agents").stdout)
    env = {**scenario.environ, "TERM": "dumb"}
    screen = Screen(scenario.command("attach"), cwd=scenario.repo, env=env, columns=40)
    try:
        screen.wait_for("^.*  plan  ")
        held.touch()
        assert screen.wait_for_exit() == 0
    finally:
        held.touch()
        screen.stop()
        scenario.wait_for_end()
    shown = screen.raw
    assert re.match(r"[^\n]*▶ run [a-z0-9]+ active", shown)
    assert shown.index("1 action") < shown.index("  plan  ") < shown.index("  landed")
    assert "\x1b" not in shown
