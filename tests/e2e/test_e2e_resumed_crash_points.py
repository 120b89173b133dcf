"""A kill in each phase of a request: what was paid is not paid again, and the same work lands."""

import json

import pytest

from support.crash_points import NEVER
from support.kill_phases import PHASES as PLACES
from support.kill_phases import VICTIMS, killed_once, landed_tree, paid
from support.planner_cassettes import add_planner, create_actions_call, create_goal_call, reply_entries
from support.scenario import Scenario, put_before, shell, text_entry, write

CHECKS = ("grep -q one kept.txt", "grep -q two kept.txt")
PLANNED = {
    "key": "kept",
    "description": "Write kept.txt.\n",
    "effects": ["kept_there"],
    "verification_intent": "two lines",
}
REQUEST = ("a text", "--tier", "builder", "--yes")
PHASES = {
    "drafting": 14,
    "executing": 1,
    "verifying": 1,
    "refining": 14,
    "critiquing": 1,
    "criticised": 1,
    "executing again": 2,
    "verifying again": 2,
}
"""The phases, and the point in each at which the process dies."""
WORKER, *OTHERS = VICTIMS
CASES = [*((phase, WORKER) for phase in PHASES), *zip(PHASES, 2 * OTHERS, strict=True)]
"""Each phase with a death of its worker and one other: all of them together would take minutes."""


def contract(*commands):
    return f"```json\n{json.dumps({'commands': list(commands)})}\n```"


def prepared(folder):
    """Return a repository with the replies to a request: a drafted contract, and work that a critic sends back once."""
    folder.mkdir(exist_ok=True)
    scenario = Scenario(folder)
    steps = [write("kept.txt", "one\ntwo\n"), shell("cat kept.txt >> copy.txt"), "both lines are there"]
    cassette = scenario.cassette(kept=[*steps, write("kept.txt", "one\ntwo\nthree\n"), "better"])
    add_planner(cassette, [create_goal_call("texts", "kept_there"), create_actions_call("texts", PLANNED)])
    put_before(
        cassette,
        *reply_entries(("I trust them.", contract(CHECKS[0])), role="drafter", event="draft"),
        *reply_entries((contract(CHECKS[1]), contract(*CHECKS)), role="drafter", event="refine"),
        text_entry("critic", "Total: 5/9\nA third line is missing."),
    )
    return scenario


@pytest.fixture(scope="module")
def without_a_kill(tmp_path_factory):
    """Return what is paid, and the tree that lands, if nobody dies."""
    scenario = prepared(tmp_path_factory.mktemp("without"))
    scenario.request(*REQUEST, code=0)
    return paid(scenario), landed_tree(scenario)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("phase", "victim"), CASES, ids=" ".join)
def test_a_kill_in_any_phase_pays_nothing_twice(tmp_path, without_a_kill, phase, victim):
    """BX-15, SC-16, SC-20: whoever dies, and by which signal; the tree that lands is the same."""
    scenario, number = prepared(tmp_path), PHASES[phase]
    argv = scenario.request_command(*REQUEST)
    points = killed_once(scenario, argv, number, victim, CRASH_PHASE=phase.removesuffix(" again"))
    assert len(points) >= number, "the point was never passed"
    once, tree = without_a_kill
    assert landed_tree(scenario) == tree
    assert not paid(scenario) - once, "paid twice"


@pytest.mark.slow
def test_nothing_that_is_kept_for_a_crash_stays_after_the_end(tmp_path):
    """BX-15: the conversations of a run that has ended are in its journals alone."""
    scenario = prepared(tmp_path)
    killed_once(scenario, scenario.request_command(*REQUEST), PHASES["critiquing"], WORKER, CRASH_PHASE="critiquing")
    landed_tree(scenario)
    assert scenario.stored("SELECT COUNT(*) FROM waiting_turn") == [(0,)]
    assert scenario.stored("SELECT COUNT(*) FROM kept_message") == [(0,)]
    assert scenario.stored("SELECT COUNT(*) FROM paid_reply") == [(0,)]
    assert scenario.git("for-each-ref", "refs/scaffold/work") == ""


@pytest.fixture(scope="module")
def whole_run(tmp_path_factory):
    """Return what a run pays, and the tree that it lands, if nobody dies; each run is made once."""
    known = {}

    def made(prepare):
        if prepare not in known:
            scenario = Scenario(tmp_path_factory.mktemp(prepare.__name__))
            killed_once(scenario, prepare(scenario), NEVER, WORKER)
            known[prepare] = paid(scenario), landed_tree(scenario)
        return known[prepare]

    return made


def expect_paid_once(scenario, phase, victim, whole_run):
    prepare, caller, number = PLACES[phase]
    points = killed_once(scenario, prepare(scenario), number, victim, CRASH_CALLER=caller)
    assert len(points) >= number, "the point was never passed"
    once, tree = whole_run(prepare)
    assert landed_tree(scenario) == tree
    assert not paid(scenario) - once, "paid twice"


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("phase", "victim"), [(phase, list(VICTIMS)[at % len(VICTIMS)]) for at, phase in enumerate(PLACES)], ids=" ".join
)
def test_a_kill_of_whoever_plans_reviews_merges_or_waits_pays_nothing_twice(scenario, phase, victim, whole_run):
    """BX-15, SC-16, SC-20: each phase with one of the deaths; `bench/faults --kills` tries all."""
    expect_paid_once(scenario, phase, victim, whole_run)


@pytest.mark.slow
@pytest.mark.postgres
@pytest.mark.timeout(300)
@pytest.mark.parametrize("phase", ["the supervisor's turn", "the turn of an agent that takes every step"])
def test_a_kill_pays_nothing_twice_where_the_state_is_on_a_server(scenario, postgres_url, phase, whole_run):
    """BX-15, OR-8."""
    scenario.environ["SCAFFOLD_DATABASE_URL"] = postgres_url
    expect_paid_once(scenario, phase, "both", whole_run)
