"""What a specification is taken for, and prompts for rounds."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from scaffold.core.errors import PlanInvalid
from scaffold.plan.source.formats import detect_format
from scaffold.plan.source.prompt_loop import MAX_ROUNDS, read_prompt_loop, round_goal

TASK = {"id": 1, "title": "a"}
ISSUE = {"id": "bd-1", "title": "a", "issue_type": "task"}


def test_a_format_is_recognized_by_its_structure():
    """SC-22: what is none or several of them is free text."""
    formats = {
        ("prd.json", json.dumps({"stories": [TASK]})): "prd",
        ("a.json", json.dumps({"userStories": []})): "prd",
        ("a.json", json.dumps({"userStories": {}})): None,
        ("a.json", json.dumps({"tasks": [TASK]})): "task-master",
        ("a.json", json.dumps({"x": {"tasks": [TASK]}, "y": 1})): "task-master",
        ("a.json", json.dumps({"tasks": [{"name": "a"}]})): None,
        ("a.json", json.dumps({"tasks": [TASK], "stories": []})): None,
        ("a.json", json.dumps(ISSUE)): "beads",
        ("a.json", json.dumps([TASK])): None,
        ("a.json", json.dumps([{"description": "a", "passes": False}, {"title": "b"}])): "prd",
        ("a.json", json.dumps([{"description": "a", "passes": "?"}])): None,
        ("a.json", json.dumps([{"passes": False}])): None,
        ("a.json", json.dumps({"features": [{"name": "a", "passes": True}]})): "prd",
        ("a.json", json.dumps({"tasks": [TASK | {"passes": False}]})): "prd",
        ("a.json", json.dumps({"tasks": [TASK | {"passes": False}, TASK | {"status": "pending"}]})): "task-master",
        ("a.json", json.dumps({"features": [TASK | {"passes": False, "status": "pending"}]})): "prd",
        ("a.json", json.dumps({"features": [{"id": 1, "name": "a", "status": "done"}]})): "prd",
        ("a.json", json.dumps([TASK | {"status": "done"}, TASK])): None,
        ("a.json", "7"): None,
        ("a.jsonl", f'{{"_type": "memory"}}\n{json.dumps(ISSUE | {"_type": "issue"})}'): "beads",
        ("a.jsonl", '{"_type": "memory"}'): None,
        ("a.jsonl", f"{json.dumps(ISSUE)}\n{json.dumps(TASK)}"): None,
        ("a.jsonl", "\n"): "beads",
        ("spec", json.dumps({"tasks": [TASK]})): "task-master",
        ("spec", f"{json.dumps(ISSUE)}\n\n{json.dumps(ISSUE)}\n"): "beads",
        ("spec", "{a template}"): None,
        ("spec.md", "[a link](x)"): None,
        ("tasks.md", "- [ ] T001 a"): "spec-kit",
        ("tasks.md", "1. [x] 2.1 a"): "kiro",
        ("tasks.md", "- [ ] 1. a\n- [ ] T001 a"): None,
        ("tasks.md", "- [ ] fast\n- [ ] small\n\n- [ ] 1. a"): None,
        ("x/.kiro/specs/a/tasks.md", "- [ ] fast\n- [ ] small\n\n- [ ] 1. a"): "kiro",
        (".kiro/specs/a/tasks.md", "- [ ] fast"): None,
        ("spec.md", "- [ ] write it"): None,
        ("spec.md", "```\n- [ ] T001 a\n```"): None,
        ("goals.yaml", "version: 1"): None,
    }
    assert {row: detect_format(row[1], name=row[0]) for row in formats} == formats
    with pytest.raises(PlanInvalid, match="the list of tasks is empty"):
        detect_format(" []\n", name="a.json")
    assert {row: detect_format("\ufeff" + row[1], name=row[0]) for row in formats} == formats


def test_json_that_is_broken_is_no_free_text():
    """OR-6."""
    texts = (("a.json", '{"tasks": ['), ("a.jsonl", '{"id"'), ("a.json", "[" * 100_000))
    for name, text in texts:
        with pytest.raises(PlanInvalid) as caught:
            detect_format(text, name=name)
        assert [finding.code for finding in caught.value.findings] == ["syntax"], name


@given(st.text(), st.sampled_from(["a.md", "a"]))
def test_any_text_has_a_format_or_none(text, name):
    assert detect_format(text, name=name) in {None, "prd", "task-master", "spec-kit", "kiro", "beads"}


def test_a_prompt_has_a_cap():
    """DR-13."""
    loop = read_prompt_loop("\ufeffDo it.\n", name="PROMPT.md")
    assert (loop.prompt, loop.max_rounds) == ("Do it.\n", MAX_ROUNDS)
    with pytest.raises(PlanInvalid):
        read_prompt_loop(" \n", name="PROMPT.md")


def test_a_round_gets_the_whole_prompt_and_may_change_nothing():
    """Each round is a goal of one action; its agent is told how rounds end."""
    goal = round_goal(read_prompt_loop("Do it.\n", name="PROMPT.md"), 3)
    (action,) = goal.actions
    assert (goal.name, goal.goal_state, action.key, action.method) == ("round-3", ("done:round-3",), "round-3", "round")
    assert action.description == "Do it.\n"
    assert action.notes == snapshot(
        "This is round 3 of at most 50. Each begins anew, on what earlier ones have landed. A "
        "round that changes nothing is the last one: change nothing if nothing is left to do, and "
        "say so."
    )
