"""The subagents of a session: started, watched, and ended with it. Each ends once, and its parent is told."""

import asyncio
from collections.abc import Callable, Collection
from datetime import timedelta
from typing import Protocol

from msgspec import Struct

from scaffold.agent.allowance import Allowance
from scaffold.agent.notices import ending_of
from scaffold.agent.poller import Poller
from scaffold.agent.referral import Judge, answer, next_wish, wish_of
from scaffold.core.errors import ScaffoldError, StoreTrouble
from scaffold.core.ids import ConversationId
from scaffold.core.model import Usage
from scaffold.core.ports import Clock
from scaffold.host.child import Child, end_leftover
from scaffold.store.subagents import Ending, Subagent, name_of
from scaffold.store.user import SESSIONS, UserStore

GRACE_S = 2.0
"""What a subagent may take to settle its accounts when it is ended."""
KEPT = timedelta(days=30)
"""How long the word of a subagent's end waits for its parent."""
CANCELLED = "cancelled: its session ended"
MOST = 20
"""Subagents that any session may have at once."""


class Limits(Struct, frozen=True, kw_only=True):
    """What the subagents of a session may take."""

    most: int = 5
    """At once; never more than `MOST`."""
    timeout_s: float = 300.0
    """Each, unless its parent says otherwise."""


class Commission(Struct, frozen=True):
    """Who answers a subagent, as a model string, and how it is to work, as text only whoever starts it can read."""

    model: str
    words: str


class Staff(Protocol):
    """Whoever knows how a subagent becomes a process."""

    def commission(self, model: str | None) -> Commission:
        """Return how the next subagent works, with the session's own model if None is named; ScaffoldError."""
        ...

    async def start(self, subagent: Subagent) -> Child:
        """Start its process; OSError if there is none to be had."""
        ...

    def remains(self, subagent: Subagent) -> str:
        """Return the end of what its process printed, in one line, and throw the rest away; it has ended."""
        ...


class Task(Struct, frozen=True, kw_only=True):
    """What a subagent is to do."""

    words: str
    context: str
    model: str | None
    timeout_s: float


class _Verdict(Struct, frozen=True):
    """How a subagent ended, where it did not report that itself."""

    subagent: Subagent
    status: Ending
    error: str


