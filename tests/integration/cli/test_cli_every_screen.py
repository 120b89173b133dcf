"""Every command that prints, at a terminal of any width, with and without escape codes."""

import os
import pty
import re
import sys
import termios
import threading
import tty
from contextlib import suppress
from pathlib import Path

import click
import pytest
from rich.cells import cell_len

from builders import an_item, begin, fail, land, make_run, pay
from scaffold.cli.entry import VISIBLE
from scaffold.cli.main import run_command, scaffold_group
from scaffold.core.model import Usage
from scaffold.core.states import Completed, Failed

WIDE = "漢字のとても長い名前🎉cafe\u0301"
KEY = "a_very_long_key_of_an_action_that_does_not_fit_into_forty_columns"
PLAN = f"""\
version: 1
goals:
  - name: "shop {WIDE}"
    description: A goal whose description is rather long, so that it needs several lines in a narrow terminal.
    goal_state: [a_condition_with_a_long_name_of_its_own, second_{WIDE}, third_condition]
    actions:
      - key: {KEY}
        title: "Make {WIDE}"
        effects: [a_condition_with_a_long_name_of_its_own]
        files: [src/packages/{WIDE}/module.py]
        contract: {{commands: ["python -m pytest -q tests/unit/test_a_long_name.py"]}}
      - {{key: {WIDE}, effects: [second_{WIDE}], preconditions: [third_condition]}}
      - {{key: third, effects: [third_condition], contract: {{commands: ["make check"]}}}}
"""
SCREENS = {
    "status": [(), ("--watch",)],
    "inbox": [(), ("--all",), ("--everywhere",)],
    "notify": [()],
    "review": [("--stat",), ("--rates",)],
    "plan": [("check", "plan.yaml"), ("explain", "plan.yaml"), ("simulate", "plan.yaml")],
    "attach": [()],
    "runs": [(), ("--status", "saved")],
    "queue": [()],
    "cost": [()],
    "goals": [()],
    "tasks": [()],
    "audit": [()],
    "agents": [()],
    "logs": [()],
    "path": [(KEY,)],
    "diff": [("--stat",), (WIDE,)],
    "contract": [(KEY,), ("third",)],
    "baseline": [()],
    "learn": [(), ("--evaluate",)],
    "memory": [()],
    "item": [()],
    "cleanup": [("--dry-run",)],
    "salvage": [()],
    "purge": [("--dry-run",)],
    "config": [(), ("--list",)],
    "trust": [("--show",)],
    "executors": [()],
    "permissions": [("check", "--", "git", "push", "--force", "origin", "a-branch-with-a-long-name")],
    "doctor": [()],
    "whoami": [()],
}
"""By command, arguments with which it prints something and changes nothing."""
CHANGES = {
    "land": [()],
    "rebase": [()],
    "resume": [()],
    "retry": [("third",)],
    "send": [(KEY, "words")],
    "revert": [(WIDE,)],
    "stop": [()],
    "pause": [()],
    "approve": [("nothing",)],
    "reject": [("nothing",)],
    "answer": [("nothing", "words")],
    "run": [()],
}
"""The same of commands that change something, or say why they do not."""
DOCUMENTS = ("init", "service", "completion")
"""What they print is a file of another format, such as a plan or a unit of systemd."""
ELSEWHERE = ("cancel", "open", "demo", "chat", "login", "logout", "mcp", "acp", "ralph", "live", "serve")
"""Ends for good what the others show, starts programs or talks to a server: tried in tests of their own."""
COPIED = re.compile(r"\s*(\$ |scaffold |git |ralph |create mode |--\S+ \S+$|\S+$|\w+: [{\[])")
"""A command, an option, a line of a plan, or a word such as a path may be wider than the terminal: it is copied."""
DRAWINGS = (("plan", "simulate", "plan.yaml"), ("diff", "--stat"))
"""They take about 30 columns, and their bars, or git's paths, are longer in wider ones."""
TIME = re.compile(r"(\d+[dhm])*\d+[dhms](ago)?|process\d+|pid\d+")


def in_terminal(args, columns):
    """Return the lines that a command prints at a terminal, called in this process."""
    terminal, side = pty.openpty()
    tty.setraw(side)
    termios.tcsetwinsize(side, (50, columns))
    printed = bytearray()

    def read():
        with suppress(OSError):  # the end of what is printed
            while data := os.read(terminal, 65_536):
                printed.extend(data)

    reader = threading.Thread(target=read)
    reader.start()
    before = sys.stdout, sys.stderr
    with os.fdopen(os.dup(side), "w", encoding="utf-8") as err, os.fdopen(side, "w", encoding="utf-8") as out:
        sys.stdout, sys.stderr = out, err
        try:
            run_command(scaffold_group, args, prog="scaffold")
        finally:
            sys.stdout, sys.stderr = before
    reader.join()
    os.close(terminal)
    return printed.decode().splitlines()


