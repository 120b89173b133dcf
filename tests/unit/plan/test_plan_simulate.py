"""Simulated runs of plans small enough to follow by hand."""

import pytest
from inline_snapshot import snapshot
from msgspec.structs import fields, replace

from scaffold.core.model import Goal
from scaffold.core.plan import Plan
from scaffold.core.run_settings import RunLimits
from scaffold.plan.decide import Replan
from scaffold.plan.progress import PlanProgress
from scaffold.plan.simulation.simulated_goal import WORKER_CAP, GoalSimulator
from scaffold.plan.simulation.simulator import (
    MAX_ATTEMPTS,
    AttemptTiming,
    DrawnAttempt,
    SimulatedAttempt,
    draw_attempts,
    simulate,
)
from support.plans import action, goal, independent, plan

EVEN = AttemptTiming(mean_s=100, spread=0, landing_s=10)


def times(simulation):
    return {action.key: [(a.start_s, a.end_s) for a in action.attempts] for action in simulation.actions}


def statuses(simulation):
    return {action.key: action.status for action in simulation.actions}


CHAIN = plan("b", action("two", "a", "b"), action("one", gives="a"))


def test_an_action_begins_when_its_preconditions_have_landed():
    simulation = simulate(CHAIN, pace=EVEN)
    assert times(simulation) == {"one": [(0, 100)], "two": [(110, 210)]}
    assert simulation.landings == ("one", "two")
    assert (
        simulation.makespan_s,
        simulation.bound_s,
        all(goal.status == "completed" for goal in simulation.goals),
    ) == (220, 200.0, True)
    assert [action.landed_s for action in simulation.actions] == [220, 110]


def test_agents_work_in_parallel_and_candidates_land_one_after_another():
    simulation = simulate(Plan(goals=(independent(2),)), agents=2, pace=EVEN)
    assert times(simulation) == {"g0": [(0, 100)], "g1": [(0, 100)]}
    assert [action.landed_s for action in simulation.actions] == [110, 120]
    assert simulation.utilization == round(200 / 240, 4)
    assert times(simulate(Plan(goals=(independent(2),)), agents=1, pace=EVEN))["g1"] == [(100, 200)]


def test_at_most_three_agents_work_on_a_goal_and_goals_share_all_agents():
    """OR-3: the caps are those of a run."""
    simulation = simulate(Plan(goals=(independent(4), independent(4, "h"))), agents=5, pace=EVEN)
    starts = {key: spans[0][0] for key, spans in times(simulation).items()}
    assert [key for key, start in starts.items() if start == 0] == ["g0", "g1", "g2", "h0", "h1"]
    assert simulation.bound_s == 160.0


def test_caps_and_attempts_are_those_of_a_real_run():
    assert RunLimits().attempts == MAX_ATTEMPTS
    assert {field.name: field.default for field in fields(Goal)}["worker_cap"] == WORKER_CAP
    assert RunLimits().goal_agents == WORKER_CAP


def test_a_compound_takes_no_time_and_its_children_wait_for_it():
    """SC-5."""
    family = plan(
        "c",
        action("pre", gives="a"),
        action("p", "a", "b", kind="compound", parent=None),
        action("p/1", gives="b", parent="p"),
        action("post", "b", "c"),
    )
    simulation = simulate(family, pace=EVEN)
    assert times(simulation) == {"pre": [(0, 100)], "p": [], "p/1": [(110, 210)], "post": [(220, 320)]}
    assert set(statuses(simulation).values()) == {"completed"}


def test_a_compound_without_children_counts_as_one_action():
    assert times(simulate(plan("a", action("c", gives="a", kind="compound")), pace=EVEN)) == {"c": [(0, 100)]}


def test_unneeded_actions_are_skipped_when_the_goal_is_reached():
    """SC-3."""
    extra = (
        action("late", "a", "z"),
        action("open", "z", "y", kind="compound"),
        action("kid", gives="y", parent="open"),
    )
    simulation = simulate(plan("a", action("one", gives="a"), *extra), pace=EVEN)
    assert statuses(simulation) == {"one": "completed", "late": "skipped", "open": "skipped", "kid": "skipped"}
    assert simulation.makespan_s == 110


def test_started_compounds_end_with_their_goal():
    begun = (
        action("p", "", "x", kind="compound"),
        action("p/1", "a", "x", parent="p"),
        action("q", "", "a", kind="compound"),
        action("q/1", "", "a", parent="q"),
        action("q/2", "a", "w", parent="q"),
    )
    simulation = simulate(plan("a", *begun), agents=1, pace=EVEN)
    skipped, completed = dict.fromkeys(("p", "p/1", "q/2"), "skipped"), dict.fromkeys(("q", "q/1"), "completed")
    assert statuses(simulation) == skipped | completed


def test_after_three_failures_an_action_fails_and_blocks_its_dependents():
    """SC-4: transitively."""
    chain = plan("c", action("one", gives="a"), action("two", "a", "b"), action("three", "b", "c"))
    simulation = simulate(chain, failure_rate=1.0, pace=EVEN)
    assert times(simulation) == {"one": [(0, 100), (100, 200), (200, 300)], "two": [], "three": []}
    assert statuses(simulation) == {"one": "failed", "two": "blocked", "three": "blocked"}
    (end,) = simulation.goals
    assert (end.status, end.ended_s) == ("failed", 300)
    assert end.reason == snapshot("`c` cannot be reached: `one` failed permanently")
    assert (
        all(goal.status == "completed" for goal in simulation.goals),
        simulation.landings,
        simulation.makespan_s,
    ) == (False, (), 300)
    alone = simulate(plan("x", action("alone", gives="x")), pace=EVEN, failure_rate=1.0)
    assert statuses(alone) == {"alone": "failed"}


