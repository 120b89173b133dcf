"""Runs that need a human: other work continues, then the run pauses; a decision resumes it."""

import asyncio
import sqlite3
from contextlib import closing
from datetime import timedelta

import pytest

from builders import with_settings
from scaffold.core.errors import UsageError
from scaffold.core.events import AttemptPhaseChanged, AttemptWaitChanged
from scaffold.core.states import Active, Cancelled, Completed, Failed, Paused, awaited_inbox_id
from scaffold.host.process_identity import own_identity
from scaffold.orchestrator.dispatch import queue_attempt
from scaffold.orchestrator.owner.run_end import pause_if_waiting
from scaffold.orchestrator.owner.run_lease import take_over_run
from scaffold.orchestrator.owner.run_loop import RunEnding, recover_run_owner
from scaffold.orchestrator.user_control.execution_control import halt_run, retry_action
from scaffold.orchestrator.user_control.open_run import reconfigure_run
from support.harness import act, goal, poll_until
from support.task_engine import TaskEngine

WAITS = RunEnding(state=Paused("waits for a human: 1 item"), cause="waiting")
ASKING = {"sandbox": "off", "inbox_wait_s": 0.05}
LONG = {"sandbox": "off", "inbox_wait_s": 20.0}
COMMAND = "echo x > {}"


def commands(*keys):
    """Return for each action one command that needs a human, all different."""
    return {key: [f"echo x > {key}"] for key in keys}


def decide(harness, to="approved", **how):
    """Decide all open items."""
    with harness.store.transaction():
        for item in harness.store.inbox.open():
            harness.store.inbox.decide(item.id, to, **how)


def item_states(harness):
    return [item.state for item in harness.store.inbox.all()]


@pytest.mark.slow
async def test_a_run_in_which_only_a_human_can_help_pauses_and_continues_after_the_decision(harness):
    """BX-13: nothing is asked twice, and no attempt counts as failed."""
    run = await harness.open_run(goal("g", act("a"), act("b", needs=["a_done"])), **ASKING)
    assert await harness.run_to_end(run, **commands("a", "b")) == WAITS
    assert harness.statuses(run) == {"a": "blocked", "b": "pending"}
    assert (harness.status(run), harness.store.runs.get(run.id).owner) == ("paused", None)
    assert await harness.run_to_end(run, **commands("a", "b")) == WAITS, "undecided, it is put down again at once"
    assert len(harness.attempts(run, "a")) == 1
    decide(harness)
    assert await harness.run_to_end(run, **commands("a", "b")) == WAITS, "now the other one asks"
    decide(harness)
    assert (await harness.run_to_end(run, **commands("a", "b"))).state == Completed()
    assert item_states(harness) == ["approved", "approved"]
    assert [each.outcome for each in harness.attempts(run, "a")] == ["waiting", "landed"]


@pytest.mark.slow
async def test_a_run_whose_question_is_asked_at_a_terminal_waits_for_the_answer(harness):
    """BX-13: although its worker has ended; once the terminal is left, it pauses."""
    run = await harness.open_run(goal("g", act("a"), act("b", needs=["a_done"])), **ASKING)
    assert await harness.run_to_end(run, **commands("a", "b")) == WAITS
    with harness.store.transaction():
        harness.store.inbox.ask_at_terminal([harness.store.inbox.open()[0].id], own_identity())
    looks, terminals = [], harness.store.inbox.terminals
    harness.store.inbox.terminals = lambda run_id: looks.append(harness.status(run)) or terminals(run_id)
    running = asyncio.create_task(harness.run_to_end(run, **commands("a", "b")))
    await poll_until(lambda: looks)
    assert harness.status(run) == "active", "nothing else is left to do, and it has looked who is asked"
    decide(harness)
    assert await running == WAITS, "the second question is asked nowhere"
    assert [each.outcome for each in harness.attempts(run, "a")] == ["waiting", "landed"]
    with harness.store.transaction():
        harness.store.inbox.ask_at_terminal([harness.store.inbox.open()[0].id], own_identity())
    running = asyncio.create_task(harness.run_to_end(run, **commands("a", "b")))
    await poll_until(lambda: harness.status(run) == "active")
    with harness.store.transaction():
        harness.store.inbox.ask_at_terminal([], own_identity())
    assert await running == WAITS


