"""The live area at the bottom of a terminal: only lines that changed are written again."""

import io

import pyte
from hypothesis import given, settings
from hypothesis import strategies as st

from scaffold.cli.render.watch_view import ScreenRedraw

COLUMNS, ROWS = 30, 12
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

    def draw(self, lines, size=(COLUMNS, ROWS)):
        """Draw and return what was written."""
        self.canvas.draw(lines, size)
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


def test_a_resized_terminal_is_redrawn_from_its_top():
    terminal = Terminal()
    terminal.draw(["one", "two"])
    terminal.draw(["one", "two"], (COLUMNS, ROWS - 1))
    assert terminal.lines[:3] == ["one", "two", ""]


def test_a_frame_is_erased_once():
    terminal = Terminal()
    terminal.draw(["one", "two"])
    terminal.canvas.erase()
    terminal.canvas.erase()
    terminal.flush()
    assert terminal.lines[:2] == ["$ status", ""]
