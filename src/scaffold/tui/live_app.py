"""The application: one list under a row of tabs, a line for questions and answers, and the keys that work now."""

import asyncio
import signal
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, ClassVar

from msgspec import Struct, structs
from rich.cells import chop_cells
from textual import events
from textual.app import App, ComposeResult
from textual.widgets import Input, Static

from scaffold.core.printable_text import printable
from scaffold.host.startup import importing
from scaffold.orchestrator.user_control.own_program import OwnProgram
from scaffold.tui.key_table import AGENTS, INBOX, OUTPUT, TABS, Selection, help_lines, key_line, keys_of
from scaffold.tui.row_list import NO_CURSOR, Row, RowList
from scaffold.tui.run_acts import Question, RunActs
from scaffold.tui.run_feed import RunFeed, Shown, WatchedAgent
from scaffold.tui.tab_rows import agents_rows, head_line, inbox_rows, landing_rows, plan_rows, stats_rows
from scaffold.views.agent_list import AgentRow
from scaffold.views.store_reader import find_run_if_any, store_reader_if_any
from scaffold.views.text_format import BAR, CONTINUED_BAR, TAB_CELLS, clip, wrap_text
from scaffold.views.waiting import WaitingEntry

LOOK_S = 0.1
ASK_GIT_S = 3.0
ENDED_BY = 128
"""What an exit code adds to the number of a signal."""
NOTICE_LINES = 3
SHORT_TABS = ("Agents", "Out", "Plan", "Land", "Inbox", "Stats")
TAB_ROWS: Mapping[str, Callable[[Shown, int], Sequence[Row]]] = {
    "Agents": agents_rows,
    "Plan": plan_rows,
    "Landing": landing_rows,
    "Inbox": inbox_rows,
    "Stats": stats_rows,
}


async def show_live(cwd: Path, environ: Mapping[str, str], run_name: str | None, program: Sequence[str]) -> int:
    """Show a run on the terminal and return the exit code. Raises UsageError if there is no such run."""
    # Before the screen is taken: what is wrong from the beginning is an error of the command.
    with store_reader_if_any(cwd, environ, show=lambda _: None) as reader:
        find_run_if_any(reader, run_name)
    async with OwnProgram(cwd, program) as own:
        app = LiveApp(RunFeed(cwd, environ, run_name), own)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, app.exit, ENDED_BY + number)
        await app.run_async()
        return app.return_value or 0


class Page(Struct, frozen=True):
    """A text that covers the tab until `esc`."""

    title: str
    lines: Sequence[str]
    about: object = None
    """What was under the cursor: keys that decide stay about it."""


