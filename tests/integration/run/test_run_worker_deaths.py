"""Workers that die in a row: their goal rests and says why, then asks a human; nothing else counts."""

from datetime import timedelta

import msgspec
import pytest
from inline_snapshot import snapshot

from scaffold.core.conversation import AssistantMessage, KeptTurn, Text, ToolCall, UserMessage
from scaffold.core.errors import UsageError
from scaffold.core.states import Blocked, Failed, Paused, Pending, awaited_inbox_id
from scaffold.host.clock import SystemClock
from scaffold.orchestrator.dispatch import queue_attempt, slots_by_goal
from scaffold.orchestrator.user_control.execution_control import request_goal_control, retry_action, retry_goal
from scaffold.plan.failures.worker_deaths import ASK_AFTER, TELL_AFTER, pause_s
from scaffold.run.failures.attempt_end import AttemptEnd, end_attempt
from scaffold.run.failures.worker_losses import LOSSES, MAX_LOST_IN_A_ROW, is_about_deaths
from scaffold.store.database import Store
from scaffold.views.run_json import run_view_json
from scaffold.views.run_view import read_run_view
from scaffold.views.state_labels import goal_reason
from scaffold.views.text_format import local_time
from support.harness import act, goal

DIED = AttemptEnd("lost", "the worker exited with signal 9", died=True)


class Skipping(SystemClock):
    """A clock whose time of day can be moved."""

    def __init__(self):
        self.skipped = timedelta()

    def now(self):
        return super().now() + self.skipped

    def skip(self, seconds):
        self.skipped += timedelta(seconds=seconds)


@pytest.fixture
def clock(harness):
    """The clock of the harness, whose store and context it replaces."""
    clock = Skipping()
    harness.store.close()
    harness.store = Store.open(harness.repo / ".git" / "scaffold" / "state.db", clock=clock)
    harness.context = msgspec.structs.replace(harness.context, store=harness.store, clock=clock)
    harness.clock = clock
    return clock


async def dies(harness, run, key="a", end=DIED):
    end_attempt(harness.store, run, (await harness.queue(run, key)).id, end)


async def dies_often(harness, run, times, *keys):
    """Let workers die one after another, each as soon as its goal may start one."""
    for n in range(times):
        harness.clock.skip(pause_s(harness.goal(run).deaths))
        await dies(harness, run, (keys or ("a",))[n % len(keys or ("a",))])


async def starts(harness, run, key="a"):
    """Return whether an attempt of the action may start; it is not kept."""
    action = harness.action(run, key)
    attempt = await queue_attempt(harness.context, run, action.goal_id, action.id)
    if attempt is not None:
        end_attempt(harness.store, run, attempt.id, AttemptEnd("cancelled", "not now"))
    return attempt is not None


async def test_a_goal_rests_after_each_death_for_longer(harness, clock):
    """SC-16, BX-17: the pauses grow, other goals go on, and no failure is counted."""
    run = await harness.own(goal("g", act("a")), goal("h", act("b")))
    for deaths in range(1, ASK_AFTER):
        await dies(harness, run)
        assert harness.goal(run).deaths == deaths
        clock.skip(pause_s(deaths) - 0.5)
        assert not await starts(harness, run)
        assert set(slots_by_goal(harness.store, run)) == {harness.goal(run, "h").id}
        clock.skip(0.6)
        assert await starts(harness, run)
    assert harness.store.actions.failures(harness.action(run, "a").id) == 0
    assert await starts(harness, run, "b")


async def test_from_the_third_death_on_the_goal_says_that_it_waits_and_until_when(harness, clock):
    """SC-16: in the events, and in what `status` shows as text and as JSON."""
    run = await harness.own(goal("g", act("a")))
    for deaths in range(1, TELL_AFTER + 1):
        assert goal_reason(harness.goal(run), clock.now()) is None
        assert not [text for text in harness.notices(run) if "died" in text]
        clock.skip(pause_s(deaths - 1))
        await dies(harness, run)
    now = harness.goal(run)
    told = f"waits: 3 workers died in a row; it is tried again at {local_time(now.rest.until, clock.now())}"
    assert goal_reason(now, clock.now()) == told
    assert harness.notices(run)[-1].startswith("g waits: 3 ")
    shown = run_view_json(read_run_view(harness.context, run))["goals"][0]
    assert (shown["status"], shown["reason"]) == ("active", told)


