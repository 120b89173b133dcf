"""The input line and its surroundings, by prompt_toolkit; nothing is decided here."""

import asyncio
import contextlib
import os
import sys
import termios
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TypeVar

from msgspec import Struct
from prompt_toolkit.application import Application, in_terminal
from prompt_toolkit.application.current import set_app
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import Completer
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition, Filter, has_focus
from prompt_toolkit.formatted_text import ANSI, AnyFormattedText, StyleAndTextTuples
from prompt_toolkit.input import create_input
from prompt_toolkit.key_binding import ConditionalKeyBindings, KeyBindings, KeyPressEvent, merge_key_bindings
from prompt_toolkit.key_binding.key_processor import KeyProcessor
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import (
    AnyContainer,
    BufferControl,
    ConditionalContainer,
    Dimension,
    FormattedTextControl,
    HSplit,
    Layout,
    Window,
)
from prompt_toolkit.layout.menus import CompletionsMenu
from prompt_toolkit.output import ColorDepth
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.styles import Style
from prompt_toolkit.widgets import SearchToolbar

from scaffold.agent.context.attachments import dropped_images
from scaffold.cli.approval_answers import MIN_IDLE_S
from scaffold.cli.render.terminal.paged_output import rows_of, show_paged
from scaffold.cli.repl.approval_queue import wrap_choices
from scaffold.cli.repl.input_history import open_history
from scaffold.cli.repl.renderer import Renderer
from scaffold.cli.repl.user_input import (
    REASON_KEY,
    RETRY_KEY,
    InputSubmitted,
    InterruptPressed,
    ModeCycled,
    PastedTexts,
    PostEvent,
    QuitRequested,
    on_enter,
)
from scaffold.cli.repl.view import ReplView, status_line
from scaffold.policy.permission.approval_gate import ApprovalQuestion, DenyBecause

Result = TypeVar("Result")
REDRAW_S = 0.04
ESCAPE_S = 0.25
"""Seconds after Escape in which another key counts as Alt and that key."""
MENU_ROWS = 8
INPUT_ROWS = 10
REASON_HINT = "Enter: no, with this reason   Esc: back to the question"
STYLE = Style.from_dict(
    {
        "prompt": "ansicyan bold",
        "hint": "ansiyellow",
        "question": "ansiyellow bold",
        "queued": "ansibrightblack",
        "status": "ansibrightblack",
        "status.busy": "ansicyan",
        "status.mode": "ansimagenta",
        "status.agents": "ansiyellow",
        "status.full": "ansiyellow",
        "completion-menu": "bg:default default",
        "completion-menu.completion": "bg:default default",
        "completion-menu.completion.current": "reverse",
        "completion-menu.meta.completion": "bg:default ansibrightblack",
        "completion-menu.meta.completion.current": "bg:default ansibrightblack",
        "scrollbar.background": "bg:default",
        "scrollbar.button": "bg:default",
    }
)


class TerminalColors(Struct, frozen=True):
    """The colours of the terminal."""

    colours: bool
    light: bool


def terminal_colors(environ: Mapping[str, str]) -> TerminalColors:
    """Return the colours by NO_COLOR and by the background in COLORFGBG."""
    background = environ.get("COLORFGBG", "").rpartition(";")[2]
    return TerminalColors(colours=not environ.get("NO_COLOR"), light=background in {"7", "15"})


class DenialReason:
    """Borrows the input line for the reason of a denial, and restores its text afterwards."""

    def __init__(self, line: Buffer) -> None:
        self._line = line
        self._before = Document()
        self.question: ApprovalQuestion | None = None
        """The denied question; None while no reason is being written."""

    def begin(self, question: ApprovalQuestion) -> None:
        """Empty the line for the reason."""
        self._before, self.question = self._line.document, question
        self._line.reset()

    def end(self) -> str:
        """Restore the line, and return the reason; empty if none was written."""
        reason = self._line.text.strip()
        self.question = None
        self._line.reset(self._before)
        return reason

    def end_if_answered(self, current: ApprovalQuestion | None) -> None:
        """Restore the line if the question is no longer the current one; an unfinished reason stays in the line."""
        if self.question is not None and current is not self.question and (reason := self.end()):
            self._line.insert_text(reason)


