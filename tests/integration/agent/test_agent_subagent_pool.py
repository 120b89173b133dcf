"""Subagents as real processes: each ends once, and its parent is informed."""

import asyncio
import json
import os
import signal
import sqlite3
from contextlib import ExitStack, closing, contextmanager

import pytest

from integration.agent.fakes import ME, seated
from scaffold.core.conversation import AssistantMessage, Text
from scaffold.core.errors import StoreError
from scaffold.core.model import Usage
from scaffold.host.clock import SystemClock
from scaffold.host.environment import child_environment
from scaffold.host.identity import is_alive, own_identity
from scaffold.host.process.child import start_child
from scaffold.store.user_store import UserStore

REPORTED = {"outcome": "success", "result": "all is well", "error": None}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "home" / "user.db"


@pytest.fixture
async def seat(path):
    with seated(path, most=2) as seat:
        await seat.peers.open()
        yield seat
        await seat.peers.close()


async def spawn(seat, script, **args):
    """Start a subagent and return it as it is stored."""
    said = json.loads((await seat.call("subagent", task=script, **args)).content)
    return named(seat, said["subagent_id"])


def named(seat, name):
    return next(each for each in seat.peers.roster() if each.name == name)


def report(path, subagent, **told):
    """Report as the subagent's own process would, over a connection of its own."""
    with closing(UserStore.open(path, clock=SystemClock())) as store, store.transaction():
        return store.subagents.report(subagent.id, told.pop("outcome"), **told)


async def test_a_subagent_starts_as_soon_as_it_is_requested(seat):
    """RA-11: spawn returns at once with id and status."""
    said = await seat.call("subagent", task="sleep 60")
    assert json.loads(said.content) == {"subagent_id": "sub-1", "status": "running"}
    assert is_alive(named(seat, "sub-1").process)
    assert seat.peers.running == 1


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("kill -9 $$", "its process was killed by signal 9 before it was done"),
        ("echo 'no such thing' >&2; exit 3", "its process ended with exit code 3 before it was done: no such thing"),
        ("exit 0", "its process ended with exit code 0 before it was done"),
    ],
)
async def test_a_dead_subagent_is_a_failed_result_and_its_parent_is_informed_once(seat, script, why):
    """RA-11: status, error and task reach the parent; a dead child is a failed result, never a hang."""
    await spawn(seat, script)
    async with asyncio.timeout(5):
        await seat.peers.arrival()
    ended = named(seat, "sub-1")
    assert (ended.status, ended.error, ended.result) == ("failure", why, None)
    assert seat.inbox() == [{"subagent_id": "sub-1", "status": "failure", "error": why, "task": script}]
    assert ended.ended_at is not None
    assert list((seat.path.parent / "logs").iterdir()) == []


async def test_a_reported_result_is_kept_even_if_the_subagent_is_killed_afterwards(seat):
    """RA-11: success, result and task."""
    subagent = await spawn(seat, "sleep 60")
    assert report(seat.path, subagent, **REPORTED)
    os.killpg(named(seat, "sub-1").process.pid, signal.SIGKILL)
    await seat.peers.arrival()
    assert named(seat, "sub-1").status == "success"
    assert seat.inbox() == [{"subagent_id": "sub-1", "status": "success", "result": "all is well", "task": "sleep 60"}]
    assert not report(seat.path, subagent, outcome="failure", result="too late", error="x")
    assert named(seat, "sub-1").result == "all is well"


async def test_a_process_that_cannot_be_started_is_a_failed_result_at_once(seat):
    seat.staff.able = False
    said = await seat.call("subagent", task="true")
    assert said.failed
    assert json.loads(said.content)["status"] == "failure"
    assert "could not be started" in json.loads(said.content)["error"]
    assert named(seat, "sub-1").status == "failure"


async def test_an_interrupted_start_counts_as_cancelled(seat):
    """RA-19: Ctrl-C while a subagent starts leaves no running process."""
    seat.staff.slow = True
    call = asyncio.create_task(seat.call("subagent", task="true"))
    async with asyncio.timeout(5):
        tick = seat.peers._pool.poller.tick()
        await asyncio.sleep(0)
        call.cancel()
        await seat.peers._pool.poller.past(tick)
    assert named(seat, "sub-1").status == "cancelled"
    assert seat.peers.running == 0


async def test_a_subagent_that_exceeds_its_timeout_is_ended(seat):
    """RA-11: timeout."""
    subagent = await spawn(seat, "sleep 60 & wait", timeout_s=1)
    process = named(seat, subagent.name).process
    await seat.peers.arrival()
    ended = named(seat, "sub-1")
    assert (ended.status, ended.error) == ("timeout", "it was stopped: it took longer than 1 s")
    assert not is_alive(process)


