"""The subagents of a session: started, watched, and ended with it. The parent is notified once of each end."""

import asyncio
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Protocol

from msgspec import Struct

from scaffold.agent.messages.envelope_text import subagent_end_message
from scaffold.agent.messages.mailbox import ClaimedSession
from scaffold.agent.messages.poller import StorePoller
from scaffold.agent.subagents.approval_relay import CallDecider, next_approval_request, requested_call, send_decision
from scaffold.core.errors import ScaffoldError, StoreError
from scaffold.core.extension_set import Role
from scaffold.core.ids import ConversationId
from scaffold.core.model import Usage
from scaffold.host.process.child import ChildProcess, kill_orphan
from scaffold.store.user.subagents import StoredSubagent, SubagentEndStatus, subagent_name
from scaffold.store.user_store import SESSIONS

GRACE_S = 2.0  # grace period in which a subagent can record its usage before it is killed
END_MESSAGE_LIFETIME = timedelta(days=30)  # how long the message about a subagent's end waits for its parent
CANCELLED = "cancelled: its session ended"
MAX_SUBAGENTS = 20
"""Most subagents of a session at once."""

MAX_PAUSE_S = 900.0  # longest total pause; after that the timer runs even while a human decides


class SubagentLimits(Struct, frozen=True, kw_only=True):
    """The limits of a session's subagents."""

    most: int = 5
    """Running at once; never more than `MAX_SUBAGENTS`."""
    timeout_s: float = 300.0
    """Default timeout of each."""
    roles: tuple[Role, ...] = ()
    """Roles that a subagent may have instead of working like its session."""


class SubagentSpec(Struct, frozen=True):
    """A subagent's configuration."""

    model: str
    """A model string."""
    words: str
    """Settings in a format private to the SubagentStarter."""


class SubagentStarter(Protocol):
    """Starts the processes of subagents."""

    def spec(self, model: str | None, role: Role | None) -> SubagentSpec:
        """Return the next subagent's configuration; `model` None for its role's or the session's. ScaffoldError."""
        ...

    async def start(self, subagent: StoredSubagent) -> ChildProcess:
        """Start its process; OSError if that fails."""
        ...

    def take_log_tail(self, subagent: StoredSubagent) -> str:
        """Return the end of an ended process's output as one line, and delete the output."""
        ...


class SubagentTask(Struct, frozen=True, kw_only=True):
    """A subagent's task, and its context, model (None: the session's) and timeout."""

    words: str
    context: str
    model: str | None
    timeout_s: float
    role: str = ""
    """The name of its role; empty for none."""


class _SubagentEnd(Struct, frozen=True):
    """The ending of a subagent that did not report one itself."""

    subagent: StoredSubagent
    status: SubagentEndStatus
    error: str


