"""A terminal that knows no escapes (TERM=dumb): whole lines in, whole lines out."""

import asyncio
import contextlib
import os
import shutil
import signal
import sys

from scaffold.cli.repl.keys import ANSWERS
from scaffold.cli.repl.renderer import Renderer
from scaffold.cli.repl.status_line import status_line
from scaffold.cli.repl.ui_port import InputSubmitted, InterruptPressed, PostEvent, QuitRequested, ReplView

CHUNK = 65_536


class DumbTerminal:
    """A terminal by lines; implements `face.Face`."""

    def __init__(self, scene: ReplView, post: PostEvent) -> None:
        self._scene = scene
        self._post = post
        self._begun = b""

    echoes = True

    @property
    def pen(self) -> Renderer:
        """Return how to draw at the moment."""
        return Renderer(width=shutil.get_terminal_size().columns, colours=False, plain=True)

    @property
    def typed(self) -> str:
        """Return nothing: a line that was not sent is the terminal's."""
        return ""

    async def run(self) -> None:
        """Take what is typed until cancelled or the terminal ends."""
        loop, ended = asyncio.get_running_loop(), asyncio.Event()

        def read() -> None:
            try:
                data = os.read(sys.stdin.fileno(), CHUNK)
            except OSError:
                data = b""
            if data:
                self._take(data)
            else:
                loop.remove_reader(sys.stdin.fileno())
                self._post(QuitRequested())
                ended.set()

        loop.add_reader(sys.stdin.fileno(), read)
        loop.add_signal_handler(signal.SIGINT, lambda: self._post(InterruptPressed()))
        try:
            await ended.wait()
        finally:
            loop.remove_reader(sys.stdin.fileno())
            loop.remove_signal_handler(signal.SIGINT)

    def show(self, text: str) -> None:
        """Show lines."""
        with contextlib.suppress(OSError):
            self._write(f"{text}\n")

    def refresh(self) -> None:
        """Draw nothing: only whole lines are shown."""

    def ready(self) -> None:
        """Show how things stand, and that it is the user's turn."""
        told = "".join(text for _, text in status_line(self._scene.standing(), self.pen.width - 1))
        with contextlib.suppress(OSError):
            self._write("".join(f"[{line}]\n" for line in (self._scene.hint(), told) if line) + "> ")

    def ring(self) -> None:
        """Ask for an answer."""
        with contextlib.suppress(OSError):
            self._write(f"\a{self._scene.choices().removesuffix(' …')}: ")

    def replace(self, words: str) -> None:
        """Show the words: a line cannot be filled here."""
        if words:
            self.show(f"not sent: {words}")

    def _write(self, text: str) -> None:
        """Write as much of `text` as the terminal's encoding has."""
        sys.stdout.buffer.write(text.encode(sys.stdout.encoding or "utf-8", "replace"))
        sys.stdout.buffer.flush()

    def _take(self, data: bytes) -> None:
        *lines, self._begun = (self._begun + data).split(b"\n")
        for line in lines:
            words = line.decode(errors="replace").strip("\r")
            counts, answer = self._scene.key(), ANSWERS.get(words.strip().lower())
            if self._scene.question() is None:
                self._post(InputSubmitted(words))
            elif counts and answer is not None:
                self._scene.answer(answer)
            else:
                if answer is None and words.strip():
                    self._post(InputSubmitted(words))
                self.ring()