async def test_above_the_limit_no_subagent_starts_and_the_model_learns_what_to_do(seat):
    """RA-11: here the limit is two."""
    for _ in range(2):
        await spawn(seat, "sleep 60")
    said = await seat.call("subagent", task="true")
    assert said.failed
    assert "2 subagents are running (sub-1, sub-2); the limit is 2" in said.content
    assert "subagent_status" in said.content
    os.killpg(named(seat, "sub-1").process.pid, signal.SIGKILL)
    await seat.peers.arrival()
    assert (await spawn(seat, "true")).name == "sub-3"


async def test_an_unknown_model_and_an_empty_task_start_nothing(seat):
    said = await seat.call("subagent", task="true", model="nobody:knows")
    assert (said.failed, "there is no model `nobody:knows`" in said.content) == (True, True)
    assert (await seat.call("subagent", task=" \n")).failed
    assert seat.peers.roster() == ()


async def test_closing_a_session_cancels_its_subagents(path):
    """RA-11: no subagent outlives its session's end."""
    with seated(path) as seat:
        for script in ("sleep 60", "trap '' TERM; sleep 60 & wait; sleep 60"):
            await spawn(seat, script)
        processes = [named(seat, name).process for name in ("sub-1", "sub-2")]
        async with asyncio.timeout(5):
            await seat.peers.close()
        assert [each.status for each in seat.peers.roster()] == ["cancelled", "cancelled"]
        assert [body["status"] for body in seat.inbox()] == ["cancelled", "cancelled"]
        assert not any(map(is_alive, processes))


async def test_subagents_left_by_a_dead_session_are_interrupted_and_reported_at_the_next_start(path):
    """RA-11: a resumed parent learns the end of each subagent, once."""
    with seated(path) as seat:
        store = seat.store
        leftover = await start_child(
            ["sleep", "60"], cwd=path.parent, env=child_environment(os.environ), log=path.parent / "l"
        )
        for number, process in ((1, leftover.identity), (2, None), (3, None)):
            with store.transaction():
                store.conversations.begin(f"{ME}/sub-{number}", cwd="/", model="m", title="t", parent=ME)
                store.subagents.add(
                    f"{ME}/sub-{number}", parent=ME, number=number, task="t", context="", spec="", timeout_s=9
                )
                if process:
                    store.subagents.started(f"{ME}/sub-{number}", process)
        with store.transaction():
            store.subagents.report(f"{ME}/sub-3", "success", result="done", error=None)
        await seat.peers.open()
        await seat.peers.open()
        assert [each.status for each in seat.peers.roster()] == ["failure", "failure", "success"]
        assert [body["status"] for body in seat.inbox()] == ["failure", "failure", "success"]
        assert "interrupted" in seat.peers.roster()[0].error
        assert not is_alive(leftover.identity)
        await leftover.wait()


async def test_a_session_that_could_not_begin_changes_nothing(path):
    """RA-11: what an earlier process left is settled when the session is really resumed."""
    with seated(path) as seat:
        with seat.store.transaction():
            seat.store.conversations.begin(f"{ME}/sub-1", cwd="/", model="m", title="t", parent=ME)
            seat.store.subagents.add(f"{ME}/sub-1", parent=ME, number=1, task="t", context="", spec="", timeout_s=9)
        await seat.peers.close()
        assert named(seat, "sub-1").status == "running"


@contextmanager
def locked(path):
    """Hold the database so that nobody else can write."""
    with closing(sqlite3.connect(path, isolation_level=None)) as holder:
        holder.execute("BEGIN IMMEDIATE")
        yield
        holder.execute("ROLLBACK")


@pytest.mark.parametrize("asks", ["waits", "polls"])
async def test_an_end_that_cannot_be_stored_blocks_no_one_and_is_stored_later(path, asks):
    """RA-11: never a hang; a waiting parent sees the error, and later gets each end once."""
    with seated(path, timeout_s=0.05) as seat:
        await seat.peers.open()
        await spawn(seat, "while ! [ -e go ]; do sleep 0.01; done; exit 7")

        async def wait():
            async with asyncio.timeout(10):
                await (seat.peers.arrival() if asks == "waits" else seat.call("subagent_status", wait=True))

        with locked(path):
            (path.parent / "go").touch()
            with pytest.raises(StoreError, match="locked"):
                await wait()
            assert seat.peers.running == 1
            assert len(seat.warnings) == 1
        await wait()
        with locked(path):
            seat.peers._pool.settle()  # what is written is not written again
        await seat.peers.close()
        assert "exit code 7" in named(seat, "sub-1").error
        assert [body["status"] for body in seat.inbox()] == ["failure"]


