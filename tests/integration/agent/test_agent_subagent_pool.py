"""Subagents as real processes: each ends once, and its parent is informed."""

import asyncio
import json
import os
import signal
import sqlite3
from contextlib import ExitStack, closing, contextmanager

import pytest
from inline_snapshot import snapshot

from integration.agent.fakes import ME, parent_session
from scaffold.core.conversation import AssistantMessage, Text
from scaffold.core.errors import StoreError
from scaffold.core.model import Usage
from scaffold.host.child_environment import child_environment
from scaffold.host.clock import SystemClock
from scaffold.host.process.child import start_child
from scaffold.host.process_identity import is_alive, own_identity
from scaffold.store.user_store import UserStore

REPORTED = {"outcome": "success", "result": "all is well", "error": None}


@pytest.fixture
async def parent(path):
    with parent_session(path, most=2) as parent:
        await parent.peers.open()
        yield parent
        await parent.peers.close()


async def spawn(parent, script, **args):
    """Start a subagent and return it as it is stored."""
    said = json.loads((await parent.call("subagent", task=script, **args)).content)
    return named(parent, said["subagent_id"])


def named(parent, name):
    return next(each for each in parent.peers.subagents() if each.name == name)


def report(path, subagent, **fields):
    """Report as the subagent's own process would, over a connection of its own."""
    with closing(UserStore.open(path, clock=SystemClock())) as store, store.transaction():
        return store.subagents.report(subagent.id, fields.pop("outcome"), **fields)


async def test_a_subagent_starts_as_soon_as_it_is_requested(parent):
    """RA-11: spawn returns at once with id and status."""
    said = await parent.call("subagent", task="sleep 60")
    assert json.loads(said.content) == {"subagent_id": "sub-1", "status": "running"}
    assert is_alive(named(parent, "sub-1").process)
    assert parent.peers.running == 1


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("kill -9 $$", snapshot("its process was killed by signal 9 before it finished")),
        (
            "echo 'no such thing' >&2; exit 3",
            snapshot("its process ended with exit code 3 before it finished: no such thing"),
        ),
        ("exit 0", snapshot("its process ended with exit code 0 before it finished")),
    ],
)
async def test_a_dead_subagent_is_a_failed_result_and_its_parent_is_informed_once(parent, script, why):
    """RA-11: status, error and task reach the parent; a dead child is a failed result, never a hang."""
    await spawn(parent, script)
    async with asyncio.timeout(5):
        await parent.peers.arrival()
    ended = named(parent, "sub-1")
    assert (ended.status, ended.result) == ("failure", None)
    assert ended.error == why
    assert parent.inbox() == [{"subagent_id": "sub-1", "status": "failure", "error": ended.error, "task": script}]
    assert ended.ended_at is not None
    assert list((parent.path.parent / "logs").iterdir()) == []


async def test_a_reported_result_is_kept_even_if_the_subagent_is_killed_afterwards(parent):
    """RA-11: success, result and task."""
    subagent = await spawn(parent, "sleep 60")
    assert report(parent.path, subagent, **REPORTED)
    os.killpg(named(parent, "sub-1").process.pid, signal.SIGKILL)
    await parent.peers.arrival()
    assert named(parent, "sub-1").status == "success"
    assert parent.inbox() == [
        {"subagent_id": "sub-1", "status": "success", "result": "all is well", "task": "sleep 60"}
    ]
    assert not report(parent.path, subagent, outcome="failure", result="too late", error="x")
    assert named(parent, "sub-1").result == "all is well"


async def test_a_process_that_cannot_be_started_is_a_failed_result_at_once(parent):
    parent.starter.able = False
    said = await parent.call("subagent", task="true")
    assert said.failed
    assert json.loads(said.content)["status"] == "failure"
    assert "Resource temporarily unavailable" in json.loads(said.content)["error"]
    assert named(parent, "sub-1").status == "failure"


async def test_an_interrupted_start_counts_as_cancelled(parent):
    """RA-19: Ctrl-C while a subagent starts leaves no running process."""
    parent.starter.slow = True
    call = asyncio.create_task(parent.call("subagent", task="true"))
    async with asyncio.timeout(5):
        tick = parent.peers._pool.poller.tick()
        await asyncio.sleep(0)
        call.cancel()
        await parent.peers._pool.poller.past(tick)
    assert named(parent, "sub-1").status == "cancelled"
    assert parent.peers.running == 0


