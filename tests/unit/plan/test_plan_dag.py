"""Task lists become actions over `done:` assertions, or are refused with their errors."""

import msgspec
import pytest
from inline_snapshot import snapshot

from scaffold.core.errors import PlanInvalid
from scaffold.core.plan import ActionSpec, Plan
from scaffold.core.proof.contract import Check, Contract
from scaffold.plan.analysis.lint import lint
from scaffold.plan.source.dag import TaskSpec, dag_findings, dag_goal, done_assertion


def task(key, *depends_on):
    return TaskSpec(key=key, description=f"do {key}", depends_on=depends_on)


def said(*tasks):
    return [(finding.code, finding.action) for finding in dag_findings(tasks)]


def only(*tasks):
    (finding,) = dag_findings(tasks)
    return finding


def test_tasks_become_actions_that_need_the_effects_of_their_dependencies():
    """OR-2, OR-6: dependencies by index in the list, from 0, or by key."""
    goal = dag_goal("project", [task("a"), task("b", 0), task("c", "a", 1)], description="All of it")
    assert (goal.name, goal.description) == ("project", "All of it")
    assert goal.goal_state == ("done:a", "done:b", "done:c")
    assert goal.actions == (
        ActionSpec(key="a", description="do a", effects=("done:a",)),
        ActionSpec(key="b", description="do b", preconditions=("done:a",), effects=("done:b",)),
        ActionSpec(key="c", description="do c", preconditions=("done:a", "done:b"), effects=("done:c",)),
    )
    assert lint(Plan(goals=(goal,))).findings == ()


def test_descriptions_and_indices_are_enough():
    """OR-6: tasks without keys are named by their index."""
    reply = '[{"description": "first"}, {"description": "then", "depends_on": [0]}]'
    first, then = dag_goal("g", msgspec.json.decode(reply, type=list[TaskSpec])).actions
    assert (first.key, then.key) == ("task-1", "task-2")
    assert then.preconditions == (done_assertion("task-1"),)


def test_role_files_and_contract_of_a_task_are_kept():
    contract = Contract(commands=(Check(command="true"),))
    (action,) = dag_goal(
        "g", [TaskSpec(key="a", description="d", role="audit", files=("a.py",), contract=contract)]
    ).actions
    assert (action.role, action.files, action.contract) == ("audit", ("a.py",), contract)


def test_a_repeated_dependency_counts_once():
    assert dag_goal("g", [task("a"), task("b", 0, "a", 0)]).actions[1].preconditions == ("done:a",)


def test_a_cycle_is_listed_from_its_first_task():
    """OR-6."""
    finding = only(task("a", "c"), task("b", 0), task("c", "b"), task("late", "c"))
    assert (finding.code, finding.action, finding.severity) == ("cycle", "a", "error")
    assert finding.message == snapshot("tasks wait for each other: a -> c -> b -> a")
    assert finding.fix == snapshot("Remove one dependency, e.g. `c` of `a`.")


def test_an_index_outside_the_list_is_an_unknown_dependency():
    """OR-6."""
    before, after = (only(task("a", place), task("b")) for place in (-1, 2))
    assert (before.code, before.action) == (after.code, after.action) == ("unknown-dependency", "a")
    assert before.message == snapshot("task `a` depends on task -1, but the list has 2 tasks")
    assert before.fix == after.fix == snapshot("Name a task from 0 to 1, or its key.")


def test_an_unknown_key_is_reported_with_a_suggestion():
    """OR-6."""
    finding = only(task("store"), task("api", "stor"))
    assert finding.message == snapshot("task `api` depends on `stor`, which is not a task of the list")
    assert finding.fix.startswith("Did you mean `store`? ")


def test_keys_are_valid_and_unique_and_no_task_depends_on_itself():
    assert said(task("a"), task("a"), task("a"), task("b c")) == [("duplicate-key", "a"), ("bad-value", "b c")]
    assert said(task("a", 0), task("b", "b")) == [("self-dependency", "a"), ("self-dependency", "b")]
    assert said() == [("bad-value", None)]


def test_all_errors_of_a_refused_list_are_reported_at_once():
    with pytest.raises(PlanInvalid) as caught:
        dag_goal("g", [task("a", 7), task("b", "b")])
    assert [finding.code for finding in caught.value.findings] == ["unknown-dependency", "self-dependency"]
    assert caught.value.what == snapshot("task `a` depends on task 7, but the list has 2 tasks (and 1 more)")
    with pytest.raises(PlanInvalid, match=r"depends on itself$") as caught:
        dag_goal("g", [task("b", "b")])
    assert caught.value.fix == snapshot("Remove `b` from its own dependencies.")