@pytest.mark.slow
async def test_other_rules_withdraw_open_approvals_and_other_settings_do_not(harness):
    """RA-13: whether approval is needed depends on the sandbox and on `yolo`."""
    run = await harness.open_run(goal("g", act("a")), **ASKING)
    assert await harness.run_to_end(run, **commands("a")) == WAITS
    run = harness.store.runs.get(run.id)
    reconfigure_run(harness.context, run, with_settings(run.settings, agents=5))
    assert item_states(harness) == ["open"]
    reconfigure_run(harness.context, harness.store.runs.get(run.id), with_settings(run.settings, agents=5, yolo=True))
    assert item_states(harness) == ["withdrawn"]
    assert (await harness.run_to_end(run, **commands("a"))).state == Completed()


@pytest.mark.slow
async def test_other_work_continues_while_one_action_waits(harness):
    """BX-13: its slot is free, and goals without questions are reached."""
    run = await harness.open_run(
        goal("asks", act("a"), act("c", needs=["a_done"])),
        goal("free", act("b"), act("d", needs=["b_done"])),
        **ASKING,
        agents=1,
        allow=("shell:touch",),
    )
    ending = await harness.run_to_end(run, a=[COMMAND.format("a")], b=["touch b"], d=["touch d"])
    assert ending == WAITS
    assert harness.statuses(run) == {"a": "blocked", "c": "pending", "b": "completed", "d": "completed"}
    assert await harness.landed(run) == ["b", "d"]


@pytest.mark.slow
async def test_other_work_has_the_slots_of_workers_that_wait(harness):
    """BX-13, SC-15: with one agent, all others land first; the one that waited lands with the same attempt."""
    run = await harness.open_run(
        goal("g", *map(act, "abc")), goal("h", act("d")), **LONG, allow=("shell:touch",), agents=1
    )
    turns = {"a": [COMMAND.format("a")], **{key: [f"touch {key}"] for key in "bcd"}}
    run_owner = await harness.recover_owner(run, turns)
    async with asyncio.TaskGroup() as together:
        carried = together.create_task(run_owner.execute())
        await poll_until(lambda: sorted(harness.statuses(run).values()) == ["completed"] * 3 + ["running"])
        decide(harness)
    assert carried.result().state == Completed()
    assert {key: len(harness.attempts(run, key)) for key in "abcd"} == dict.fromkeys("abcd", 1)


@pytest.mark.slow
async def test_workers_that_are_answered_at_once_go_on_one_after_another(harness):
    """SC-15: there is one slot for both."""
    run = await harness.open_run(goal("g", *map(act, "ab")), **LONG, agents=2)
    run_owner = await harness.recover_owner(run, commands("a", "b"))
    async with asyncio.TaskGroup() as together:
        carried = together.create_task(run_owner.execute())
        await poll_until(lambda: len(harness.store.inbox.open()) == 2)
        with harness.store.transaction():
            settings = harness.store.runs.get(run.id).settings
            harness.store.runs.configure(run.id, with_settings(settings, agents=1))
        decide(harness)
    assert carried.result().state == Completed()
    assert [len(harness.attempts(run, key)) for key in "ab"] == [1, 1]
    assert most_slots_held(harness, run) == 1


@pytest.mark.slow
@pytest.mark.parametrize("cause", ["stopped", "cancelled", "paused"])
async def test_a_run_that_ends_while_a_worker_waits_leaves_no_attempt_open(harness, cause):
    """SC-17, BX-13: its work is pinned; a pause waits no longer than a worker whom no terminal asks."""
    run = await harness.open_run(goal("g", *map(act, "ab")), **LONG | {"inbox_wait_s": 1.0}, agents=1)
    run_owner = await harness.recover_owner(run, commands("a", "b"))
    async with asyncio.TaskGroup() as together:
        carried = together.create_task(run_owner.execute())
        await poll_until(lambda: len(harness.store.inbox.open()) == 2)
        with harness.store.transaction():
            harness.store.inbox.ask_at_terminal([each.id for each in harness.store.inbox.open()], own_identity())
        run_owner.request_stop(cause)
    assert carried.result().cause == cause
    assert harness.store.attempts.open_of_run(run.id) == ()
    assert harness.store.attempts.slots(run.id) == {}
    assert item_states(harness) == (["withdrawn"] if cause == "cancelled" else ["open"]) * 2


