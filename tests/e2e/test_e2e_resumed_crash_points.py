"""A kill in each phase of a request: what was paid is not paid again, and the same work lands."""

import json
from collections import Counter
from contextlib import suppress

import pytest

from support.crash_points import CrashPoint
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
VICTIMS = {
    "its worker": ("SIGKILL", ()),
    "the owner": ("SIGKILL", ("CRASH_OWNER",)),
    "both": ("SIGKILL", ("CRASH_OWNER", "CRASH_ALL")),
    "the owner by Ctrl-C": ("SIGINT", ("CRASH_OWNER",)),
    "the owner by SIGTERM": ("SIGTERM", ("CRASH_OWNER",)),
}
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
MOST_RESUMES = 3


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


def paid(scenario):
    """Return how many replies each agent has paid, of whichever attempt."""
    found = Counter()
    for journal in (scenario.repo / ".scaffold" / "logs").rglob("*.jsonl"):
        for line in journal.read_text().splitlines():
            with suppress(json.JSONDecodeError):  # a kill may cut the last line
                entry = json.loads(line)
                if entry["type"] == "usage" and entry["requests"]:
                    found[entry.get("role", "worker")] += 1
    return found


def landed_tree(scenario):
    run = scenario.status()["run"]
    assert run["status"] == "completed", scenario.scaffold("status").stdout
    return scenario.git("rev-parse", f"{run['session_branch']}^{{tree}}").strip()


@pytest.fixture(scope="module")
def without_a_kill(tmp_path_factory):
    """Return what is paid, and the tree that lands, if nobody dies."""
    scenario = prepared(tmp_path_factory.mktemp("without"))
    scenario.request(*REQUEST, code=0)
    return paid(scenario), landed_tree(scenario)


def killed_once(scenario, number, victim, **harness):
    """Execute the request with a kill at the point, go on until it is done, and return the points passed."""
    name, where = VICTIMS[victim]
    owner = dict.fromkeys(where, scenario.home / "owner")
    point = CrashPoint(scenario, number, CRASH_SIGNAL=name, **harness, **owner)
    with point.armed():
        scenario.request(*REQUEST)
    for _ in range(MOST_RESUMES):
        scenario.wait_for_end()
        run = scenario.status()["run"]
        if run is not None and run["status"] == "completed":
            break
        scenario.call(scenario.command("resume", "--yes") if run else scenario.request_command(*REQUEST))
    return point.passed()


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("phase", "victim"), CASES, ids=" ".join)
def test_a_kill_in_any_phase_pays_nothing_twice(tmp_path, without_a_kill, phase, victim):
    """BX-15, SC-16, SC-20: whoever dies, and by which signal; the tree that lands is the same."""
    scenario, number = prepared(tmp_path), PHASES[phase]
    points = killed_once(scenario, number, victim, CRASH_PHASE=phase.removesuffix(" again"))
    assert len(points) >= number, "the point was never passed"
    once, tree = without_a_kill
    assert landed_tree(scenario) == tree
    assert not paid(scenario) - once, "paid twice"


@pytest.mark.slow
def test_nothing_that_is_kept_for_a_crash_stays_after_the_end(tmp_path):
    """BX-15: the conversations of a run that has ended are in its journals alone."""
    scenario = prepared(tmp_path)
    killed_once(scenario, PHASES["critiquing"], "its worker", CRASH_PHASE="critiquing")
    landed_tree(scenario)
    assert scenario.stored("SELECT COUNT(*) FROM waiting_turn") == [(0,)]
    assert scenario.stored("SELECT COUNT(*) FROM paid_reply") == [(0,)]
    assert scenario.git("for-each-ref", "refs/scaffold/work") == ""
