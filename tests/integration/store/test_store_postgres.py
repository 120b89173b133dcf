"""Behaviour specific to PostgreSQL."""

import sys
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import psycopg
import pytest

from builders import a_goal, a_run, an_action, events_of, location_arguments, store_run
from integration.store.builders import end_together
from integration.store.test_store_opening import OPEN_WHEN_TOLD
from scaffold.core.errors import ForeignState, IllegalTransition, StoreEmpty, StoreError, StoreUnavailable
from scaffold.core.states import Active, Completed
from scaffold.store.database import Store
from scaffold.store.driver.location import PostgresLocation
from scaffold.store.driver.schema import MIGRATIONS
from scaffold.store.run.plan.actions import READY
from support.fake_clock import FakeClock
from support.postgres import new_location

STEPS = len(list(MIGRATIONS.glob("*.sql")))

pytestmark = pytest.mark.postgres


@pytest.fixture
def nowhere(postgres_url: str) -> PostgresLocation:
    """A schema that does not exist."""
    return new_location(postgres_url)


@pytest.fixture
def store(emptied: PostgresLocation, clock: FakeClock) -> Iterator[Store]:
    with closing(Store.open(emptied, clock=clock)) as store:
        yield store


def _do(place: PostgresLocation, *statements: str) -> list[tuple]:
    with psycopg.connect(place.url, autocommit=True) as raw:
        raw.execute(f"SET search_path TO {place.schema}")
        answers = [raw.execute(statement) for statement in statements]
        return answers[-1].fetchall() if answers[-1].description else []


def test_repositories_on_one_server_do_not_see_each_other(
    store: Store, nowhere: PostgresLocation, clock: FakeClock
) -> None:
    """OR-8: several projects at once, each with its own schema."""
    store_run(store, an_action("a"))
    before = store.data_version()
    with closing(Store.open(nowhere, clock=clock)) as theirs:
        with theirs.transaction():
            theirs.runs.add(a_run("run-1", request="something else"))
        assert store.runs.latest() == a_run()
        assert theirs.actions.for_run("run-1") == ()
        assert store.data_version() == before
    with closing(Store.open(nowhere, clock=clock, create=False)) as again:
        assert again.runs.get("run-1").request == "something else"


def test_without_create_a_missing_schema_is_an_error_and_stays_missing(
    nowhere: PostgresLocation, clock: FakeClock
) -> None:
    with pytest.raises(StoreEmpty, match=nowhere.schema):
        Store.open(nowhere, clock=clock, create=False)
    assert _do(nowhere, f"SELECT 1 FROM pg_namespace WHERE nspname = '{nowhere.schema}'") == []


@pytest.mark.slow
def test_another_programs_schema_is_not_changed(nowhere: PostgresLocation, clock: FakeClock) -> None:
    _do(nowhere, f"CREATE SCHEMA {nowhere.schema}", f"CREATE TABLE {nowhere.schema}.bookmark (url TEXT)")
    with pytest.raises(StoreError, match=nowhere.schema):
        Store.open(nowhere, clock=clock)
    tables = _do(nowhere, f"SELECT tablename FROM pg_tables WHERE schemaname = '{nowhere.schema}'")
    assert tables == [("bookmark",)]


def test_an_unreachable_server_is_an_error_without_secrets(clock: FakeClock) -> None:
    shown = {
        "postgresql://ada:secret@127.0.0.1:1/shop": "postgresql://127.0.0.1:1/shop (schema shop): ",
        "postgresql://ada:secret@/shop?host=/nowhere&password=secret": "postgresql:///shop (schema shop): ",
    }
    for url, said in shown.items():
        with pytest.raises(StoreUnavailable) as caught:
            Store.open(PostgresLocation(url, "shop"), clock=clock)
        assert caught.value.what.startswith(said)
        assert "SCAFFOLD_DATABASE_URL" in caught.value.fix
        assert "secret" not in caught.value.what


def test_a_missing_database_is_an_error(postgres_url: str, clock: FakeClock) -> None:
    with pytest.raises(StoreError, match="nobodys"):
        Store.open(PostgresLocation(postgres_url.replace("/postgres?", "/nobodys?"), "shop"), clock=clock)


def test_a_missing_permission_to_create_a_schema_is_reported(nowhere: PostgresLocation, clock: FakeClock) -> None:
    role = f"guest_{nowhere.schema}"
    _do(nowhere, f"CREATE ROLE {role} LOGIN")
    guest = PostgresLocation(nowhere.url.replace("postgres@", f"{role}@"), nowhere.schema)
    with pytest.raises(StoreError, match="denied"):
        Store.open(guest, clock=clock)


def test_an_invalid_schema_name_is_a_programming_error(postgres_url: str, clock: FakeClock) -> None:
    for schema in ("", "Shop", "shop; DROP TABLE run", "1shop", "s" * 64):
        with pytest.raises(ValueError, match="schema name"):
            Store.open(PostgresLocation(postgres_url, schema), clock=clock)