class Crew:
    """The subagents of the session `me`."""

    def __init__(
        self,
        store: UserStore,
        me: ConversationId,
        *,
        cwd: str,
        staff: Staff,
        judge: Judge,
        warn: Callable[[str], None],
        clock: Clock,
        limits: Limits,
    ) -> None:
        """`judge` decides for them, `warn` tells the user a line; `cwd` is where they work."""
        self.limits = limits
        self.used = Usage()
        """What those that this process started had used when they ended."""
        self.poller = Poller(store.data_version)
        self._store = store
        self._me = me
        self._cwd = cwd
        self._staff = staff
        self._judge = judge
        self._warn = warn
        self._clock = clock
        self._children: dict[ConversationId, Child] = {}
        self._watchers: set[asyncio.Task[None]] = set()
        self._spawned: set[ConversationId] = set()
        self._unwritten: dict[ConversationId, _Verdict] = {}
        self._leaving = False

    @property
    def running(self) -> int:
        """Return how many have not ended."""
        return self._store.subagents.running(self._me)

    def roster(self) -> tuple[Subagent, ...]:
        """Return all that the session ever had, in the order they were started."""
        return self._store.subagents.of_parent(self._me)

    async def spawn(self, task: Task) -> Subagent:
        """Start a subagent and return it, running or, if no process was to be had, failed; ScaffoldError."""
        commission = self._staff.commission(task.model)
        with self._store.transaction(durable=True):
            subagent = self._added(task, commission)
        self._spawned.add(subagent.id)
        try:
            child = await self._staff.start(subagent)
        except OSError as error:
            self._end(_Verdict(subagent, "failure", f"its process could not be started: {error}"))
            return self._store.subagents.get(subagent.id)
        except asyncio.CancelledError:
            self._end(_Verdict(subagent, "cancelled", "cancelled before it was started"))
            raise
        self._children[subagent.id] = child
        watcher = asyncio.create_task(self._watch(subagent, child), name=subagent.id)
        self._watchers.add(watcher)
        with self._store.transaction():
            self._store.subagents.started(subagent.id, child.identity)
        return subagent

    async def ended(self, wanted: Collection[ConversationId], timeout_s: float) -> None:
        """Return once none of `wanted` runs any more, or after `timeout_s`; StoreTrouble as `settle`."""
        try:
            async with asyncio.timeout(timeout_s):
                tick = self.poller.tick()
                while any(each.status == "running" and each.id in wanted for each in self.roster()):
                    self.settle()
                    tick = await self.poller.past(tick)
        except TimeoutError:
            return

    async def recover(self) -> None:
        """End what a process of this session that died left running; raises ScaffoldError if that cannot be done."""
        for subagent in self.roster():
            if subagent.status == "running":
                if subagent.process is not None:
                    await end_leftover(subagent.process)
                self._staff.remains(subagent)
                self._conclude(_Verdict(subagent, "failure", "interrupted: the session that started it ended"))

    def settle(self) -> None:
        """Write down what could not be written when subagents ended; StoreTrouble if it still cannot be."""
        for verdict in tuple(self._unwritten.values()):
            self._conclude(verdict)

    async def close(self) -> None:
        """End them all, and note that they were cancelled; StoreTrouble if that cannot be written."""
        self._leaving = True
        try:
            async with asyncio.TaskGroup() as ending:
                for child in list(self._children.values()):
                    ending.create_task(child.end(GRACE_S))
            if self._watchers:
                await asyncio.wait(self._watchers)
        finally:
            for subagent in self.roster():
                if subagent.status == "running" and subagent.id in self._spawned:
                    self._unwritten.setdefault(subagent.id, _Verdict(subagent, "cancelled", CANCELLED))
            self.settle()
        for watcher in self._watchers:
            watcher.result()

    def _added(self, task: Task, commission: Commission) -> Subagent:
        """Store the subagent and its conversation; part of a transaction."""
        store, number = self._store, self._store.subagents.next_number(self._me)
        subagent_id = ConversationId(f"{self._me}/{name_of(number)}")
        store.conversations.begin(
            subagent_id, cwd=self._cwd, model=commission.model, title=task.words[:200], parent=self._me
        )
        store.subagents.add(
            subagent_id,
            parent=self._me,
            number=number,
            task=task.words,
            context=task.context,
            commission=commission.words,
            timeout_s=task.timeout_s,
        )
        return store.subagents.get(subagent_id)

    async def _watch(self, subagent: Subagent, child: Child) -> None:
        """See a subagent to its end and write down how it ended; whatever goes wrong here, it does not live on."""
        life = asyncio.create_task(self._lived(subagent, child), name=f"life of {subagent.id}")
        try:
            await asyncio.wait({life})
        finally:
            life.cancel()
            await child.end(GRACE_S)
            self._children.pop(subagent.id, None)
            self._end(self._verdict(subagent, life, self._staff.remains(subagent)))

    def _verdict(self, subagent: Subagent, life: asyncio.Task[int | None], said: str) -> _Verdict:
        """Return how a subagent ended that is gone; `said` is what it printed at last."""
        trouble = life.exception() if life.done() and not life.cancelled() else None
        if self._leaving:
            return _Verdict(subagent, "cancelled", CANCELLED)
        if trouble is not None:
            self._warn(f"{subagent.name} was ended: {_words(trouble)}")
            return _Verdict(subagent, "failure", f"it was ended, as its session had trouble: {_words(trouble)}")
        if not life.done() or life.cancelled():
            return _Verdict(subagent, "failure", "it was given up: nobody watched it any more")
        code = life.result()
        if code is None:
            return _Verdict(subagent, "timeout", f"it was ended: it took longer than {subagent.timeout_s:g} s")
        how = f"its process {_how(code)} before it was done"
        return _Verdict(subagent, "failure", f"{how}: {said}" if said else how)

    async def _lived(self, subagent: Subagent, child: Child) -> int | None:
        """Return how its process ended, as `Child.wait` does; None if it took too long and still lives."""
        allowance = Allowance(subagent.timeout_s, self._clock.monotonic)
        async with asyncio.TaskGroup() as together:
            clerk = together.create_task(self._answer_wishes(subagent, allowance))
            code = await _ends_within(child, allowance)
            clerk.cancel()
        return code

    async def _answer_wishes(self, subagent: Subagent, allowance: Allowance) -> None:
        """Have decided what a subagent asks for, for as long as it lives."""
        while True:
            asked = await next_wish(self._store, self.poller, me=self._me, subagent=subagent.id)
            with allowance.standing_still():
                judgement = await self._judge(subagent.name, wish_of(asked))
            answer(self._store, asked, judgement)

    def _end(self, verdict: _Verdict) -> None:
        """Write down how a subagent ended, now or, if the store does not take it, as soon as somebody waits for it."""
        self._unwritten[verdict.subagent.id] = verdict
        try:
            self.settle()
        except StoreTrouble as trouble:
            self._warn(f"how {verdict.subagent.name} ended is not written down yet: {trouble.in_full}")
            self.poller.ring()

    def _conclude(self, verdict: _Verdict) -> None:
        """End it in the store together with the message that says so, unless that was done."""
        subagent = verdict.subagent
        with self._store.transaction(durable=True):
            ended_now = self._store.subagents.end(subagent.id, verdict.status, error=verdict.error)
            ended = self._store.subagents.get(subagent.id)
            if ended_now:
                self._store.messages.send(
                    SESSIONS,
                    sender=subagent.id,
                    recipient=self._me,
                    body=ending_of(ended),
                    expires_at=self._clock.now() + KEPT,
                )
        self._unwritten.pop(subagent.id, None)
        if ended_now and subagent.id in self._spawned:
            self.used += ended.usage
        self.poller.ring()


async def _ends_within(child: Child, allowance: Allowance) -> int | None:
    """Return how a process ended, None if that did not come within what it may take."""
    while (left_s := allowance.left_s()) > 0:
        try:
            async with asyncio.timeout(left_s):
                return await child.wait()
        except TimeoutError:
            continue
    return None


def _how(code: int) -> str:
    return f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"


def _words(trouble: BaseException) -> str:
    """Return what went wrong in one line; of several troubles the first one."""
    while isinstance(trouble, BaseExceptionGroup):
        trouble = trouble.exceptions[0]
    return trouble.in_full if isinstance(trouble, ScaffoldError) else f"{type(trouble).__name__}: {trouble}"
