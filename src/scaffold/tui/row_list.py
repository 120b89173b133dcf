"""A list of rows with a cursor: the one widget for every tab and every text. It draws only what is visible."""

from collections.abc import Sequence

from msgspec import Struct
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.strip import Strip
from textual.widget import Widget

from scaffold.views.text_format import pad

CURSOR, NO_CURSOR = "> ", "  "
WHEEL_ROWS = 3


class Row(Struct, frozen=True):
    """One line of a list."""

    key: str
    """Names it in later lists, so that the cursor stays on it."""
    text: str
    color: str = ""
    about: object = None
    """What it shows: an agent, an action, a goal, something that waits."""


class RowList(Widget, can_focus=True):
    """Rows of a screen; `follow` keeps the cursor at the end."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: Sequence[Row] = ()
        self.cursor = 0
        self.follow = False
        self._top = 0
        self._painted: list[tuple[Row | None, bool]] = []

    @property
    def selected(self) -> Row | None:
        """The row under the cursor; None without rows."""
        return self.rows[self.cursor] if self.cursor < len(self.rows) else None

    def show(self, rows: Sequence[Row], *, key: str | None = None) -> None:
        """Show other rows; the cursor stays on the row named `key`, or else on its own, if that is still there."""
        wanted = key or (self.selected.key if self.selected else None)
        place = next((number for number, row in enumerate(rows) if row.key == wanted), self.cursor)
        self.rows = rows
        self.move_to(len(rows) - 1 if self.follow else place)

    def move_to(self, place: int) -> None:
        """Put the cursor on a row, the first or last one if there is none at `place`."""
        self.cursor = max(0, min(place, len(self.rows) - 1))
        height = max(1, self.size.height)
        self._top = max(0, min(self._top, self.cursor, len(self.rows) - height))
        self._top = max(self._top, self.cursor - height + 1)
        self._repaint_changed()

    def move_by(self, rows: int) -> None:
        """Move the cursor."""
        self.follow = False
        self.move_to(self.cursor + rows)

    def find(self, words: str) -> bool:
        """Put the cursor on the next row with these words, the first one after the last; return if there is one."""
        count, wanted = len(self.rows), words.casefold()
        places = ((self.cursor + step) % count for step in range(1, count + 1))
        found = next((place for place in places if wanted in self.rows[place].text.casefold()), None)
        if found is not None:
            self.follow = False
            self.move_to(found)
        return found is not None

    def render_line(self, y: int) -> Strip:
        """Return the line at `y`."""
        row, is_cursor = self._row_at(y)
        width = self.size.width
        if row is None:
            return Strip.blank(width, Style())
        words = row.text.lstrip()
        head = f"{CURSOR if is_cursor else NO_CURSOR}{' ' * (len(row.text) - len(words))}"[:width]
        text = f"{head}{pad(words, width - len(head))}" if len(head) < width else head
        style = Style(color=row.color or None, reverse=is_cursor)
        return Strip([Segment(text, style)], width)

    def on_resize(self, _event: events.Resize) -> None:
        """Keep the cursor visible."""
        self._painted.clear()
        self.move_to(self.cursor)

    def on_mouse_scroll_down(self, _event: events.MouseScrollDown) -> None:
        """Move down."""
        self.move_by(WHEEL_ROWS)

    def on_mouse_scroll_up(self, _event: events.MouseScrollUp) -> None:
        """Move up."""
        self.move_by(-WHEEL_ROWS)

    def on_click(self, event: events.Click) -> None:
        """Put the cursor on the row."""
        self.follow = False
        self.move_to(self._top + event.y)

    def _row_at(self, y: int) -> tuple[Row | None, bool]:
        place = self._top + y
        return (self.rows[place], place == self.cursor) if place < len(self.rows) else (None, False)

    def _repaint_changed(self) -> None:
        # Only lines that look different are sent to the terminal.
        now = [self._row_at(y) for y in range(self.size.height)]
        if [_painted_look(each) for each in now] != [_painted_look(each) for each in self._painted]:
            self._painted = now
            self.refresh()


def _painted_look(painted: tuple[Row | None, bool]) -> tuple[str, str, bool] | None:
    row, is_cursor = painted
    return None if row is None else (row.text, row.color, is_cursor)