async def test_after_many_deaths_a_human_is_asked_once_and_nothing_starts(harness, clock):
    """SC-16, SC-20: not for ever, and no failure of the action."""
    run = await harness.own(goal("g", act("a"), act("other")))
    await dies_often(harness, run, ASK_AFTER)
    (item,) = harness.store.inbox.open_of_run(run.id)
    assert item.text.startswith("6 workers died in a row, the last at a: the worker exited with signal 9")
    assert harness.action(run, "a").state == Blocked(f"waits_for:{item.id}")
    clock.skip(1_000_000)
    assert not await starts(harness, run, "other"), "what kills one worker of a goal may kill the next one"
    assert goal_reason(harness.goal(run), clock.now()) == snapshot("waits for you: 6 workers died in a row")


@pytest.mark.parametrize("further", [False, True])
async def test_three_deaths_at_one_place_ask_a_human_and_name_the_command(harness, clock, further):
    """SC-16, SC-20: the others of the goal go on; whoever comes further each time is tried again."""
    run = await harness.own(goal("g", act("a"), act("other")))
    call = ToolCall("1", "shell", {"command": "./leak"})
    said = UserMessage((Text("go"),)), AssistantMessage((call,), model="m")
    for requests in (1, 2, 3):
        clock.skip(pause_s(harness.goal(run).deaths))
        attempt = await harness.queue(run, "a")
        harness.claim(attempt, "executing")
        turn = KeptTurn(messages=said, begun={"1": "x"}, requests=requests if further else 1, answered=0)
        with harness.store.transaction():
            harness.store.kept_turns.keep(attempt.id, turn)
        end_attempt(harness.store, run, attempt.id, DIED)
    asked = [item.text.partition(": the")[0] for item in harness.store.inbox.open_of_run(run.id)]
    ran = '3 workers died in a row while they ran shell {"command":"./leak"}, the last at a'
    assert asked == ([] if further else [ran])
    clock.skip(pause_s(3))
    assert await starts(harness, run, "other")


async def test_the_answer_of_a_human_starts_it_again_and_reaches_the_next_attempt(harness, clock):
    """SC-16, BX-13"""
    run = await harness.own(goal("g", act("a")))
    await dies_often(harness, run, ASK_AFTER)
    item = awaited_inbox_id(harness.action(run, "a").state)
    with harness.store.transaction():
        harness.store.inbox.decide(item, "answered", answer="use less memory")
    assert (harness.action(run, "a").state, harness.goal(run).deaths) == (Pending(), 0)
    attempt = await harness.queue(run, "a")
    assert "use less memory" in attempt.briefing
    end_attempt(harness.store, run, attempt.id, DIED)
    assert harness.goal(run).deaths == 1, "a new series"


@pytest.mark.slow
@pytest.mark.parametrize("how", ["retry action", "retry goal", "resume goal"])
async def test_a_human_lets_a_goal_go_on_at_once(harness, clock, how):
    """SC-16, SC-20: `scaffold retry` and `scaffold resume GOAL`, whether it rests or asks."""
    run = await harness.own(goal("g", act("a")))
    for deaths in (1, TELL_AFTER, ASK_AFTER):
        await dies_often(harness, run, deaths)
        assert not await starts(harness, run)
        match how:
            case "retry action":
                retry_action(harness.store, run, harness.action(run, "a"))
            case "retry goal":
                retry_goal(harness.store, run, harness.goal(run))
            case "resume goal":
                run = harness.orphan(run)
                await request_goal_control(harness.context, run, harness.goal(run), "resume")
                run = await harness.take(harness.orphan(run))
        assert not harness.store.inbox.open_of_run(run.id)
        assert (harness.goal(run).deaths, harness.goal(run).rest) == (0, None)
        assert await starts(harness, run)


async def test_what_waits_for_nothing_is_not_retried(harness, clock):
    run = await harness.own(goal("g", act("a")))
    for retry, what in ((retry_action, harness.action(run, "a")), (retry_goal, harness.goal(run))):
        with pytest.raises(UsageError, match="not failed"):
            retry(harness.store, run, what)


async def test_an_attempt_that_ends_otherwise_ends_the_series(harness, clock):
    """SC-16: in a row means without anything else in between."""
    outcomes = ("landed", "contract_failed", "executor_failed", "conflict", "timeout")
    run = await harness.own(goal("g", *map(act, "abcde"), *map(act, outcomes)), goal_agents=9, agents=9)
    for key, outcome in zip("abcde", outcomes, strict=True):
        await dies_often(harness, run, 2, key)
        clock.skip(pause_s(2))
        attempt = await harness.queue(run, outcome)
        with harness.store.transaction():
            harness.store.attempts.end(attempt.id, outcome=outcome)
        assert (harness.goal(run).deaths, harness.goal(run).rest) == (0, None), outcome


