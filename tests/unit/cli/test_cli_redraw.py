"""The live area at the bottom of a terminal: only lines that changed are written again."""

import io
import sys
from contextlib import redirect_stderr, redirect_stdout

import click
import pyte
from hypothesis import given, settings
from hypothesis import strategies as st

from scaffold.cli.render.terminal.screen_redraw import LineWriter, ScreenRedraw, ScreenSize, lines_above

COLUMNS, ROWS = 30, 12
SIZE = ScreenSize(COLUMNS, ROWS)
FRAMES = st.lists(
    st.lists(st.text(alphabet="abc é漢", max_size=12).map(str.rstrip), max_size=ROWS - 2), min_size=1, max_size=6
)


class Terminal:
    """A screen with a line of another program on it, and the canvas that draws below."""

    def __init__(self):
        self._screen = pyte.Screen(COLUMNS, ROWS)
        self._screen.set_mode(pyte.modes.LNM)
        self._stream = pyte.Stream(self._screen)
        self._out = io.StringIO()
        self._seen = 0
        self.canvas = ScreenRedraw(self._out)
        self._stream.feed("$ status\n")

    def draw(self, lines, size=SIZE):
        """Draw and return what was written."""
        self.canvas.draw(lines, size)
        return self.flush()

    def print_above(self, text, size=SIZE):
        self.canvas.print_above(text, size)
        return self.flush()

    def flush(self):
        written = self._out.getvalue()[self._seen :]
        self._seen += len(written)
        self._stream.feed(written)
        return written

    @property
    def lines(self):
        return [line.rstrip() for line in self._screen.display]


@settings(max_examples=60)
@given(FRAMES)
def test_each_frame_shows_exactly_its_lines_below_the_earlier_output(frames):
    """BX-12: a frame leaves nothing of the one before."""
    terminal = Terminal()
    for lines in frames:
        terminal.draw(lines)
        expected = ["$ status", *lines]
        shown = [line.replace(" ", "") for line in terminal.lines]
        assert shown[: len(expected)] == [line.replace(" ", "") for line in expected]
        assert not any(shown[len(expected) :])


def test_only_changed_lines_are_written_in_one_write():
    terminal = Terminal()
    terminal.draw(["one", "two", "three"])
    assert terminal.draw(["one", "two", "three"]) == ""
    again = terminal.draw(["one", "TWO", "three"])
    assert ("TWO" in again, "one" in again, "three" in again) == (True, False, False)


def test_lines_that_stay_are_written_above_the_others():
    """AL-26: in one write, so that nothing flickers."""
    terminal = Terminal()
    terminal.draw(["one", "two"])
    terminal.print_above("landed\n")
    terminal.print_above("failed\nfact\n")
    assert terminal.lines[:7] == ["$ status", "landed", "failed", "fact", "one", "two", ""]
    terminal.draw(["three"])
    assert terminal.lines[:6] == ["$ status", "landed", "failed", "fact", "three", ""]


def test_lines_that_a_narrower_terminal_wrapped_are_erased_whole():
    """AL-26: a terminal wraps what no longer fits, and the cursor moves down with it."""
    terminal = Terminal()
    terminal.draw(["\x1b[31m" + "x" * 25 + "\x1b[0m", "y", ""])
    narrow = ScreenSize(10, ROWS)
    assert terminal.draw(["z"], narrow).startswith("\x1b[5A\r\x1b[J")
    assert terminal.print_above("event\n", SIZE).startswith("\x1b[1A\r\x1b[J")


def test_a_line_that_is_too_wide_is_erased_whole():
    terminal = Terminal()
    terminal.draw(["x" * (COLUMNS + 5), "y"])
    terminal.draw(["z"])
    assert terminal.lines[:3] == ["$ status", "z", ""]


def test_a_resized_terminal_keeps_the_output_above():
    terminal = Terminal()
    terminal.draw(["one", "two"])
    terminal.draw(["one", "two", "three"], ScreenSize(COLUMNS + 5, ROWS))
    assert terminal.lines[:5] == ["$ status", "one", "two", "three", ""]


def test_what_is_printed_meanwhile_appears_above_in_whole_lines():
    """AL-26: notes and errors of this process do not disturb the rows."""

    class Console(io.StringIO):
        def isatty(self):
            return True

    console, plain, shown = Console(), io.StringIO(), []
    with redirect_stdout(console), redirect_stderr(plain):
        with lines_above(shown.append):
            click.echo("a note")
            click.echo("begun", nl=False)
            assert shown == ["a note\n"]
            assert isinstance(sys.stdout, LineWriter)
            assert sys.stderr is plain
        assert shown == ["a note\n", "begun\n"]
        assert sys.stdout is console


def test_a_frame_is_erased_once():
    terminal = Terminal()
    terminal.draw(["one", "two"])
    terminal.canvas.erase(SIZE)
    terminal.canvas.erase(SIZE)
    terminal.flush()
    assert terminal.lines[:2] == ["$ status", ""]
