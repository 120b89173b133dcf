"""The checks of the recorded hour find what they are for; each fault is planted here."""

import os
import sys

import pytest
from inline_snapshot import snapshot

from first_hour.checks import (
    bare_cuts,
    cuts,
    difference,
    escapes,
    missing_paths,
    open_questions,
    tracebacks,
    unknown_commands,
    unknown_values,
    wide_lines,
    wrong_code,
)
from first_hour.place import projects
from first_hour.recorder import HANGS, PIPE, Record, record
from first_hour.steps import before_identity, of_pages, set_up, work

TRACEBACK = "Traceback (most recent call last):"
WIDE = "a sentence that is too long for a terminal of forty columns"


def typed(raw, *, columns=PIPE, code=0):
    return Record(command="scaffold status", columns=columns, code=code, raw=raw, screen=raw, seconds=0.1)


def test_lines_that_do_not_fit_are_found():
    """Colors do not count, a redrawn line is a line, and a word or a command to copy may be wider."""
    rows = [
        (f"{WIDE}\r\n", True),
        (f"\x1b[32m{WIDE[:30]}\x1b[0m\r\n", False),
        (f"{WIDE[:30]}\r\x1b[2K{WIDE[:30]}", False),
        (f"\x1b[2K{WIDE}\x1b[1A", True),
        ("   scaffold run --plan plan.yaml --yes --detach --agents 4\r\n", False),
        (f"/{'x' * 60}\r\n", False),
    ]
    assert [(raw, bool(wide_lines(typed(raw, columns=40)))) for raw, _ in rows] == rows
    assert [raw for raw, _ in rows if wide_lines(typed(raw))] == [], "a pipe has no width"


def test_what_a_pipe_must_not_have_is_found():
    assert escapes(typed("\x1b[32mgreen\x1b[0m\n")) != []
    assert escapes(typed("over\rwritten\n")) == [], "it is a character of text files"
    assert cuts(typed("the re…\n")) != []
    assert (escapes(typed("plain\n")), cuts(typed("plain\n"))) == ([], [])


def test_a_screen_that_leaves_a_question_is_found():
    """A cut before the first word, no word of what to type, a value that nobody knows."""
    screens = {
        (bare_cuts, "✓ completed  abcd  $0.32         …\n"): True,
        (bare_cuts, "✓ completed  abcd  add a command line that…\n"): False,
        (open_questions, "Delete it?\n"): True,
        (open_questions, "Delete it? [y/N]\n"): False,
        (open_questions, "shop: paused: waits for your go-ahead\n"): True,
        (open_questions, "shop: waits for you\n\nNext\n  scaffold inbox\n"): False,
        (unknown_values, "the cost is unknown\n"): True,
        (unknown_values, "--- /dev/null\n"): False,
    }
    assert {(check, text): bool(check(typed(text, columns=40))) for check, text in screens} == screens
    errors = {"error: it is broken\n": True, "error: it is\nbroken\n  Mend it.\n": False}
    assert {text: bool(open_questions(typed(text, columns=40, code=64))) for text in errors} == errors


def test_text_that_only_one_of_two_places_has_is_found():
    """White space and numbers do not count; the mark of a cut stands for what the pipe has there."""
    table = {
        ("one two\r\n  three 3 s\r\n", "one two three 14 s\n"): False,
        ("one t…\r\nnext\r\n", "one two three\nnext\n"): False,
        ("one three\r\n", "one two three\n"): True,
        ("one two three four\r\n", "one two three\n"): True,
    }
    assert {
        (terminal, pipe): bool(difference(typed(terminal, columns=40), typed(pipe))) for terminal, pipe in table
    } == table


def test_an_exit_code_that_was_not_promised_is_found():
    assert wrong_code(typed("", code=1), frozenset({0})) != []
    assert wrong_code(typed("", code=HANGS), frozenset({0})) != []
    assert wrong_code(typed("", code=3), frozenset({0, 3})) == []
    assert tracebacks(typed(f"{TRACEBACK}\n")) != []


def test_names_of_what_is_not_there_are_found(tmp_path):
    (tmp_path / "there").touch()
    text = f"see {tmp_path}/there and {tmp_path}/gone.\n"
    (missing,) = missing_paths(typed(text), tmp_path, tmp_path)
    assert f"{tmp_path}/gone" in missing
    known = [
        "Next\n  scaffold status abcd  look\nor `scaffold resume ID`\n",
        "Next\n  scaffold retry && scaffold resume      try again\n",
    ]
    unknown = ["Next\n  scaffold statsu abcd  look\n", "try `scaffold run --tire quick`\n"]
    assert [text for text in [*known, *unknown] if unknown_commands(typed(text))] == unknown


@pytest.mark.parametrize("columns", [40, PIPE])
def test_a_command_is_recorded_as_it_is_typed(columns, tmp_path):
    """A question is answered at a terminal; in a pipe nobody answers."""
    script = "import sys; print(sys.stdout.isatty()); print(input('Start? [y/N]: ') if sys.stdin.isatty() else 'no')"
    command = f'{sys.executable} -c "{script}"; exit 3'
    done = record(command, columns=columns, cwd=tmp_path, environ=os.environ, answers=(("Start? [y/N]", "y"),))
    assert done.code == 3
    said = [line for line in (done.screen or done.raw).splitlines() if line.strip()]
    assert said == (["False", "no"] if columns == PIPE else ["True", "Start? [y/N]: y", "y"])


def test_the_hour_has_the_commands_of_the_tour_and_of_the_pages():
    tour = [*before_identity(), *set_up({}), *work()]
    pages = of_pages({"RUN": "abcdefgh", "ACTION": "store", "GOAL": "shortener"})
    assert len(tour) > 100
    assert {each.page.partition(":")[0] for each in pages} >= {"docs/guide.md", "docs/first-run.md", "docs/init.md"}
    assert any(each.command == snapshot("scaffold logs store --full") for each in (*tour, *pages) if each.reads)
    assert sorted(each.program for each in projects()) == ["cargo", "go", "npm", "npm", "python3", "python3"]
