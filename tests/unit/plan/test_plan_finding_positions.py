"""Findings have the position of the goal or action they concern."""

from scaffold.core.plan import Finding
from scaffold.plan.analysis.lint import lint
from scaffold.plan.text.file_format import parse_plan
from scaffold.plan.text.parse_tree import parse_positioned, with_positions

YAML = """\
version: 1
goals:
  - name: shop
    goal_state: [api_works, docs_written]
    actions:
      - key: api
        preconditions: [stor_works]
        effects: [api_works]
        effect: [fast]
      - {effects: [spare], key: store}
  - goal_state: [sold]
    name: sales
    actions:
      - {key: api, effects: [sold]}
"""

JSON = """{"version": 1, "goals": [{"name": "shop", "goal_state": ["x"],
  "actions": [
    {"key": "a", "effects": ["y"]}]}]}"""


def found(text, *, name):
    root = parse_positioned(text, name=name)
    plan, warnings = parse_plan(root, name=name)
    return {(each.code, each.line, each.column) for each in with_positions((*warnings, *lint(plan).findings), root)}


def test_a_finding_gets_the_position_of_its_goal_or_action_unless_it_has_one():
    assert found(YAML, name="plan.yaml") == {
        ("unknown-key", 9, 9),
        ("duplicate-key", 14, 15),
        ("unprovided-precondition", 6, 14),
        ("unreachable-goal", 3, 11),
        ("unused-effect", 10, 33),
    }
    assert found(JSON, name="plan.json") == {("unreachable-goal", 1, 35), ("unused-effect", 3, 13)}


def test_a_repeated_key_is_reported_at_its_second_position():
    actions = "[{key: a, effects: [x]},\n {key: b},\n {key: a},\n {key: a}]"
    text = f"version: 1\ngoals:\n- {{name: g, goal_state: [x], actions: {actions}}}"
    assert ("duplicate-key", 5, 8) in found(text, name="plan.yaml")


def test_an_unknown_subject_has_no_position():
    texts = {"3", "goals: 3", "goals: [3]", "goals: [{name: [g]}]", "goals: [{name: g, actions: [{[a]: b}]}]"}
    finding = Finding(code="unused-effect", severity="warning", goal="g", action="a", message="m", fix="f")
    placed = [
        text for text in texts if with_positions([finding], parse_positioned(text, name="plan.yaml")) != (finding,)
    ]
    assert placed == []
