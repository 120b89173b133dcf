"""Tell the user what happens to runs: put it into their outbox, and deliver what is due there.

What is in the outbox is delivered at least once: a process that is killed while it delivers leaves the notification to
the next one, and then it may come twice. What happened just before an owner was killed is found by the next process.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, suppress
from datetime import timedelta
from functools import partial
from itertools import groupby

from msgspec import structs

from scaffold.core.errors import ScaffoldError, StaleFence, StoreError, StoreUnavailable
from scaffold.core.events import NoticeRaised, RunStatusChanged
from scaffold.core.model import Run
from scaffold.core.ports import Clock
from scaffold.host.process_identity import own_identity
from scaffold.host.user_dirs import user_dirs
from scaffold.orchestrator.owner.watch.notification_channels import TIMEOUT_S, Failure, send_by
from scaffold.plan.notification import (
    Notification,
    NotificationEvent,
    channel_entry,
    channels_of,
    parse_channel,
    parse_quiet_hours,
)
from scaffold.policy.secret.redaction import Redactor
from scaffold.policy.secret.sources import redactor_for
from scaffold.run.attempts.lease import owner_transaction
from scaffold.run.context import RunContext
from scaffold.store.spending.run_budget import budget_use
from scaffold.store.user.notification_outbox import QueuedNotification
from scaffold.store.user_store import UserStore, user_database
from scaffold.views.store_reader import StoreAccess, is_executed, is_underway, store_reader_if_any

POLL_S = 0.2
MAX_TRIES = 5
FIRST_RETRY = timedelta(seconds=30)
"""The wait before the second try; each further one is four times as long."""
WAIT_S = 15.0
"""How often a process that only waits looks what is due."""
OnFailure = Callable[[QueuedNotification, Failure], None]


class NotificationFeed:
    """Puts what happens to a run into the user's outbox, each thing once, whichever process finds it."""

    def __init__(self, reader: StoreAccess, run: Run, user: UserStore, redactor: Callable[[], Redactor]) -> None:
        """Follow the run from now on, or from where a killed process has followed it."""
        self._reader, self._run, self._user, self._redactor = reader, run, user, redactor
        permissions = run.settings.permissions
        self._channels = channels_of(permissions.notify)
        self._quiet = parse_quiet_hours(permissions.quiet_hours) if permissions.quiet_hours else None
        self._put: set[str] = set()
        known = user.outbox.position(run.id)
        self._seq = reader.store.events.last_seq(run.id) if known is None else known
        if known is None:
            # What was asked before is not news.
            self._add(dict(self._happened()), told=False)

    def collect(self) -> bool:
        """Put the news since the last call into the outbox; return whether there is any."""
        before = self._seq
        news = {name: told for name, told in self._happened() if name not in self._put}
        try:
            if news:
                self._add(news, told=True)
        except StoreError:
            self._seq = before  # found again at the next call
            raise
        return bool(news)

    def _happened(self) -> Iterator[tuple[str, Notification]]:
        """Yield what a user is told of, with an id; events only once."""
        store, run = self._reader.store, self._run
        for item in store.inbox.open_of_run(run.id):
            told = self._told("inbox", f"{item.kind} {item.id}: {item.text}")
            yield f"{run.id} {item.id}", structs.replace(told, item=item.id)
        use = budget_use(store, run)
        if use.is_low:
            limits = f"{use.limits.usd} {use.limits.tokens}"
            yield f"{run.id} budget {limits}", self._told("budget", f"{use.in_words}; {use.consequence}")
        for recorded in store.events.since(run.id, self._seq):
            self._seq = recorded.seq
            match recorded.event:
                case RunStatusChanged(status="completed"):
                    yield f"{run.id} {recorded.seq}", self._told("done", f"run {run.id} is completed")
                case RunStatusChanged(status="failed", reason=reason):
                    yield f"{run.id} {recorded.seq}", self._told("failed", f"run {run.id} failed: {reason}")
                case _:
                    pass

    def _told(self, event: NotificationEvent, text: str) -> Notification:
        at = self._reader.clock.now().isoformat()
        return Notification(event, self._run.id, text, repository=str(self._reader.root), at=at)

    def _add(self, news: Mapping[str, Notification], *, told: bool) -> None:
        now, here = self._reader.clock.now(), self._reader.clock.now().astimezone().replace(tzinfo=None)
        quiet_until = self._quiet.end_after(here) if self._quiet else None
        due = quiet_until.astimezone(now.tzinfo) if quiet_until else now
        clean, variables = self._redactor().clean, self._run.settings.environment.variables
        with self._user.transaction(durable=True):
            for name, each in news.items():
                channels = [channel_entry(channel) for channel in self._channels if each.event in channel.events]
                body = structs.replace(each, text=clean(each.text))
                self._user.outbox.add(name, body, channels if told else (), due, variables)
            self._user.outbox.follow(self._run.id, self._reader.root, self._seq)
        self._put |= news.keys()


