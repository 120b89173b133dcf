"""An agent's turns under watch: silence is broken off, and whoever goes round in circles is stopped."""

import asyncio
import contextlib
import hashlib
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import msgspec
from msgspec import Struct

from scaffold.agent.agent import Finish
from scaffold.core.conversation import Text
from scaffold.core.errors import GitFailed
from scaffold.core.ids import Commit
from scaffold.core.states import Outcome
from scaffold.core.tool import Tool, ToolOutput
from scaffold.git.command import Git
from scaffold.host.ids import new_id
from scaffold.worker.pulse import Pulse
from scaffold.worker.watchdog import END_AT, NUDGE_AT, Failure, Repetition, fingerprint

READ_BYTES = 1 << 20
"""Of each changed file; where only what follows differs, its time of change tells."""


class Stuck(Struct, frozen=True):
    """The agent gets nowhere, and this is how."""

    outcome: Outcome
    cause: str


class Talker(Protocol):
    """Who takes turns: an agent."""

    async def turn(self, said: str) -> Finish:
        """Say `said` and return how it went."""
        ...


class Circles:
    """Notices calls that fail the same way again and again while nothing changes. Implements `agent.outside.News`."""

    def __init__(self, tree: Callable[[], Awaitable[str]]) -> None:
        """`tree` returns what differs as soon as the tree does."""
        self._tree = tree
        self._turn = 0
        self._seen = Repetition()
        self._nudge: str | None = None
        self._closed = asyncio.Event()
        self.cause = ""
        """Why it is enough, once it is."""

    def look(self) -> Sequence[Text]:
        """Return the nudge, if there is one; the agent looks before each request, so a new turn begins."""
        self._turn += 1
        return () if self._nudge is None else (Text(self._nudge),)

    def take(self) -> None:
        """Let the nudge be said."""
        self._nudge = None

    def guard(self, tool: Tool) -> Tool:
        """Return the tool with its failures counted."""

        async def work(args: Mapping[str, Any]) -> ToolOutput:
            output = await tool.run(args)
            if output.failed:
                await self._count(tool.name, args, output.content)
            return output

        return msgspec.structs.replace(tool, run=work)

    async def closed(self) -> None:
        """Return once it is enough."""
        await self._closed.wait()

    async def _count(self, tool: str, args: Mapping[str, Any], answer: str) -> None:
        turn, call, tree = self._turn, fingerprint(tool, args, answer), await self._tree()
        self._seen = self._seen.after(Failure(turn=turn, call=call, tree=tree))
        times = self._seen.times(call)
        how = f"{tool} failed the same way in {times} turns, and nothing has changed meanwhile"
        if times == NUDGE_AT:
            self._nudge = f"{how}. Try another way: one more turn like this ends the attempt."
        elif times >= END_AT:
            self.cause = f"no progress: {how}: {answer}"
            self._closed.set()
            await asyncio.Event().wait()  # who watches breaks the turn off here: the model is not asked again


class Watched:
    """One agent with its watch; it is nudged once, then it is over."""

    def __init__(self, agent: Talker, pulse: Pulse, circles: Circles, *, idle_s: float) -> None:
        self._agent = agent
        self._pulse = pulse
        self._circles = circles
        self._idle_s = idle_s
        self._nudged = False

    async def turn(self, said: str) -> Finish | Stuck:
        """Take a turn as the agent does; Stuck if it falls silent again after a nudge, or goes round in circles."""
        finish = await self._until_stuck(said)
        if isinstance(finish, Stuck) and finish.outcome == "timeout" and not self._nudged:
            self._nudged = True
            finish = await self._until_stuck(self._nudge)
        return finish

    @property
    def _nudge(self) -> str:
        return (
            f"There was no sign of life for {self._idle_s:g} s, so what was going on was broken off. Look at what is "
            "there, then go on in another way, with commands that print what they are at. Once more ends the attempt."
        )

    async def _until_stuck(self, said: str) -> Finish | Stuck:
        turn = asyncio.create_task(self._agent.turn(said))
        silence = asyncio.create_task(self._pulse.silence())
        circles = asyncio.create_task(self._circles.closed())
        tasks = (turn, silence, circles)
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
        if not turn.cancelled():
            return turn.result()
        if self._circles.cause:
            return Stuck("executor_failed", self._circles.cause)
        return Stuck("timeout", f"no output, no tool call and no word of the model for {self._idle_s:g} s")


async def state_of(git: Git, base: Commit) -> str:
    """Return what differs as soon as the worktree does, ignored files aside; never the same where git fails."""
    try:
        changed = await git("diff", "--name-only", "--no-renames", "--no-ext-diff", "-z", base)
        others = await git("ls-files", "--others", "--exclude-standard", "-z", "--", ":/")
    except GitFailed:
        return new_id()
    names = sorted({*changed.records, *others.records})
    return await asyncio.to_thread(_digest, git.cwd, names)


def _digest(root: Path, names: Sequence[str]) -> str:
    digest = hashlib.sha256()
    for name in names:
        digest.update(os.fsencode(name) + b"\0")
        with contextlib.suppress(OSError):  # gone, or no file: its name tells as much
            digest.update(_version(root / name))
    return digest.hexdigest()


def _version(place: Path) -> bytes:
    """Return what tells one version of a file from another."""
    status = place.lstat()
    if place.is_symlink():
        return os.fsencode(place.readlink())
    with open(place, "rb", opener=_unhindered) as file:
        start = file.read(READ_BYTES)
    rest = b"" if status.st_size <= len(start) else f"{status.st_size} {status.st_mtime_ns}".encode()
    return hashlib.sha256(start).digest() + rest


def _unhindered(path: str, flags: int) -> int:
    """Open without waiting for anybody at the other end of a pipe."""
    return os.open(path, flags | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
