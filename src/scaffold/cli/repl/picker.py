"""A list to choose from: typing filters it, the arrows and Enter choose, Esc leaves."""

import asyncio
import contextlib
import os
import sys
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
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
from scaffold.core.run_settings import Effort
from scaffold.host.clock import SystemClock
from scaffold.session.current_conversation import CurrentConversation
from scaffold.session.model_catalog import ModelCatalog
from scaffold.session.slash.queries import EFFORTS
from scaffold.session.slash.syntax import Command, Resume, ShowModels, SwitchEffort, SwitchModel
from scaffold.store.user.conversations import StoredConversation
from scaffold.store.user_store import UserStore
from scaffold.views.text_format import clip, clip_middle, pad, short_duration

MAX_LISTED = 500
PICKED: Sequence[Command] = (Resume(), ShowModels())
"""Commands that show a list to choose from."""
STYLE = Style.from_dict({"prompt": "ansicyan bold", "chosen": "reverse", "hint": "ansibrightblack"})


class Choice(Struct, frozen=True, kw_only=True):
    """One entry of a list."""

    value: str
    cells: tuple[str, ...]
    """What is shown of it, by columns; the last one takes the rest of the line."""
    about: str = ""
    """More about it, which is found by typing and shown in full while it is selected."""
    why_not: str = ""
    """Why it cannot be chosen; empty if it can."""
    has_level: bool = False
    """Whether a level can be chosen with it."""


class ListStyle(Struct, frozen=True, kw_only=True):
    """How a list looks."""

    prompt: str
    noun: str
    shares: tuple[int, ...]
    """The most that each column but the last may take, in hundredths of the width."""


class Level(Struct):
    """What the left and right arrows choose, for entries that have it."""

    name: str
    values: Sequence[Effort]
    value: Effort

    def move(self, by: int, _: object) -> None:
        """Choose a neighbour."""
        self.value = self.values[max(0, min(self.values.index(self.value) + by, len(self.values) - 1))]


CONVERSATIONS = ListStyle(prompt="resume › ", noun="conversation", shares=(25, 25))
MODELS = ListStyle(prompt="model › ", noun="model", shares=(5, 65))


def choices_of(found: Sequence[StoredConversation], *, now: datetime, home: Path) -> tuple[Choice, ...]:
    """Return the conversations as they are listed: age, folder, the first words of the user."""
    return tuple(
        Choice(
            value=each.id,
            cells=(
                short_duration(now - each.updated_at),
                _short_folder(each.cwd, str(home)),
                printable(" ".join(each.title.split())) or "(no title)",
            ),
        )
        for each in found
    )


def model_choices(catalog: ModelCatalog, current: str) -> tuple[Choice, ...]:
    """Return what the user's keys and servers offer, as it is listed."""
    return tuple(
        Choice(
            value=offer.model,
            cells=(
                "*" if offer.model == current else "",
                printable(offer.model),
                printable(offer.why_not or offer.about),
            ),
            about=printable(offer.about),
            why_not=offer.why_not,
            has_level=offer.thinks,
        )
        for offer in catalog.offers(current)
    )


def matching(choices: Sequence[Choice], typed: str) -> tuple[Choice, ...]:
    """Return the choices that contain all typed words, in any order and case."""
    words = typed.casefold().split()
    return tuple(
        each
        for each in choices
        if all(word in f"{each.value} {' '.join(each.cells)} {each.about}".casefold() for word in words)
    )


def choice_line(choice: Choice, columns: Sequence[int], width: int) -> str:
    """Return a choice in one line of exactly `width` columns; `columns` are the widths of all but its last cell."""
    *cells, last = choice.cells
    return pad(
        "".join(f"{pad(clip_middle(cell, each), each)}  " for cell, each in zip(cells, columns, strict=True)) + last,
        width,
    )


