"""Drafted contracts with the real command: drafted, sealed, passed, refined, shown."""

import json

import pytest

from support.planner_cassettes import add_planner, create_actions_call, create_goal_call, reply_entries
from support.scenario import put_before, text_entry, write

ADDS = "python -c 'from calc import add; assert add(1, 2) == 3'"
NEGATIVE = "python -c 'from calc import add; assert add(-1, -2) == -3'"
RIGHT = "def add(a, b):\n    return a + b\n"
WRONG = "def add(a, b):\n    return abs(a) + abs(b)\n"
BARE = {"key": "add", "description": "Write calc.add.\n", "effects": ["adds"], "verification_intent": "it adds"}


def contract(*commands, **more):
    return f"```json\n{json.dumps({'commands': list(commands), **more})}\n```"


def requested(scenario, *worker, draft=(), refine=(), spec=BARE):
    """Execute a request of one action without a contract; return the result of the command."""
    cassette = scenario.cassette(add=list(worker))
    add_planner(cassette, [create_goal_call("sums", "adds"), create_actions_call("sums", spec)])
    put_before(
        cassette,
        *reply_entries(draft, role="drafter", event="draft"),
        *reply_entries(refine, role="drafter", event="refine"),
        text_entry("critic", "Total: 9/9\nDONE"),
    )
    return scenario.request("add numbers", "--tier", "builder", "--yes")


def shown(scenario):
    return json.loads(scenario.scaffold("contract", "add", "--json").stdout)


@pytest.mark.slow
def test_an_action_without_a_contract_gets_one_before_its_work_and_a_stricter_one_after(scenario):
    """AL-7, BX-5: added checks run as well, and return the work like any failure."""
    done = requested(
        scenario,
        write("calc.py", WRONG),
        "first try",
        write("calc.py", RIGHT),
        draft=[contract(ADDS)],
        refine=[contract(ADDS, NEGATIVE)],
    )
    assert done.returncode == 0, done.stdout + done.stderr
    held = shown(scenario)
    assert (held["phase"], held["given"], held["intent"]) == ("final", False, "it adds")
    assert [check["command"] for check in held["commands"]] == [ADDS, NEGATIVE]
    assert [seal["phase"] for seal in held["seals"]] == ["draft", "final"]
    assert (held["last"]["weak"], held["last"]["red_on_base"]) == (False, [ADDS, NEGATIVE])
    assert "(final, sealed as " in scenario.scaffold("contract", "add").stdout
    journal = [json.loads(line) for line in scenario.journal("sums", "add").splitlines()]
    words = [(each.get("role", "worker"), each["text"]) for each in journal if each["type"] == "text"]
    assert words[0] == ("drafter", contract(ADDS))
    assert words[1] == ("worker", "first try")
    assert any(each["type"] == "prompt" and f"The check `{NEGATIVE}` failed" in each["text"] for each in journal)


@pytest.mark.slow
def test_writing_into_the_mirror_changes_nothing(scenario):
    """AL-7, BX-5: the sealed contract is read from the store; the file in the checkout is for people."""
    vain = "import pathlib\nfor each in pathlib.Path('.scaffold/contracts').glob('*'): each.write_text('{}')\n"
    done = requested(
        scenario, {"name": "python", "args": {"code": vain}}, write("calc.py", WRONG), draft=[contract(ADDS)]
    )
    assert done.returncode == 0, done.stdout + done.stderr
    mirrored = json.loads((scenario.repo / ".scaffold" / "contracts" / "add-draft.json").read_text())
    assert [check["command"] for check in mirrored["commands"]] == [ADDS]


@pytest.mark.slow
def test_a_drafter_that_writes_no_contract_ends_the_attempt(scenario):
    """AL-7: an unparsable contract is an error, never a missing verification."""
    done = requested(scenario, write("calc.py", RIGHT), draft=["I trust them."] * 3)
    assert done.returncode == 1
    assert "the drafter returned no contract in 3 answers" in done.stdout + done.stderr
    assert "NoContract" not in done.stdout + done.stderr, "people are told in words"
    assert shown(scenario)["seals"] == []
    assert scenario.git("branch", "--list", "session-*")
