"""The watchdog: interrupts an idle agent, and stops one that repeats the same failing call."""

import asyncio
import contextlib
import hashlib
import os
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from scaffold.agent.agent_spec import TurnResult
from scaffold.agent.repeated_calls import FailedCall, LoopDetected, RepeatedFailures, call_fingerprint
from scaffold.core.conversation import KeptTurn, Text, ToolCall
from scaffold.core.errors import GitError
from scaffold.core.states import AttemptOutcome
from scaffold.core.tool import Tool, ToolOutput
from scaffold.git.checkouts.submodule import checked_out_submodule, gitlinks
from scaffold.git.client.command_line import Git
from scaffold.host.contained_path import ContainedPath
from scaffold.host.random_ids import new_id
from scaffold.worker.activity_clock import ActivityClock

NUDGE_AT = 2
"""Turns with the same failure and no change after which the agent is nudged."""
END_AT = 3
"""Turns after which the attempt ends."""

CHANGED = ("status", "--porcelain", "-z", "--no-renames", "--untracked-files=all", "--ignore-submodules=all")
"""Lists what differs from HEAD. Git enters no submodule: it would obey a repository that an agent put there."""
STATUS_CHARS = 3
"""The letters and the blank before each path."""
READ_BYTES = 1 << 20
"""Bytes hashed of each changed file; for the rest, size and modification time decide."""


class NoProgress(Struct, frozen=True):
    """The agent makes no progress; `cause` says why."""

    outcome: AttemptOutcome
    cause: str


class TurnTaker(Protocol):
    """An agent that takes turns."""

    async def turn(self, prompt: str | KeptTurn, /) -> TurnResult:
        """Send `prompt`, or continue a turn, and return the result."""
        ...


class RepeatGuard:
    """Detects calls that fail the same way repeatedly in an unchanged tree. Implements `agent.ports.Incoming`."""

    def __init__(self, tree: Callable[[], Awaitable[str]]) -> None:
        """`tree` returns a fingerprint of the worktree."""
        self._tree = tree
        self._turn = 0
        self._seen = RepeatedFailures()
        self._nudge_text: str | None = None
        self._closed = asyncio.Event()
        self.cause = ""
        """Why the agent is stopped; empty until then."""

    def peek(self) -> Sequence[Text]:
        """Return the nudge, if there is one; the agent peeks before each request, so each call begins a new turn."""
        # Several equal calls in one reply count as one failure: the model could not react in between.
        self._turn += 1
        return () if self._nudge_text is None else (Text(self._nudge_text),)

    def take(self) -> None:
        """Clear the nudge: it is in the conversation now."""
        self._nudge_text = None

    async def watch(self, call: ToolCall, _tool: Tool | None, answer: ToolOutput, /) -> ToolOutput:
        """Return the answer to a call, which is counted if it failed; an `agent.ports.AnswerWatch`."""
        if not answer.failed:
            return answer
        turn, failure = self._turn, call_fingerprint(call.name, call.args, answer.content)
        tree = await self._tree()
        self._seen = self._seen.after(FailedCall(turn=turn, call=failure, tree=tree))
        times = self._seen.times(failure)
        how = f"{call.name} failed the same way in {times} turns without any change in between"
        if times == NUDGE_AT:
            self._nudge_text = f"{how}. Try a different approach: one more turn like this ends the attempt."
        elif times >= END_AT:
            self.cause = f"no progress: {how}: {answer.content}"
            self._closed.set()
            await asyncio.Event().wait()  # wait to be cancelled by WatchedAgent: the model is not asked again
        return answer

    async def closed(self) -> None:
        """Return once the agent is to be stopped."""
        await self._closed.wait()


class WatchedAgent:
    """An agent with its watchdog; the first idle timeout nudges it, the second one stops it."""

    def __init__(self, agent: TurnTaker, activity: ActivityClock, repeats: RepeatGuard, *, idle_s: float) -> None:
        self._agent = agent
        self._activity = activity
        self._repeats = repeats
        self._idle_s = idle_s
        self._nudged = False

    async def turn(self, prompt: str | KeptTurn) -> TurnResult | NoProgress:
        """Run the agent's turn; NoProgress if it is idle again after a nudge, or repeats its calls."""
        finish = await self._until_stuck(prompt)
        # One nudge for the whole attempt, not for each turn: a second timeout shows that it did not help.
        if isinstance(finish, NoProgress) and finish.outcome == "timeout" and not self._nudged:
            self._nudged = True
            finish = await self._until_stuck(self._nudge_text)
        return finish

    @property
    def _nudge_text(self) -> str:
        return (
            f"There was no activity for {self._idle_s:g} s, so the running step was interrupted. Check the "
            "current state, then continue in another way, with commands that print progress. The next timeout ends the "
            "attempt."
        )

    async def _until_stuck(self, prompt: str | KeptTurn) -> TurnResult | NoProgress:
        turn = asyncio.create_task(self._agent.turn(prompt))
        idle = asyncio.create_task(self._activity.wait_until_idle())
        repeats = asyncio.create_task(self._repeats.closed())
        tasks = (turn, idle, repeats)
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
        # The turn may have ended in the moment it was cancelled; its result counts then.
        if not turn.cancelled():
            try:
                return turn.result()
            except LoopDetected as loop:
                return NoProgress("executor_failed", f"no progress: {loop.what}")
        if self._repeats.cause:
            return NoProgress("executor_failed", self._repeats.cause)
        return NoProgress("timeout", f"no output, no tool call and no model reply for {self._idle_s:g} s")


async def worktree_fingerprint(git: Git) -> str:
    """Return a fingerprint of what differs from HEAD, without ignored files; a new random one if git fails."""
    try:
        changed = await git(*CHANGED)
        links = await gitlinks(git)
    except GitError:
        # An unknown tree must not look unchanged, or the agent would be stopped for git's failure.
        return new_id()
    names = sorted({record[STATUS_CHARS:] for record in changed.records})
    found = [await asyncio.to_thread(_files_digest, git.cwd, names)]
    for link in links:
        inner = checked_out_submodule(git, link)
        found.append("" if inner is None else f"{link.commit} {await worktree_fingerprint(inner)}")
    return " ".join(found)


def _files_digest(root: Path, names: Sequence[str]) -> str:
    digest = hashlib.sha256()
    for name in names:
        digest.update(os.fsencode(name) + b"\0")
        with contextlib.suppress(OSError):  # deleted, or not a regular file: its name is enough
            digest.update(_file_version(ContainedPath(root, name)))
    return digest.hexdigest()


def _file_version(file: ContainedPath) -> bytes:
    if file.path.is_symlink():
        return os.fsencode(file.path.readlink())
    with file.reading() as opened:
        start, status = opened.read(READ_BYTES), os.fstat(opened.fileno())
    rest = b"" if status.st_size <= len(start) else f"{status.st_size} {status.st_mtime_ns}".encode()
    return hashlib.sha256(start).digest() + rest
