"""Migrations: a backup first, none under an active run, and the use of one database by different versions."""

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from builders import OWNER, a_run, an_action, an_attempt, store_run, unprivileged
from scaffold.core.errors import StoreError
from scaffold.core.ids import TreeId
from scaffold.core.model import Attempt
from scaffold.core.run_settings import Tier
from scaffold.core.states import Paused, Saved
from scaffold.host.clock import FakeClock
from scaffold.host.identity import own_identity
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


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
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
    earlier = tmp_path / "earlier"
    earlier.mkdir()
    for name in ("0001_initial.sql", "0002_doubts.sql"):
        shutil.copy(MIGRATIONS / name, earlier)
    gate = '{"kind":"test","command":"pytest"}'
    with closing(Store.open(path, clock=clock, migrations=earlier)) as store:
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
        baseline = store.baselines.of_run(a_run().id)
        assert baseline is not None
        (run,) = baseline.runs
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
    earlier = tmp_path / "earlier"
    earlier.mkdir()
    for name in sorted(MIGRATIONS.glob("*.sql"))[:18]:
        shutil.copy(name, earlier)
    fact = """
    INSERT INTO fact (goal_id, assertion, state, commit_sha, paths, evidence, updated_at)
    VALUES (:goal, :name, 'holds', 'c', :paths, '[]', '')
    """
    gate = '{"gate":{"kind":"test","command":"pytest"},"verdict":"pass","base_tests":{"test_old":"removed"}}'
    with closing(Store.open(path, clock=clock, migrations=earlier)) as store:
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
    first = tmp_path / "first"
    first.mkdir()
    shutil.copy(MIGRATIONS / "0001_initial.sql", first)
    verification = '{"commit":"c","results":[],"weak":true,"failed_on_base":[],"gates":[]}'
    with closing(Store.open(path, clock=clock, migrations=first)) as store:
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
    older = tmp_path / "older"
    older.mkdir()
    for each in sorted(MIGRATIONS.glob("*.sql"))[:8]:
        shutil.copy(each, older)
    with closing(Store.open(path, clock=clock, migrations=older)) as store, store.transaction():
        store.runs.add(a_run("a", state=Paused("waits for your go-ahead")))
        store.runs.add(a_run("b", state=Paused("stopped by the user")))
    with closing(Store.open(path, clock=clock)) as store:
        assert [(run.id, run.state) for run in store.runs.all()] == [
            ("b", Paused("stopped by the user")),
            ("a", Saved()),
        ]


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("quick", {"decompose": False, "review": "none", "model": "small", "task_models": False, "questions": 0}),
        (
            "scout",
            {"review": "none", "model": "small", "task_models": False, "questions": 0, "question_gates": True},
        ),
        ("builder", {}),
        ("architect", {"review": "human", "model": "large", "fallback": "medium", "questions": None}),
    ],
)
def test_a_run_keeps_what_the_name_of_its_tier_meant(
    name: str, fields: dict[str, object], path: Path, tmp_path: Path, clock: FakeClock
) -> None:
    """AL-1: schema 27 stores it in fields, and a run that began before ends as it began."""
    older = tmp_path / "older"
    older.mkdir()
    for each in sorted(MIGRATIONS.glob("*.sql"))[:26]:
        shutil.copy(each, older)
    with closing(Store.open(path, clock=clock, migrations=older)) as store, store.transaction():
        store.runs.add(a_run("a"))
    with closing(sqlite3.connect(path)) as raw, raw:
        (settings,) = raw.execute("SELECT settings FROM run").fetchone()
        whole = msgspec.json.decode(settings)
        numbers = {key: whole["tier"][key] for key in ("agents", "iterations", "timeout_min", "threshold")}
        whole["tier"] = {"name": name, **numbers}
        raw.execute("UPDATE run SET settings = ?", (msgspec.json.encode(whole).decode(),))
    with closing(Store.open(path, clock=clock)) as store:
        (run,) = store.runs.all()
    assert run.settings.tier == Tier(name=name, **fields)