def most_slots_held(harness, run):
    """Return how many attempts that had waited held a slot at a time, as the events say."""
    held, most = set(), 0
    for recorded in harness.store.events.since(run.id, 0):
        match recorded.event:
            case AttemptWaitChanged(action=action, item=None):
                held.add(action)
            case AttemptWaitChanged(action=action) | AttemptPhaseChanged(action=action, phase="candidate"):
                held.discard(action)
        most = max(most, len(held))
    return most


@pytest.mark.slow
async def test_a_waiting_action_resumes_while_others_still_run(harness):
    """BX-13: a living run notices the decision."""
    run = await harness.open_run(goal("g", act("a"), act("b")), **ASKING, allow=("shell:touch",))
    landed = asyncio.Event()

    async def work(attempt):
        if attempt.action_id == harness.action(run, "b").id:
            await landed.wait()
        await harness.run_attempt(attempt, {"a": [COMMAND.format("a")], "b": ["touch b"]})
        return 0

    run_owner = await recover_run_owner(
        harness.context, take_over_run(harness.context, run.id), TaskEngine(work, harness.supervise)
    )
    async with asyncio.TaskGroup() as together:
        carried = together.create_task(run_owner.execute())
        await poll_until(lambda: harness.statuses(run)["a"] == "blocked")
        decide(harness)
        await poll_until(lambda: harness.statuses(run)["a"] == "completed")
        landed.set()
    assert carried.result().state == Completed()
    assert [each.outcome for each in harness.attempts(run, "a")] == ["waiting", "landed"]


@pytest.mark.slow
async def test_after_a_rejected_command_the_agent_finds_another_way_or_fails(harness):
    """BX-13: the model gets the reason; what it does then counts."""
    run = await harness.open_run(goal("g", act("a")), **ASKING, attempts=1)
    assert await harness.run_to_end(run, **commands("a")) == WAITS
    decide(harness, "rejected", answer="not this")
    ending = await harness.run_to_end(run, **commands("a"))
    assert isinstance(ending.state, Failed)
    assert "not this" in (harness.repo / ".scaffold/logs/g/a.jsonl").read_text()
    assert len(harness.store.inbox.all()) == 1


@pytest.mark.slow
async def test_a_compound_waits_with_its_child(harness):
    """SC-5, BX-13."""
    run = await harness.open_run(
        goal("g", act("phase", kind="compound", effects=("one_done",)), act("one", parent="phase")), **ASKING
    )
    assert await harness.run_to_end(run, **commands("one")) == WAITS
    assert harness.statuses(run) == {"phase": "running", "one": "blocked"}
    decide(harness)
    assert (await harness.run_to_end(run, **commands("one"))).state == Completed()


@pytest.mark.slow
async def test_an_expired_item_is_asked_again(harness):
    """BX-13."""
    run = await harness.open_run(goal("g", act("a")), **ASKING)
    assert await harness.run_to_end(run, **commands("a")) == WAITS
    (item,) = harness.store.inbox.all()
    expire(harness, item.id)
    assert await harness.run_to_end(run, **commands("a")) == WAITS
    assert item_states(harness) == ["expired", "open"]
    assert awaited_inbox_id(harness.action(run, "a").state) == harness.store.inbox.open()[0].id


def expire(harness, item_id):
    """Let the items expire."""
    past = (harness.clock.now() - timedelta(hours=1)).isoformat(timespec="microseconds")
    with closing(sqlite3.connect(harness.repo / ".git/scaffold/state.db")) as raw, raw:
        raw.execute("UPDATE inbox SET expires_at = ? WHERE id = ?", [past, item_id])


