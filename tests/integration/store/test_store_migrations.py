"""Migrations: a backup first, none under an active run, and the use of one database by different versions."""

import re
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from builders import OWNER, a_run, an_action, an_attempt, store_run, unprivileged
from integration.store.builders import older
from scaffold.core.errors import StoreError
from scaffold.core.ids import TreeId
from scaffold.core.model import Attempt
from scaffold.core.run_settings import Tier
from scaffold.core.states import Paused, Saved
from scaffold.host.clock import FakeClock
from scaffold.host.process_identity import own_identity
from scaffold.store.database import Store
from scaffold.store.driver.columns import format_time
from scaffold.store.driver.connection import Connection
from scaffold.store.driver.location import StoreLocation, open_driver
from scaffold.store.driver.schema import MIGRATIONS
from support.postgres import new_location

NOW = len(list(MIGRATIONS.glob("*.sql")))
NEXT = NOW + 1


@pytest.fixture
def new(tmp_path: Path) -> Path:
    """The migrations of a version that is one schema ahead; its last one only adds."""
    folder = Path(shutil.copytree(MIGRATIONS, tmp_path / "new"))
    (folder / f"{NEXT:04}_more.sql").write_text("ALTER TABLE run ADD COLUMN mood TEXT;\n")
    return folder


@pytest.fixture
def breaking(new: Path) -> Path:
    """The same, but its last migration breaks older readers."""
    (new / f"{NEXT:04}_more.sql").write_text(
        f"ALTER TABLE run RENAME COLUMN request TO wanted;\nUPDATE schema_migration SET readable_from = {NEXT};\n"
    )
    return new


@pytest.fixture
def broken(new: Path) -> Path:
    """The same, but its last migration fails midway."""
    (new / f"{NEXT:04}_more.sql").write_text("ALTER TABLE run ADD COLUMN mood TEXT;\nINSERT INTO nowhere VALUES (1);\n")
    return new


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=[pytest.mark.postgres, pytest.mark.slow])])
def place(request: pytest.FixtureRequest, path: Path) -> StoreLocation:
    """A separate location on either database, because its tables will change."""
    return path if request.param == "sqlite" else new_location(request.getfixturevalue("postgres_url"))


@pytest.fixture
def store(place: StoreLocation, clock: FakeClock) -> Iterator[Store]:
    with closing(Store.open(place, clock=clock)) as store:
        store_run(store, an_action("a"))
        yield store


def _version(store: Store) -> int:
    return store._connection.rows("SELECT MAX(version) AS version FROM schema_migration")[0]["version"]


def test_a_newer_program_migrates_the_schema_and_keeps_all_data(
    store: Store, place: StoreLocation, clock: FakeClock, new: Path
) -> None:
    with closing(Store.open(place, clock=clock, migrations=new)) as newer:
        assert _version(newer) == NEXT
        assert newer.runs.latest() == a_run()
        assert newer._connection.rows("SELECT mood FROM run")[0]["mood"] is None
    with closing(Store.open(place, clock=clock, migrations=new)) as again:
        assert _version(again) == NEXT


def test_a_run_keeps_the_baseline_that_was_stored_by_commit(path: Path, tmp_path: Path, clock: FakeClock) -> None:
    """AL-10: schema 3 finds results by tree; what was stored for another commit is found no more."""
    gate = '{"kind":"test","command":"pytest"}'
    with closing(Store.open(path, clock=clock, migrations=older(MIGRATIONS, tmp_path / "older", 2))) as store:
        store_run(store)
        with store.transaction():
            for commit in (a_run().base_sha, "another"):
                store._connection.write(
                    "INSERT INTO gate_run VALUES (:commit, '', 'pytest', 'e', :body, '')",
                    commit=commit,
                    body=f'{{"gate":{gate},"commit":"{commit}","environment":"e","exit_code":0}}',
                )
            store._connection.write(
                "INSERT INTO baseline VALUES (:run, :environment, :gates, '')",
                run=a_run().id,
                environment='{"fingerprint":"e"}',
                gates=f"[{gate}]",
            )
    with closing(Store.open(path, clock=clock)) as store:
        (run,) = store.baselines.of_run(a_run().id).runs
        assert (run.gate.command, run.commit) == ("pytest", a_run().base_sha)
        assert store.baselines.find(run.gate, TreeId("another"), "e") is None