def test_a_server_that_closes_the_connection_is_an_error_once(emptied: PostgresLocation, store: Store) -> None:
    """AL-27: a restarted server costs one step, which is rolled back as a whole."""
    store_run(store)

    def change() -> None:
        with store.transaction():
            store.runs.move("run-1", Active())
            _do(emptied, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE state LIKE 'idle in%'")
            store.runs.move("run-1", Completed())

    with pytest.raises(StoreUnavailable):
        change()
    assert [run.state for run in store.runs.all()] == [a_run().state]
    _do(emptied, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE state = 'idle'")
    before = store.data_version()
    with store.transaction():
        store.runs.move("run-1", Active())
    assert ([run.state for run in store.runs.all()], store.data_version()) == ([Active()], before)


def test_a_transaction_that_lost_its_connection_executes_nothing_more(emptied: PostgresLocation, store: Store) -> None:
    """AL-27: the rest of it would be executed alone, on a new connection."""
    store_run(store)

    def change() -> None:
        with store.transaction():
            _do(emptied, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE state LIKE 'idle in%'")
            with suppress(StoreUnavailable):
                store.runs.move("run-1", Active())
            store.runs.move("run-1", Active())

    with pytest.raises((RuntimeError, StoreUnavailable)):
        change()
    assert [run.state for run in store.runs.all()] == [a_run().state]


@pytest.mark.slow
def test_several_processes_may_create_a_schema_at_once(nowhere: PostgresLocation) -> None:
    """OR-8: the store is shared from the start."""
    assert end_together(*[[sys.executable, "-c", OPEN_WHEN_TOLD, *location_arguments(nowhere)]] * 4) == [0] * 4
    assert _do(nowhere, "SELECT COUNT(*), COUNT(DISTINCT version) FROM schema_history") == [(STEPS, STEPS)]
    assert _do(nowhere, "SELECT COUNT(*) FROM revision") == [(1,)]


def test_durable_transactions_wait_for_the_disk_and_others_do_not(store: Store) -> None:
    levels = []
    for durable in (True, False, True):
        with store.transaction(durable=durable):
            levels.append(store._connection.rows("SHOW synchronous_commit")[0]["synchronous_commit"])
    assert levels == ["on", "off", "on"]


def test_a_failed_transaction_cannot_be_committed(store: Store) -> None:
    """PostgreSQL would roll back silently."""

    def change() -> None:
        with store.transaction():
            store.goals.add(a_goal(run_id="nobody"))

    def change_and_go_on() -> None:
        with store.transaction():
            store.runs.add(a_run())
            with pytest.raises(StoreError, match="foreign key"):
                store.goals.add(a_goal(run_id="nobody"))

    with pytest.raises(StoreError, match="foreign key"):
        change()
    with pytest.raises(RuntimeError, match="cannot be committed"):
        change_and_go_on()
    assert store.runs.all() == ()


def test_an_error_of_our_own_does_not_abort_the_transaction(store: Store) -> None:
    store_run(store)
    with store.transaction():
        with pytest.raises(IllegalTransition):
            store.runs.move("run-1", Completed())
        store.runs.move("run-1", Active())
    assert store.runs.get("run-1").state == Active()
    assert len(events_of(store)) == 1


def test_texts_sort_by_their_bytes(emptied: PostgresLocation, store: Store) -> None:
    store_run(store)
    with store.transaction():
        for assertion in ("b", "B", "a_b", "ab", "ä"):
            store.facts.record("run-1/shop", assertion, commit="c", paths=(), evidence=())
    assert [fact.assertion for fact in store.facts.for_goal("run-1/shop")] == ["B", "a_b", "ab", "b", "ä"]
    columns = "SELECT DISTINCT collation_name FROM information_schema.columns"
    assert _do(emptied, f"{columns} WHERE table_schema = '{emptied.schema}' AND data_type = 'text'") == [("C",)]


def test_a_nul_character_is_stored_as_its_symbol(store: Store) -> None:
    with store.transaction():
        store.runs.add(a_run(request="odd\0text"))
    assert store.runs.latest().request == "odd␀text"


@pytest.mark.slow
def test_finding_ready_actions_uses_the_index_on_a_server_too(emptied: PostgresLocation, store: Store) -> None:
    """SC-10: the partial index answers, not a scan of the goal."""
    store_run(store, *(an_action(f"key-{n}", position=n, preconditions=("late",) if n else ()) for n in range(2000)))
    _do(emptied, "ANALYZE action")
    plan = store._connection.rows(f"EXPLAIN {READY}", goal_id="run-1/shop", limit=3)
    assert any("using action_ready" in row["QUERY PLAN"] for row in plan)


def test_each_user_of_a_schema_adopts_it_once(
    emptied: PostgresLocation, clock: FakeClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RA-14: one user's key does not say that another one trusts what is there."""
    monkeypatch.setenv("SCAFFOLD_HOME", str(tmp_path))
    with pytest.raises(ForeignState, match=emptied.schema):
        Store.open(emptied, clock=clock)
    with closing(Store.open(emptied, clock=clock, create=False, foreign="show")) as store:
        assert store.foreign is not None
        with pytest.raises(StoreUnavailable), store.transaction():
            pytest.fail("it can only be read")
    Store.open(emptied, clock=clock, foreign="adopt").close()
    Store.open(emptied, clock=clock).close()
    monkeypatch.undo()
    Store.open(emptied, clock=clock).close()