async def test_a_cancelled_run_has_no_open_items(harness):
    """BX-13, SC-17: nor can an action be retried that waits for a human."""
    run = await harness.open_run(goal("g", act("a")), **ASKING)
    await harness.run_to_end(run, **commands("a"))
    with pytest.raises(UsageError, match=harness.store.inbox.open()[0].id):
        retry_action(harness.store, run, harness.action(run, "a"))
    assert await halt_run(harness.context, harness.store.runs.get(run.id), "cancel", timeout_s=1) == Cancelled()
    assert harness.statuses(run) == {"a": "cancelled"}
    assert item_states(harness) == ["withdrawn"]


@pytest.mark.slow
async def test_another_failure_neither_blocks_nor_revives_a_waiting_action_and_its_dependents(harness):
    """SC-20, AL-19, BX-13: an action that waits for a human may still provide effects."""
    run = await harness.open_run(
        goal("g", act("a"), act("c", needs=["a_done"]), act("bad", check="false")),
        **ASKING,
        attempts=1,
        agents=1,
        allow=("shell:touch",),
    )
    assert await harness.run_to_end(run, a=[COMMAND.format("a")], bad=["touch bad"]) == WAITS
    assert harness.statuses(run) == {"a": "blocked", "c": "pending", "bad": "failed"}
    retry_action(harness.store, harness.store.runs.get(run.id), harness.action(run, "bad"))
    assert harness.statuses(run) == {"a": "blocked", "c": "pending", "bad": "pending"}


@pytest.mark.slow
async def test_items_of_a_goal_reached_in_another_way_are_withdrawn_while_another_goal_waits(harness):
    """BX-13: the human sees only what is needed; the item is withdrawn with the action."""
    run = await harness.open_run(
        goal("g", act("a", effects=("done",)), act("b", effects=("done",)), wants=["done"]),
        goal("h", act("c")),
        **ASKING,
        agents=1,
        allow=("shell:touch",),
    )
    assert await harness.run_to_end(run, a=[COMMAND.format("a")], b=["touch b"], c=[COMMAND.format("c")]) == WAITS
    assert harness.statuses(run) == {"a": "skipped", "b": "completed", "c": "blocked"}
    assert [item.action_id for item in harness.store.inbox.open()] == [harness.action(run, "c").id]


@pytest.mark.slow
async def test_a_run_pauses_for_a_human_only_while_an_item_is_open(harness):
    """BX-13: in one transaction, so that no decision is lost between the check and the pause."""
    run = await harness.open_run(goal("g", act("a")), **ASKING)
    await harness.run_to_end(run, **commands("a"))
    run_owner = await harness.recover_owner(run, commands("a"))
    decide(harness)
    assert not pause_if_waiting(harness.store, run_owner.run)
    assert (await run_owner.execute()).state == Completed()


@pytest.mark.slow
async def test_a_run_does_not_pause_for_a_human_over_an_attempt_queued_in_the_same_moment(harness):
    """BX-13: other work continues, also when its supervisor queues it just before the pause."""
    run = await harness.open_run(goal("g", act("a")), goal("h", act("b")), **ASKING)
    await harness.run_to_end(run, **commands("a", "b"))
    run_owner = await harness.recover_owner(run, commands("a", "b"))
    run_owner._activate_run()
    (of_b,) = (item for item in harness.store.inbox.open() if item.action_id == harness.action(run, "b").id)
    with harness.store.transaction():
        harness.store.inbox.decide(of_b.id, "approved")
    action = harness.action(run, "b")
    assert await queue_attempt(harness.context, run_owner.run, action.goal_id, action.id)
    assert not pause_if_waiting(harness.store, run_owner.run)
    assert isinstance(harness.store.runs.get(run.id).state, Active)


async def test_a_run_stopped_while_it_pauses_is_released(harness):
    """SC-17: the signal comes when it is paused already."""
    run = await harness.open_run(goal("g", act("a")), **ASKING)
    await harness.run_to_end(run, **commands("a"))
    run_owner = await harness.recover_owner(run, commands("a"))
    run_owner._activate_run()
    assert pause_if_waiting(harness.store, run_owner.run)
    run_owner.request_stop("stopped")
    assert await run_owner._end_run() == RunEnding(state=WAITS.state, cause="stopped")
    assert harness.store.runs.get(run.id).owner is None