class PromptTerminal:
    """A terminal with an input line at its bottom; `view` is set before it runs or shows anything."""

    def __init__(
        self,
        post: PostEvent,
        *,
        history: Path,
        completer: Completer,
        colours: TerminalColors,
        clean: Callable[[str], str],
    ) -> None:
        """`history` is the file of earlier inputs; `clean` removes secrets from what is shown and kept."""
        self.view: ReplView
        self._post = post
        self._colours = colours
        self._clean = clean
        self._pasted = PastedTexts()
        self._output = Vt100_Output.from_pty(
            sys.stdout,
            term=os.environ.get("TERM"),
            default_color_depth=ColorDepth.DEPTH_4_BIT if colours.colours else ColorDepth.DEPTH_1_BIT,
        )
        self._output.enable_cpr = False  # a late answer would be taken for typed keys
        self._line = Buffer(
            multiline=True,
            history=open_history(history, lambda line: clean(self._pasted.expand(line))),
            completer=completer,
            complete_while_typing=Condition(self._is_completable),
            enable_history_search=False,
        )
        self._search = SearchToolbar(text_if_not_searching="", ignore_case=True)
        self._application = self._make_application()
        self._reason = DenialReason(self._line)
        self._held_back: list[str] | None = None
        """Texts to show once the terminal is back; None while it is not lent."""
        self._live_text = ""
        self._key_counts = False
        """Whether the pressed key counts as an answer."""

    echoes = False

    @property
    def renderer(self) -> Renderer:
        """How to draw at the moment."""
        return Renderer(
            width=self._output.get_size().columns,
            colours=self._colours.colours,
            light=self._colours.light,
            clean=self._clean,
        )

    @property
    def typed(self) -> str:
        """The text in the line, pasted texts as their marks."""
        return self._line.text

    async def run(self) -> None:
        """Take input until cancelled or the terminal is gone; the terminal's settings are restored."""
        try:
            # The handler of prompt_toolkit would answer an unhandled error with "Press ENTER to continue".
            await self._application.run_async(set_exception_handler=False)
        except (EOFError, OSError, termios.error):
            self._post(QuitRequested(lost=True))
        finally:
            # What was not sent is kept.
            self._reason.end_if_answered(None)
            self._line.append_to_history()

    def show(self, text: str) -> None:
        """Show lines for good, above the input line."""
        if self._held_back is not None:
            self._held_back.append(text)
            return
        with contextlib.suppress(OSError), set_app(self._application):
            running = self._application.is_running
            if running:
                # The input line is erased, the text takes its place, and the line is drawn again below it.
                self._application.renderer.erase()
            # In raw mode the terminal does not add a carriage return to a line feed.
            self._output.write_raw(text.replace("\n", "\r\n") + "\r\n")
            self._output.flush()
            if running:
                self._draw_live()
                self._application.renderer.render(self._application, self._application.layout)

    def refresh(self) -> None:
        """Redraw the rest soon."""
        self._application.invalidate()

    def ready(self) -> None:
        """Show that it is the user's turn."""
        self.refresh()

    def ring(self) -> None:
        """Ring the bell: a question is shown."""
        with contextlib.suppress(OSError):
            self._output.bell()
            self._output.flush()
        self.refresh()

    def replace(self, words: str) -> None:
        """Replace the text in the line; what was pasted is a mark again."""
        self._line.reset()
        self._line.insert_text(self._pasted.fold(words))

    async def page(self, text: str) -> None:
        """Show lines with the user's pager if they are more than the screen has."""
        size = self._output.get_size()
        if rows_of(text, size.columns) < size.rows:
            self.show(f"\n{text}")
        else:
            await self.in_place_of_line(lambda: show_paged(sys.stdout, text))

    async def in_place_of_line(self, use: Callable[[], Awaitable[Result]]) -> Result:
        """Let another use the terminal in place of the input line; what is shown meanwhile follows."""
        self._held_back = []
        try:
            with set_app(self._application):
                async with in_terminal():
                    # With an input of its own: a timer of this application would take an Escape out of a shared one.
                    return await use()
        finally:
            self.view.questions.key_pressed()  # keys for the other are none for a question that is shown only now
            held_back, self._held_back = self._held_back, None
            for text in held_back:
                self.show(text)

    def _make_application(self) -> Application[None]:
        asked = Condition(lambda: self.view.questions.current is not None)
        application: Application[None] = Application(
            layout=self._screen_layout(asked),
            key_bindings=merge_key_bindings(
                [
                    ConditionalKeyBindings(self._line_keys(), has_focus(self._line)),
                    self._answer_keys(asked & has_focus(self._line)),
                ]
            ),
            style=STYLE,
            erase_when_done=True,
            min_redraw_interval=REDRAW_S,
            input=create_input(sys.stdin),
            output=self._output,
            before_render=lambda _: self._draw_live(),
        )
        # Not in the bindings: the rule about bursts has to see every key, whichever binding takes it.
        application.key_processor.before_key_press += self._end_denial_reason
        application.ttimeoutlen = application.timeoutlen = ESCAPE_S
        return application

    def _end_denial_reason(self, keys: KeyProcessor) -> None:
        # Keys that come together were pasted.
        self._key_counts = self.view.questions.key_pressed() and not keys.input_queue
        self._reason.end_if_answered(self.view.questions.current)

    def _draw_live(self) -> None:
        self._reason.end_if_answered(self.view.questions.current)
        self._live_text = self.view.live(self.renderer)

    def _screen_layout(self, asked: Condition) -> Layout:
        control = BufferControl(self._line, search_buffer_control=self._search.control, preview_search=True)
        line = Window(
            control,
            height=Dimension(min=1, max=INPUT_ROWS),
            wrap_lines=True,
            dont_extend_height=True,
            get_line_prefix=self._line_prefix,
        )
        rows: list[AnyContainer] = [
            self._optional_row(self._live_rows, Condition(lambda: bool(self._live_text))),
            self._optional_row(self._question_row, asked),
            line,
            CompletionsMenu(max_height=MENU_ROWS),
            self._search,
            self._optional_row(lambda: [("class:hint", self.view.hint())], Condition(lambda: bool(self.view.hint()))),
            Window(FormattedTextControl(self._status_row), height=1, dont_extend_height=True),
        ]
        return Layout(HSplit(rows), focused_element=line)

    def _optional_row(self, text: Callable[[], AnyFormattedText], shown: Condition) -> ConditionalContainer:
        return ConditionalContainer(Window(FormattedTextControl(text), wrap_lines=True, dont_extend_height=True), shown)

    def _live_rows(self) -> AnyFormattedText:
        size = self._output.get_size()
        room = max(1, min(size.rows - 6, size.rows * 2 // 3) - self._line.document.line_count)
        return ANSI("\n".join(self._live_text.split("\n")[-room:]))

    def _question_row(self) -> StyleAndTextTuples:
        choices = REASON_HINT if self._reason.question else self.view.choices()
        return [("class:question", wrap_choices(choices, self._output.get_size().columns - 1))]

    def _status_row(self) -> StyleAndTextTuples:
        width = self._output.get_size().columns - 1
        return [(style or "class:status", text) for style, text in status_line(self.view.status(), width)]

    def _is_completable(self) -> bool:
        before = self._line.document.text_before_cursor
        return before.startswith("/") or "@" in before.rpartition(" ")[2]

    def _line_keys(self) -> KeyBindings:
        keys = KeyBindings()

        def retry_pressed(event: KeyPressEvent) -> None:
            # It may be the first letter of a message: it counts once nothing follows.
            self._line.insert_text(event.data)
            asyncio.get_running_loop().call_later(MIN_IDLE_S, self._retry_if_alone)

        keys.add("enter")(lambda _: self._press_enter())
        # Terminals send Alt-Enter as Escape and Enter.
        keys.add("escape", "enter")(lambda _: self._line.insert_text("\n"))
        keys.add("c-j")(lambda _: self._line.insert_text("\n"))
        keys.add("c-c")(lambda _: self._post(InterruptPressed()))
        # In a pager, Ctrl-C is for the pager.
        owned = Condition(lambda: self._held_back is None)
        keys.add("<sigint>", filter=owned)(lambda _: self._post(InterruptPressed()))
        keys.add("c-d", filter=Condition(lambda: not self._line.text))(lambda _: self._post(QuitRequested()))
        keys.add("c-l")(lambda event: event.app.renderer.clear())
        keys.add("c-z")(lambda event: event.app.suspend_to_background())
        keys.add("tab")(self._complete_next)
        # At a question it counts as an answer does: the next mode may answer it.
        may_cycle = Condition(lambda: self._key_counts or self.view.questions.current is None)
        keys.add("s-tab", filter=~Condition(self._menu_is_open) & may_cycle)(lambda _: self._post(ModeCycled()))
        keys.add("s-tab", filter=Condition(self._menu_is_open))(lambda _: self._line.complete_previous())
        # Not eager: Alt-Enter begins with Escape, so a lone one counts only after ESCAPE_S.
        keys.add("escape", filter=Condition(self._menu_is_open))(lambda _: self._line.cancel_completion())
        keys.add("escape", filter=Condition(self._escape_stops))(lambda _: self._post(InterruptPressed()))
        may_retry = Condition(lambda: not self._line.text and self.view.waits_for_retry)
        keys.add(RETRY_KEY, filter=may_retry)(retry_pressed)
        keys.add(Keys.BracketedPaste)(self._insert_paste)
        marked = Condition(lambda: bool(self._mark_before()))
        keys.add("backspace", filter=marked)(lambda _: self._line.delete_before_cursor(len(self._mark_before())))
        recalls = Condition(lambda: not self._line.text and bool(self.view.queue.waiting))
        keys.add("up", filter=recalls)(lambda _: self.replace(self.view.queue.take_back_newest()))
        return keys

    def _menu_is_open(self) -> bool:
        return self._line.complete_state is not None

    def _escape_stops(self) -> bool:
        turn = self.view.turn
        asked = self.view.questions.current is not None
        return turn.busy and not turn.stopping and not asked and not self._menu_is_open()

    def _retry_if_alone(self) -> None:
        if self._line.text == RETRY_KEY:
            self._line.reset()
            if self.view.waits_for_retry:  # else it was sent meanwhile
                self.view.retry_now()

    def _insert_paste(self, event: KeyPressEvent) -> None:
        at_start = not self._line.document.text_before_cursor
        if images := dropped_images(event.data):
            before = self._line.document.char_before_cursor
            self._line.insert_text(f"{'' if not before or before.isspace() else ' '}{images} ")
        else:
            self._line.insert_text(self._pasted.collapse(event.data, at_start=at_start))

    def _mark_before(self) -> str:
        return self._pasted.mark_before(self._line.document.text_before_cursor)

    def _answer_keys(self, asked: Filter) -> KeyBindings:
        # A question counts only once it could be read: keys pressed before go to the line.
        keys = KeyBindings()

        def pressed(event: KeyPressEvent) -> None:
            question = self.view.questions.current
            if self._key_counts and event.data.lower() == REASON_KEY and question is not None:
                self._reason.begin(question)
            elif self._key_counts and (answer := self.view.questions.meaning(event.data)):
                self.view.answer(answer)
            # A key that does not answer belongs to a message that the user was typing when the question came.
            elif event.data.isprintable():
                self._line.insert_text(event.data)

        def escaped(_: KeyPressEvent) -> None:
            if self._key_counts:
                self.view.answer("deny")

        def reason_given(_: KeyPressEvent) -> None:
            if reason := self._reason.end():
                self.view.answer(DenyBecause(reason))

        writes = Condition(lambda: self._reason.question is not None)
        keys.add(Keys.Any, filter=asked & ~writes)(pressed)
        keys.add("enter", filter=asked & ~writes)(lambda _: None)
        keys.add("enter", filter=asked & writes)(reason_given)
        # Eager: otherwise Escape would wait for a second key, because Alt-Enter begins with it.
        keys.add("escape", filter=asked & ~writes, eager=True)(escaped)
        keys.add("escape", filter=asked & writes, eager=True)(lambda _: self._reason.end())
        return keys

    def _press_enter(self) -> None:
        document = self._line.document
        if self._line.complete_state and self._line.complete_state.current_completion:
            self._line.complete_state = None
            return
        match on_enter(document.text_before_cursor, document.text_after_cursor):
            case "continue":
                self._line.delete_before_cursor()
                self._line.insert_text("\n")
            case "send":
                words = self._pasted.expand(self._line.text)
                self._line.reset(append_to_history=True)
                self._post(InputSubmitted(words))
            case "ignore":
                pass

    def _line_prefix(self, line: int, wrap: int) -> StyleAndTextTuples:
        first = "no, because › " if self._reason.question else "› "
        return [("class:prompt", first if line == 0 and wrap == 0 else "  ")]

    def _complete_next(self, _: KeyPressEvent) -> None:
        if self._line.complete_state:
            self._line.complete_next()
        else:
            self._line.start_completion(insert_common_part=True)
