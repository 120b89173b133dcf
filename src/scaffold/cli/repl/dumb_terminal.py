"""A terminal by whole lines: without escape sequences (TERM=dumb), or for a screen reader (`--plain`)."""

import asyncio
import contextlib
import os
import select
import shutil
import signal
import sys
from collections.abc import Callable

from scaffold.cli.approval_answers import parse_answer
from scaffold.cli.repl.renderer import Renderer
from scaffold.cli.repl.user_input import RETRY_KEY, InputSubmitted, InterruptPressed, PostEvent, QuitRequested
from scaffold.cli.repl.view import ReplView, status_sentence
from scaffold.core.printable_text import printable
from scaffold.session.working_tree import bound_lines

CHUNK = 65_536


class DumbTerminal:
    """A terminal by lines; `view` is set before it runs or shows anything."""

    def __init__(self, post: PostEvent, *, clean: Callable[[str], str]) -> None:
        """`clean` removes secrets from what is shown."""
        self.view: ReplView
        self._post = post
        self._clean = clean
        self._partial_line = b""

    echoes = True

    @property
    def renderer(self) -> Renderer:
        """How to draw at the moment."""
        return Renderer(width=shutil.get_terminal_size().columns, colours=False, plain=True, clean=self._clean)

    @property
    def typed(self) -> str:
        """Empty: the terminal keeps a line until it is sent."""
        return ""

    async def run(self) -> None:
        """Take input until cancelled or the terminal is gone."""
        loop, ended = asyncio.get_running_loop(), asyncio.Event()

        def read() -> None:
            data, fd = b"", sys.stdin.fileno()
            with contextlib.suppress(OSError):  # the terminal is gone: the same as Ctrl-D
                # A terminal hands out one line a read, also of lines that were pasted together.
                while piece := os.read(fd, CHUNK):
                    data += piece
                    if not select.select([fd], [], [], 0)[0]:
                        break
            if data:
                self._take_lines(data)
            else:
                loop.remove_reader(fd)
                self._post(QuitRequested())
                ended.set()

        loop.add_reader(sys.stdin.fileno(), read)
        # This terminal is not in raw mode, so Ctrl-C is a signal and no key.
        loop.add_signal_handler(signal.SIGINT, lambda: self._post(InterruptPressed()))
        try:
            await ended.wait()
        finally:
            loop.remove_reader(sys.stdin.fileno())
            loop.remove_signal_handler(signal.SIGINT)

    def show(self, text: str) -> None:
        """Show lines."""
        with contextlib.suppress(OSError):
            self._write_plain(f"{text}\n")

    async def page(self, text: str) -> None:
        """Show lines, not more than can be read: a screen reader has no pager."""
        self.show(bound_lines(text))

    def refresh(self) -> None:
        """Do nothing: only whole lines are shown."""

    def ready(self) -> None:
        """Show the status in one line, and the prompt."""
        status = status_sentence(self.view.status())
        with contextlib.suppress(OSError):
            self._write_plain("".join(f"[{line}]\n" for line in (self.view.hint(), status) if line) + "> ")

    def ring(self) -> None:
        """Ring the bell and ask for an answer."""
        with contextlib.suppress(OSError):
            self._write_plain(f"{self.view.choices(by_line=True)}: ", bell=True)

    def replace(self, words: str) -> None:
        """Show the text: the line cannot be filled in here."""
        if words:
            self.show(f"not sent: {words}")

    def _write_plain(self, text: str, *, bell: bool = False) -> None:
        # Characters outside the terminal's encoding become `?`.
        shown = "\a" * bell + printable(text)
        sys.stdout.buffer.write(shown.encode(sys.stdout.encoding or "utf-8", "replace"))
        sys.stdout.buffer.flush()

    def _take_lines(self, data: bytes) -> None:
        # A read can end within a line.
        lines, newline, self._partial_line = (self._partial_line + data).rpartition(b"\n")
        if not newline:
            return
        words = lines.decode(errors="replace").replace("\r", "")
        # Nobody types several lines at once, and what is pasted is neither a command nor an answer.
        pasted = "\n" in words
        words = f" {words}" if pasted else words
        counts, answer = self.view.questions.key_pressed(), self.view.questions.meaning(words)
        if self.view.questions.current is None:
            if words.strip() == RETRY_KEY and self.view.waits_for_retry:
                self.view.retry_now()
            else:
                self._post(InputSubmitted(words))
        elif counts and answer is not None and not pasted:
            self.view.answer(answer)
        else:
            # A line that is no answer was typed as a message before the question was seen.
            if words.strip() and parse_answer(words) is None:
                self._post(InputSubmitted(words))
            self.ring()
