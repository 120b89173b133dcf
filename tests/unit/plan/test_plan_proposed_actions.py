"""Actions and tasks of a tool call: read like a plan file, each error with its position."""

import pytest

from scaffold.core.contract import Check, Contract, ExitCode, OutputContains
from scaffold.core.errors import PlanInvalid
from scaffold.core.plan import ActionSpec
from scaffold.plan.edit.proposed_actions import read_proposed_actions, read_tasks
from scaffold.plan.source.dag import TaskSpec

STORE = {"key": "store", "description": "Write it.", "effects": ["store_works"]}


def expect_fault(read, *words):
    """Check that the call is refused with these words."""
    with pytest.raises(PlanInvalid) as refusal:
        read()
    for word in words:
        assert word in refusal.value.in_full
    assert refusal.value.fix


def test_an_action_is_read_with_every_field():
    """AL-3, SC-12: description, acceptance criteria, verification intent, files and contract."""
    given = STORE | {
        "kind": "primitive",
        "role": "testing",
        "preconditions": ["plan", "plan"],
        "files": ["shop/*.py"],
        "acceptance": ["it is there", "it works"],
        "verification_intent": "the store keeps what it is given",
        "title": "A store",
        "type": "feature",
        "notes": "Keep it small.",
        "contract": {
            "commands": [{"command": "make test", "expect": "output contains ok", "timeout_s": 60}, "make lint"],
            "must_exist": ["shop/store.py"],
        },
    }
    (spec,) = read_proposed_actions([given], parent="all")
    assert spec == ActionSpec(
        key="store",
        title="A store",
        description="Write it.",
        type="FEATURE",
        acceptance=("it is there", "it works"),
        verification_intent="the store keeps what it is given",
        notes="Keep it small.",
        role="testing",
        parent="all",
        preconditions=("plan",),
        effects=("store_works",),
        files=("shop/*.py",),
        contract=Contract(
            commands=(
                Check(command="make test", expect=OutputContains("ok"), timeout_s=60),
                Check(command="make lint", expect=ExitCode(0)),
            ),
            must_exist=("shop/store.py",),
        ),
    )


def test_a_single_criterion_needs_no_list():
    (spec,) = read_proposed_actions([STORE | {"acceptance": "works"}], parent=None)
    assert spec.acceptance == ("works",)


@pytest.mark.parametrize(
    ("actions", "words"),
    [
        ({"key": "x"}, ["`actions` is not a list"]),
        ([STORE, 7], ["actions[1]: expected a mapping"]),
        ([STORE, None], ["actions[1]: expected a mapping, found nothing"]),
        ([STORE | {"key": 3}], ["actions[0].key", "3"]),
        ([STORE, {"key": "x"}], ["actions[1]: the key `description` is missing", "`effects` is missing"]),
        ([STORE | {"keey": 1, "priority": 2}], ["actions[0]: the key `keey` is unknown", "Did you mean `key`?"]),
        ([STORE | {"title": "a\nb"}], ["actions[0].title", "contains a line break"]),
        ([STORE | {"type": "CHORE"}], ["`CHORE` is not a type of task", "Write SETUP, FEATURE, BUGFIX or REFACTOR."]),
        ([STORE | {"kind": "task"}], ["`task` is not a kind of action"]),
        ([STORE | {"effects": "store"}], ["actions[0].effects: expected a list"]),
        ([STORE | {"acceptance": [True]}], ["actions[0].acceptance[0]: expected text"]),
        ([STORE | {"contract": {"commands": [{"command": "x", "expect": "joy"}]}}], ["is not a valid expectation"]),
        ([STORE | {"files": ["../x"]}], ["is outside the repository"]),
        ([{"key": f"-{n}", "description": "x", "effects": []} for n in range(9)], ["(and 4 more)"]),
    ],
)
def test_each_error_of_a_call_has_its_position(actions, words):
    """OR-5, OR-6, SC-12: unknown input is never taken for something else."""
    expect_fault(lambda: read_proposed_actions(actions, parent=None), *words)


def test_an_endlessly_nested_call_is_refused():
    deep: list = []
    for _ in range(100_000):
        deep = [deep]
    expect_fault(lambda: read_proposed_actions(deep, parent=None), "nested too deeply", "flat list")


def test_tasks_refer_to_their_dependencies_by_index_or_key():
    """OR-2, OR-6."""
    given = [{"description": "Look."}, {"key": "make", "description": "Make.", "depends_on": [0], "role": "testing"}]
    assert read_tasks([*given, {"description": "Show.", "depends_on": ["make"], "acceptance": "seen"}]) == (
        TaskSpec(description="Look."),
        TaskSpec(description="Make.", key="make", depends_on=(0,), role="testing"),
        TaskSpec(description="Show.", acceptance=("seen",), depends_on=("make",)),
    )


@pytest.mark.parametrize(
    ("tasks", "words"),
    [
        ([{"description": "x"}, {"depends_on": [0]}], ["tasks[1]: the key `description` is missing"]),
        ([{"description": "x", "depends_on": [1.5]}], ["tasks[0].depends_on: depends_on[0] is neither"]),
        ([{"description": "x", "depends_on": [True, {}]}], ["depends_on[0] is neither", "depends_on[1] is neither"]),
        ([{"description": "x", "kind": "compound"}], ["`kind` is unknown"]),
    ],
)
def test_a_malformed_list_of_tasks_names_the_task(tasks, words):
    """OR-5, OR-6."""
    expect_fault(lambda: read_tasks(tasks), *words)