def test_a_backup_precedes_a_migration(path: Path, clock: FakeClock, new: Path) -> None:
    """The backup is the database as it was, and opens as one."""
    with closing(Store.open(path, clock=clock)) as store:
        store_run(store, an_action("a"))
    assert [entry.name for entry in path.parent.iterdir()] == ["state.db"]
    Store.open(path, clock=clock, migrations=new).close()
    assert sorted(entry.name for entry in path.parent.iterdir()) == ["state.db", f"state.db.bak-{NOW}"]
    with closing(Store.open(path.with_name(f"state.db.bak-{NOW}"), clock=clock, create=False)) as copy:
        assert _version(copy) == NOW
        assert copy.actions.of_run("run-1") == (an_action("a"),)


def test_a_new_database_needs_no_backup(path: Path, clock: FakeClock, new: Path) -> None:
    Store.open(path, clock=clock, migrations=new).close()
    assert [entry.name for entry in path.parent.iterdir()] == ["state.db"]


def test_without_space_for_a_backup_nothing_is_migrated(path: Path, clock: FakeClock, new: Path) -> None:
    Store.open(path, clock=clock).close()
    (path.parent / f"state.db.bak-{NOW}").mkdir()
    with pytest.raises(StoreError, match="could not be backed up") as caught:
        Store.open(path, clock=clock, migrations=new)
    assert str(path) in caught.value.what
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
    with store.transaction():
        fence = store.runs.take("run-1", own_identity(), expected_fence=0)
    with pytest.raises(StoreError, match="is executing run run-1") as caught:
        Store.open(place, clock=clock, migrations=new)
    assert store.name in caught.value.what
    assert "stop it" in caught.value.fix
    assert _version(store) == NOW
    with store.transaction():
        store.runs.release("run-1", fence=fence)
    with closing(Store.open(place, clock=clock, migrations=new)) as newer:
        assert _version(newer) == NEXT


def test_a_dead_owner_prevents_no_migration(store: Store, place: StoreLocation, clock: FakeClock, new: Path) -> None:
    with store.transaction():
        store.runs.take("run-1", OWNER, expected_fence=0)
    with closing(Store.open(place, clock=clock, migrations=new)) as newer:
        assert _version(newer) == NEXT


def test_an_older_program_reads_a_compatible_newer_database(
    store: Store, place: StoreLocation, clock: FakeClock, new: Path
) -> None:
    Store.open(place, clock=clock, migrations=new).close()
    with closing(Store.open(place, clock=clock, create=False)) as older:
        assert older.runs.latest() == a_run()
        with (
            pytest.raises(StoreError, match=f"schema {NEXT}, this version supports up to {NOW}") as caught,
            older.transaction(),
        ):
            pytest.fail("an older program must not write")
        assert store.name in caught.value.what
    with pytest.raises(StoreError, match="newer scaffold") as caught:
        Store.open(place, clock=clock)
    assert "Use that version" in caught.value.fix


@pytest.mark.parametrize("create", [True, False])
def test_an_older_program_refuses_an_incompatible_newer_database(
    store: Store, place: StoreLocation, clock: FakeClock, breaking: Path, create: bool
) -> None:
    Store.open(place, clock=clock, migrations=breaking).close()
    with pytest.raises(StoreError, match="newer scaffold"):
        Store.open(place, clock=clock, create=create)


@pytest.mark.parametrize("create", [True, False])
def test_a_pre_release_database_is_refused_as_such(
    place: StoreLocation, clock: FakeClock, tmp_path: Path, create: bool
) -> None:
    """Its tables have other names; it is never taken for a newer or a current one, and nothing of it changes."""
    old = tmp_path / "old"
    old.mkdir()
    schema = (MIGRATIONS / "0001_initial.sql").read_text().replace("schema_migration", "schema_version")
    (old / "0001_first.sql").write_text(f"{schema}INSERT INTO schema_version VALUES (9, '', 8);\n")
    driver = open_driver(place, create=True, timeout_s=5)
    with closing(driver):
        connection = Connection(driver)
        driver.make_ready()
        with connection.transaction():
            for statement in (old / "0001_first.sql").read_text().split(";\n"):
                if statement.strip():
                    connection.write(statement)
        tables = driver.tables()
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


def test_a_backup_includes_the_write_ahead_log(path: Path, clock: FakeClock, new: Path) -> None:
    with closing(Store.open(path, clock=clock)) as store:
        store_run(store)
        Store.open(path, clock=clock, migrations=new).close()
        with closing(sqlite3.connect(path.with_name(f"state.db.bak-{NOW}"))) as copy:
            assert copy.execute("SELECT id FROM run").fetchall() == [("run-1",)]
