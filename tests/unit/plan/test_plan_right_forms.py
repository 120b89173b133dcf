"""Findings about a plan file show the right form of what they are about."""

from typing import get_args

import pytest
import yaml

from scaffold.core.errors import PlanInvalid
from scaffold.plan.analysis.explanation import explain
from scaffold.plan.analysis.lint import Code, lint
from scaffold.plan.text import file_format
from scaffold.plan.text.file_format import read_plan
from scaffold.plan.text.right_forms import EXAMPLES, SYNTAX_RULES

GOAL = {"name": "shop", "goal_state": ["store_works"], "actions": [{"key": "store", "effects": ["store_works"]}]}
KEYS = {
    "plan": file_format._PLAN,
    "plan.goals": file_format._GOAL,
    "plan.goals.actions": file_format._ACTION,
    "plan.goals.actions.contract": file_format._CONTRACT,
    "plan.goals.actions.contract.commands": file_format._CHECK,
}
MISTAKES = {
    "version: 1\ngoals:\n\t- name: shop\n": "Indent with spaces",
    "goals:\n  - name: shop\n\tactions: []\n": "Indent with spaces",
    "```yaml\nversion: 1\n```\n": "Leave out the lines that begin with ```",
    "title: `store` works\n": "Put the text in quotes: it begins with a character",
    "files: [*.py]\n": "Put the text in quotes: `*` and `&`",
    "title: *store\n": "Put the text in quotes: `*` and `&`",
    "title: \"it's\nkey: a\n": "End the text with the quote",
    "title: docs: describe it\n": "Put a text with `: ` in quotes",
    "version: 1\ngoals\n  - name: shop\n": "Write a colon and a space",
    "key: a\neffects\n": "Write a colon and a space",
    "effects: [a, b\nkey: c\n": "Separate the entries by commas",
    "goals:\n  - name: shop\n   goal_state: [a]\n": "Indent what belongs together alike",
    "title: \x01\n": "Fix the text near line 1, column 8",
}


def whole(path, fragment):
    """Return a plan in which a key has the value of an example."""
    entry = yaml.safe_load(fragment)
    for name in reversed(path.split(".")[1:-1]):
        entry = {"goals": {"goals": [GOAL | entry]}}.get(name) or {
            "actions": {"actions": [GOAL["actions"][0] | entry]},
            "contract": {"contract": entry},
            "commands": {"commands": [{"command": "make"} | entry]},
        }[name]
    return {"version": 1, "goals": [GOAL]} | entry


@pytest.mark.parametrize("path", [f"{place}.{key}" for place, keys in KEYS.items() for key in keys])
def test_every_key_of_a_plan_file_has_an_example_that_is_valid_in_its_place(path):
    """BX-7: each finding carries an example of the right form."""
    plan = whole(path, EXAMPLES[path])
    if path.endswith(".parent"):
        plan["goals"][0]["actions"] = [{**GOAL["actions"][0], "kind": "compound"}, {"key": "b", "parent": "store"}]
    _, warnings = read_plan(yaml.safe_dump(plan), name="plan.yaml")
    assert warnings == ()


@pytest.mark.parametrize("code", [code for kind in get_args(Code) for code in get_args(kind)])
def test_every_rule_has_an_example_that_keeps_it(code):
    """BX-7: each finding carries an example of the right form."""
    goal = yaml.safe_load(EXAMPLES[code])
    wanted = goal["actions"][-1]["effects"]
    text = yaml.safe_dump({"version": 1, "goals": [{"name": "shop", "goal_state": wanted} | goal]})
    plan, warnings = read_plan(text, name="plan.yaml")
    found = {finding.code for finding in (*warnings, *lint(plan).findings, *explain(plan).weaknesses)}
    assert code not in found
    assert not found - {"no-contract", "needs-planner", "shared-file", "duplicate-provider"}


def test_a_whole_plan_is_the_example_where_nothing_can_be_read():
    """BX-7: of a text that is empty, no YAML, or in no known format."""
    for name in ("plan", "syntax", "unknown-format"):
        plan, warnings = read_plan(EXAMPLES[name], name="plan.yaml")
        assert lint(plan).valid
        assert warnings == ()


@pytest.mark.parametrize("text", MISTAKES)
def test_a_mistake_of_yaml_is_explained_with_an_example(text):
    """BX-7: by what the reader stumbled over, at the place of the mistake."""
    with pytest.raises(PlanInvalid) as caught:
        read_plan(text, name="plan.yaml")
    (finding,) = caught.value.findings
    assert finding.code == "syntax"
    assert finding.fix.startswith(MISTAKES[text])
    yaml.safe_load(finding.example)


def test_every_rule_about_yaml_is_tried():
    """BX-7: an unfinished part is reported where it begins."""
    assert all(any(rule.fix.startswith(fix) for fix in MISTAKES.values()) for rule in SYNTAX_RULES)
    with pytest.raises(PlanInvalid) as caught:
        read_plan("version: 1\ngoals\n  - name: shop\n", name="plan.yaml")
    assert (caught.value.findings[0].line, caught.value.findings[0].column) == (2, 1)


def test_a_text_that_a_comment_cuts_is_a_warning():
    """BX-7: `Fix #12` is `Fix`; a comment with a space, and a `#` in quotes or in a block, are meant."""
    actions = (
        "title: Fix #12 now",
        "title: 'Fix #12' #3",
        "description: |\n          Fix #12",
        "title: Fix # 12",
        "key: b #12",
    )
    found = []
    for each in actions:
        text = f"version: 1\ngoals:\n  - name: g\n    goal_state: [a]\n    actions:\n      - {each}\n"
        text += "" if each.startswith("key") else "        key: b\n"
        warnings = read_plan(f"{text}        effects: [a]\n", name="plan.yaml")[1]
        found.append([(finding.code, finding.line) for finding in warnings])
    assert found == [[("cut-text", 6)], [], [], [], [("cut-text", 6)]]