@pytest.mark.slow
async def test_a_subagent_that_exceeds_its_timeout_is_ended(parent):
    """RA-11: timeout."""
    subagent = await spawn(parent, "sleep 60 & wait", timeout_s=1)
    process = named(parent, subagent.name).process
    await parent.peers.arrival()
    ended = named(parent, "sub-1")
    assert (ended.status, ended.error) == snapshot(("timeout", "it was stopped: it took longer than 1 s"))
    assert not is_alive(process)


async def test_above_the_limit_no_subagent_starts_and_the_model_learns_what_to_do(parent):
    """RA-11: here the limit is two."""
    for _ in range(2):
        await spawn(parent, "sleep 60")
    said = await parent.call("subagent", task="true")
    assert said.failed
    assert ("sub-1, sub-2" in said.content, "subagent_status" in said.content) == (True, True)
    os.killpg(named(parent, "sub-1").process.pid, signal.SIGKILL)
    await parent.peers.arrival()
    assert (await spawn(parent, "true")).name == "sub-3"


async def test_an_unknown_model_and_an_empty_task_start_nothing(parent):
    said = await parent.call("subagent", task="true", model="nobody:knows")
    assert (said.failed, "`nobody:knows`" in said.content) == (True, True)
    assert (await parent.call("subagent", task=" \n")).failed
    assert parent.peers.subagents() == ()


@pytest.mark.slow
async def test_closing_a_session_cancels_its_subagents(path):
    """RA-11: no subagent outlives its session's end."""
    with parent_session(path) as parent:
        for script in ("sleep 60", "trap '' TERM; sleep 60 & wait; sleep 60"):
            await spawn(parent, script)
        processes = [named(parent, name).process for name in ("sub-1", "sub-2")]
        async with asyncio.timeout(5):
            await parent.peers.close()
        assert [each.status for each in parent.peers.subagents()] == ["cancelled", "cancelled"]
        assert [body["status"] for body in parent.inbox()] == ["cancelled", "cancelled"]
        assert not any(map(is_alive, processes))


async def test_subagents_left_by_a_dead_session_are_interrupted_and_reported_at_the_next_start(path):
    """RA-11: a resumed parent learns the end of each subagent, once."""
    with parent_session(path) as parent:
        store = parent.store
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
        await parent.peers.open()
        await parent.peers.open()
        assert [each.status for each in parent.peers.subagents()] == ["failure", "failure", "success"]
        assert [body["status"] for body in parent.inbox()] == ["failure", "failure", "success"]
        assert "interrupted" in parent.peers.subagents()[0].error
        assert not is_alive(leftover.identity)
        await leftover.wait()


async def test_a_session_that_could_not_begin_changes_nothing(path):
    """RA-11: what an earlier process left is settled when the session is really resumed."""
    with parent_session(path) as parent:
        with parent.store.transaction():
            parent.store.conversations.begin(f"{ME}/sub-1", cwd="/", model="m", title="t", parent=ME)
            parent.store.subagents.add(f"{ME}/sub-1", parent=ME, number=1, task="t", context="", spec="", timeout_s=9)
        await parent.peers.close()
        assert named(parent, "sub-1").status == "running"


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
    with parent_session(path, timeout_s=0.05) as parent:
        await parent.peers.open()
        await spawn(parent, "while ! [ -e go ]; do sleep 0.01; done; exit 7")

        async def wait():
            async with asyncio.timeout(10):
                await (parent.peers.arrival() if asks == "waits" else parent.call("subagent_status", wait=True))

        with locked(path):
            (path.parent / "go").touch()
            with pytest.raises(StoreError, match="locked"):
                await wait()
            assert parent.peers.running == 1
            assert len(parent.warnings) == 1
        await wait()
        with locked(path):
            parent.peers._pool.settle()  # what is written is not written again
        await parent.peers.close()
        assert "exit code 7" in named(parent, "sub-1").error
        assert [body["status"] for body in parent.inbox()] == ["failure"]


async def test_a_failed_start_that_cannot_be_stored_is_settled_at_the_end(path):
    """RA-11: nothing waits for a process that never started."""
    with parent_session(path, timeout_s=0.05) as parent:
        parent.starter.able = False
        parent.starter.before = lambda: stack.enter_context(locked(path))
        with ExitStack() as stack:
            await parent.call("subagent", task="true")
            assert parent.peers.running == 1
        await parent.peers.close()
        assert "Resource temporarily unavailable" in named(parent, "sub-1").error


