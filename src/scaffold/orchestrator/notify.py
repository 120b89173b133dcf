"""`notify`: the user's own command is told what needs a human, how a run ended, and that its budget runs out."""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Literal

import msgspec
from msgspec import Struct

from scaffold.core.errors import StaleFence
from scaffold.core.events import Noticed, RunMoved
from scaffold.core.model import Run
from scaffold.host.environment import child_environment
from scaffold.host.process import run as run_command
from scaffold.worker.lease import owned
from scaffold.worker.site import Site

Happening = Literal["inbox", "done", "failed", "budget"]

POLL_S = 0.2
PATIENCE_S = 10.0
"""What the command may take; then it is ended with all it started."""
NEARLY_SPENT = 0.8
"""The part of the budget from which on the user is told."""
SHELL = "/bin/sh"
DESKTOP = ("DISPLAY", "WAYLAND_DISPLAY", "DBUS_SESSION_BUS_ADDRESS", "SCAFFOLD_HOME")
SAID = 300
"""Characters of a failed command's complaint that are kept."""


class Message(Struct, frozen=True):
    """What the command reads on standard input, as JSON."""

    event: Happening
    run: str
    text: str


class Happenings:
    """What has been told; everything that was so when it began counts as told by an earlier process."""

    def __init__(self, site: Site, run: Run) -> None:
        self._store = site.store
        self._run = run
        self._seq = site.store.events.last_seq(run.id)
        self._told = {item.id for item in site.store.inbox.open_of_run(run.id)}
        self._spent = self._nearly_spent()

    def news(self) -> Iterator[Message]:
        """Yield what has happened since the last call."""
        for item in self._store.inbox.open_of_run(self._run.id):
            if item.id not in self._told:
                self._told.add(item.id)
                yield self._message("inbox", f"{item.kind} {item.id}: {item.text}")
        if not self._spent and self._nearly_spent():
            self._spent = True
            yield self._message("budget", f"{NEARLY_SPENT:.0%} of ${self._run.settings.budget_usd:.2f} are spent")
        for recorded in self._store.events.since(self._run.id, self._seq):
            self._seq = recorded.seq
            match recorded.event:
                case RunMoved(status="completed"):
                    yield self._message("done", f"run {self._run.id} is completed")
                case RunMoved(status="failed", reason=reason):
                    yield self._message("failed", f"run {self._run.id} failed: {reason}")
                case _:
                    pass

    def _nearly_spent(self) -> bool:
        limit = self._run.settings.budget_usd
        return limit is not None and self._store.runs.paid_usd(self._run.id) >= NEARLY_SPENT * limit

    def _message(self, event: Happening, text: str) -> Message:
        return Message(event, self._run.id, text)


class Messenger:
    """Runs the command for each message; the first failure is told to the run, later ones are not."""

    def __init__(self, site: Site, run: Run, command: str, *, patience_s: float) -> None:
        self._site = site
        self._run = run
        self._command = command
        self._patience_s = patience_s
        self._complained = False

    async def deliver(self, message: Message) -> None:
        """Run the command to its end, at most as long as its patience."""
        told = msgspec.structs.replace(message, text=self._site.redactor.clean(message.text))
        try:
            ended = await run_command(
                [SHELL, "-c", self._command],
                cwd=self._site.repository.root,
                env=self._environ(told),
                timeout_s=self._patience_s,
                stdin=msgspec.json.encode(told),
                limit_bytes=10_000,
                leash=True,
            )
        except OSError as error:
            self._complain(str(error))
            return
        if ended.timed_out:
            self._complain(f"it took longer than {self._patience_s:g} s and was ended")
        elif ended.exit_code != 0:
            how = f"exit code {ended.exit_code}" if ended.signal is None else f"signal {ended.signal}"
            said = (ended.stderr or ended.stdout).decode(errors="replace").strip()[:SAID]
            self._complain(f"{how}{': ' if said else ''}{said}")

    def _environ(self, told: Message) -> Mapping[str, str]:
        """Return what a command needs that has to reach a desktop, or Scaffold; no keys, unless they are configured."""
        marks = {"SCAFFOLD_EVENT": told.event, "SCAFFOLD_RUN": told.run}
        return child_environment(self._site.environ, marks, names={*DESKTOP, *self._run.settings.environment})

    def _complain(self, why: str) -> None:
        if self._complained:
            return
        self._complained = True
        text = self._site.redactor.clean(f"The command that `notify` names failed: {why}")
        with suppress(StaleFence), owned(self._site.store, self._run):
            self._site.store.events.append(self._run.id, Noticed("warning", text))


async def notify_on(
    site: Site, run: Run, command: str, done: Callable[[], bool], *, patience_s: float = PATIENCE_S
) -> None:
    """Tell `command` what happens in the run until `done`, and then what happened at its end.

    Each message is delivered beside the run and beside the others. Returns at once without a command, else at most
    `patience_s` after `done`.
    """
    if not command:
        return
    happenings, messenger = Happenings(site, run), Messenger(site, run, command, patience_s=patience_s)
    async with asyncio.TaskGroup() as deliveries:
        ending = False
        while not ending:
            ending = done()
            for message in happenings.news():
                deliveries.create_task(messenger.deliver(message))
            if not ending:
                await site.clock.sleep(POLL_S)
