"""Channels of notifications and quiet hours, as the configuration writes them."""

import re
from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaffold.plan.notification import (
    EVENT_WORDS,
    Channel,
    channel_entry,
    channels_of,
    parse_channel,
    parse_quiet_hours,
)

ALL = frozenset(EVENT_WORDS.values())
MIDNIGHT = datetime.fromisoformat("2030-01-02")


@pytest.mark.parametrize(
    ("text", "channel"),
    [
        ("desktop", Channel("desktop", "", ALL)),
        ("bell for waits", Channel("bell", "", frozenset({"inbox"}))),
        ("ntfy:https://ntfy.sh/t for waits, 80%", Channel("ntfy", "https://ntfy.sh/t", frozenset({"inbox", "budget"}))),
        ("webhook:http://[::1]:80/x", Channel("webhook", "http://[::1]:80/x", ALL)),
        ("command:say for me", Channel("command", "say for me", ALL)),
        ("command:say for done", Channel("command", "say", frozenset({"done"}))),
    ],
)
def test_an_entry_names_a_channel_and_the_kinds_it_takes(text, channel):
    """BX-25: and is written as it is read."""
    assert parse_channel(text) == channel
    assert parse_channel(channel_entry(channel)) == channel


@pytest.mark.parametrize(
    "text",
    ["telegram:x", "desktop:x", "bell for ever", "ntfy:", "ntfy:ftp://x/y", "webhook:nowhere", "ntfy:http://a b/c", ""],
)
def test_an_unknown_channel_or_kind_is_refused_with_an_example(text):
    """BX-25."""
    with pytest.raises(ValueError, match=re.escape("`ntfy:https://ntfy.sh/TOPIC for waits, failed`")):
        parse_channel(text)


def test_a_text_that_begins_like_no_channel_is_a_command():
    """The setting was one command, and stays one."""
    assert channels_of("") == ()
    assert channels_of("mail -s for me") == (Channel("command", "mail -s for me", ALL),)
    assert channels_of("bell for failed") == (Channel("bell", "", frozenset({"failed"})),)
    assert channels_of(("desktop", "bell")) == (parse_channel("desktop"), parse_channel("bell"))
    with pytest.raises(ValueError, match="address"):
        channels_of("ntfy:topic")


def test_a_channel_is_named_without_what_others_may_not_know():
    """BX-9: who knows the path of a topic can read and write there."""
    assert parse_channel("ntfy:https://me:pw@ntfy.sh:8080/secret").name == "ntfy (ntfy.sh)"
    assert parse_channel("command:echo secret").name == "command"


@given(st.integers(0, 1439), st.integers(0, 1439), st.integers(0, 2879))
def test_quiet_hours_end_at_their_end_and_no_later(begin, end, minutes):
    """BX-25: over midnight, too; each minute of the day is quiet or not, whichever day it is."""
    if begin == end:
        return
    hours = parse_quiet_hours(f"{begin // 60:02}:{begin % 60:02}-{end // 60:02}:{end % 60:02}")
    now = MIDNIGHT + timedelta(minutes=minutes)
    over = hours.end_after(now)
    is_quiet = (minutes - begin) % 1440 < (end - begin) % 1440
    assert (over is not None) == is_quiet
    if over is not None:
        assert over == now + timedelta(minutes=(end - minutes) % 1440)


@pytest.mark.parametrize("text", ["", "22:00", "22-7-8", "22:00-22:00", "22:00+01:00-07:00", "a-b"])
def test_what_is_no_time_of_the_day_is_refused(text):
    """BX-25."""
    with pytest.raises(ValueError, match="`22:00-07:00`"):
        parse_quiet_hours(text)