async def test_usage_of_subagents_is_counted_when_they_end(parent):
    """RA-11: also after a failure; subagents of an earlier process of the session are not counted."""
    store = parent.store
    for script in ("sleep 60", "exit 1"):
        subagent = await spawn(parent, script)
        with store.transaction():
            store.conversations.claim(subagent.id, own_identity())
            used = Usage(output_tokens=5, cost_usd=0.25, requests=1)
            store.conversations.add(subagent.id, AssistantMessage((Text("x"),)), used, me=own_identity())
    await parent.peers.arrival()
    assert parent.peers.used == Usage(output_tokens=5, cost_usd=0.25, requests=1)
    await parent.peers.close()
    assert parent.peers.used == Usage(output_tokens=10, cost_usd=0.5, requests=2)
    with store.transaction():
        store._connection.write("UPDATE subagent SET status = 'running'")
    with parent_session(parent.path) as again:
        await again.peers.open()
        assert again.peers.running == 0
        assert again.peers.used == Usage()


async def test_two_subagents_run_concurrently_and_one_wait_covers_both(parent):
    """RA-11: status with optional wait; each of the two lets the other go on."""
    await spawn(parent, "while ! [ -e a ]; do sleep 0.01; done; touch b; exit 1")
    await spawn(parent, "touch a; while ! [ -e b ]; do sleep 0.01; done; exit 2")
    said = await parent.call("subagent_status", wait=True, timeout_s=20)
    assert [(each["subagent_id"], each["status"]) for each in json.loads(said.content)["subagents"]] == [
        ("sub-1", "failure"),
        ("sub-2", "failure"),
    ]


async def test_waiting_is_bounded(parent):
    await spawn(parent, "sleep 60")
    async with asyncio.timeout(5):
        said = await parent.call("subagent_status", subagent_id="sub-1", wait=True, timeout_s=0)
    assert json.loads(said.content)["status"] == "running"


async def test_a_subagent_is_identified_by_name_number_or_whole_id(parent):
    await spawn(parent, "sleep 60")
    names = ["sub-1", "1", f"{ME}/sub-1", " sub-1 "]
    said = [json.loads((await parent.call("subagent_status", subagent_id=name)).content) for name in names]
    assert [each["subagent_id"] for each in said] == ["sub-1"] * 4


async def test_an_unknown_subagent_error_lists_the_existing_ones(parent):
    assert (await parent.call("subagent_status")).failed
    await spawn(parent, "sleep 60")
    said = await parent.call("subagent_status", subagent_id="sub-7")
    assert (said.failed, "sub-1" in said.content) == (True, True)


async def test_a_long_result_is_complete_in_the_store_and_returned_in_pages(parent):
    subagent = await spawn(parent, "while ! [ -e done ]; do sleep 0.01; done")
    whole = "".join(f"line {number}\n" for number in range(3_000))
    report(parent.path, subagent, outcome="success", result=whole, error=None)
    (parent.path.parent / "done").touch()
    pages, offset = [], 0
    while offset is not None:
        said = await parent.call("subagent_status", subagent_id="1", wait=True, offset=offset)
        pages.append(json.loads(said.content))
        offset = pages[-1].get("next_offset")
    assert "".join(page["result"] for page in pages) == whole
    assert len(pages) == 3
    assert pages[0]["result_chars"] == len(whole)


async def test_a_subagents_conversation_cannot_be_resumed(parent):
    """RA-11: `-c` never resumes a subagent's conversation, even the most recent one."""
    await spawn(parent, "sleep 60")
    store, sub = parent.store, f"{ME}/sub-1"
    with store.transaction():
        store._connection.write("UPDATE conversation SET messages = 1")
    assert [each.id for each in store.conversations.listed()] == [ME]
    assert store.conversations.latest("/shop").id == ME
    assert store.conversations.get(ME[:2]).id == ME
    assert store.conversations.get(sub).id == sub


async def test_subagents_are_deleted_with_their_session(path):
    with parent_session(path) as parent:
        await spawn(parent, "true")
        await parent.peers.close()
        store = parent.store
        with store.transaction():
            store._connection.write("UPDATE conversation SET owner = NULL")
            store.conversations.forget(ME)
        assert store._connection.rows("SELECT * FROM subagent") == []
        assert store._connection.rows("SELECT * FROM conversation") == []
