"""`notify`: deliver what waits to be told, and try the channels."""

import os
from contextlib import closing
from pathlib import Path

import click

from scaffold.cli.render.terminal.text_layout import print_text
from scaffold.config.settings import load_settings
from scaffold.core.errors import UsageError
from scaffold.core.printable_text import count_of
from scaffold.host.clock import SystemClock
from scaffold.host.process.async_runner import run_async
from scaffold.host.slots import Slots
from scaffold.host.user_dirs import user_dirs
from scaffold.orchestrator.owner.watch.notification_channels import Failure, send_by
from scaffold.orchestrator.owner.watch.notifications import send_outbox
from scaffold.plan.notification import EXAMPLE, Notification, channel_entry, channels_of
from scaffold.store.user.notification_outbox import QueuedNotification
from scaffold.store.user_store import UserStore, user_database
from scaffold.views.text_format import local_time


@click.command()
@click.option("--test", is_flag=True, help="Send a message by each channel of the setting `notify`, now.")
@click.option("--wait", is_flag=True, hidden=True)
def notify(*, test: bool, wait: bool) -> int:
    """Deliver notifications that are due: what came in quiet hours that are over, or what a killed run has not told.

    Runs do so themselves. This is for after a reboot, and to see that your channels work.
    """
    return run_async(_test_channels() if test else _wait_for_outbox() if wait else _send_due())


async def _test_channels() -> int:
    settings, clock = load_settings(Path.cwd(), os.environ, {}), SystemClock()
    channels = channels_of(settings.texts("notify") or settings.text("notify") or "")
    if not channels:
        raise UsageError("the setting `notify` names no channel", f"Set it to a command, or to a list of {EXAMPLE}.")
    told, failed = Notification("inbox", "RUN", "a test of your notifications", at=clock.now().isoformat()), False
    for channel in channels:
        one = QueuedNotification(
            id="test", channel=channel_entry(channel), body=told, variables=(), due_at=clock.now(), tries=0
        )
        failure = await send_by(channel, (one,), os.environ)
        failed = failed or failure is not None
        print_text(f"{channel.name}: {failure.why if failure else 'sent'}")
    return int(failed)


async def _send_due() -> int:
    clock = SystemClock()
    failures = list[str]()

    def keep(queued: QueuedNotification, failure: Failure) -> None:
        failures.append(f"{channels_of((queued.channel,))[0].name}: {failure.why}")

    path = user_database(user_dirs().data)
    if not path.exists():
        print_text("Nothing is left to tell.")
        return 0
    with closing(UserStore.open(path, clock=clock)) as user:
        sent = await send_outbox(user, clock, os.environ, keep, wait=False)
        left = user.outbox.next_due()
    print_text(f"{count_of(sent, 'notification')} sent" if sent else "Nothing was due.")
    for failure in failures:
        print_text(failure, err=True)
    if left is not None:
        print_text(f"The next ones are due at {local_time(left, clock.now())}.")
    return int(bool(failures))


async def _wait_for_outbox() -> int:
    clock, slots = SystemClock(), Slots(user_dirs().data / "notifier", 1)

    def log(queued: QueuedNotification, failure: Failure) -> None:
        print_text(f"{clock.now().isoformat()} {channels_of((queued.channel,))[0].name}: {failure.why}", err=True)

    with closing(UserStore.open(user_database(user_dirs().data), clock=clock)) as user:
        # Asked again once the slot is free: whoever found it taken has left its notifications to this process.
        while user.outbox.next_due() is not None and not slots.all_taken:
            async with slots.taken():
                await send_outbox(user, clock, os.environ, log, wait=True)
    return 0
