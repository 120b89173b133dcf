"""Transactions: atomic, one at a time, with a timeout, and safe from a kill."""

import re
import signal
import sqlite3
import subprocess  # noqa: TID251 - the test is about killing another process
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from inline_snapshot import snapshot

from builders import OWNER, SETTINGS, a_goal, a_run, an_action, an_attempt, events_of, location_arguments, store_run
from integration.store.builders import BESIDE_TESTS
from scaffold.core.errors import StaleFence, StoreError, StoreUnavailable
from scaffold.core.events import NoticeRaised
from scaffold.core.states import Active, Running
from scaffold.store.database import Store
from scaffold.store.driver.connection import Connection
from scaffold.store.driver.location import StoreLocation
from scaffold.store.driver.sqlite import SqliteDriver
from support.fake_clock import FakeClock

WRITE_AND_WAIT = """
import sys
from builders import a_goal, a_run, an_action, parse_location
from scaffold.host.clock import SystemClock
from scaffold.store.database import Store

store = Store.open(parse_location(sys.argv[1:]), clock=SystemClock())
with store.transaction():
    store.runs.add(a_run("kept"))
with store.transaction():
    store.runs.add(a_run("lost"))
    store.goals.add(goal := a_goal(run_id="lost"))
    store.actions.add([an_action(f"key-{n}", goal=goal, description="x" * 2000) for n in range(3000)])
    print("in the middle", flush=True)
    sys.stdin.read()
"""


def test_an_error_rolls_back_the_whole_transaction_and_the_next_one_works(store: Store) -> None:
    store_run(store, an_action("a"))

    def change_and_fail() -> None:
        with store.transaction():
            store.runs.move("run-1", Active())
            store.actions.move("run-1/a", Running())
            raise InterruptedError

    with pytest.raises(InterruptedError):
        change_and_fail()
    assert store.runs.get("run-1") == a_run()
    assert store.actions.get("run-1/a") == an_action("a")
    assert events_of(store) == []
    with store.transaction():
        store.runs.add(a_run("run-2"))
    assert store.runs.latest() == a_run("run-2")


def test_transactions_do_not_nest(store: Store) -> None:
    with store.transaction(), pytest.raises(RuntimeError), store.transaction():
        pytest.fail("the inner block must not be entered")


def test_a_change_outside_a_transaction_is_a_programming_error(store: Store) -> None:
    store_run(store)
    with store.transaction():
        store.facts.record("run-1/shop", "done", commit="c", paths=(), evidence=())
    for change in (
        lambda: store.runs.add(a_run("run-2")),
        lambda: store.runs.move("run-1", Active()),
        lambda: store.runs.take("run-1", OWNER, expected_fence=0),
        lambda: store.actions.add([an_action("b")]),
        lambda: store.facts.invalidate("run-1/shop", "done", "stale"),
        lambda: store.events.append("run-1", NoticeRaised("info", "hello")),
    ):
        with pytest.raises(RuntimeError, match=r"with store\.transaction"):
            change()


def test_another_connection_sees_nothing_before_the_commit(store: Store, rival: Store) -> None:
    with store.transaction():
        store.runs.add(a_run())
        assert rival.runs.all() == ()
    assert rival.runs.all() == (a_run(),)


def test_a_snapshot_shows_one_moment_while_another_connection_writes(store: Store, rival: Store) -> None:
    with store.snapshot():
        assert store.runs.all() == ()
        with rival.transaction():
            rival.runs.add(a_run())
        assert store.runs.all() == ()
    assert store.runs.all() == (a_run(),)


def test_a_snapshot_cannot_be_written_to_and_leaves_the_store_ready(store: Store) -> None:
    with pytest.raises(RuntimeError, match=r"with store\.transaction"), store.snapshot():
        store.runs.add(a_run())
    with store.transaction():
        store.runs.add(a_run())
        with pytest.raises(RuntimeError), store.snapshot():
            pytest.fail("the inner block must not be entered")
    assert store.runs.all() == (a_run(),)


def test_the_data_version_changes_only_with_commits_of_others(store: Store, rival: Store) -> None:
    before = store.data_version()
    assert store.data_version() == before
    with store.transaction():
        store.runs.add(a_run("mine"))
    assert store.data_version() == before
    with rival.transaction():
        rival.runs.add(a_run("theirs"))
    assert store.data_version() != before


def test_a_lock_that_is_not_released_is_an_error_after_the_timeout(store: Store, rival: Store) -> None:
    with store.transaction():
        start = time.monotonic()
        with pytest.raises(StoreUnavailable, match=re.escape(store.name)), rival.transaction():
            pytest.fail("two writers at once")
        assert time.monotonic() - start >= 0.05
    with rival.transaction():
        rival.runs.add(a_run())
    assert store.runs.all() == (a_run(),)


def test_writers_wait_for_each_other(store: Store, place: StoreLocation, clock: FakeClock) -> None:
    """OR-8: several writers lose nothing, and events are numbered in the order of commits."""
    store_run(store)

    def write(writer: int) -> None:
        with closing(Store.open(place, clock=clock)) as mine:
            for turn in range(20):
                with mine.transaction():
                    mine.events.append("run-1", NoticeRaised("info", f"{writer}:{turn}"))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(4)))
    recorded = store.events.since("run-1", 0)
    assert [event.seq for event in recorded] == list(range(1, 81))
    assert len({event.event.text for event in recorded}) == 80


def test_durable_transactions_are_synced_and_others_are_not(tmp_path: Path) -> None:
    levels = []
    with closing(SqliteDriver(tmp_path / "state.db", create=True, timeout_s=1)) as driver:
        connection = Connection(driver)
        for durable in (True, False, True):
            with connection.transaction(durable=durable):
                pass
            levels.append(connection.rows("PRAGMA synchronous")[0][0])
    assert levels == [2, 1, 2]