def words_of(*tables):
    """Return the words of each command that is tried."""
    return [(name, *more) for table in tables for name, each in table.items() for more in each]


def wider(lines, columns):
    plain = map(click.unstyle, lines)
    return [line for line in plain if cell_len(line) > columns and not COPIED.match(line)]


def told(lines):
    """Return what lines say, without what differs from moment to moment, and the bars of lines that go on."""
    return TIME.sub("", "".join("".join(map(click.unstyle, lines)).split())).replace("┆", "")


@pytest.fixture
def shop(context, monkeypatch):
    """Two runs with long names, one completed, the other failed with numbers that fill their columns."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("CI", "1")  # no pager
    monkeypatch.delenv("COLUMNS", raising=False)
    (context.repository.root / "plan.yaml").write_text(PLAN)
    done, run = (begin(context, make_run(context, PLAN, budget_usd=5.0, budget_tokens=2_000)) for _ in range(2))
    for each in (done, run):
        land(context, each, KEY, {f"src/packages/{WIDE}/module.py": "x = 1\n"})
    failed = fail(context, run, "third", {"b.py": "y = 2\n"}, error="a reason " * 12 + "that ends with 4711")
    usage = Usage(input_tokens=123_456_789, cached_input_tokens=99_999_999, output_tokens=12_345_678, requests=1_234)
    with context.store.transaction():
        context.store.inbox.ask(an_item(failed, text="May I run a command with many arguments " * 3))
        pay(context.store, failed, usage, role="critic")
        context.store.runs.move(done.id, Completed())
        context.store.runs.move(run.id, Failed("shop: a reason that is so long that it needs several lines"))
        for each in (done, run):
            context.store.runs.release(each.id, fence=each.fence)
    return run


def test_every_command_is_among_those_whose_screens_are_tried():
    """AL-28: a new command has to be, too."""
    assert sorted([*SCREENS, *CHANGES, *DOCUMENTS, *ELSEWHERE]) == sorted({*VISIBLE, "chat"})


def test_what_is_printed_fits_forty_columns_without_escape_codes(shop, monkeypatch):
    """AL-28, SC-19: also with names of 65 columns, wide characters and numbers of nine digits."""
    monkeypatch.setenv("NO_COLOR", "1")
    shown = {args: in_terminal(args, 40) for args in words_of(SCREENS, CHANGES)}
    assert {args: found for args, lines in shown.items() if (found := wider(lines, 40))} == {}
    assert [args for args, lines in shown.items() if "\x1b" in "".join(lines)] == []


@pytest.mark.slow
@pytest.mark.parametrize("columns", [20, 80, 200])
def test_what_is_printed_fits_any_width_on_a_dumb_terminal(columns, shop, monkeypatch):
    """AL-28, SC-19: also 20 columns, in which most words break."""
    monkeypatch.setenv("TERM", "dumb")
    shown = {
        args: in_terminal(args, columns) for args in words_of(SCREENS, CHANGES) if columns >= 40 or args not in DRAWINGS
    }
    assert {args: found for args, lines in shown.items() if (found := wider(lines, columns))} == {}
    assert [args for args, lines in shown.items() if "\x1b" in "".join(lines)] == []


@pytest.mark.slow
def test_a_narrow_terminal_shows_all_that_a_wide_one_does(shop):
    """AL-28: nothing is cut before what distinguishes it, and no cell touches another."""
    # `doctor` tells how much room the disk has at this moment.
    for args in (each for each in words_of(SCREENS) if each not in {*DRAWINGS, ("doctor",)}):
        narrow, wide = told(in_terminal(args, 40)), told(in_terminal(args, 200))
        assert (args, narrow) == (args, wide)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in VISIBLE if name not in {"acp", "mcp"}])
def test_help_fits_forty_columns(name, shop, monkeypatch):
    """AL-28: click by itself takes at least 50."""
    monkeypatch.setenv("COLUMNS", "40")
    assert wider(in_terminal((name, "--help"), 40), 40) == []


def test_only_one_module_moves_the_cursor():
    """AL-28: what redraws lines asks first whether the terminal can."""
    modules = Path(sys.modules["scaffold.cli.main"].__file__).parent.rglob("*.py")
    writing = [each.name for each in modules if re.search(r'"[^"]*\\x1b\[[^(\[]', each.read_text("utf-8"))]
    assert writing == ["screen_redraw.py"]
