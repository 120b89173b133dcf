"""Run the user's `notify` command for new inbox items, the end of a run, and a nearly spent budget."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Literal

import msgspec
from msgspec import Struct

from scaffold.core.errors import StaleFence, StoreUnavailable
from scaffold.core.events import NoticeRaised, RunStatusChanged
from scaffold.core.model import Run
from scaffold.host.child_environment import child_environment, path_outside
from scaffold.host.process.command_runner import Containment, OutputCapture, run_command
from scaffold.run.attempts.lease import owner_transaction
from scaffold.run.context import RunContext
from scaffold.store.spending.run_budget import budget_use

NotificationEvent = Literal["inbox", "done", "failed", "budget"]
POLL_S = 0.2
COMMAND_TIMEOUT_S = 10.0
"""Timeout of the command, after which it is killed with its children."""
SHELL = "/bin/sh"
DESKTOP_VARIABLES = ("DISPLAY", "WAYLAND_DISPLAY", "DBUS_SESSION_BUS_ADDRESS", "SCAFFOLD_HOME")
ERROR_CHARS = 300
"""Characters of a failed command's output that are kept."""


class Notification(Struct, frozen=True):
    """The JSON document that the command reads on standard input."""

    event: NotificationEvent
    run: str
    text: str


class NotificationFeed:
    """Yields each notification once; events before its creation count as delivered by an earlier process."""

    def __init__(self, context: RunContext, run: Run) -> None:
        self._store = context.store
        self._run = run
        self._seq = context.store.events.last_seq(run.id)
        self._seen_items = {item.id for item in context.store.inbox.open_of_run(run.id)}
        self._spent = self._nearly_spent()

    def new_notifications(self) -> Iterator[Notification]:
        """Yield the notifications since the last call."""
        for item in self._store.inbox.open_of_run(self._run.id):
            if item.id not in self._seen_items:
                self._seen_items.add(item.id)
                yield self._create_notification("inbox", f"{item.kind} {item.id}: {item.text}")
        if not self._spent and self._nearly_spent():
            self._spent = True
            use = budget_use(self._store, self._run)
            yield self._create_notification("budget", f"{use.in_words}; {use.consequence}")
        for recorded in self._store.events.since(self._run.id, self._seq):
            self._seq = recorded.seq
            match recorded.event:
                case RunStatusChanged(status="completed"):
                    yield self._create_notification("done", f"run {self._run.id} is completed")
                case RunStatusChanged(status="failed", reason=reason):
                    yield self._create_notification("failed", f"run {self._run.id} failed: {reason}")
                case _:
                    pass

    def _nearly_spent(self) -> bool:
        return budget_use(self._store, self._run).is_low

    def _create_notification(self, event: NotificationEvent, text: str) -> Notification:
        return Notification(event, self._run.id, text)


class Notifier:
    """Runs the command for each message; only the first failure is recorded as a notice of the run."""

    def __init__(self, context: RunContext, run: Run, command: str, *, timeout_s: float) -> None:
        self._context = context
        self._run = run
        self._command = command
        self._timeout_s = timeout_s
        self._warned = False

    async def deliver(self, message: Notification) -> None:
        """Run the command until it exits or times out."""
        redacted = msgspec.structs.replace(message, text=self._context.redactor.clean(message.text))
        try:
            # Desktop and Scaffold variables; API keys only if configured.
            variables = {"SCAFFOLD_EVENT": redacted.event, "SCAFFOLD_RUN": redacted.run}
            names = {*DESKTOP_VARIABLES, *self._run.settings.environment.variables}
            environ, root = self._context.environ, self._context.repository.root
            ended = await run_command(
                [SHELL, "-c", self._command],
                cwd=root,
                env=child_environment(environ, {"PATH": path_outside(environ, root)} | variables, names=names),
                timeout_s=self._timeout_s,
                stdin=msgspec.json.encode(redacted),
                output=OutputCapture(limit_bytes=10_000),
                containment=Containment(),
            )
        except OSError as error:
            self._warn_once(str(error))
            return
        if ended.timed_out:
            self._warn_once(f"it timed out after {self._timeout_s:g} s")
        elif ended.exit_code != 0:
            how = f"exit code {ended.exit_code}" if ended.signal is None else f"signal {ended.signal}"
            output = (ended.stderr or ended.stdout).decode(errors="replace").strip()[:ERROR_CHARS]
            self._warn_once(f"{how}{': ' if output else ''}{output}")

    def _warn_once(self, why: str) -> None:
        if self._warned:
            return
        self._warned = True
        text = self._context.redactor.clean(f"The `notify` command failed: {why}")
        # The end of a run is reported after its release, when another process may own it.
        with suppress(StaleFence, StoreUnavailable), owner_transaction(self._context.store, self._run):
            self._context.store.events.append(self._run.id, NoticeRaised("warning", text))


async def notify_until_done(
    context: RunContext, run: Run, command: str, done: Callable[[], bool], *, timeout_s: float = COMMAND_TIMEOUT_S
) -> None:
    """Run `command` for each notification of the run until `done` returns True, including those of its end.

    Messages are delivered concurrently. Returns at once if `command` is empty, else within `timeout_s` after `done`.
    """
    if not command:
        return
    feed, notifier = NotificationFeed(context, run), Notifier(context, run, command, timeout_s=timeout_s)
    async with asyncio.TaskGroup() as deliveries:
        ending = False
        while not ending:
            # Asked before the feed is read, so that the last round delivers what the end caused.
            ending = done()
            with suppress(StoreUnavailable):  # delivered after the outage
                for message in feed.new_notifications():
                    deliveries.create_task(notifier.deliver(message))
            if not ending:
                await context.clock.sleep(POLL_S)