def add_attempt_of_schema_1(store: Store, attempt: Attempt) -> None:
    """Add an attempt of `run-1` to a database that lacks the columns that this program writes."""
    store._connection.write(
        "INSERT INTO attempt (id, run_id, action_id, number, fence, status, phase, executor, model, base_sha, "
        "briefing, input_tokens, cached_input_tokens, output_tokens, requests, queued_at, queued_seq) VALUES "
        "(:id, 'run-1', :action, 1, 1, 'queued', 'workspace', '', '', 'c', '', 0, 0, 0, 0, :at, 1)",
        id=attempt.id,
        action=attempt.action_id,
        at=format_time(attempt.queued_at),
    )


def test_what_landed_before_its_paths_were_indexed_is_still_found_by_them(
    path: Path, tmp_path: Path, clock: FakeClock
) -> None:
    """BX-1: schema 19 finds facts by path and the tests that landed work has settled, also those from before."""
    fact = """
    INSERT INTO fact (goal_id, assertion, state, commit_sha, paths, evidence, updated_at)
    VALUES (:goal, :name, 'holds', 'c', :paths, '[]', '')
    """
    gate = '{"gate":{"kind":"test","command":"pytest"},"verdict":"pass","base_tests":{"test_old":"removed"}}'
    with closing(Store.open(path, clock=clock, migrations=older(MIGRATIONS, tmp_path / "older", 18))) as store:
        store_run(store, action := an_action("a"))
        with store.transaction():
            for name in ("a", "b"):
                store._connection.write(fact, goal=action.goal_id, name=name, paths=f'["{name}.py"]')
            attempt = an_attempt(action)
            add_attempt_of_schema_1(store, attempt)
            store._connection.write(
                "UPDATE attempt SET status = 'ended', outcome = 'landed', verification = :shown WHERE id = :id",
                shown=f'{{"commit":"c","results":[],"gates":[{gate}]}}',
                id=attempt.id,
            )
    with closing(Store.open(path, clock=clock)) as store:
        assert [fact.assertion for fact in store.facts.depending_on(a_run().id, ["b.py", "c.py"])] == ["b"]
        assert store.baselines.settled_tests(a_run().id) == {"test_old"}


def test_what_was_weak_before_reasons_were_stored_stays_weak(path: Path, tmp_path: Path, clock: FakeClock) -> None:
    """BX-5: schema 2 replaces `weak` of facts and verifications by the reasons."""
    verification = '{"commit":"c","results":[],"weak":true,"failed_on_base":[],"gates":[]}'
    with closing(Store.open(path, clock=clock, migrations=older(MIGRATIONS, tmp_path / "older", 1))) as store:
        store_run(store)
        action = an_action("a")
        attempt = an_attempt(action)
        with store.transaction():
            store._connection.write(
                "INSERT INTO action (id, run_id, goal_id, position, key, description, kind, method, role, "
                "preconditions, effects, files, status, unmet, failures, created_at, updated_at) VALUES (:id, 'run-1', "
                "'run-1/shop', 0, 'a', '', 'primitive', 'single', '', '[]', '[]', '[]', 'pending', 0, 0, '', '')",
                id=action.id,
            )
            add_attempt_of_schema_1(store, attempt)
            for assertion, weak in (("a", 1), ("b", 0)):
                store._connection.write(
                    "INSERT INTO fact (goal_id, assertion, state, commit_sha, weak, paths, evidence, updated_at) "
                    "VALUES ('run-1/shop', :assertion, 'holds', 'c', :weak, '[]', '[]', '')",
                    assertion=assertion,
                    weak=weak,
                )
            store._connection.write("UPDATE attempt SET verification = :verification", verification=verification)
            store.events.forget()  # to write them, this program needs columns that schema 1 does not have
    with closing(Store.open(path, clock=clock)) as store:
        assert [fact.strength for fact in store.facts.of_goal("run-1/shop")] == ["weak", "proven"]
        assert store.attempts.get(attempt.id).verification.strength == "weak"