async def notify_until_done(
    context: RunContext,
    run: Run,
    done: Callable[[], bool],
    *,
    send_later: Callable[[], None] = lambda: None,
    timeout_s: float = TIMEOUT_S,
) -> None:
    """Notify the user of what happens to the run until `done` returns True, including its end.

    Messages are sent concurrently. Returns at once if the run has no channel, else within `timeout_s` after `done`;
    `send_later` is called if something is left for later then.
    """
    if not run.settings.permissions.notify:
        return
    warned = set[str]()

    def warn(queued: QueuedNotification, failure: Failure) -> None:
        channel = parse_channel(queued.channel)
        if channel.name not in warned:
            warned.add(channel.name)
            what = "The `notify` command" if channel.kind == "command" else f"The notification by {channel.name}"
            _record_notice(context, run, f"{what} failed: {failure.why}")

    try:
        opened = UserStore.open(user_database(user_dirs().data), clock=context.clock)
    except StoreError as error:
        _record_notice(context, run, f"Nothing is sent by `notify`: {error.what}")
        return
    with closing(opened) as user:
        feed = NotificationFeed(context, run, user, lambda: context.redactor)
        _find_missed(context.environ, user, but=run)
        async with asyncio.TaskGroup() as sending:
            ending, sender = False, NotificationSender(user, context.clock, context.environ, warn, timeout_s=timeout_s)
            while not ending:
                # Asked before the feed is read, so that the last round delivers what the end caused.
                ending = done()
                with suppress(StoreError):  # delivered after the outage
                    feed.collect()
                    for batch in sender.due_batches():
                        sending.create_task(sender.send(batch))
                if not ending:
                    await context.clock.sleep(POLL_S)
        with suppress(StoreError):
            with user.transaction():
                user.outbox.unfollow(run.id)
            if user.outbox.next_due() is not None:
                send_later()


def _record_notice(context: RunContext, run: Run, text: str) -> None:
    # The end of a run is reported after its release, when another process may own it.
    with suppress(StaleFence, StoreUnavailable), owner_transaction(context.store, run):
        context.store.events.append(run.id, NoticeRaised("warning", context.redactor.clean(text)))


def _find_missed(environ: Mapping[str, str], user: UserStore, *, but: Run | None = None) -> None:
    """Put into the outbox what happened to runs whose process was killed before it could."""
    for run_id, root in user.outbox.feeds():
        if but is not None and run_id == but.id:
            continue
        # A repository that cannot be read now is looked at by the next process.
        with suppress(ScaffoldError), store_reader_if_any(root, environ) as reader:
            run = reader.store.runs.get(run_id) if reader is not None else None
            if reader is not None and run is not None and not is_executed(run):
                NotificationFeed(reader, run, user, partial(redactor_for, environ, root)).collect()
            if run is None or not is_underway(run):
                with user.transaction():
                    user.outbox.unfollow(run_id)


class NotificationSender:
    """Delivers what is due in a user's outbox."""

    def __init__(
        self,
        user: UserStore,
        clock: Clock,
        environ: Mapping[str, str],
        on_failure: OnFailure,
        *,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        """`on_failure` is told of each failed try."""
        self._user, self._clock, self._environ = user, clock, environ
        self._on_failure, self._timeout_s = on_failure, timeout_s

    def due_batches(self) -> tuple[tuple[QueuedNotification, ...], ...]:
        """Return what is due and nobody delivers, by channel; this process delivers it now."""
        due = self._user.outbox.next_due()
        if due is None or due > self._clock.now():
            return ()
        with self._user.transaction():
            claimed = self._user.outbox.claim_due(own_identity())
        by_channel = sorted(claimed, key=lambda each: each.channel)
        return tuple(tuple(batch) for _, batch in groupby(by_channel, key=lambda each: each.channel))

    async def send(self, batch: tuple[QueuedNotification, ...]) -> bool:
        """Deliver one batch; return whether it was. What fails is tried again later, if that may help."""
        failure = await send_by(parse_channel(batch[0].channel), batch, self._environ, timeout_s=self._timeout_s)
        # If this cannot be stored, they are sent again once this process has ended.
        with suppress(StoreError), self._user.transaction(durable=True):
            for each in batch:
                if failure is None or not failure.passing or each.tries + 1 >= MAX_TRIES:
                    self._user.outbox.remove(each)
                else:
                    self._user.outbox.put_off(each, self._clock.now() + FIRST_RETRY * 4**each.tries)
        if failure is not None:
            self._on_failure(batch[0], failure)
        return failure is None


async def send_outbox(
    user: UserStore, clock: Clock, environ: Mapping[str, str], on_failure: OnFailure, *, wait: bool
) -> int:
    """Deliver what is due in the outbox, with `wait` also what becomes due until nothing is left; return how much.

    First it finds what killed processes left untold.
    """
    sender, delivered = NotificationSender(user, clock, environ, on_failure), 0
    while True:
        _find_missed(environ, user)
        for batch in sender.due_batches():
            delivered += len(batch) if await sender.send(batch) else 0
        if not wait or user.outbox.next_due() is None:
            return delivered
        await clock.sleep(WAIT_S)
