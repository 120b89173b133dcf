"""The failure ladder in the store: fingerprints, further attempts, and the question at its end."""

import pytest
from inline_snapshot import snapshot

from scaffold.core.errors import IllegalTransition, UsageError
from scaffold.core.learning import Learning, Triple
from scaffold.core.states import Failed, Pending, Skipped, awaited_inbox_id
from scaffold.git import refs
from scaffold.orchestrator.planning.apply_plan import apply_changes
from scaffold.orchestrator.user_control.execution_control import retry_action
from scaffold.orchestrator.user_control.inbox_decisions import InboxDecision, decide_items
from scaffold.plan.edit.draft import ChangeRejected, UpdateAction
from scaffold.run.failures.attempt_end import AttemptEnd, end_attempt
from scaffold.run.failures.escalation_question import ask_about_failure, given_up_actions
from support.harness import act, goal


async def begin(harness, *actions, **settings):
    given = {"iterations": 1, "planner": True, "replans": 0, "reviewer": None, **settings}
    return await harness.own(goal("g", act("a", check="cat a; false"), *actions), **given)


async def fail(harness, run, *contents):
    """Let attempts at `a` fail, each in a way of its own content."""
    for each in contents:
        await harness.work(run, "a", f"echo '{each}' > a")


def rungs(harness, run):
    return [each.escalation for each in harness.attempts(run, "a")]


def ask(harness, run):
    """Do what the supervisor does at the end of the ladder; return the question."""
    with harness.store.transaction():
        ask_about_failure(harness.store, run, harness.action(run, "a").id)
    (item,) = harness.store.inbox.open_of_run(run.id)
    return item


def answer(harness, item, words):
    decide_items(harness.store, [item.id], InboxDecision(to="answered", words=words))


@pytest.mark.slow
async def test_a_failure_that_recurs_is_told_with_what_was_tried(harness):
    """AL-19, SC-20: the next attempt is to take another approach, and is given what was changed."""
    run = await begin(harness)
    await fail(harness, run, "KeyError: 1", "KeyError: 1")
    attempt = await harness.queue(run, "a")
    assert attempt.alternative
    assert attempt.briefing.partition("\n\n")[0].splitlines() == snapshot(
        [
            (
                "Take a different approach. Attempts 1, 2 failed in the same way: what they did does not work, and "
                "doing it once more will not either. Find out why first; then choose another design, another place "
                "in the code or other means, and say in your last message what you do differently."
            ),
            "What was tried:",
            '- attempt 1 changed a (1 line). Its agent said: "done with a"',
            '- attempt 2 changed a (1 line). Its agent said: "done with a"',
        ]
    )
    assert [each.alternative for each in harness.attempts(run, "a")] == [False, False, True]
    # A lost attempt counts as none, and its successor takes the other approach as well.
    end_attempt(harness.store, run, attempt.id, AttemptEnd("lost", "its worker was killed"))
    assert (await harness.queue(run, "a")).alternative


@pytest.mark.slow
async def test_the_fourth_attempt_needs_something_new(harness):
    """SC-20: another approach that was not asked for yet; the fifth is a human's to grant."""
    run = await begin(harness)
    await fail(harness, run, "KeyError: 1", "OSError: 2", "OSError: 2")
    assert rungs(harness, run) == ["again", "again", "alternative"]
    assert harness.statuses(run) == {"a": "pending"}
    await fail(harness, run, "KeyError: 1")
    assert rungs(harness, run)[-1] == "human"
    assert harness.statuses(run) == {"a": "failed"}
    change = UpdateAction(harness.action(run, "a").key, "pending", "in another way")
    with harness.store.transaction(), pytest.raises(ChangeRejected):
        apply_changes(harness.store, run, [change], now=harness.clock.now())


@pytest.mark.slow
async def test_three_different_failures_are_all_that_an_action_has(harness):
    """SC-20."""
    run = await begin(harness, planner=False)
    await fail(harness, run, "KeyError: 1", "OSError: 2", "TypeError: 3")
    assert rungs(harness, run) == ["again", "again", "failed"]
    assert harness.statuses(run) == {"a": "failed"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("condition", "rung"), [("ZeroDivisionError divided", "learning"), ("a deployment hangs", "failed")]
)
async def test_a_learning_about_the_failure_grants_one_more_attempt(harness, condition, rung):
    """SC-20, AL-19: only one that fits, and that the action was never given."""
    run = await begin(harness, planner=False)
    await fail(harness, run, "KeyError: 1", "TypeError: 2")
    now = harness.clock.now()
    learning = Learning(id="l", triple=Triple(condition, "look at the path"), created_at=now, changed_at=now)
    with harness.store.transaction():
        harness.store.learnings.put(learning)
    await fail(harness, run, "ZeroDivisionError: divided")
    assert rungs(harness, run)[-1] == rung
    if rung == "learning":
        await fail(harness, run, "OSError: 4")
        assert harness.store.learning_uses.for_attempt(harness.attempts(run, "a")[-1].id) == {"l"}
        assert rungs(harness, run)[-1] == "failed"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "state"),
    [
        ("retry use a parser", Pending()),
        ("skip", Skipped("a human skipped it")),
        ("fail: no", Failed("a human gave it up: no")),
    ],
)
async def test_a_human_decides_at_the_end_of_the_ladder(harness, words, state):
    """AL-19, BX-12: with what is known of the attempts; what needs the action waits meanwhile."""
    run = await begin(harness, act("b", needs=["a_done"]))
    await fail(harness, run, "KeyError: 1", "KeyError: 1", "KeyError: 1")
    assert harness.statuses(run) == {"a": "failed", "b": "blocked"}
    item = ask(harness, run)
    assert awaited_inbox_id(harness.action(run, "a").state) == item.id
    assert harness.statuses(run) == {"a": "blocked", "b": "pending"}
    last = harness.attempts(run, "a")[-1]
    assert "attempt 3 (contract_failed, " in item.detail["context"]
    assert refs.rescue_ref(last.id) in item.detail["context"]
    with pytest.raises(UsageError, match="`perhaps`"):
        answer(harness, item, "perhaps")
    answer(harness, item, words)
    action = harness.action(run, "a")
    assert action.state == state
    if words.startswith("retry"):
        assert (harness.store.actions.failures(action.id), action.guidance) == (0, "use a parser")
        assert harness.statuses(run)["b"] == "pending"
    else:
        assert harness.statuses(run)["b"] == "blocked"
        assert not harness.store.actions.unhandled_failures(action.goal_id)
    # The reason of a goal that fails for it names them.
    assert given_up_actions(harness.store, action.goal_id) == (("a",) if words.startswith("fail") else ())
    with pytest.raises(IllegalTransition, match="already answered"):
        answer(harness, item, "fail")


@pytest.mark.slow
async def test_a_retry_answers_the_question(harness):
    """SC-20: a new set of attempts."""
    run = await begin(harness)
    await fail(harness, run, "KeyError: 1", "KeyError: 1", "KeyError: 1")
    item = ask(harness, run)
    retry_action(harness.store, run, harness.action(run, "a"))
    assert harness.statuses(run) == {"a": "pending"}
    assert harness.store.inbox.get(item.id).answer == "retry"
    await fail(harness, run, "KeyError: 1")
    assert rungs(harness, run)[-1] == "again", "what failed before counts no longer"
    with pytest.raises(UsageError, match="not failed"):
        retry_action(harness.store, run, harness.action(run, "a"))