def test_a_run_that_waited_for_a_go_ahead_is_saved_from_now_on(path: Path, tmp_path: Path, clock: FakeClock) -> None:
    """SC-19: schema 9 tells it from a paused one."""
    former = older(MIGRATIONS, tmp_path / "older", 8)
    stopped = Paused("by the user")
    with closing(Store.open(path, clock=clock, migrations=former)) as store, store.transaction():
        store.runs.add(a_run("a", state=Paused("waits for your go-ahead")))
        store.runs.add(a_run("b", state=stopped))
    with closing(Store.open(path, clock=clock)) as store:
        assert [(run.id, run.state) for run in store.runs.all()] == [("b", stopped), ("a", Saved())]


TIERS = {
    "quick": {"decompose": False, "review": "none", "model": "small", "task_models": False, "questions": 0},
    "scout": {"review": "none", "model": "small", "task_models": False, "questions": 0, "question_gates": True},
    "builder": {},
    "architect": {"review": "human", "model": "large", "fallback": "medium", "questions": None},
}


def test_a_run_keeps_what_the_name_of_its_tier_meant(path: Path, tmp_path: Path, clock: FakeClock) -> None:
    """AL-1: schema 27 stores it in fields, and a run that began before ends as it began."""
    former = older(MIGRATIONS, tmp_path / "older", 26)
    with closing(Store.open(path, clock=clock, migrations=former)) as store, store.transaction():
        for name in TIERS:
            store.runs.add(a_run(name))
    with closing(sqlite3.connect(path)) as raw, raw:
        for name, settings in raw.execute("SELECT id, settings FROM run").fetchall():
            whole = msgspec.json.decode(settings)
            numbers = {key: whole["tier"][key] for key in ("agents", "iterations", "timeout_min", "threshold")}
            whole["tier"] = {"name": name, **numbers}
            raw.execute("UPDATE run SET settings = ? WHERE id = ?", (msgspec.json.encode(whole).decode(), name))
    with closing(Store.open(path, clock=clock)) as store:
        tiers = {run.id: run.settings.tier for run in store.runs.all()}
    assert tiers == {name: Tier(name=name, **fields) for name, fields in TIERS.items()}


def test_a_backup_precedes_a_migration(path: Path, clock: FakeClock, new: Path) -> None:
    """The backup is the database as it was, with the write-ahead log, and opens as one; a new one needs none."""
    with closing(Store.open(path, clock=clock)) as store:
        store_run(store, an_action("a"))
        assert not [*path.parent.glob("*.bak-*")]
        Store.open(path, clock=clock, migrations=new).close()
    assert sorted(entry.name for entry in path.parent.iterdir()) == ["state.db", f"state.db.bak-{NOW}"]
    with closing(Store.open(path.with_name(f"state.db.bak-{NOW}"), clock=clock, create=False)) as copy:
        assert _version(copy) == NOW
        assert copy.actions.of_run("run-1") == (an_action("a"),)


def test_without_space_for_a_backup_nothing_is_migrated(path: Path, clock: FakeClock, new: Path) -> None:
    Store.open(path, clock=clock).close()
    (path.parent / f"state.db.bak-{NOW}").mkdir()
    with pytest.raises(StoreError, match=re.escape(str(path))):
        Store.open(path, clock=clock, migrations=new)
    with closing(Store.open(path, clock=clock)) as store:
        assert _version(store) == NOW


