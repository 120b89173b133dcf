"""Notices: each once in a run, however long its history is."""

import pytest
from inline_snapshot import snapshot

from scaffold.core.events import NoticeRaised
from scaffold.run.notices import inform, warn
from support.harness import act, goal


@pytest.fixture
async def run(harness):
    return await harness.own(goal("g", act("a")))


def notices(harness, run):
    """Return the notices that this test recorded, in order."""
    events, seq = [], 0
    while page := harness.store.events.since(run.id, seq):
        events += [stored.event for stored in page]
        seq = page[-1].seq
    return [(each.level, each.text) for each in events if isinstance(each, NoticeRaised) and "disk" in each.text]


async def test_a_notice_is_recorded_once_in_a_run(harness, run):
    for _ in range(2):
        warn(harness.context, run.id, "the disk is full")
        inform(harness.context, run.id, "the disk is full")
        warn(harness.context, run.id, "the disk is slow")
    assert notices(harness, run) == snapshot(
        [("warning", "the disk is full"), ("info", "the disk is full"), ("warning", "the disk is slow")]
    )
    other = await harness.own(goal("h", act("b")))
    warn(harness.context, other.id, "the disk is full")
    assert notices(harness, other) == snapshot([("warning", "the disk is full")])


@pytest.mark.parametrize("before", [0, 1_500], ids=["early", "late"])
async def test_a_notice_is_recorded_once_in_a_long_run(harness, run, before):
    """Events are read a thousand at a time; a notice may be before or after them."""
    filler = [NoticeRaised("info", f"step {number}") for number in range(1_500)]
    with harness.store.transaction():
        harness.store.events.append_all(run.id, filler[:before])
    warn(harness.context, run.id, "the disk is full")
    with harness.store.transaction():
        harness.store.events.append_all(run.id, filler[before:])
    warn(harness.context, run.id, "the disk is full")
    assert notices(harness, run) == snapshot([("warning", "the disk is full")])
