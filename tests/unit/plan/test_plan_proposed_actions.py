"""Actions and tasks of a tool call: read like a plan file, each error with its position."""

import pytest
from inline_snapshot import snapshot

from scaffold.core.errors import PlanInvalid
from scaffold.core.plan import ActionSpec
from scaffold.core.proof.contract import Check, Contract, ExitCode, OutputContains
from scaffold.plan.edit.proposed_actions import read_proposed_actions, read_tasks
from scaffold.plan.source.dag import TaskSpec
from support.findings import fault

STORE = {"key": "store", "description": "Write it.", "effects": ["store_works"]}


def refusal(read, *given, **more):
    with pytest.raises(PlanInvalid) as refused:
        read(*given, **more)
    assert refused.value.fix
    return refused.value


def faults(read, *given, **more):
    return [fault(finding) for finding in refusal(read, *given, **more).findings]


def test_an_action_is_read_with_every_field():
    """AL-3, SC-12: description, acceptance criteria, verification intent, files and contract."""
    given = STORE | {
        "kind": "primitive",
        "role": "testing",
        "preconditions": ["plan", "plan"],
        "files": ["shop/*.py"],
        "acceptance": ["it is there", "it works"],
        "verification_intent": "try it",
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
        verification_intent="try it",
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


def test_each_error_of_a_call_has_its_position():
    """OR-5, OR-6, SC-12: unknown input is never taken for something else."""
    calls = (
        ([STORE, 7], ["wrong-type actions[1] 7"]),
        ([STORE, None], ["wrong-type actions[1]"]),
        ([STORE | {"key": 3}], ["wrong-type actions[0].key 3"]),
        ([STORE, {"key": "x"}], ["missing-key actions[1] description", "missing-key actions[1] effects"]),
        ([STORE | {"keey": 1, "priority": 2}], ["unknown-key actions[0] keey", "unknown-key actions[0] priority"]),
        ([STORE | {"title": "a\nb"}], ["bad-value actions[0].title a\\nb"]),
        ([STORE | {"type": "CHORE"}], ["bad-value actions[0].type CHORE"]),
        ([STORE | {"kind": "task"}], ["bad-value actions[0].kind task"]),
        ([STORE | {"effects": "store"}], ["wrong-type actions[0].effects store"]),
        ([STORE | {"acceptance": [True]}], ["wrong-type actions[0].acceptance[0] True"]),
        (
            [STORE | {"contract": {"commands": [{"command": "x", "expect": "joy"}]}}],
            ["bad-value actions[0].contract.commands[0].expect joy"],
        ),
        ([STORE | {"files": ["../x"]}], ["bad-value actions[0].files[0] ../x .."]),
    )
    found = [(given, faults(read_proposed_actions, given, parent=None)) for given, _ in calls]
    assert found == list(calls)


def test_a_call_that_is_no_list_or_nested_endlessly_is_refused():
    deep: list = []
    for _ in range(100_000):
        deep = [deep]
    many = [{"key": f"-{n}", "description": "x", "effects": []} for n in range(9)]
    refused = [refusal(read_proposed_actions, given, parent=None) for given in ({"key": "x"}, deep, many)]
    assert [each.what for each in refused] == snapshot(
        [
            "`actions` is not a list",
            "`actions` is nested too deeply",
            (
                "actions[0].key: `-0` starts with `-`; actions[1].key: `-1` starts with `-`; "
                "actions[2].key: `-2` starts with `-`; actions[3].key: `-3` starts with `-`; "
                "actions[4].key: `-4` starts with `-` (and 4 more)"
            ),
        ]
    )


def test_tasks_refer_to_their_dependencies_by_index_or_key():
    """OR-2, OR-6."""
    given = [{"description": "Look."}, {"key": "make", "description": "Make.", "depends_on": [0], "role": "testing"}]
    assert read_tasks([*given, {"description": "Show.", "depends_on": ["make"], "acceptance": "seen"}]) == (
        TaskSpec(description="Look."),
        TaskSpec(description="Make.", key="make", depends_on=(0,), role="testing"),
        TaskSpec(description="Show.", acceptance=("seen",), depends_on=("make",)),
    )


def test_a_malformed_list_of_tasks_names_the_task():
    """OR-5, OR-6."""
    lists = (
        ([{"description": "x"}, {"depends_on": [0]}], ["missing-key tasks[1] description"]),
        ([{"description": "x", "depends_on": [1.5]}], ["bad-value tasks[0].depends_on"]),
        (
            [{"description": "x", "depends_on": [True, {}]}],
            ["bad-value tasks[0].depends_on", "bad-value tasks[0].depends_on"],
        ),
        ([{"description": "x", "kind": "compound"}], ["unknown-key tasks[0] kind"]),
    )
    assert [(given, faults(read_tasks, given)) for given, _ in lists] == list(lists)
