"""A second reviewer that approves everything is found out by planted faults, none of which is ever the user's."""

import json
import re

import pytest

from support.crash_points import CrashPoint
from support.scenario import action, plan_of, text_entry, write

pytestmark = pytest.mark.slow
CODE = """\
def withdraw(balance, amount, limit=100):
    if amount <= 0:
        raise ValueError("nothing to withdraw")
    if amount > limit:
        raise ValueError("over the limit")
    if balance - amount < 0 and not limit == 0:
        return transfer(amount, balance)
    return balance - amount


def transfer(amount, balance):
    return balance + amount * 2
"""


def verdict(word):
    said = {"verdict": word, "citations": [{"file": "bank.py", "line": 2, "note": "here"}], "summary": f"I {word} it."}
    return f"I read it.\n\n```json\n{json.dumps(said)}\n```"


APPROVES_ALL = [text_entry("reviewer", verdict("approve"))]
ADDED = "".join(f"+{line}\n" for line in CODE.splitlines())
READS = [
    text_entry("reviewer", verdict("approve"), contains=re.escape(ADDED)),
    text_entry("reviewer", verdict("reject")),
]


@pytest.fixture
def scenario(scenario):
    """A repository with a landed change, whose second reviewer is a cassette of its own."""
    scenario.configure(reviewer={"model": f"cassette:{scenario.home / 'reviewer.yaml'}"})
    scenario.environ["SCAFFOLD_MODEL"] = f"cassette:{scenario.home / 'cassette.yaml'}"
    scenario.plan(plan_of(g=[action("bank", effects=["bank_there"], check="python -m py_compile bank.py")]))
    scenario.cassette(bank=[write("bank.py", CODE)])
    scenario.run("--yes", code=0)
    return scenario


def probe(scenario, replies, *flags):
    scenario.replies(*replies, name="reviewer.yaml")
    done = scenario.scaffold("review", "--probe", "6", *flags, code=0)
    return done.stdout


def everything_of(scenario):
    """Return all refs, objects and worktrees of the user's repository."""
    objects = scenario.git("cat-file", "--batch-check", "--batch-all-objects")
    return scenario.git("for-each-ref"), objects, scenario.git("worktree", "list"), scenario.checkout()


def test_a_reviewer_that_approves_everything_is_found_out(scenario):
    """AL-23: its approvals do not count any more, wherever it is used."""
    before = everything_of(scenario)
    said = probe(scenario, APPROVES_ALL)
    assert "found 0 of 6 planted faults, and rejected 0 of 1 changes without one" in said
    assert said.count("missed") == 6
    assert "its approvals do not count" in said
    assert everything_of(scenario) == before
    (rates,) = json.loads(scenario.scaffold("review", "--rates", "--json").stdout)["reviewers"]
    assert rates["probe"]["unreliable"]


def test_a_reviewer_that_reads_keeps_its_word(scenario):
    """AL-23: the same faults for the same seed, others for another one; it rejects no sound change."""
    found = json.loads(probe(scenario, READS, "--json"))
    again = json.loads(probe(scenario, READS, "--json"))
    other = json.loads(probe(scenario, READS, "--json", "--seed", "7"))
    faults = [case["fault"] for case in found["cases"]]
    assert faults == [case["fault"] for case in again["cases"]]
    assert faults != [case["fault"] for case in other["cases"]]
    assert len({fault["kind"] for fault in faults if fault}) >= 3
    assert found["latest"] == {
        "planted": 6,
        "found": 6,
        "sound": 1,
        "false_alarms": 0,
        "unanswered": 0,
        "unreliable": False,
        "located": found["latest"]["located"],
    }


def test_a_planted_fault_is_never_in_the_users_repository_whatever_is_killed(scenario):
    """AL-23: at each commit of a database and each git command that writes."""
    scenario.replies(*APPROVES_ALL, name="reviewer.yaml")
    before, number, passed = everything_of(scenario), 0, []
    while number <= len(passed):
        number += 1
        point = CrashPoint(scenario, number)
        with point.armed():
            scenario.scaffold("review", "--probe", "1")
        passed = point.passed()
        assert everything_of(scenario) == before, passed
    assert {"before git commit-tree", "after git commit-tree", "before commit"} <= {*passed}
    assert number > 5