async def test_what_the_machine_the_owner_or_a_user_ended_is_no_death_and_ends_no_series(harness, clock):
    """SC-16, AL-27: a killed owner, a full disk, a fault of git, a stop, a model that is away."""
    run = await harness.own(goal("g", act("a")))
    await dies_often(harness, run, 2)
    clock.skip(pause_s(2))
    for outcome in ("lost", "cancelled", "unavailable", "budget"):
        await dies(harness, run, end=AttemptEnd(outcome, "not by the work"))
        assert harness.goal(run).deaths == 2, outcome


async def test_workers_that_die_at_the_same_time_are_one_death_of_their_goal(harness, clock):
    """SC-16: whatever killed all of them says nothing about any."""
    run = await harness.own(goal("g", *(act(f"a{n}") for n in range(3))))
    running = [await harness.queue(run, f"a{n}") for n in range(3)]
    for attempt in running:
        end_attempt(harness.store, run, attempt.id, DIED)
    assert harness.goal(run).deaths == 1


async def test_after_some_deaths_one_attempt_at_a_time_shows_whether_workers_still_die(harness, clock):
    """SC-15, SC-16: money is not spent three times to learn one thing."""
    run = await harness.own(goal("g", *(act(f"a{n}") for n in range(3))))
    await dies_often(harness, run, TELL_AFTER, "a0", "a1", "a2")
    clock.skip(pause_s(TELL_AFTER))
    assert slots_by_goal(harness.store, run) == {harness.goal(run).id: 1}


async def test_an_action_whose_workers_die_each_time_waits_although_others_land(harness, clock):
    """SC-16: its goal goes on without it."""
    run = await harness.own(goal("g", act("a"), *(act(f"b{n}") for n in range(ASK_AFTER))))
    for n in range(ASK_AFTER):
        await dies(harness, run)
        clock.skip(pause_s(1))
        end = await harness.queue(run, f"b{n}")
        with harness.store.transaction():
            harness.store.attempts.end(end.id, outcome="landed")
    assert awaited_inbox_id(harness.action(run, "a").state)
    assert harness.goal(run).deaths == 0


@pytest.mark.slow
@pytest.mark.parametrize(("outcome", "how"), LOSSES.items())
async def test_losses_without_end_are_a_question_and_no_failure(harness, outcome, how, clock):
    """SC-20: such as an agent that breaks git in its worktree each time."""
    run = await harness.own(goal("g", act("a")))
    for _ in range(MAX_LOST_IN_A_ROW - 1):
        await dies(harness, run, end=AttemptEnd(outcome, "git is broken"))
    assert isinstance(harness.action(run, "a").state, Pending)
    await dies(harness, run, end=AttemptEnd(outcome, "git is broken"))
    (item,) = harness.store.inbox.open_of_run(run.id)
    assert is_about_deaths(item)
    assert item.text.startswith(f"20 attempts {how} in a row, the last at a: git is broken")
    retry_action(harness.store, run, harness.action(run, "a"))
    await dies(harness, run, end=AttemptEnd(outcome, "git is broken"))
    assert isinstance(harness.action(run, "a").state, Pending), "twenty more before it asks again"


async def loses(harness, run, error, *, permanent=False):
    """Let a worker end its attempt as lost."""
    attempt = await harness.queue(run, "a")
    end_attempt(harness.store, run, attempt.id, AttemptEnd("lost", error, permanent=permanent), fence=attempt.fence)


async def test_three_losses_for_one_reason_fail_the_action_with_it(harness, clock):
    """SC-20: ids and line numbers are no other reason; another reason in between begins anew."""
    run = await harness.own(goal("g", act("a")))
    for error in ("disk broke at 1a2b3c4d5e6f", "disk broke at 6f5e4d3c2b1a", "no memory", "no memory"):
        await loses(harness, run, error)
        assert isinstance(harness.action(run, "a").state, Pending)
    await loses(harness, run, "no memory")
    assert harness.action(run, "a").state == Failed("no memory")


async def test_a_loss_that_nothing_here_can_mend_fails_the_action_at_once(harness, clock):
    """SC-20."""
    run = await harness.own(goal("g", act("a")))
    await loses(harness, run, "the clone is partial. Fetch it.", permanent=True)
    assert harness.action(run, "a").state == Failed("the clone is partial. Fetch it.")


async def test_a_goal_that_its_user_paused_stays_paused_after_a_retry(harness, clock):
    run = await harness.own(goal("g", act("a")))
    await dies_often(harness, run, ASK_AFTER)
    harness.move(harness.goal(run), Paused("set aside by the user"))
    retry_goal(harness.store, run, harness.goal(run))
    assert isinstance(harness.goal(run).state, Paused)