class PausableTimer:
    """A countdown that can be paused."""

    def __init__(self, seconds: float, monotonic: Callable[[], float], *, longest_pause_s: float = MAX_PAUSE_S) -> None:
        """Start now; `monotonic` is a monotonic clock in seconds."""
        self._monotonic = monotonic
        self._end_s = monotonic() + seconds
        self._pauses_left_s = longest_pause_s
        self._paused_at_s: float | None = None

    def left_s(self) -> float:
        """Return the seconds left; 0 or less once the time is up."""
        return self._end_s + self._pause_s() - self._monotonic()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Stop the countdown inside the block, within the total pause allowed."""
        self._paused_at_s = self._monotonic()
        try:
            yield
        finally:
            paused_s = self._pause_s()
            self._paused_at_s = None
            self._end_s += paused_s
            self._pauses_left_s -= paused_s

    def _pause_s(self) -> float:
        if self._paused_at_s is None:
            return 0.0
        return min(self._monotonic() - self._paused_at_s, self._pauses_left_s)


class SubagentPool:
    """The subagents of one session."""

    def __init__(
        self,
        session: ClaimedSession,
        *,
        starter: SubagentStarter,
        decider: CallDecider,
        warn: Callable[[str], None],
        limits: SubagentLimits,
    ) -> None:
        """`decider` decides their requests, `warn` shows the user a one-line warning."""
        self.limits = limits
        self.used = Usage()
        """The usage of ended subagents that this process started."""
        self.poller = StorePoller(session.store.data_version)
        self._store = session.store
        self._me = session.id
        self._cwd = session.cwd
        self._starter = starter
        self._decider = decider
        self._warn = warn
        self._clock = session.clock
        self._children: dict[ConversationId, ChildProcess] = {}
        self._watchers: set[asyncio.Task[None]] = set()
        self._spawned: set[ConversationId] = set()
        self._unwritten: dict[ConversationId, _SubagentEnd] = {}
        self._leaving = False

    @property
    def running(self) -> int:
        """The number of running subagents."""
        return self._store.subagents.running(self._me)

    def subagents(self) -> tuple[StoredSubagent, ...]:
        """Return all subagents of the session, in the order they were started."""
        return self._store.subagents.for_parent(self._me)

    async def spawn(self, task: SubagentTask) -> StoredSubagent:
        """Start a subagent and return it: running, or failed if its process did not start. May raise ScaffoldError."""
        spec = self._starter.spec(
            task.model, next((each for each in self.limits.roles if each.name == task.role), None)
        )
        with self._store.transaction(durable=True):
            subagent = self._add_subagent(task, spec)
        self._spawned.add(subagent.id)
        try:
            child = await self._starter.start(subagent)
        except OSError as error:
            self._store_end(_SubagentEnd(subagent, "failure", f"its process could not be started: {error}"))
            return self._store.subagents.get(subagent.id)
        except asyncio.CancelledError:
            self._store_end(_SubagentEnd(subagent, "cancelled", "cancelled before it was started"))
            raise
        self._children[subagent.id] = child
        # Before the process is stored: if the store fails then, the session still ends this process.
        watcher = asyncio.create_task(self._watch_process(subagent, child), name=subagent.id)
        self._watchers.add(watcher)
        with self._store.transaction():
            self._store.subagents.started(subagent.id, child.identity)
        return subagent

    async def ended(self, wanted: Collection[ConversationId], timeout_s: float) -> None:
        """Return once none of `wanted` is running, or after `timeout_s`; StoreError as `settle`."""
        try:
            async with asyncio.timeout(timeout_s):
                tick = self.poller.tick()
                while any(each.status == "running" and each.id in wanted for each in self.subagents()):
                    self.settle()
                    tick = await self.poller.past(tick)
        except TimeoutError:
            return

    async def recover(self) -> None:
        """End subagents that a dead process of this session left running; ScaffoldError if one cannot be killed."""
        for subagent in self.subagents():
            if subagent.status == "running":
                if subagent.process is not None:
                    # Its end is recorded only once it can write nothing more.
                    await kill_orphan(subagent.process)
                self._starter.take_log_tail(subagent)
                self._record_end(_SubagentEnd(subagent, "failure", "interrupted: the session that started it ended"))

    def settle(self) -> None:
        """Store the endings that could not be stored before; StoreError if they still cannot."""
        for ending in tuple(self._unwritten.values()):
            self._record_end(ending)

    async def close(self) -> None:
        """End all subagents and record them as cancelled; StoreError if that cannot be stored."""
        self._leaving = True
        try:
            async with asyncio.TaskGroup() as ending:
                for child in list(self._children.values()):
                    ending.create_task(child.end(GRACE_S))
            if self._watchers:
                await asyncio.wait(self._watchers)
        finally:
            for subagent in self.subagents():
                if subagent.status == "running" and subagent.id in self._spawned:
                    # The watcher of a subagent may have failed, or never begun; its end is recorded all the same.
                    self._unwritten.setdefault(subagent.id, _SubagentEnd(subagent, "cancelled", CANCELLED))
            self.settle()
        for watcher in self._watchers:
            watcher.result()

    async def cancel(self) -> None:
        """End the running subagents as `close` does; others can be started afterwards."""
        try:
            await self.close()
        finally:
            self._leaving = False
            self._watchers = {watcher for watcher in self._watchers if not watcher.done()}

    def _add_subagent(self, task: SubagentTask, spec: SubagentSpec) -> StoredSubagent:
        # In the caller's transaction, so that no subagent exists without its conversation.
        store, number = self._store, self._store.subagents.next_number(self._me)
        subagent_id = ConversationId(f"{self._me}/{subagent_name(number)}")
        store.conversations.begin(subagent_id, cwd=self._cwd, model=spec.model, title=task.words[:200], parent=self._me)
        store.subagents.add(
            subagent_id,
            parent=self._me,
            number=number,
            task=task.words,
            context=task.context,
            spec=spec.words,
            timeout_s=task.timeout_s,
        )
        return store.subagents.get(subagent_id)

    async def _watch_process(self, subagent: StoredSubagent, child: ChildProcess) -> None:
        # On any error here the process is ended as well: nobody else watches it.
        life = asyncio.create_task(self._wait_for_end(subagent, child), name=f"life of {subagent.id}")
        try:
            # Not `await life`: its errors are read by `_find_ending`, after the process has ended.
            await asyncio.wait({life})
        finally:
            life.cancel()
            await child.end(GRACE_S)
            self._children.pop(subagent.id, None)
            self._store_end(self._find_ending(subagent, life, self._starter.take_log_tail(subagent)))

    def _find_ending(self, subagent: StoredSubagent, life: asyncio.Task[int | None], output: str) -> _SubagentEnd:
        # A subagent that was killed or crashed has reported nothing: its last output may say why.
        error = life.exception() if life.done() and not life.cancelled() else None
        if self._leaving:
            return _SubagentEnd(subagent, "cancelled", CANCELLED)
        if error is not None:
            self._warn(f"{subagent.name} was stopped: {_error_line(error)}")
            return _SubagentEnd(subagent, "failure", f"it was stopped by an error in its session: {_error_line(error)}")
        if not life.done() or life.cancelled():
            return _SubagentEnd(subagent, "failure", "it was stopped: its session stopped monitoring it")
        code = life.result()
        if code is None:
            return _SubagentEnd(subagent, "timeout", f"it was stopped: it took longer than {subagent.timeout_s:g} s")
        end = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
        how = f"its process {end} before it finished"
        return _SubagentEnd(subagent, "failure", f"{how}: {output}" if output else how)

    async def _wait_for_end(self, subagent: StoredSubagent, child: ChildProcess) -> int | None:
        timer = PausableTimer(subagent.timeout_s, self._clock.monotonic)
        async with asyncio.TaskGroup() as group:
            answering = group.create_task(self._answer_requests(subagent, timer))
            code: int | None = None
            while code is None and (left_s := timer.left_s()) > 0:
                # A pause may have begun meanwhile: the time that is left is asked for again.
                with suppress(TimeoutError):
                    async with asyncio.timeout(left_s):
                        code = await child.wait()
            # The task group would otherwise wait for a loop that never ends.
            answering.cancel()
        return code

    async def _answer_requests(self, subagent: StoredSubagent, timer: PausableTimer) -> None:
        # The timer pauses meanwhile: a human may take longer to decide than the task.
        while True:
            asked = await next_approval_request(self._store, self.poller, me=self._me, subagent=subagent.id)
            with timer.paused():
                judgement = await self._decider(subagent.name, requested_call(asked))
            send_decision(self._store, asked, judgement)

    def _store_end(self, ending: _SubagentEnd) -> None:
        # If the store fails, `settle` tries again later.
        self._unwritten[ending.subagent.id] = ending
        try:
            self.settle()
        except StoreError as error:
            self._warn(f"the end of {ending.subagent.name} could not be stored yet: {error.in_full}")
            self.poller.ring()

    def _record_end(self, ending: _SubagentEnd) -> None:
        # Both in one transaction, so that the parent is told exactly once.
        subagent = ending.subagent
        with self._store.transaction(durable=True):
            # A compare-and-set from `running`: a second caller neither changes the end nor sends a second message.
            ended_now = self._store.subagents.end(subagent.id, ending.status, error=ending.error)
            ended = self._store.subagents.get(subagent.id)
            if ended_now:
                self._store.messages.send(
                    SESSIONS,
                    sender=subagent.id,
                    recipient=self._me,
                    body=subagent_end_message(ended),
                    expires_at=self._clock.now() + END_MESSAGE_LIFETIME,
                )
        self._unwritten.pop(subagent.id, None)
        if ended_now and subagent.id in self._spawned:
            self.used += ended.usage
        self.poller.ring()


def _error_line(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error.in_full if isinstance(error, ScaffoldError) else f"{type(error).__name__}: {error}"
