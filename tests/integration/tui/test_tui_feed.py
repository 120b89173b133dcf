"""What `scaffold live` reads, from real stores: seldom, and whatever happens to them."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from builders import begin, git, make_run, submit
from scaffold.core.events import NoticeRaised
from scaffold.store.driver.location import database_path
from scaffold.tui.run_feed import RunFeed, Shown, WatchedAgent
from scaffold.tui.tab_rows import plan_order

PLAN = """
version: 1
goals:
  - name: shop
    goal_state: [stored]
    actions:
      - {key: store, effects: [stored], contract: {commands: [{command: "true"}]}}
"""


FOREVER = float("inf")


@pytest.fixture
def feed_of(context):
    """Return a function that makes feeds of the repository, which may look as often as the test does."""
    made = []

    def make(*, cpu_share=FOREVER, stale_s=FOREVER):
        made.append(RunFeed(context.repository.root, os.environ, None, cpu_share=cpu_share, stale_s=stale_s))
        return made[-1]

    yield make
    for feed in made:
        feed.close()


def test_everything_is_read_only_when_something_happened(context, feed_of):
    """AL-25: a look costs one query as long as no event was written."""
    feed = feed_of()
    run = make_run(context, PLAN)
    assert feed.look(None).view.run.id == run.id
    assert [feed.look(None) for _ in range(20)] == [None] * 20
    assert feed.reads == 1
    with context.store.transaction():
        context.store.events.append(run.id, NoticeRaised("info", "something happened"))
    assert feed.look(None) is not None
    assert feed.reads == 2


def test_a_run_that_was_purged_is_no_longer_shown(context, feed_of):
    """AL-25: the database that is still open has no name any more."""
    feed = feed_of(stale_s=0.0)
    make_run(context, PLAN)
    assert feed.look(None).view is not None
    database_path(context.repository.common_dir).unlink()
    assert feed.look(None) == Shown()
    assert feed.look(None) is None


def test_reading_takes_a_share_of_a_core_whatever_a_plan_costs(context, feed_of):
    """AL-25: who reads for a tenth of a second does not look again for two."""
    feed = feed_of(cpu_share=1e-9)
    make_run(context, PLAN)
    assert feed.look(None) is not None
    feed_reads = feed.reads
    assert [feed.look(None) for _ in range(20)] == [None] * 20
    assert feed.reads == feed_reads
    feed.refresh()
    assert feed.look(None) is not None


def test_before_the_first_run_nothing_is_shown_and_then_it_is(context, feed_of):
    """AL-25."""
    feed = feed_of()
    assert feed.look(None) in {None, Shown()}
    run = make_run(context, PLAN)
    assert feed.look(None).view.run.id == run.id


def test_a_store_that_cannot_be_read_is_named_and_the_last_view_stays(context, feed_of):
    """AL-25: it goes on by itself once it can be read again; a locked one can be read."""
    feed = feed_of(stale_s=0.0)
    run = make_run(context, PLAN)
    assert feed.look(None).trouble == ""
    path = database_path(context.repository.common_dir)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert feed.look(None).trouble == ""  # a writer that does not end keeps no reader out
        other.execute("ROLLBACK")
    feed.close()
    hidden = path.rename(path.with_name("hidden.db"))
    path.mkdir()
    shown = feed.look(None)
    assert shown.view.run.id == run.id
    assert shown.trouble
    path.rmdir()
    hidden.rename(path)
    assert feed.look(None).trouble == ""


def test_the_output_of_one_agent_is_followed(context, feed_of):
    """AL-25: what is written later comes later; another agent begins anew."""
    feed = feed_of()
    run = begin(context, make_run(context, PLAN))
    submit(context, run, "store", {"store.txt": "x\n"})
    journal = Path(context.store.attempts.for_run(run.id)[0].log_file)
    journal.parent.mkdir(parents=True, exist_ok=True)
    entry = '{{"ts":"2030-01-01T12:00:00Z","type":"text","run":"{run}","action":"store","attempt":1,"text":"{text}"}}\n'
    journal.write_text(entry.format(run=run.id, text="first"))
    store = WatchedAgent(action="store")
    assert [line.split("  ", 1)[1] for line in feed.look(store).output] == ["first"]
    with journal.open("a") as file:
        file.write(entry.format(run=run.id, text="second"))
    assert [line.split("  ", 1)[1] for line in feed.look(store).output] == ["first", "second"]
    assert feed.look(WatchedAgent(name="planner")).output == ()


def test_an_action_stands_below_what_it_waits_for(context):
    """AL-25: each once, also if actions provide for each other."""
    plan = """
version: 1
goals:
  - name: shop
    goal_state: [c]
    actions:
      - {key: one, effects: [a], contract: {commands: [{command: "true"}]}}
      - {key: two, preconditions: [a], effects: [b], contract: {commands: [{command: "true"}]}}
      - {key: three, preconditions: [a, b], effects: [c], contract: {commands: [{command: "true"}]}}
      - {key: other, effects: [d], contract: {commands: [{command: "true"}]}}
"""
    actions = context.store.actions.for_run(make_run(context, plan).id)
    tree = [(action.key, depth) for action, depth in plan_order(actions)]
    assert tree == [("one", 0), ("two", 1), ("three", 2), ("other", 0)]
    assert git(context.repository.root, "status", "--porcelain") == ""
