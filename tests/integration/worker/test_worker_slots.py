"""A worker that waits for a human gives its slot back, and takes one again before it goes on."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from builders import with_settings
from fakes import RecordingModel, call_entry, cassette_model
from integration.worker.builders import Looks
from integration.worker.test_worker_approvals import DEED, LONG_S, decide
from scaffold.core.conversation import ToolResult
from scaffold.core.states import Paused
from scaffold.host.process_identity import own_identity
from scaffold.llm.cassette_model import CassetteEntry
from scaffold.orchestrator.dispatch import slots_by_goal
from scaffold.run.failures.attempt_end import AttemptEnd, end_attempt
from scaffold.worker.attempt_records import CandidateReady
from support.harness import act, goal, poll_until, scripted_model

ASK = ("ask_human", {"question": "Which word?"})
DONE = CassetteEntry(text="done")


async def begin(harness, *, wait_s=LONG_S, agents=1, **settings):
    plan = goal("g", act("a"), act("b"), act("c"))
    return await harness.own(plan, sandbox="off", inbox_wait_s=wait_s, agents=agents, **settings)


@asynccontextmanager
async def waiting_worker(harness, run, key="a", looks=None):
    """Let a worker ask and wait; yield its task, which has ended at the end."""
    attempt, watch = await harness.queue(run, key), (looks or Looks()).watch
    working = asyncio.create_task(harness.execute(attempt, scripted_model({key: [DEED]}), watch=watch))
    await poll_until(lambda: waits_for(harness, run, key))
    try:
        yield working
        async with asyncio.timeout(LONG_S):
            await working
    finally:
        working.cancel()


def waits_for(harness, run, key):
    return [each.waits_for for each in harness.attempts(run, key) if each.status == "claimed"][-1:] not in ([], [None])


def free(harness, run):
    return sum(slots_by_goal(harness.store, harness.store.runs.get(run.id)).values())


def sit_at(harness, *item_ids):
    with harness.store.transaction():
        harness.store.inbox.ask_at_terminal(item_ids, own_identity())


def open_ids(harness):
    return [item.id for item in harness.store.inbox.open()]


@pytest.mark.slow
async def test_other_work_starts_meanwhile_and_the_answer_waits_for_its_slot(harness):
    """BX-13, SC-15, BX-11: it has no money set aside meanwhile; nothing new starts in its place."""
    run = await begin(harness, budget_usd=1.0)
    looks = Looks()
    async with waiting_worker(harness, run, looks=looks) as working:
        assert (free(harness, run), harness.store.reservations.held(run.id).usd) == (1, 0)
        other = await harness.queue(run, "b")
        decide(harness, open_ids(harness)[0], "approved")
        await looks.two_more(harness, run, "without_slot")
        assert not working.done()
        end_attempt(harness.store, run, other.id, AttemptEnd("lost", "gone"))
        assert free(harness, run) == 0
    assert isinstance(working.result(), CandidateReady)
    assert [each.number for each in harness.attempts(run, "a")] == [1]


async def test_with_one_agent_that_waits_nothing_is_blocked(harness):
    """SC-15: the only slot is free when the answer comes."""
    run = await begin(harness)
    async with waiting_worker(harness, run) as working:
        decide(harness, open_ids(harness)[0], "approved")
    assert isinstance(working.result(), CandidateReady)


@pytest.mark.slow
async def test_more_agents_than_before_let_it_go_on(harness):
    """SC-15: what counts is how many agents the run has now."""
    run, looks = await begin(harness), Looks()
    async with waiting_worker(harness, run, looks=looks) as working:
        await harness.queue(run, "b")
        decide(harness, open_ids(harness)[0], "approved")
        await looks.two_more(harness, run, "without_slot")
        assert not working.done()
        with harness.store.transaction():
            harness.store.runs.configure(run.id, with_settings(run.settings, agents=2))
    assert isinstance(working.result(), CandidateReady)


async def test_when_as_many_wait_as_there_are_agents_another_one_ends_at_once(harness):
    """BX-13, BX-3: its turn is stored, so processes and worktrees do not add up, and other work still starts."""
    run = await begin(harness, allow=("shell:touch",))
    async with waiting_worker(harness, run):
        ending = await harness.work(run, "b", "echo x > b")
        assert ending.outcome == "waiting"
        assert harness.store.kept_turns.is_kept(harness.attempts(run, "b")[0].id)
        assert isinstance(await harness.work(run, "c", "touch c"), CandidateReady)
        decide(harness, open_ids(harness)[0], "approved")
    assert harness.statuses(run) == {"a": "landing", "b": "blocked", "c": "landing"}


@pytest.mark.slow
@pytest.mark.parametrize("what", ["paused", "reached"])
async def test_what_its_goal_does_not_want_now_is_not_waited_for_at_a_terminal(harness, what):
    """BX-13, SC-17: a pause lets running work end, and one that waits for a human does not run."""
    run = await begin(harness, wait_s=0.05)
    (the_goal,) = harness.store.goals.for_run(run.id)
    # It asks at its first look; its time is over when it looks again, and by then the question is at a terminal.
    looks = Looks(before=lambda: looks.decisions == 1 and sit_at(harness, *open_ids(harness)))
    attempt, model = await harness.queue(run, "a"), scripted_model({"a": [DEED]})
    working = asyncio.create_task(harness.execute(attempt, model, watch=looks.watch))
    await poll_until(lambda: looks.decisions > 1)
    await looks.two_more(harness, run, "decisions")
    assert not working.done()
    with harness.store.transaction():
        if what == "paused":
            harness.store.goals.move(the_goal.id, Paused("a break"))
        else:
            wanted = harness.store.goals.unmet(the_goal.id)
            harness.store.facts.record_all(the_goal.id, wanted, commit=run.base_sha, paths=(), evidence=())
    async with asyncio.timeout(LONG_S):
        assert (await working).outcome == "waiting"


@pytest.mark.slow
@pytest.mark.parametrize("second_is_answered", [True, False], ids=["both answered", "one is not"])
async def test_calls_that_wait_at_the_same_time_go_on_together(harness, second_is_answered):
    """BX-13: until all are decided there is no slot, and the turn is stored with none of them run."""
    run = await begin(harness, wait_s=LONG_S, approvals={"file_read": "ask"})
    reads = call_entry(1, *(("read_file", {"path": name}) for name in ("one", "two")))
    model = RecordingModel(cassette_model(reads, call_entry(2, ("write_file", {"path": "a", "content": "x\n"})), DONE))
    attempt, looks = await harness.queue(run, "a"), Looks()
    working = asyncio.create_task(harness.execute(attempt, model, watch=looks.watch))
    await poll_until(lambda: len(open_ids(harness)) == 2)
    first, second = open_ids(harness)
    decide(harness, first, "rejected")
    await looks.two_more(harness, run, "decisions")
    assert not working.done()
    assert free(harness, run) == 1
    assert harness.store.kept_turns.get(attempt.id).results == ()
    if second_is_answered:
        decide(harness, second, "rejected")
        assert isinstance(await working, CandidateReady)
        assert all(isinstance(part, ToolResult) and part.failed for part in model.requests[1].messages[-1].parts)
    else:
        working.cancel()
        await asyncio.wait([working])
        assert harness.store.kept_turns.is_kept(attempt.id)