def test_a_write_that_violates_a_constraint_is_an_error_that_names_it(store: Store) -> None:
    store_run(store)
    with (
        pytest.raises(StoreError, match=r"goal\.run_id, goal\.name|goal_run_id_name_key") as caught,
        store.transaction(),
    ):
        store.goals.add(a_goal(id="another-id"))
    assert store._connection.driver.name in caught.value.what
    assert len(store.goals.for_run("run-1")) == 1


def test_dangling_references_are_refused_at_the_commit_at_the_latest(store: Store) -> None:
    store_run(store)
    for change in (
        lambda: store.actions.add([an_action("orphan", parent_id="nobody")]),
        lambda: store.attempts.open(an_attempt(an_action("nobody"))),
        lambda: store.facts.record("nobody", "a", commit="c", paths=(), evidence=()),
        lambda: store.messages.send("nobody", sender="ada", recipient="bob", body={}),
    ):
        with pytest.raises(StoreError, match=r"(?i)foreign key"), store.transaction():
            change()
    assert store.actions.for_run("run-1") == store.attempts.for_run("run-1") == ()


def test_a_change_of_what_is_missing_is_an_error_that_names_it(store: Store) -> None:
    store_run(store)
    changes = {
        "run": [
            lambda: store.runs.move("nobody", Active()),
            lambda: store.runs.take("nobody", OWNER, expected_fence=0),
            lambda: store.runs.release("nobody", fence=0),
            lambda: store.runs.check("nobody", fence=0),
            lambda: store.runs.configure("nobody", SETTINGS),
            lambda: store.runs.ask("nobody", "stop"),
            lambda: store.runs.control_request("nobody"),
            lambda: store.events.append("nobody", NoticeRaised("info", "hello")),
        ],
        "goal": [
            lambda: store.goals.unmet("nobody"),
            lambda: store.goals.move("nobody", Active()),
            lambda: store.goals.set_summary("nobody", "", was=""),
            lambda: store.goals.supervise("nobody", OWNER, was=None),
        ],
        "action": [
            lambda: store.actions.move("nobody", Running()),
            lambda: store.actions.failures("nobody"),
            lambda: store.actions.reset_failures("nobody"),
        ],
        "attempt": [lambda: store.attempts.end("nobody", outcome="lost")],
        "intent": [lambda: store.intents.settle("nobody", done=True)],
        "inbox item": [lambda: store.inbox.decide("nobody", "approved")],
    }
    for noun, each in changes.items():
        for change in each:
            with pytest.raises(StoreError, match=f"{noun} 'nobody'"), store.transaction():
                change()


def test_a_full_disk_is_an_error_without_partial_writes(path: Path, clock: FakeClock) -> None:
    store = Store.open(path, clock=clock)
    pages = store._connection.rows("PRAGMA page_count")[0][0]
    store._connection.rows(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(StoreUnavailable) as caught, store.transaction():
        store.runs.add(a_run(request="x" * 100_000))
    assert caught.value.fix == snapshot("Free some space, then repeat the command; nothing was changed.")
    assert store.runs.all() == ()
    store.close()


def test_a_corrupt_file_is_an_error(path: Path, clock: FakeClock) -> None:
    with closing(Store.open(path, clock=clock)) as store:
        store_run(store, *(an_action(f"key-{n}", description="x" * 500) for n in range(200)))
    content = bytearray(path.read_bytes())
    content[4096:] = b"\xff" * (len(content) - 4096)
    path.write_bytes(content)
    with pytest.raises(StoreError, match="is corrupt"), closing(Store.open(path, clock=clock)) as store:
        store.actions.for_run("run-1")


def test_wrong_use_of_the_driver_stays_a_programming_error(store: Store) -> None:
    with pytest.raises((sqlite3.ProgrammingError, psycopg.ProgrammingError)):
        store._connection.rows("SELECT :missing")


def test_a_store_belongs_to_its_thread(file_store: Store) -> None:
    with ThreadPoolExecutor(1) as pool, pytest.raises(sqlite3.ProgrammingError, match="thread"):
        pool.submit(file_store.runs.all).result()


def test_a_change_that_finds_its_row_changed_is_refused(store: Store) -> None:
    """BX-8: every move is a compare-and-swap on what was read."""
    store_run(store)
    statement = "UPDATE run SET status = 'active' WHERE id = :id AND status = :was"
    with pytest.raises(StaleFence) as caught, store.transaction():
        store._connection.compare_and_set(statement, "run", "run-1", was="completed")
    assert caught.value.what == snapshot("this process no longer owns run 'run-1': it changed in the meantime")


@pytest.mark.slow
def test_a_killed_process_leaves_the_database_consistent(place: StoreLocation, clock: FakeClock) -> None:
    """BX-8: committed changes stay, others are gone, and the next process can continue."""
    environment = BESIDE_TESTS
    with subprocess.Popen(
        [sys.executable, "-c", WRITE_AND_WAIT, *location_arguments(place)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
    ) as child:
        assert child.stdout.readline() == b"in the middle\n"
        child.send_signal(signal.SIGKILL)
        child.wait(timeout=60)
    with closing(Store.open(place, clock=clock)) as store:
        assert [run.id for run in store.runs.all()] == ["kept"]
        assert store.actions.for_run("lost") == ()
        if isinstance(place, Path):
            assert [row[0] for row in store._connection.rows("PRAGMA integrity_check")] == ["ok"]
        with store.transaction():
            store.runs.add(a_run("next"))
