"""Listeners of a program's turn, which keep what they hear."""

import asyncio
from collections import defaultdict

from scaffold.executors.port import PermissionAnswer, PermissionQuestion, ProgramEvent


class Answers:
    """A listener that keeps what it hears, and answers each question in the same way."""

    def __init__(self, *, allowed: bool = False) -> None:
        self.heard: list[ProgramEvent] = []
        self.asked: list[PermissionQuestion] = []
        self.is_asked = asyncio.Event()
        self.told: defaultdict[type, asyncio.Event] = defaultdict(asyncio.Event)
        """By the kind of an event: set once one was heard."""
        self._allowed = allowed

    def hear(self, event: ProgramEvent, /) -> None:
        self.heard.append(event)
        self.told[type(event)].set()

    async def permit(self, question: PermissionQuestion, /) -> PermissionAnswer:
        self.asked.append(question)
        self.is_asked.set()
        return PermissionAnswer(self._allowed, "" if self._allowed else "not by the rules")


class NeverAnswers(Answers):
    """A listener whose user is away."""

    def __init__(self) -> None:
        super().__init__()
        self.is_withdrawn = asyncio.Event()

    async def permit(self, question: PermissionQuestion, /) -> PermissionAnswer:
        await super().permit(question)
        try:
            return await asyncio.get_running_loop().create_future()
        finally:
            self.is_withdrawn.set()
