"""Prompts of a supervisor's agent: short, and explicit about what they leave out."""

from datetime import UTC, datetime, timedelta

from hypothesis import example, given
from hypothesis import strategies as st
from inline_snapshot import snapshot
from msgspec.structs import replace

from builders import a_goal, an_action, an_attempt
from scaffold.core.model import PlanningTurn, Usage
from scaffold.core.states import Failed
from scaffold.orchestrator.planning.supervisor_prompts import (
    FailedAction,
    GoalContext,
    decompose_prompt,
    is_replan_stuck,
    judge_prompt,
    replan_prompt,
)

THEN = datetime(2030, 1, 1, tzinfo=UTC)
SOONER, LATER = THEN - timedelta(hours=1), THEN + timedelta(hours=1)
BEFORE = PlanningTurn(
    id="t1",
    run_id="run-1",
    goal_id="run-1/shop",
    action_id=None,
    event="replan",
    facts=2,
    outcome="done",
    usage=Usage(),
    started_at=THEN,
    ended_at=THEN,
)
SCHEMA = an_action("schema", effects=("store",), state=Failed("gave up"))


def failure(*errors):
    """Return the failure of an action whose attempts ended like this, the last of them after the replan before."""
    times = [SOONER] * (len(errors) - 1) + [LATER]
    attempts = [
        an_attempt(SCHEMA, number=at, error=error, ended_at=ended)
        for at, (error, ended) in enumerate(zip(errors, times, strict=True), 1)
    ]
    return FailedAction(action=SCHEMA, attempts=tuple(attempts))


def test_a_replan_makes_no_progress_without_a_new_fact_or_a_new_failure():
    """SC-8: numbers and hashes make no difference; an approach without an attempt has not been tried."""
    table = {
        ((failure("no such table 3", "no such table 17"),), BEFORE, 2): True,
        ((failure("lost 1a2b3c4d5e", "lost 9f8e7d6c5b"),), BEFORE, 2): True,
        ((), BEFORE, 2): True,
        ((failure("no such table", "no such column"),), BEFORE, 2): False,
        ((failure("new"),), BEFORE, 2): False,
        ((failure("same", "same"), failure("new")), BEFORE, 2): False,
        ((failure("same", "same"),), BEFORE, 3): False,
        ((failure("same", "same"),), None, 2): False,
        ((failure("same", "same"),), replace(BEFORE, outcome="refused"), 2): False,
    }
    assert {
        (failures, before, facts): is_replan_stuck(failures, before, facts) for failures, before, facts in table
    } == table


def situation(**fields):
    plain = {
        "goal": a_goal(),
        "holding": frozenset(),
        "status_counts": {},
        "actions": (),
        "ready": (),
        "failures": (),
        "turns": (),
    }
    return GoalContext(**plain | fields)


def test_omitted_items_are_counted_with_the_command_that_shows_them():
    """OR-4: names are whole or counted, never cut in two."""
    many = tuple(an_action(f"part-{at}", effects=(f"effect-{at}",)) for at in range(500))
    text = judge_prompt(situation(actions=many, goal=a_goal(desired=tuple(f"effect-{at}" for at in range(500)))), "why")
    assert "more: goap_list_actions" in text
    named = text.split("Desired, not proven yet: ")[1].split(".")[0].split(", ")
    assert named[:2] == ["effect-0", "effect-1"]
    assert named[-1] == f"{500 - len(named) + 1} more (goap_get_goal)"


def test_a_goal_is_described_in_two_sentences():
    """OR-4: the goal in one or two sentences."""
    text = judge_prompt(situation(goal=a_goal(description="Sell things. To people! Not to others. Never.")), "why")
    assert "# Goal: shop\nSell things. To people!\n" in text


def test_a_failure_is_described_with_its_lesson_and_the_approach():
    text = replan_prompt(
        situation(
            failures=(FailedAction(action=replace(SCHEMA, guidance="By hand."), attempts=failure("boom").attempts),)
        ),
        ("store",),
        "`schema` failed permanently",
        still=False,
    )
    assert [line for line in text.splitlines() if "schema [" in line] == snapshot(
        ["- schema [implementation] -> store; 1 attempt; last error: boom Other approach tried: By hand."]
    )
    assert "# Stop" not in text


@example(words="w" * 3_000, names=[f"{at:290}" for at in range(60)], still=True)
@example(words="w " * 1_500, names=[f"name_{at}" for at in range(150)], still=True)
@given(
    words=st.text(max_size=3_000), names=st.lists(st.text(min_size=1, max_size=300), max_size=60), still=st.booleans()
)
def test_a_prompt_stays_short_whatever_the_store_holds(words, names, still):
    """OR-4: no description, name, result or error makes a prompt long."""
    compound = an_action("build", kind="compound", description=words, effects=tuple(names), preconditions=tuple(names))
    actions = tuple(an_action(name, description=words, effects=tuple(names), result=words) for name in names)
    failures = tuple(FailedAction(action=action, attempts=failure(words).attempts) for action in actions[:12])
    now = situation(
        goal=a_goal(description=words, summary=words, desired=tuple(names)),
        actions=actions,
        ready=actions[:10],
        failures=failures,
        turns=(replace(BEFORE, outcome="failed", error=words),) * 20,
        compound=compound,
    )
    for text in (
        decompose_prompt(now, compound),
        replan_prompt(now, names, words, still=still),
        judge_prompt(now, words),
    ):
        assert len(text) < 10_000