async def test_a_failed_start_that_cannot_be_stored_is_settled_at_the_end(path):
    """RA-11: nobody waits for a process that never was."""
    with seated(path, timeout_s=0.05) as seat:
        seat.staff.able = False
        seat.staff.before = lambda: stack.enter_context(locked(path))
        with ExitStack() as stack:
            await seat.call("subagent", task="true")
            assert seat.peers.running == 1
        await seat.peers.close()
        assert "could not be started" in named(seat, "sub-1").error


async def test_usage_of_subagents_is_counted_when_they_end(seat):
    """RA-11: also after a failure; subagents of an earlier process of the session are not counted."""
    store = seat.store
    for script in ("sleep 60", "exit 1"):
        subagent = await spawn(seat, script)
        with store.transaction():
            store.conversations.claim(subagent.id, own_identity())
            used = Usage(output_tokens=5, cost_usd=0.25, requests=1)
            store.conversations.add(subagent.id, AssistantMessage((Text("x"),)), used, me=own_identity())
    await seat.peers.arrival()
    assert seat.peers.used == Usage(output_tokens=5, cost_usd=0.25, requests=1)
    await seat.peers.close()
    assert seat.peers.used == Usage(output_tokens=10, cost_usd=0.5, requests=2)
    with store.transaction():
        store._connection.write("UPDATE subagent SET status = 'running'")
    with seated(seat.path) as again:
        await again.peers.open()
        assert again.peers.running == 0
        assert again.peers.used == Usage()


async def test_two_subagents_run_concurrently_and_one_wait_covers_both(seat):
    """RA-11: status with optional wait; each of the two lets the other go on."""
    await spawn(seat, "while ! [ -e a ]; do sleep 0.01; done; touch b; exit 1")
    await spawn(seat, "touch a; while ! [ -e b ]; do sleep 0.01; done; exit 2")
    said = await seat.call("subagent_status", wait=True, timeout_s=20)
    assert [(each["subagent_id"], each["status"]) for each in json.loads(said.content)["subagents"]] == [
        ("sub-1", "failure"),
        ("sub-2", "failure"),
    ]


async def test_waiting_is_bounded(seat):
    await spawn(seat, "sleep 60")
    async with asyncio.timeout(5):
        said = await seat.call("subagent_status", subagent_id="sub-1", wait=True, timeout_s=0)
    assert json.loads(said.content)["status"] == "running"


@pytest.mark.parametrize("name", ["sub-1", "1", f"{ME}/sub-1", " sub-1 "])
async def test_a_subagent_is_identified_by_name_number_or_whole_id(seat, name):
    await spawn(seat, "sleep 60")
    assert json.loads((await seat.call("subagent_status", subagent_id=name)).content)["subagent_id"] == "sub-1"


async def test_an_unknown_subagent_error_lists_the_existing_ones(seat):
    assert "none was started" in (await seat.call("subagent_status")).content
    await spawn(seat, "sleep 60")
    said = await seat.call("subagent_status", subagent_id="sub-7")
    assert (said.failed, "there are sub-1" in said.content) == (True, True)


async def test_a_long_result_is_complete_in_the_store_and_returned_in_pages(seat):
    subagent = await spawn(seat, "while ! [ -e done ]; do sleep 0.01; done")
    whole = "".join(f"line {number}\n" for number in range(3_000))
    report(seat.path, subagent, outcome="success", result=whole, error=None)
    (seat.path.parent / "done").touch()
    pages, offset = [], 0
    while offset is not None:
        said = await seat.call("subagent_status", subagent_id="1", wait=True, offset=offset)
        pages.append(json.loads(said.content))
        offset = pages[-1].get("next_offset")
    assert "".join(page["result"] for page in pages) == whole
    assert len(pages) == 3
    assert pages[0]["result_chars"] == len(whole)


async def test_a_subagents_conversation_cannot_be_resumed(seat):
    """RA-11: `-c` never resumes a subagent's conversation, even the most recent one."""
    await spawn(seat, "sleep 60")
    store, sub = seat.store, f"{ME}/sub-1"
    with store.transaction():
        store._connection.write("UPDATE conversation SET messages = 1")
    assert [each.id for each in store.conversations.listed()] == [ME]
    assert store.conversations.latest("/shop").id == ME
    assert store.conversations.get(ME[:2]).id == ME
    assert store.conversations.get(sub).id == sub


async def test_subagents_are_deleted_with_their_session(path):
    with seated(path) as seat:
        await spawn(seat, "true")
        await seat.peers.close()
        store = seat.store
        with store.transaction():
            store._connection.write("UPDATE conversation SET owner = NULL")
            store.conversations.forget(ME)
        assert store._connection.rows("SELECT * FROM subagent") == []
        assert store._connection.rows("SELECT * FROM conversation") == []
