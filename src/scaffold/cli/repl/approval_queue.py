"""Questions for the user's consent: one at a time, the same ones together, and none answered but by the user."""

import asyncio
from collections.abc import Callable

from msgspec import Struct

from scaffold.cli.repl.keys import counts_as_answer
from scaffold.core.ports import Clock
from scaffold.policy.permission.approval_gate import ApprovalAnswer, ApprovalQuestion


class _PendingQuestion(Struct, eq=False):
    question: ApprovalQuestion
    answers: list["asyncio.Future[ApprovalAnswer]"]
    shown_s: float | None = None


class ApprovalQueue:
    """What waits for the user; `shown` is told each question when its turn comes."""

    def __init__(self, clock: Clock, shown: Callable[[ApprovalQuestion], None]) -> None:
        self._clock = clock
        self._shown = shown
        self._waiting: list[_PendingQuestion] = []
        self._last_key_s = 0.0

    @property
    def current(self) -> ApprovalQuestion | None:
        """Return what is asked now, None if nothing is."""
        return self._waiting[0].question if self._waiting else None

    @property
    def identical_count(self) -> int:
        """Return how many calls the next answer is for."""
        return len(self._waiting[0].answers) if self._waiting else 0

    @property
    def waiting_count(self) -> int:
        """Return how many other questions wait behind."""
        return max(0, len(self._waiting) - 1)

    @property
    def armed(self) -> bool:
        """Tell whether a key pressed now would be an answer."""
        shown_s = self._waiting[0].shown_s if self._waiting else None
        return counts_as_answer(shown_s=shown_s, last_key_s=self._last_key_s, now_s=self._clock.monotonic())

    async def ask(self, question: ApprovalQuestion) -> ApprovalAnswer:
        """Return what the user answers; a question whose asker is cancelled is withdrawn."""
        answer: asyncio.Future[ApprovalAnswer] = asyncio.get_running_loop().create_future()
        alike = (each for each in self._waiting if each.question == question)  # by all arguments, as the digest says
        asked = next(alike, None)
        if asked is None:
            self._waiting.append(asked := _PendingQuestion(question, [answer]))
        else:
            asked.answers.append(answer)
        self._show()
        try:
            return await answer
        finally:
            self._withdraw(asked, answer)

    def key(self) -> bool:
        """Take note that a key was pressed, and tell whether it may count as an answer."""
        counts = self.armed
        self._last_key_s = self._clock.monotonic()
        return counts

    def answer(self, answer: ApprovalAnswer) -> None:
        """Answer what is asked now, and show what is next."""
        if self._waiting:
            for waiting in self._waiting.pop(0).answers:
                if not waiting.done():
                    waiting.set_result(answer)
            self._show()

    def _show(self) -> None:
        if self._waiting and self._waiting[0].shown_s is None:
            first = self._waiting[0]
            self._shown(first.question)
            first.shown_s = self._clock.monotonic()  # drawing a long diff takes its time, and keys wait meanwhile

    def _withdraw(self, asked: _PendingQuestion, answer: "asyncio.Future[ApprovalAnswer]") -> None:
        asked.answers.remove(answer)
        if not asked.answers and asked in self._waiting:
            self._waiting.remove(asked)
            self._show()
