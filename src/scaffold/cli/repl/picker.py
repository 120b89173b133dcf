"""A list of conversations to choose from: typing filters it, the arrows and Enter choose, Esc leaves."""

import os
import sys
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from msgspec import Struct
from prompt_toolkit.application import Application
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.input import Input, create_input
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.layout import BufferControl, FormattedTextControl, HSplit, Layout, Window
from prompt_toolkit.output import ColorDepth, Output
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.styles import Style
from rich.cells import cell_len

from scaffold.core.ids import ConversationId
from scaffold.core.printable_text import count_of, printable
from scaffold.host.clock import SystemClock
from scaffold.store.user.conversations import StoredConversation
from scaffold.store.user_store import UserStore
from scaffold.views.text_format import clip, clip_middle, pad, short_duration

MAX_LISTED = 500
AGE_COLUMNS = 5
MAX_FOLDER_COLUMNS = 24
STYLE = Style.from_dict({"prompt": "ansicyan bold", "chosen": "reverse", "hint": "ansibrightblack"})


class Choice(Struct, frozen=True, kw_only=True):
    """One conversation as it is listed."""

    id: ConversationId
    age: str
    folder: str
    words: str
    """The first words of the user."""


def choices_of(found: Sequence[StoredConversation], *, now: datetime, home: Path) -> tuple[Choice, ...]:
    """Return the conversations as they are listed."""
    return tuple(
        Choice(
            id=each.id,
            age=short_duration(now - each.updated_at),
            folder=_short_folder(each.cwd, str(home)),
            words=printable(" ".join(each.title.split())) or "(no title)",
        )
        for each in found
    )


def matching(choices: Sequence[Choice], typed: str) -> tuple[Choice, ...]:
    """Return the choices that contain all typed words, in any order and case."""
    words = typed.casefold().split()
    return tuple(
        each for each in choices if all(word in f"{each.id} {each.folder} {each.words}".casefold() for word in words)
    )


def choice_line(choice: Choice, *, folder_columns: int, width: int) -> str:
    """Return a choice in one line of exactly `width` columns: age, folder, first words."""
    folder = clip_middle(choice.folder, folder_columns)
    folder += " " * (folder_columns - cell_len(folder))
    return pad(f"{pad(choice.age, AGE_COLUMNS)}  {folder}  {choice.words}", width)


class ConversationPicker:
    """The list on the terminal, below the existing text; it is erased at the end."""

    def __init__(self, choices: Sequence[Choice], *, source: Input, output: Output) -> None:
        self._choices = choices
        self._output = output
        self._filter = Buffer(multiline=False, on_text_changed=lambda _: self._select_index(0))
        self._selected = 0
        line = Window(
            BufferControl(self._filter), height=1, get_line_prefix=lambda _line, _wrap: [("class:prompt", "resume › ")]
        )
        rows = [line, Window(FormattedTextControl(self._choice_rows), dont_extend_height=True)]
        rows.append(Window(FormattedTextControl(self._hint_row), height=1, dont_extend_height=True))
        self._application: Application[ConversationId | None] = Application(
            layout=Layout(HSplit(rows), focused_element=line),
            key_bindings=self._key_bindings(),
            style=STYLE,
            erase_when_done=True,
            input=source,
            output=output,
        )
        self._application.ttimeoutlen = self._application.timeoutlen = 0.25

    async def run(self) -> ConversationId | None:
        """Return the chosen conversation; None if the user leaves."""
        try:
            return await self._application.run_async(set_exception_handler=False)
        except (EOFError, KeyboardInterrupt):
            return None

    @property
    def _matching_choices(self) -> tuple[Choice, ...]:
        return matching(self._choices, self._filter.text)

    def _select_index(self, index: int) -> None:
        self._selected = max(0, min(index, len(self._matching_choices) - 1))

    def _choice_rows(self) -> StyleAndTextTuples:
        size = self._output.get_size()
        width, room = max(1, size.columns - 1), max(1, size.rows - 4)
        found = self._matching_choices
        first = max(0, min(self._selected - room // 2, len(found) - room))
        shown = found[first : first + room]
        longest = max((cell_len(each.folder) for each in shown), default=0)
        columns = min(longest, MAX_FOLDER_COLUMNS, width // 4)
        lines: StyleAndTextTuples = []
        for number, each in enumerate(shown, start=first):
            chosen = number == self._selected
            mark = "› " if chosen else "  "
            text = choice_line(each, folder_columns=columns, width=max(1, width - len(mark)))
            lines += [("", "\n" if lines else ""), ("class:chosen" if chosen else "", f"{mark}{text}")]
        return lines or [("class:hint", "  no conversation contains these words")]

    def _hint_row(self) -> StyleAndTextTuples:
        found = len(self._matching_choices)
        text = f"{count_of(found, 'conversation')}; type to filter, ↑ ↓ Enter choose, Esc leaves"
        return [("class:hint", clip(text, self._output.get_size().columns - 1))]

    def _key_bindings(self) -> KeyBindings:
        keys = KeyBindings()
        keys.add("up")(lambda _: self._select_index(self._selected - 1))
        keys.add("down")(lambda _: self._select_index(self._selected + 1))
        keys.add("pageup")(lambda _: self._select_index(self._selected - 10))
        keys.add("pagedown")(lambda _: self._select_index(self._selected + 10))
        keys.add("enter", filter=Condition(lambda: bool(self._matching_choices)))(
            lambda event: event.app.exit(result=self._matching_choices[self._selected].id)
        )
        # Eager: no key of this list begins with Escape, but those of the editing keys do.
        for key in ("escape", "c-c", "c-d"):
            keys.add(key, eager=True)(lambda event: event.app.exit(result=None))
        return keys


async def pick_conversation(store: UserStore, home: Path) -> ConversationId | None:
    """Let the user choose one of all conversations, and return it; None if the user leaves or there is none."""
    found = store.conversations.listed(limit=MAX_LISTED)
    if not found:
        return None
    depth = ColorDepth.DEPTH_1_BIT if os.environ.get("NO_COLOR") else ColorDepth.DEPTH_4_BIT
    output = Vt100_Output.from_pty(sys.stdout, term=os.environ.get("TERM"), default_color_depth=depth)
    output.enable_cpr = False  # a late answer would be taken for typed keys
    choices = choices_of(found, now=SystemClock().now(), home=home)
    return await ConversationPicker(choices, source=create_input(sys.stdin), output=output).run()


def _short_folder(folder: str, home: str) -> str:
    return printable(f"~{folder.removeprefix(home)}" if folder == home or folder.startswith(f"{home}/") else folder)
