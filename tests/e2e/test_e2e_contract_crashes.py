"""A kill while a contract is written, before the work or after it, leaves one contract, whole and sealed."""

import hashlib
import json

import pytest

from support.crash_points import CrashPoint
from support.planner_cassettes import add_planner, create_actions_call, create_goal_call, reply_entries
from support.scenario import put_before, text_entry, write

LINE, SECOND, THERE = "grep -q one kept.txt", "grep -q two kept.txt", "test -d ."
BARE = {
    "key": "kept",
    "description": "Write kept.txt.\n",
    "effects": ["kept_there"],
    "verification_intent": "two lines",
}
POINTS = {"drafting": 26, "refining": 32}
"""How many points each phase has: its two ends, and each change between."""


def contract(*commands):
    return f"```json\n{json.dumps({'commands': list(commands)})}\n```"


DRAFTS = ("I trust them.", contract(THERE), contract(LINE))
"""No contract, one that tells nothing, one that is taken."""
FINALS = (contract(SECOND), contract(LINE, SECOND))
"""One that asks for less, one that is taken."""


def tape(scenario):
    """Write the replies to a request of one action, whose contract is drafted before it and refined after it."""
    cassette = scenario.cassette(kept=[write("kept.txt", "one\ntwo\n"), "both lines are there"])
    add_planner(cassette, [create_goal_call("texts", "kept_there"), create_actions_call("texts", BARE)])
    put_before(
        cassette,
        *reply_entries(DRAFTS, role="drafter", event="draft"),
        *reply_entries(FINALS, role="drafter", event="refine"),
        text_entry("critic", "Total: 9/9\nDONE"),
    )


def crashed(scenario, phase, number, *, victim):
    """Execute a request whose worker, or owner, dies at that point; continue, and return the points passed."""
    tape(scenario)
    owner = {"CRASH_OWNER": scenario.home / "owner"} if victim == "owner" else {}
    point = CrashPoint(scenario, number, CRASH_PHASE=phase, **owner)
    with point.armed():
        done = scenario.request("a text", "--tier", "builder", "--yes")
    assert done.returncode == (-9 if victim == "owner" else 0), done.stdout + done.stderr
    if victim == "owner":
        done = scenario.scaffold("resume", "--yes")
    assert done.returncode == 0, done.stdout + done.stderr
    return point.passed()


def commands_in(document):
    return [check["command"] for check in json.loads(document)["commands"]]


def expect_one_contract(scenario):
    """Check that draft and final contract are sealed once, whole, and mirrored; only the final one counts."""
    assert scenario.stored("PRAGMA integrity_check") == [("ok",)]
    seals = scenario.stored("SELECT phase, body, sha256 FROM sealed_contract ORDER BY phase")
    ((in_force,),) = scenario.stored("SELECT contract FROM action")
    events = [json.loads(body) for (body,) in scenario.stored("SELECT body FROM event ORDER BY seq")]
    assert [seal[0] for seal in seals] == ["draft", "final"]
    assert [digest for _, _, digest in seals] == [hashlib.sha256(body.encode()).hexdigest() for _, body, _ in seals]
    assert in_force == seals[1][1]
    parts = [(event["phase"], event["sha256"]) for event in events if event["type"] == "contract_sealed"]
    assert parts == [(phase, digest) for phase, _, digest in seals], "sealed once, and told once"
    assert [commands_in(body) for _, body, _ in seals] == [[LINE], [LINE, SECOND]]
    mirrors = [scenario.repo / ".scaffold" / "contracts" / f"{name}.json" for name in ("kept-draft", "kept")]
    assert [commands_in(mirror.read_text()) for mirror in mirrors] == [[LINE], [LINE, SECOND]]
    return events


def expect_the_end(scenario):
    """Check that the work landed once, proven by every check of its final contract, and no remains are left."""
    status = scenario.status()
    (kept,) = status["actions"]
    assert (status["run"]["status"], kept["status"]) == ("completed", "completed")
    assert [attempt["outcome"] for attempt in kept["attempts"]][-1:] == ["landed"]
    assert {attempt["outcome"] for attempt in kept["attempts"][:-1]} <= {"lost"}
    assert scenario.landed_keys() == ["kept"]
    held = json.loads(scenario.scaffold("contract", "kept", "--json").stdout)
    assert (held["last"]["attempt"], held["last"]["weak"]) == (len(kept["attempts"]), False)
    assert held["last"]["red_on_base"] == [LINE, SECOND]
    checked = [(each["name"], each["verdict"], each["exit_code"]) for each in held["last"]["results"]]
    assert checked == [(LINE, "pass", 0), (SECOND, "pass", 0)], "executed once more, whoever died"
    (fact,) = held["facts"]
    assert (fact["state"], fact["weak"]) == ("holds", False)
    assert [each["exit_code"] for each in fact["evidence"]] == [0, 0]
    assert len(scenario.git("worktree", "list").splitlines()) == 1
    assert scenario.git("for-each-ref", "refs/scaffold/work") == "", "what is rescued is pinned once"
    return kept["attempts"]


def expect_nothing_asked_twice(scenario, events):
    """Check that no attempt asked for a contract that was sealed before it began."""
    journal = [json.loads(line) for line in scenario.journal("texts", "kept").splitlines()]
    for phase, taken in (("draft", DRAFTS[-1]), ("final", FINALS[-1])):
        asked = [each["attempt"] for each in journal if each["type"] == "text" and each["text"] == taken]
        kinds = [(event["type"], event.get("phase")) for event in events]
        before = [kind for kind, _ in kinds[: kinds.index(("contract_sealed", phase))]]
        assert max(asked) <= before.count("attempt_queued"), f"asked for a {phase} contract that was sealed"


def expect_nothing_lost(scenario, phase, attempts, *, victim):
    """Check that existing work is pinned as it was committed, also if its worktree showed the base at that moment.

    After the death of its owner a worker works on until it notices.
    """
    lost, landed = attempts
    assert (lost["outcome"], landed["outcome"]) == ("lost", "landed")
    is_pinned = lost["head_sha"] is not None
    assert is_pinned or phase == "drafting"
    assert not is_pinned or phase == "refining" or victim == "owner"
    if is_pinned:
        assert scenario.git("show", f"{lost['head_sha']}:kept.txt") == "one\ntwo\n"


def expect_as_if_nobody_had_died(scenario, phase, victim):
    attempts = expect_the_end(scenario)
    expect_nothing_lost(scenario, phase, attempts, victim=victim)
    expect_nothing_asked_twice(scenario, expect_one_contract(scenario))


@pytest.mark.slow
@pytest.mark.parametrize(("phase", "number", "victim"), [("refining", 11, "worker")])
def test_a_kill_right_after_a_contract_was_sealed_keeps_that_contract(scenario, phase, number, victim):
    """AL-7, BX-5, BX-15: between its seal and its first use."""
    points = crashed(scenario, phase, number, victim=victim)
    assert points[number - 1] == "after commit"
    expect_as_if_nobody_had_died(scenario, phase, victim)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("phase", "number", "victim"),
    [
        (phase, number + 1, ("worker", "owner")[number % 2])
        for phase, count in POINTS.items()
        for number in range(count)
    ],
)
def test_a_kill_at_any_point_of_a_contract_leaves_one_contract(scenario, phase, number, victim):
    """AL-7, BX-2, BX-5, BX-15: the owner dies before each change, the writer of the contract after each."""
    points = crashed(scenario, phase, number, victim=victim)
    assert len(points) >= number, "the point was never passed"
    expect_as_if_nobody_had_died(scenario, phase, victim)
