"""Questions of a worker's agent: within the tier's budget a human is asked, beyond it the agent decides and says so."""

import pytest
from inline_snapshot import snapshot

from fakes import RecordingModel, call_entry, cassette_model
from integration.worker.test_worker_approvals import carried_out, items
from scaffold.core.model import InboxItem
from scaffold.llm.cassette_model import CassetteEntry
from scaffold.run.failures.escalation_question import FAILED
from support.harness import act, goal


def ask(question, **more):
    return ("ask_human", {"question": question, **more})


async def heard(harness, tier, *calls, files=()):
    """Return what the calls of an agent in this tier answered, one a turn, and the ended attempt."""
    run = await harness.own(goal("g", act("a", files=tuple(files))), sandbox="off", inbox_wait_s=0.05, tier=tier)
    replies = [call_entry(turn, call) for turn, call in enumerate(calls, start=1)]
    model = RecordingModel(cassette_model(*replies, CassetteEntry(text="done")))
    attempt = await harness.queue(run, "a")
    ended = await carried_out(harness, attempt, model)
    answers = [request.messages[-1].parts[0].content for request in model.requests[1:]]
    return run, answers, ended


async def test_without_a_budget_the_agent_decides_and_its_assumption_is_kept(harness):
    """AL-17: no human is asked, and nothing waits."""
    run, answers, ended = await heard(
        harness, "scout", ask("Which word?"), ask("Which word?", assumption="the first one")
    )
    assert answers == snapshot(
        [
            (
                "No human is asked: in the tier scout a human is asked only after 5 failed executions, or about "
                "protected areas. Decide it yourself, in the way that is easiest to change later. Then call "
                "`ask_human` with the same question once more, and say in `assumption` what you assume: the user "
                "reads it."
            ),
            (
                "No human is asked: in the tier scout a human is asked only after 5 failed executions, or about "
                "protected areas. Your assumption is noted, and the user reads it. Go on with it."
            ),
        ]
    )
    assert items(harness) == ()
    (kept,) = harness.store.assumptions.for_run(run.id)
    assert (kept.question, kept.assumed) == ("Which word?", "the first one")
    assert ended.outcome != "waiting"


async def test_a_question_that_is_not_asked_is_told_although_the_agent_says_nothing_of_its_decision(harness):
    """AL-17: the user sees that there was one; a repeated question takes nothing back."""
    run, _, _ = await heard(
        harness, "scout", ask("Which word?"), ask("Which end?", assumption="the left one"), ask("Which end?")
    )
    assert [(each.question, each.assumed) for each in harness.store.assumptions.for_run(run.id)] == [
        ("Which word?", ""),
        ("Which end?", "the left one"),
    ]


async def test_in_a_protected_area_scout_asks(harness):
    """AL-17: the gate opens for what the action declares."""
    _, _, ended = await heard(harness, "scout", ask("Which word?"), files=["auth/login.py"])
    assert ended.outcome == "waiting"
    assert [item.detail["kind"] for item in items(harness)] == ["clarifying"]


async def test_what_the_run_asks_by_itself_is_no_question_of_an_agent(harness):
    """AL-17: a human who decided how to go on after failures is asked as often as before."""
    run = await harness.own(goal("g", act("a")), sandbox="off", inbox_wait_s=0.05, tier="builder", planner=True)
    action = harness.action(run, "a")
    for number in range(3):
        made = InboxItem(
            id=f"own{number}",
            run_id=run.id,
            goal_id=action.goal_id,
            action_id=action.id,
            kind="question",
            text=f"How now {number}?",
            detail={"question": f"How now {number}?", "action": "a", FAILED: 3},
            created_at=harness.clock.now(),
        )
        with harness.store.transaction():
            harness.store.inbox.ask(made)
            harness.store.inbox.decide(made.id, "answered", answer="retry")
    model = RecordingModel(cassette_model(call_entry(1, ask("Which word?")), CassetteEntry(text="done")))
    ended = await carried_out(harness, await harness.queue(run, "a"), model)
    assert ended.outcome == "waiting"


@pytest.mark.parametrize(("tier", "outcome"), [("builder", None), ("architect", "waiting")])
async def test_only_in_architect_an_agent_may_ask_why_something_is_as_it_is(harness, tier, outcome):
    """AL-17."""
    _, answers, ended = await heard(harness, tier, ask("Why is it done this way?", kind="discovering"))
    assert (ended.outcome == "waiting") is (outcome == "waiting")
    assert bool(items(harness)) is (outcome == "waiting")
    assert len(answers) == (outcome is None)


@pytest.mark.slow
async def test_builder_asks_twice_and_an_answered_question_costs_nothing_again(harness):
    """AL-17: the budget is that of the action, over its attempts."""
    run, _, first = await heard(harness, "builder", ask("One?"))
    assert first.outcome == "waiting"
    words = {"One?": "1", "Two?": "2"}
    for _ in words:
        (item,) = harness.store.inbox.open()
        with harness.store.transaction():
            harness.store.inbox.decide(item.id, "answered", answer=words[item.text])
        calls = [ask("One?"), ask("Two?"), ask("Three?"), ask("One?")]
        replies = [call_entry(turn, call) for turn, call in enumerate(calls, start=1)]
        model = RecordingModel(cassette_model(*replies, CassetteEntry(text="done")))
        ended = await carried_out(harness, await harness.queue(run, "a"), model)
    assert ended.outcome != "waiting"
    results = [
        part.content
        for request in model.requests[-1:]
        for each in request.messages
        for part in each.parts
        if hasattr(part, "content")
    ]
    assert results[:2] == ["1", "2"]
    assert "builder allows 2" in results[2]
    assert results[3] == "1"