class LiveApp(App[int]):
    """A run on the whole terminal."""

    ENABLE_COMMAND_PALETTE = False
    CSS = """
    #head, #tabs { height: 1; }
    #head { text-style: bold; }
    RowList { height: 1fr; }
    #notice { height: auto; max-height: 3; }
    #keys { height: auto; max-height: 2; color: ansi_bright_black; }
    Input, Input:focus { height: 1; border: none; padding: 0; display: none; background: ansi_default; }
    """
    BINDINGS: ClassVar = [("ctrl+c", "quit_live", "quit")]

    def __init__(self, feed: RunFeed, program: OwnProgram) -> None:
        super().__init__()
        self.theme = "ansi-dark"
        self.shown = Shown()
        self._works: tuple[WaitingEntry, ...] = ()
        self._taken = set[str]()
        self._ask_git_at = 0.0
        self.tab = AGENTS
        self.page: Page | None = None
        self.question: Question | None = None
        self.notice = ""
        self.watched = WatchedAgent()
        self.is_frozen = False
        self.feed = feed
        self.acts = RunActs(self, program)
        self.list = RowList()
        self._acts: Mapping[str, Callable[[], object]] = {
            **self.acts.by_name,
            "quit_live": self.action_quit_live,
            "next_tab": self._show_next_tab,
            "previous_tab": self._show_previous_tab,
            "next_waiting": self._show_next_waiting,
            "log": self._show_log,
            "answer": self._answer_entry,
            "help": self._show_help,
            "back": self._go_back,
            "freeze": self._toggle_updates,
            "follow": self._toggle_follow,
            "search": self._ask_search,
            "look": self._look_closer,
        }
        self._cursors: dict[str, str | None] = {}
        self._searched = ""
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="reader")
        self._is_reading = False

    def compose(self) -> ComposeResult:
        """Yield the lines of the screen, from top to bottom."""
        yield Static(id="head", markup=False)
        yield Static(id="tabs", markup=False)
        yield self.list
        yield Static(id="notice", markup=False)
        yield Input(id="input", compact=True)
        yield Static(id="keys", markup=False)

    def on_mount(self) -> None:
        """Begin to look."""
        self.list.focus()
        self.draw()
        self.set_interval(LOOK_S, self.look)
        self.call_after_refresh(self.look)

    def on_unmount(self) -> None:
        """Close the store in the thread that opened it."""
        self._reader.submit(self.feed.close)
        self._reader.shutdown(wait=False)

    async def look(self) -> None:
        """Show what is new; at once again if the feed was told to read."""
        if self.is_frozen or self._is_reading:
            return
        self._is_reading = True
        try:
            watched = self.watched if self.tab == OUTPUT else None
            found = await asyncio.get_running_loop().run_in_executor(self._reader, self.feed.look, watched)
            if found is not None and any(each.work for each in found.waiting):
                found = structs.replace(found, waiting=await self._without_taken(found.waiting))
        finally:
            self._is_reading = False
        if found is not None and not self.is_frozen:
            self.shown = found
            if self.question is None and self.page is not None and _is_decided(self.page.about, found):
                self.show_tab(self.tab)
            self.draw()

    def on_resize(self, _event: events.Resize) -> None:
        """Fit everything to the new size."""
        self.call_after_refresh(self.draw)

    async def _without_taken(self, waiting: tuple[WaitingEntry, ...]) -> tuple[WaitingEntry, ...]:
        """Leave out finished runs whose work git has; it is asked when others finish, and each few seconds."""
        works = tuple(each for each in waiting if each.work is not None)
        if works != self._works or time.monotonic() > self._ask_git_at:
            with importing():  # most screens show no such run
                from scaffold.views.changes.taken_work import without_taken
            self._taken = {each.id for each in works} - {each.id for each in await without_taken(works)}
            self._works, self._ask_git_at = works, time.monotonic() + ASK_GIT_S
        return tuple(each for each in waiting if each.work is None or each.id not in self._taken)

    # What is shown

    @property
    def selection(self) -> Selection:
        """What keys are about."""
        if self.page is not None:
            return Selection(self.shown, self.page.about, is_page=True)
        if self.tab == OUTPUT:
            return Selection(self.shown, self._watched_row())
        return Selection(self.shown, self.list.selected.about if self.list.selected else None)

    def draw(self, *, key: str | None = None) -> None:
        """Draw everything from what is known; the cursor goes to the row named `key`."""
        width = max(1, self.size.width)
        self.list.show(self._tab_rows(width), key=key)
        self._put_text("head", clip(head_line(self.shown, width), width))
        self._put_text("tabs", clip(self._tab_line(width), width))
        self._put_text("notice", self._notice_text(width))
        self._put_text("keys", key_line(self.selection, self.tab, width))

    def _put_text(self, name: str, text: str) -> None:
        widget = self.query_one(f"#{name}", Static)
        if widget.content != text:
            widget.update(text)

    def _tab_rows(self, width: int) -> Sequence[Row]:
        cells = max(1, width - len(NO_CURSOR))
        if self.page is not None:
            return [Row(str(n), line) for n, line in enumerate(_wrap_lines(self.page.lines, cells))]
        if self.tab == OUTPUT:
            return [Row(str(n), line) for n, line in enumerate(_wrap_lines(self.shown.output, cells))]
        return TAB_ROWS[self.tab](self.shown, cells)

    def _tab_line(self, width: int) -> str:
        if self.page is not None:
            return f"{self.page.title}  (esc: back)"
        line = self._tab_names(TABS)
        if len(line) > width:
            line = self._tab_names(SHORT_TABS)
        if self.tab == OUTPUT:
            line += f"  {self.watched.title}, {'follows' if self.list.follow else 'f follows'}"
        return line

    def _tab_names(self, names: Sequence[str]) -> str:
        named = dict(zip(TABS, names, strict=True))
        if self.shown.waiting:
            named[INBOX] += f"({len(self.shown.waiting)})"
        return " ".join(f"[{name}]" if tab == self.tab else name for tab, name in named.items())

    def _notice_text(self, width: int) -> str:
        if self.question is not None:
            asked = self.question.text + (" y/n" if self.question.agree else "")
            return "\n".join(wrap_text(asked, width, break_words=True)[:NOTICE_LINES])
        parts = [f"! {self.shown.trouble}"] if self.shown.trouble else []
        parts += ["updates are paused: p shows them again"] if self.is_frozen else []
        parts += [self.notice] if self.notice else []
        return "\n".join(wrap_text("; ".join(parts), width, break_words=True)[:NOTICE_LINES]) if parts else ""

    def tell(self, text: str) -> None:
        """Show a line above the keys."""
        self.notice = printable(text)
        self.draw()

    def show_page(self, title: str, lines: Sequence[str], about: object) -> None:
        """Cover the tab with a text about this: keys that decide are about what is read, wherever the cursor is."""
        if self.page is None:
            self._cursors[self.tab] = self.list.selected.key if self.list.selected else None
        self.page = Page(title, lines, about)
        self.list.follow = False
        self.list.cursor = 0
        self.draw(key="0")

    def show_tab(self, tab: str, *, key: str | None = None) -> None:
        """Show a tab, with the cursor where it was, or on the row named `key`."""
        if self.page is None:
            self._cursors[self.tab] = self.list.selected.key if self.list.selected else None
        self.page, self.tab = None, tab
        self.list.cursor, self.list.follow = 0, tab == OUTPUT
        self.draw(key=key or self._cursors.get(tab))

    # Questions in the bottom line

    def ask(self, question: Question) -> None:
        """Ask in the bottom line."""
        self.question = question
        field = self.query_one(Input)
        if question.submit is not None:
            field.value = ""
            field.display = True
            field.focus()
        self.draw()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Take the answer."""
        question, words = self.question, event.value
        self._end_question()
        if question is not None and question.submit is not None:
            question.submit(words)

    def _end_question(self) -> None:
        self.question = None
        self.query_one(Input).display = False
        self.list.focus()
        self.draw()

    # Keys

    async def on_key(self, event: events.Key) -> None:
        """Do what the key is for."""
        asked = self.question
        if self._press_key(event.key) if asked is None else self._press_answer(asked, event.key):
            event.stop()
            event.prevent_default()

    def _press_answer(self, question: Question, key: str) -> bool:
        """Take a key while something is asked; return False for one that belongs to the text."""
        if key == "escape" or (question.agree is not None and key in {"n", "q"}):
            self._end_question()
        elif key in {"down", "up", "pagedown", "pageup"}:
            return self._move_cursor(key)  # what is asked about may be longer than the screen
        elif question.agree is None:
            return False
        elif key == "y":
            self._end_question()
            question.agree()
        return True

    def _press_key(self, key: str) -> bool:
        self.notice = ""
        selection = self.selection
        for row in keys_of(self.tab):
            if row.key == key:
                if why := row.refusal(selection):
                    self.tell(f"{row.name} {row.label}: not now, {why}")
                else:
                    self._acts[row.act]()
                return True
        return self._move_cursor(key)

    def _move_cursor(self, key: str) -> bool:
        page = max(1, self.list.size.height - 1)
        steps = {
            "j": 1,
            "down": 1,
            "k": -1,
            "up": -1,
            "pagedown": page,
            "pageup": -page,
            "ctrl+d": page,
            "ctrl+u": -page,
        }
        if key in steps:
            self.list.move_by(steps[key])
        elif key in {"g", "home"}:
            self.list.move_by(-len(self.list.rows))
        elif key in {"G", "end"}:
            self.list.move_by(len(self.list.rows))
            self.list.follow = self.tab == OUTPUT and self.page is None
        elif key.isdigit() and self.tab in {AGENTS, OUTPUT}:
            self._watch_number(int(key))
        else:
            return False
        self.draw()
        return True

    def _show_next_tab(self) -> None:
        self.show_tab(TABS[(TABS.index(self.tab) + 1) % len(TABS)])

    def _show_previous_tab(self) -> None:
        self.show_tab(TABS[TABS.index(self.tab) - 1])

    def _show_next_waiting(self) -> None:
        keys = [each.id for each in self.shown.waiting]
        here = self.list.selected.key if self.list.selected and self.tab == INBOX else None
        following = keys[(keys.index(here) + 1) % len(keys)] if here in keys else keys[0]
        self.show_tab(INBOX, key=following)

    def begin(self, what: Coroutine[Any, Any, None]) -> None:
        """Do something while the screen goes on."""
        self.run_worker(what, exit_on_error=True)

    def follow_run(self, name: str) -> None:
        """Show another run."""
        self._reader.submit(self.feed.follow, name)
        self.watched = WatchedAgent()

    def refresh_feed(self) -> None:
        """Read everything at the next look."""
        self._reader.submit(self.feed.refresh)

    def _look_closer(self) -> None:
        about = self.selection.about
        if self.page is not None:
            return
        if isinstance(about, AgentRow):
            self._watch_agent(watched_agent(about))
        elif self.selection.action is not None:
            self.acts.evidence()

    def _show_log(self) -> None:
        self._watch_agent(WatchedAgent(action=self.selection.action_key))

    def _answer_entry(self) -> None:
        if (entry := self.selection.entry) is not None:
            if self.page is None:
                self.acts.show_request(entry)
            self.acts.answer(entry)

    def _show_help(self) -> None:
        self.show_page("Help", help_lines(self.selection, self.tab), self.selection.about)

    def _go_back(self) -> None:
        if self.page is not None:
            self.show_tab(self.tab)
        else:
            self.draw()

    def _toggle_updates(self) -> None:
        self.is_frozen = not self.is_frozen
        self.draw()

    def _toggle_follow(self) -> None:
        self.list.follow = not self.list.follow
        self.draw()

    def _ask_search(self) -> None:
        self.ask(Question(f"search for (enter: {self._searched or 'nothing'} again)", self._search_rows))

    def action_quit_live(self) -> None:
        """End the screen; the run goes on."""
        self.exit(0)

    def _search_rows(self, words: str) -> None:
        self._searched = words or self._searched
        if self._searched and not self.list.find(self._searched):
            self.tell(f"`{self._searched}` is not here")
        self.draw()

    # Whose output is shown

    def _watch_number(self, number: int) -> None:
        rows = self.shown.view.summary.active_agents if self.shown.view else ()
        if number == 0:
            self._watch_agent(WatchedAgent())
        elif number <= len(rows):
            self._watch_agent(watched_agent(rows[number - 1]))
        else:
            self.tell(f"there is no agent {number}")

    def _watch_agent(self, watched: WatchedAgent) -> None:
        self.watched = watched
        self.refresh_feed()
        self.show_tab(OUTPUT)

    def _watched_row(self) -> object:
        view = self.shown.view
        if view is None or self.watched == WatchedAgent():
            return None
        rows = view.summary.agents
        row = next((row for row in rows if watched_agent(row) == self.watched), None)
        return row or next((each for each in view.actions if each.key == self.watched.action), None)


def _is_decided(about: object, shown: Shown) -> bool:
    return isinstance(about, WaitingEntry) and all(each.id != about.id for each in shown.waiting)


def watched_agent(row: AgentRow) -> WatchedAgent:
    """Return whose output belongs to a row: that of its action, or of the agent itself."""
    if row.attempt is not None:
        return WatchedAgent(action=row.action)
    return WatchedAgent(name=row.name)


def _wrap_lines(lines: Sequence[str], width: int) -> list[str]:
    # Broken anywhere, not at spaces: a diff keeps its columns.
    found: list[str] = []
    for line in lines:
        head, bar = (BAR, CONTINUED_BAR) if line.startswith(BAR) else ("", "")
        rest = printable(line.removeprefix(head).expandtabs(TAB_CELLS))
        rows = chop_cells(rest, max(1, width - len(head))) or [""]
        found += [f"{bar if number else head}{row}" for number, row in enumerate(rows)]
    return found
