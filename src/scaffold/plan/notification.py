"""What users are notified of, by which channel, and when not: as their configuration writes it. Pure."""

import re
from collections.abc import Mapping
from datetime import datetime, time, timedelta
from typing import Literal, cast, get_args

from msgspec import Struct

NotificationEvent = Literal["inbox", "done", "failed", "budget"]
ChannelKind = Literal["desktop", "bell", "ntfy", "webhook", "command"]
EVENT_WORDS: Mapping[str, NotificationEvent] = {"waits": "inbox", "done": "done", "failed": "failed", "80%": "budget"}
"""The words of the configuration, each with the name of the event that commands and webhooks get."""
EXAMPLE = "`desktop`, `bell`, `ntfy:https://ntfy.sh/TOPIC for waits, failed`, `webhook:URL` or `command:LINE`"
KINDS_AFTER = " for "
_ADDRESS = re.compile(
    r"https?://(?:[^/\s?#@]*@)?(?P<host>\[[0-9a-fA-F:.]+\]|[^/\s?#@:\[\]]+)(?::[0-9]{1,5})?(?:[/?][!-~]*)?"
)


class Notification(Struct, frozen=True):
    """The JSON document that a command reads on standard input."""

    event: NotificationEvent
    run: str
    text: str
    repository: str = ""
    """The top folder of the checkout."""
    item: str = ""
    """The id of the request in the inbox that it is about."""
    at: str = ""
    """When it happened, in ISO-8601."""


class Channel(Struct, frozen=True):
    """One way to reach the user."""

    kind: ChannelKind
    target: str
    """An address, or a line for `/bin/sh`; empty for the others."""
    events: frozenset[NotificationEvent]

    @property
    def name(self) -> str:
        """The channel without what others may not know: the path of an address is often its only password."""
        found = _ADDRESS.fullmatch(self.target) if self.kind in {"ntfy", "webhook"} else None
        return f"{self.kind} ({found['host']})" if found else self.kind


class QuietHours(Struct, frozen=True):
    """A time of each day, which may include midnight."""

    begin: time
    end: time

    def end_after(self, now: datetime) -> datetime | None:
        """Return the end of the quiet hours that include `now`; None if none do.

        `now` is in the user's local time, naive; so is the result.
        """
        at, over_midnight = now.time(), self.begin > self.end
        is_quiet = at >= self.begin or at < self.end if over_midnight else self.begin <= at < self.end
        day = now.date() + timedelta(days=int(over_midnight and at >= self.begin))
        return datetime.combine(day, self.end) if is_quiet else None


def parse_channel(text: str) -> Channel:
    """Return the channel that an entry names; ValueError with the expected form for an unknown one or an unknown kind.

    `CHANNEL for KIND, KIND` takes these alone; without `for` it takes all.
    """
    named, found, after = text.strip().rpartition(KINDS_AFTER)
    words = [word.strip() for word in after.split(",")] if found else []
    # A command may have the word in its line.
    if not found or (named.startswith("command:") and not EVENT_WORDS.keys() >= {*words}):
        named, words = text.strip(), [*EVENT_WORDS]
    if unknown := [word for word in words if word not in EVENT_WORDS]:
        raise ValueError(f"a channel for {', '.join(EVENT_WORDS)}, not for `{unknown[0]}`: {EXAMPLE}")
    kind, _, target = named.partition(":")
    if kind not in get_args(ChannelKind) or bool(target) != (kind not in {"desktop", "bell"}):
        raise ValueError(f"a command for /bin/sh, or a list of channels: {EXAMPLE}")
    if kind in {"ntfy", "webhook"} and _ADDRESS.fullmatch(target) is None:
        raise ValueError(f"`{kind}:` with an address that begins with https:// or http://: {EXAMPLE}")
    return Channel(cast("ChannelKind", kind), target.strip(), frozenset(EVENT_WORDS[word] for word in words))


def channel_entry(channel: Channel) -> str:
    """Return the entry that `parse_channel` reads as this channel."""
    named = f"{channel.kind}:{channel.target}" if channel.target else channel.kind
    words = [word for word, event in EVENT_WORDS.items() if event in channel.events]
    return named if len(words) == len(EVENT_WORDS) else f"{named}{KINDS_AFTER}{', '.join(words)}"


def channels_of(notify: str | tuple[str, ...]) -> tuple[Channel, ...]:
    """Return the channels of the setting `notify`; a text that begins like none is a command, as it always was.

    Raises ValueError as `parse_channel` does.
    """
    if isinstance(notify, tuple):
        return tuple(map(parse_channel, notify))
    if not notify:
        return ()
    is_channel = notify.partition(":")[0].partition(KINDS_AFTER)[0] in get_args(ChannelKind)
    return (parse_channel(notify) if is_channel else Channel("command", notify, frozenset(EVENT_WORDS.values())),)


def parse_quiet_hours(text: str) -> QuietHours:
    """Return the quiet hours written as `22:00-07:00`; ValueError for another form, or for no time at all."""
    begin, _, end = text.partition("-")
    try:
        found = QuietHours(time.fromisoformat(begin.strip()), time.fromisoformat(end.strip()))
    except ValueError:
        found = None
    if found is None or found.begin == found.end or found.begin.tzinfo or found.end.tzinfo:
        raise ValueError("two times of the day such as `22:00-07:00`")
    return found