def test_a_compound_whose_child_failed_fails_with_it():
    """SC-5."""
    family = plan(
        "a b", action("p", gives="a", kind="compound"), action("p/1", gives="a", parent="p"), action("q", "a", "b")
    )
    simulation = simulate(family, failure_rate=1.0, pace=EVEN)
    assert statuses(simulation) == {"p": "failed", "p/1": "failed", "q": "blocked"}


def test_a_failed_attempt_is_followed_by_another():
    seed = next(seed for seed in range(100) if [t.succeeds for t in trials(seed)["one"]][:2] == [False, True])
    simulation = simulate(plan("a", action("one", gives="a")), seed=seed, failure_rate=0.5, pace=EVEN)
    assert simulation.actions[0].attempts == (
        SimulatedAttempt(start_s=0, end_s=100, succeeded=False),
        SimulatedAttempt(start_s=100, end_s=200, succeeded=True),
    )


def trials(seed, *, rate=0.5, pace=EVEN):
    return draw_attempts(plan("a", action("one", gives="a"), action("two")), seed=seed, failure_rate=rate, pace=pace)


def test_results_depend_only_on_the_seed_on_every_platform():
    pace = AttemptTiming(mean_s=100, spread=0.5)
    assert trials(7, pace=pace) == {
        "one": (DrawnAttempt(82, succeeds=False), DrawnAttempt(115, succeeds=False), DrawnAttempt(104, succeeds=False)),
        "two": (DrawnAttempt(56, succeeds=True), DrawnAttempt(54, succeeds=False), DrawnAttempt(57, succeeds=False)),
    }
    assert trials(8, pace=pace) != trials(7, pace=pace)


def test_attempts_take_the_configured_time_and_at_least_a_second():
    spans = {
        trial.duration_s
        for seed in range(200)
        for each in trials(seed, pace=AttemptTiming(mean_s=4, spread=0.5)).values()
        for trial in each
    }
    assert spans == {2, 3, 4, 5, 6}
    assert trials(0, pace=AttemptTiming(mean_s=0))["one"][0].duration_s == 1


def test_the_failure_rate_ranges_from_never_to_always():
    for rate, outcome in ((0.0, True), (1.0, False)):
        assert {trial.succeeds for seed in range(50) for trial in trials(seed, rate=rate)["one"]} == {outcome}


def test_a_plan_continues_from_its_current_state():
    """BX-7: completed actions stay, started ones begin again."""
    progress = PlanProgress(statuses={"one": "completed", "two": "running"}, facts={"g": ("a",)})
    simulation = simulate(CHAIN, pace=EVEN, progress=progress)
    assert times(simulation) == {"one": [], "two": [(0, 100)]}
    assert simulation.actions[1].status == "completed"
    assert simulation.actions[1].landed_s is None


def test_a_goal_that_is_already_reached_takes_no_time():
    simulation = simulate(CHAIN, progress=PlanProgress(facts={"g": ("a", "b")}))
    assert (
        simulation.makespan_s,
        simulation.utilization,
        all(goal.status == "completed" for goal in simulation.goals),
    ) == (0, 0.0, True)
    assert statuses(simulation) == {"one": "skipped", "two": "skipped"}


def test_earlier_failures_are_named_when_the_goal_fails():
    simulation = simulate(CHAIN, progress=PlanProgress(statuses={"one": "failed", "two": "blocked"}))
    assert simulation.goals[0].reason == snapshot("`b` cannot be reached: `one` failed permanently")


def test_a_plan_without_goals_is_complete():
    simulation = simulate(Plan(goals=()))
    assert (
        simulation.goals,
        simulation.makespan_s,
        simulation.bound_s,
        all(goal.status == "completed" for goal in simulation.goals),
    ) == ((), 0, 0.0, True)


def test_a_waiting_goal_is_asked_again_only_after_a_change():
    rehearsal = GoalSimulator(independent(1), PlanProgress())
    assert rehearsal.decide(0) == ()
    assert rehearsal.decide(0) == ()
    assert len(rehearsal.decide(1)) == 1


def test_a_simulation_does_not_replan():
    with pytest.raises(AssertionError, match="requests or dispatches"):
        GoalSimulator(independent(1), PlanProgress()).execute(Replan(("x",), "stuck"), now=0)


def test_actions_that_may_change_the_same_files_do_not_run_at_the_same_time():
    """AL-4, BX-7: one begins when the other has landed; one further on begins in its place, also in another goal."""

    def with_files(key, *files, **fields):
        return replace(action(key, gives=key), files=files, **fields)

    one = goal("a b c", with_files("a", "src/x"), with_files("b", "src"), with_files("c", "docs"))
    two = goal("d r", with_files("d", "src/x/y"), with_files("r", "src", role="code_review"), name="h")
    simulation = simulate(Plan(goals=(one, two)), agents=5, pace=EVEN)
    assert all(goal.status == "completed" for goal in simulation.goals)
    found = times(simulation)
    assert found["a"] == found["c"] == found["r"] == [(0, 100)]
    assert found["b"] == [(110, 210)]
    assert found["d"][0][0] > 210


def test_steps_in_one_worktree_are_one_and_thousands_that_wait_cost_little():
    """AL-4, BX-7."""
    story = replace(action("s", gives="s", kind="compound"), files=("src",))
    step = replace(action("s1", gives="s", parent="s"), workspace="parent")
    others = [replace(action(f"w{n}", gives=f"w{n}"), files=("src/x",)) for n in range(20)]
    wanted = " ".join(["s", *(each.key for each in others)])
    simulation = simulate(plan(wanted, story, step, *others), agents=3, pace=EVEN)
    assert all(goal.status == "completed" for goal in simulation.goals)
    assert simulation.makespan_s == 21 * 110, "one after another"