class Picker:
    """The list on the terminal, below the existing text; it is erased at the end."""

    def __init__(
        self,
        choices: Callable[[], Sequence[Choice]],
        look: ListStyle,
        *,
        source: Input,
        output: Output,
        chosen: str = "",
        level: Level | None = None,
        waiting: Callable[[], int] = lambda: 0,
    ) -> None:
        """`choices` may return more after a `refresh`; `waiting` counts what they wait for."""
        self._choices = choices
        self._look = look
        self._output = output
        self._chosen = chosen
        self._level = level
        self._waiting = waiting
        self._filter = Buffer(multiline=False)
        line = Window(
            BufferControl(self._filter), height=1, get_line_prefix=lambda _line, _wrap: [("class:prompt", look.prompt)]
        )
        rows = [line, Window(FormattedTextControl(self._choice_rows), dont_extend_height=True)]
        rows.append(Window(FormattedTextControl(self._hint_rows), dont_extend_height=True))
        self._application: Application[str | None] = Application(
            layout=Layout(HSplit(rows), focused_element=line),
            key_bindings=self._key_bindings(),
            style=STYLE,
            erase_when_done=True,
            input=source,
            output=output,
        )
        self._application.ttimeoutlen = self._application.timeoutlen = 0.25

    async def run(self) -> str | None:
        """Return the value of the chosen entry; None if the user leaves."""
        try:
            return await self._application.run_async(set_exception_handler=False)
        except (EOFError, KeyboardInterrupt):
            return None

    def refresh(self) -> None:
        """Show what the choices are now."""
        self._application.invalidate()

    @property
    def _matching_choices(self) -> tuple[Choice, ...]:
        return matching(self._choices(), self._filter.text)

    def _place_of_chosen(self, found: Sequence[Choice]) -> int:
        # By its value: more entries may have come since it was chosen.
        return next((at for at, each in enumerate(found) if each.value == self._chosen), 0)

    def _chosen_entry(self) -> Choice | None:
        found = self._matching_choices
        return found[self._place_of_chosen(found)] if found else None

    def _move_by(self, by: int, _: object) -> None:
        if found := self._matching_choices:
            self._chosen = found[max(0, min(self._place_of_chosen(found) + by, len(found) - 1))].value

    def _choice_rows(self) -> StyleAndTextTuples:
        size = self._output.get_size()
        width, room = max(1, size.columns - 1), max(1, size.rows - 6)
        found = self._matching_choices
        selected = self._place_of_chosen(found)
        first = max(0, min(selected - room // 2, len(found) - room))
        shown = found[first : first + room]
        columns = [
            min(max((cell_len(each.cells[at]) for each in shown), default=0), width * share // 100)
            for at, share in enumerate(self._look.shares)
        ]
        lines: StyleAndTextTuples = []
        for number, each in enumerate(shown, start=first):
            chosen = number == selected
            mark = "› " if chosen else "  "
            text = choice_line(each, columns, max(1, width - len(mark)))
            style = "class:chosen" if chosen else "class:hint" if each.why_not else ""
            lines += [("", "\n" if lines else ""), (style, f"{mark}{text}")]
        return lines or [("class:hint", f"  no {self._look.noun} contains these words")]

    def _hint_rows(self) -> StyleAndTextTuples:
        found, current = self._matching_choices, self._chosen_entry()
        usable = sum(not each.why_not for each in found)
        text = f"{count_of(usable, self._look.noun)}; type to filter, ↑ ↓ Enter choose, Esc leaves"
        lines = [f"asking {count_of(self._waiting(), 'more server')}; {text}" if self._waiting() else text]
        if current is not None and (current.why_not or current.about):
            lines.append(f"not now: {current.why_not}" if current.why_not else current.about)
        if current is not None and current.has_level and self._level is not None:
            lines.append(f"{self._level.name} {self._level.value}: ← → change it")
        width = self._output.get_size().columns - 1
        return [("class:hint", "\n".join(clip(line, width) for line in lines))]

    def _key_bindings(self) -> KeyBindings:
        keys = KeyBindings()
        for key, by in (("up", -1), ("down", 1), ("pageup", -10), ("pagedown", 10)):
            keys.add(key)(partial(self._move_by, by))
        if self._level is not None:
            for key, by in (("left", -1), ("right", 1)):
                keys.add(key)(partial(self._level.move, by))
        keys.add("enter", filter=Condition(lambda: bool((chosen := self._chosen_entry()) and not chosen.why_not)))(
            lambda event: event.app.exit(result=chosen.value if (chosen := self._chosen_entry()) else None)
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
    choices = choices_of(found, now=SystemClock().now(), home=home)
    picked = await Picker(
        lambda: choices, CONVERSATIONS, source=create_input(sys.stdin), output=_terminal_output()
    ).run()
    return None if picked is None else ConversationId(picked)


async def picked_commands(command: Command, current: CurrentConversation) -> Sequence[Command]:
    """Return what to do after the user has chosen from the list of one of `PICKED`; nothing if they chose nothing."""
    if isinstance(command, Resume):
        if not current.store.conversations.listed(limit=1):
            return [command]
        found = await pick_conversation(current.store, current.options.home)
        return [Resume(found)] if found else []
    model, effort = before = current.session.model, current.session.agent.effort
    picked = await _pick_model(current.models, *before)
    if picked is None:
        return []
    switched: list[Command] = [SwitchModel(picked[0])] if picked[0] != model else []
    return [*switched, *([SwitchEffort(picked[1])] if picked[1] != effort else [])]


async def _pick_model(catalog: ModelCatalog, current: str, effort: Effort) -> tuple[str, Effort] | None:
    """Let the user choose a model, and how much it thinks; the list grows while servers answer."""
    level, listed = Level("effort", EFFORTS, effort), list[Choice]()
    picker = Picker(
        lambda: listed,
        MODELS,
        source=create_input(sys.stdin),
        output=_terminal_output(),
        chosen=current,
        level=level,
        waiting=lambda: catalog.waiting,
    )

    def renew() -> None:
        # Not at each key: a gateway may offer hundreds.
        listed[:] = model_choices(catalog, current)
        picker.refresh()

    asking = asyncio.create_task(catalog.ask(current, renew))
    try:
        picked = await picker.run()
    finally:
        asking.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asking
    return None if picked is None else (picked, level.value)


def _terminal_output() -> Output:
    depth = ColorDepth.DEPTH_1_BIT if os.environ.get("NO_COLOR") else ColorDepth.DEPTH_4_BIT
    output = Vt100_Output.from_pty(sys.stdout, term=os.environ.get("TERM"), default_color_depth=depth)
    output.enable_cpr = False  # a late answer would be taken for typed keys
    return output


def _short_folder(folder: str, home: str) -> str:
    return printable(f"~{folder.removeprefix(home)}" if folder == home or folder.startswith(f"{home}/") else folder)