def test_a_migration_that_fails_leaves_everything_as_it_was(
    store: Store, place: StoreLocation, clock: FakeClock, broken: Path
) -> None:
    with pytest.raises(Exception, match="nowhere"):
        Store.open(place, clock=clock, migrations=broken)
    assert _version(store) == NOW
    with pytest.raises(Exception, match="mood"):
        store._connection.rows("SELECT mood FROM run")


def test_nothing_is_migrated_under_an_active_run(
    store: Store, place: StoreLocation, clock: FakeClock, new: Path
) -> None:
    """A run whose owner died prevents no migration."""
    with store.transaction():
        fence = store.runs.take("run-1", own_identity(), expected_fence=0)
    with pytest.raises(StoreError, match="run-1") as caught:
        Store.open(place, clock=clock, migrations=new)
    assert store.name in caught.value.what
    assert "stop it" in caught.value.fix
    assert _version(store) == NOW
    with store.transaction():
        store.runs.release("run-1", fence=fence)
        store.runs.take("run-1", OWNER, expected_fence=fence)
    with closing(Store.open(place, clock=clock, migrations=new)) as newer:
        assert _version(newer) == NEXT


def test_an_older_program_reads_a_compatible_newer_database(
    store: Store, place: StoreLocation, clock: FakeClock, new: Path
) -> None:
    Store.open(place, clock=clock, migrations=new).close()
    with closing(Store.open(place, clock=clock, create=False)) as older:
        assert older.runs.latest() == a_run()
        with pytest.raises(StoreError, match=f"{NEXT}.* {NOW}") as caught, older.transaction():
            pytest.fail("an older program must not write")
        assert store.name in caught.value.what
    with pytest.raises(StoreError, match=f"{re.escape(store.name)}.* {NEXT}"):
        Store.open(place, clock=clock)


def test_an_older_program_refuses_an_incompatible_newer_database(
    store: Store, place: StoreLocation, clock: FakeClock, breaking: Path
) -> None:
    Store.open(place, clock=clock, migrations=breaking).close()
    for create in (True, False):
        with pytest.raises(StoreError, match=f"{re.escape(store.name)}.* {NEXT}"):
            Store.open(place, clock=clock, create=create)


def test_a_pre_release_database_is_refused_as_such(place: StoreLocation, clock: FakeClock) -> None:
    """Its tables have other names; it is never taken for a newer or a current one, and nothing of it changes."""
    schema = (MIGRATIONS / "0001_initial.sql").read_text().replace("schema_migration", "schema_version")
    schema += "INSERT INTO schema_version VALUES (9, '', 8);\n"
    with closing(open_driver(place, create=True, timeout_s=5)) as driver:
        connection = Connection(driver)
        driver.make_ready()
        with connection.transaction():
            for statement in filter(str.strip, schema.split(";\n")):
                connection.write(statement)
        tables = driver.tables()
    for create in (True, False):
        with pytest.raises(StoreError, match="pre-release") as caught:
            Store.open(place, clock=clock, create=create)
        assert "Move" in caught.value.fix
    with closing(open_driver(place, create=False, timeout_s=5)) as driver:
        assert driver.tables() == tables


def test_an_old_database_on_a_read_only_medium_is_an_error(public: Path, clock: FakeClock, new: Path) -> None:
    path = public / "state.db"
    Store.open(path, clock=clock).close()
    new = Path(shutil.copytree(new, public / "new"))
    public.chmod(0o555)
    with unprivileged(), pytest.raises(StoreError, match="older scaffold") as caught:
        Store.open(path, clock=clock, create=False, migrations=new)
    assert "writable" in caught.value.fix


def test_migrations_are_numbered_without_gaps() -> None:
    names = sorted(path.name for path in MIGRATIONS.glob("*.sql"))
    assert [int(name[:4]) for name in names] == list(range(1, len(names) + 1))
