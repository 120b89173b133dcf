import json

import pytest
from inline_snapshot import snapshot

from scaffold.core.errors import PlanInvalid
from scaffold.core.plan import ActionSpec, GoalSpec, Plan
from scaffold.core.proof.contract import Check, Contract, ExitCode, OutputContains
from scaffold.plan.text.file_format import read_plan, write_plan
from support.findings import fault

FULL = """\
version: 1
goals:
  - name: shortener
    description: A URL shortener with tests
    goal_state: [store_works, reviewed]
    persistent: true
    actions:
      - key: build
        kind: compound
        effects: [store_works]
      - key: US-001/step-005
        parent: build
        description: "Build the store"
        effects: [store_works, store_works]
        files: ["shortener/store.py"]
        contract:
          intent: the store works
          commands:
            - "ruff check"
            - {command: pytest -q, expect: exit 5, description: tests, required: false, timeout_s: 60}
            - {command: cat log, expect: "output contains 3: passed"}
          must_exist: ["shortener/*.py"]
          must_not_exist: [tmp/**]
          must_not_change: [tests/**]
      - {key: review, role: code_review, preconditions: [store_works], effects: [reviewed], contract: {}}
"""

FULL_PLAN = Plan(
    goals=(
        GoalSpec(
            name="shortener",
            description="A URL shortener with tests",
            goal_state=("store_works", "reviewed"),
            persistent=True,
            actions=(
                ActionSpec(key="build", description="build", kind="compound", effects=("store_works",)),
                ActionSpec(
                    key="US-001/step-005",
                    description="Build the store",
                    parent="build",
                    effects=("store_works",),
                    files=("shortener/store.py",),
                    contract=Contract(
                        intent="the store works",
                        commands=(
                            Check(command="ruff check"),
                            Check(
                                command="pytest -q",
                                expect=ExitCode(5),
                                description="tests",
                                required=False,
                                timeout_s=60.0,
                            ),
                            Check(command="cat log", expect=OutputContains("3: passed")),
                        ),
                        must_exist=("shortener/*.py",),
                        must_not_exist=("tmp/**",),
                        must_not_change=("tests/**",),
                    ),
                ),
                ActionSpec(
                    key="review",
                    description="review",
                    role="code_review",
                    preconditions=("store_works",),
                    effects=("reviewed",),
                    contract=Contract(),
                ),
            ),
        ),
    )
)

ACTION = "version: 1\ngoals:\n- name: g\n  goal_state: [x]\n  actions:\n  - key: a\n    "
"""The beginning of a plan whose one action goes on at line 7, column 5."""


def problems(text, name="plan.yaml"):
    with pytest.raises(PlanInvalid) as caught:
        read_plan(text, name=name)
    return caught.value.findings


def problem(text, name="plan.yaml"):
    (finding,) = problems(text, name)
    return finding


def message_of(finding):
    """Return what is wrong inside of the one action."""
    return finding.message.removeprefix("plan.goals[0].actions[0]").removeprefix(".")


def place(finding):
    return finding.code, finding.line, finding.column


def test_a_plan_with_every_field_is_read():
    """SC-4, SC-9: goals with a desired state, actions with preconditions and effects; order is derived."""
    assert read_plan(FULL, name="plan.yaml") == (FULL_PLAN, ())
    assert read_plan(write_plan(FULL_PLAN), name="plan.yaml") == (FULL_PLAN, ())


def test_a_written_plan_omits_defaults():
    plan = Plan(goals=(GoalSpec(name="g", goal_state=("x",), actions=(ActionSpec(key="a", description="a"),)),))
    assert write_plan(plan) == "version: 1\ngoals:\n- name: g\n  goal_state:\n  - x\n  actions:\n  - key: a\n"


def test_tasks_of_a_flat_graph_become_actions_over_their_done_assertions():
    """OR-2."""
    text = (
        'version: 1\ngoals: [{name: g, goal_state: ["done:b"], actions: ['
        '{key: a, effects: ["done:a"]}, {key: b, preconditions: ["done:a"], effects: ["done:b"]}]}]'
    )
    plan, _ = read_plan(text, name="p.yaml")
    assert plan.actions[1].preconditions == plan.actions[0].effects == ("done:a",)


PATH_KEYS = ("must_exist", "must_not_exist", "must_not_change")
MINIMAL = {"version": 1, "goals": [{"name": "g", "goal_state": ["x"], "actions": [{"key": "a", "effects": ["x"]}]}]}


def test_json_is_recognised_by_file_name_or_content():
    for name in ("plan.json", "plan.yaml", "-"):
        plan, _ = read_plan(json.dumps(MINIMAL, indent="\t"), name=name)
        assert plan.actions[0].effects == ("x",), name


def test_json_characters_outside_the_basic_plane_are_decoded():
    text = json.dumps(MINIMAL).replace('"a"', r'"\ud83d\ude00"')
    assert read_plan(text, name="plan.json")[0].actions[0].key == "\N{GRINNING FACE}"


def test_yaml_in_flow_style_that_looks_like_json_is_read_as_yaml():
    text = "{version: 1, goals: [{name: g, goal_state: [x], actions: []}]}"
    assert read_plan(text, name="plan.yaml")[0].goals[0].goal_state == ("x",)


def test_a_byte_order_mark_is_ignored():
    assert read_plan("\ufeff" + FULL, name="p.yaml")[0] == FULL_PLAN
    assert read_plan("\ufeff" + json.dumps(MINIMAL), name="p.json")[0].actions[0].key == "a"


def test_anchors_and_aliases_are_supported():
    text = "version: 1\ngoals:\n- {name: g, goal_state: &w [x], actions: [{key: a, effects: *w}]}"
    assert read_plan(text, name="p.yaml")[0].actions[0].effects == ("x",)


def test_a_key_without_a_value_counts_as_omitted():
    plan, _ = read_plan(ACTION + "description:\n    parent: ~\n    effects: null\n    contract:\n", name="p.yaml")
    assert plan.actions == (ActionSpec(key="a", description="a"),)


def test_an_empty_description_is_kept():
    plan, _ = read_plan(ACTION + 'description: ""', name="p.yaml")
    assert plan.actions[0].description == ""
    assert read_plan(write_plan(plan), name="p.yaml")[0] == plan


def test_unknown_keys_raise_a_warning_with_position_and_suggestion():
    plan, (warning,) = read_plan(ACTION + "prconditions: [b]", name="p.yaml")
    assert (*place(warning), warning.severity) == ("unknown-key", 7, 5, "warning")
    assert (warning.goal, warning.action, plan.actions[0].key) == ("g", "a", "a")
    assert warning.fix.startswith("Did you mean `preconditions`?")
    _, (warning,) = read_plan(ACTION + '"a\\nb": 1', name="p.yaml")
    assert place(warning) == ("unknown-key", 7, 5)
    assert "Did you mean" not in warning.fix
    assert "\n" not in warning.message


def test_unknown_keys_in_json_have_a_position_too():
    text = '{"version": 1,\n "goals": [{"name": "g", "goal_state": ["x"],\n  "gaol": {}, "actions": []}]}'
    _, (warning,) = read_plan(text, name="p.json")
    assert place(warning) == ("unknown-key", 3, 3)


def test_a_value_of_the_wrong_type_is_refused_with_its_position():
    faults = {
        "effects: [yes]": snapshot((15, "effects[0]: expected text, found the boolean `yes`; put it in quotes")),
        "effects: [1]": snapshot((15, "effects[0]: expected text, found the number `1`; put it in quotes")),
        "effects: [2020-01-01]": snapshot(
            (15, "effects[0]: expected text, found the date `2020-01-01`; put it in quotes")
        ),
        "effects: [~]": snapshot((15, "effects[0]: expected text, found nothing; put it in quotes")),
        "effects: [!x y]": snapshot((15, "effects[0]: expected text, found the tagged value `y`; put it in quotes")),
        "effects: [[a]]": snapshot((15, "effects[0]: expected text, found a list")),
        "effects: a": snapshot((14, "effects: expected a list, found the text `a`")),
        "kind: 3": snapshot((11, "kind: expected text, found the number `3`; put it in quotes")),
        "contract: {commands: [[a]]}": snapshot((27, "contract.commands[0]: expected a mapping, found a list")),
        "contract: {commands: [1]}": snapshot(
            (27, "contract.commands[0].command: expected text, found the number `1`; put it in quotes")
        ),
        "contract: {commands: [{command: a, required: x}]}": snapshot(
            (50, "contract.commands[0].required: expected true or false, found the text `x`")
        ),
        "contract: {commands: [{command: a, timeout_s: x}]}": snapshot(
            (51, "contract.commands[0].timeout_s: expected a number, found the text `x`")
        ),
        "contract: {commands: [{command: a, timeout_s: yes}]}": snapshot(
            (51, "contract.commands[0].timeout_s: expected a number, found the boolean `yes`")
        ),
        "? [a]\n    : b": snapshot((7, ": expected a key, found a list")),
    }
    found = {rest: problem(ACTION + rest) for rest in faults}
    assert {rest: (each.column, message_of(each)) for rest, each in found.items()} == faults
    assert {(each.code, each.line) for each in found.values()} == {("wrong-type", 7)}


def test_an_invalid_value_is_refused():
    faults = {
        "kind: atomic": snapshot("kind: `atomic` is not a kind of action"),
        "role: ' '": snapshot("role: ` ` is empty"),
        "effects: ['']": snapshot("effects[0]: `` is empty"),
        "effects: [' a']": snapshot(
            "effects[0]: ` a` begins or ends with whitespace, or contains an unprintable character"
        ),
        'effects: ["a\\nb"]': snapshot(
            "effects[0]: `a\\nb` begins or ends with whitespace, or contains an unprintable character"
        ),
        'description: "a\\0b"': snapshot(
            "description: `a\\x00b` contains a character that is not allowed (NUL or half a surrogate pair)"
        ),
        "files: ['']": snapshot("files[0]: `` is empty or contains an unprintable character"),
        "contract: {commands: ['']}": snapshot("contract.commands[0].command: `` is empty"),
        "contract: {commands: [{command: a, expect: exit 256}]}": snapshot(
            "contract.commands[0].expect: `exit 256` is not a valid expectation"
        ),
        "contract: {commands: [{command: a, expect: ok}]}": snapshot(
            "contract.commands[0].expect: `ok` is not a valid expectation"
        ),
        "contract: {commands: [{command: a, timeout_s: 0}]}": snapshot(
            "contract.commands[0].timeout_s: is not a positive number of seconds"
        ),
        "contract: {commands: [{command: a, timeout_s: .nan}]}": snapshot(
            "contract.commands[0].timeout_s: is not a positive number of seconds"
        ),
        "contract: {commands: [{command: a, timeout_s: !!int ''}]}": snapshot(
            "contract.commands[0].timeout_s: is not a positive number of seconds"
        ),
        "<<: {effects: [x]}": snapshot(": merge keys (`<<`) are not supported"),
        "parent: nobody": snapshot("parent: unknown parent `nobody`"),
        "parent: b\n  - key: b": snapshot("parent: the parent `b` is primitive"),
        "kind: compound\n    parent: a": snapshot("parent: the parents form a cycle: a -> a"),
    }
    found = {rest: problem(ACTION + rest) for rest in faults}
    assert {rest: message_of(each) for rest, each in found.items()} == faults
    assert {each.code for each in found.values()} == {"bad-value"}
    assert all(each.line >= 7 and each.fix for each in found.values())


def test_a_path_outside_of_the_repository_is_refused_wherever_it_stands():
    paths = ("files: [/etc/passwd]", "files: [a/../../b]", *(f"contract: {{{key}: [../b]}}" for key in PATH_KEYS))
    found = {rest: problem(ACTION + rest) for rest in paths}
    assert [rest for rest, each in found.items() if each.code != "bad-value" or "outside" not in each.message] == []
    assert message_of(found["files: [/etc/passwd]"]) == snapshot(
        "files[0]: `/etc/passwd` is outside the repository: globs are relative, without `..`"
    )


def test_valid_keys_are_accepted():
    keys = ("a", "US-001/step-005", "done:x", "a.b", "\N{LATIN SMALL LETTER E WITH ACUTE}", "k" * 128, "..a")
    for key in keys:
        text = json.dumps(MINIMAL).replace('"a"', json.dumps(key))
        assert read_plan(text, name="p.json")[0].actions[0].key == key


def test_unsafe_keys_are_refused():
    keys = ("", "a b", "a\tb", "-a", "../a", "a/..", "a/./b", "/a", "a/", "a//b", "a\\b", "k" * 129, "a\0", "\ud800")
    found = {key: problem(json.dumps(MINIMAL).replace('"a"', json.dumps(key)), "p.json") for key in keys}
    assert [key for key, each in found.items() if each.code != "bad-value" or not each.message.isprintable()] == []


def test_a_plan_without_required_parts_is_refused():
    goal = "name: g, goal_state: [x], actions: []"
    faults = {
        f"goals: [{{{goal}}}]": "missing-key plan version",
        "version: 1": "missing-key plan goals",
        "version: 1\ngoals: []": "bad-value plan.goals",
        "version: 1\ngoals: [{goal_state: [x], actions: []}]": "missing-key plan.goals[0] name",
        "version: 1\ngoals: [{name: g, actions: []}]": "missing-key plan.goals[0] goal_state",
        "version: 1\ngoals: [{name: g, goal_state: [], actions: []}]": "bad-value plan.goals[0].goal_state",
        "version: 1\ngoals: [{name: g, goal_state: [x]}]": "missing-key plan.goals[0] actions",
        "version: 1\ngoals: [{name: g, goal_state: [x], actions: [{}]}]": "missing-key plan.goals[0].actions[0] key",
        f"version: 2\ngoals: [{{{goal}}}]": "bad-value plan.version 2",
        f"version: '1'\ngoals: [{{{goal}}}]": "wrong-type plan.version 1",
        f"version: 1\nversion: 1\ngoals: [{{{goal}}}]": "duplicate-key plan version",
        "": "wrong-type plan",
        "[]": "wrong-type plan",
    }
    assert {text: fault(problem(text)) for text in faults} == faults


def test_a_duplicate_key_in_json_is_refused_at_the_second():
    text = '{"version": 1,\n "version": 1, "goals": [{"name": "g", "goal_state": ["x"], "actions": []}]}'
    assert place(problem(text, "p.json")) == ("duplicate-key", 2, 2)


def test_goal_names_are_unique():
    text = "version: 1\ngoals:\n- {name: g, goal_state: [x], actions: []}\n- {name: g, goal_state: [x], actions: []}"
    assert place(problem(text)) == ("duplicate-key", 4, 10)


def test_a_cycle_of_parents_is_reported_once_at_its_first_action():
    rest = "parent: b\n  - {key: b, kind: compound, parent: c}\n  - {key: c, kind: compound, parent: b}"
    finding = problem(ACTION + rest)
    assert place(finding) == ("bad-value", 7, 13)
    assert finding.message.endswith("the parents form a cycle: b -> c -> b")


def test_parents_may_have_parents():
    rest = "parent: b\n  - {key: b, kind: compound, parent: c}\n  - {key: c, kind: compound}\n  - {key: d, parent: b}"
    plan, _ = read_plan(ACTION + rest, name="p.yaml")
    assert [action.parent for action in plan.actions] == ["b", "c", None, "b"]


def test_a_parent_in_another_goal_is_unknown():
    text = (
        "version: 1\ngoals:\n- {name: g, goal_state: [x], actions: [{key: p, kind: compound}]}\n"
        "- {name: h, goal_state: [x], actions: [{key: c, parent: p}]}"
    )
    assert problem(text).message == "plan.goals[1].actions[0].parent: unknown parent `p`"


def test_all_problems_are_reported_at_once_in_text_order():
    text = ACTION + "effects: [yes]\n    kind: x\n  - {parent: nobody}\n  - key: -b\nversion: 2\n"
    with pytest.raises(PlanInvalid) as caught:
        read_plan(text, name="plan.yaml")
    assert [place(finding) for finding in caught.value.findings] == [
        ("wrong-type", 7, 15),
        ("bad-value", 8, 11),
        ("missing-key", 9, 5),
        ("bad-value", 9, 14),
        ("bad-value", 10, 10),
        ("duplicate-key", 11, 1),
    ]
    assert caught.value.what.startswith("plan.yaml:7:15: plan.goals[0].actions[0].effects[0]: expected text")
    assert caught.value.what.endswith("(and 5 more)")
    assert caught.value.fix == snapshot('Write "yes" if that is what you mean.')


def test_unparsable_text_is_refused_with_its_position():
    faults = {
        ("a: b: c", "p.yaml"): (1, 5),
        ("a: b\n c: d", "p.yaml"): (2, 3),
        ("a: *nobody", "p.yaml"): (1, 4),
        ("a: b\n---\nc: d", "p.yaml"): (2, 1),
        ("a: b\nc: \x07", "p.yaml"): (2, 4),
        ("a: &a [*a]", "p.yaml"): (1, 4),
        ("[" * 100_000, "p.yaml"): (1, 1),
        ("[" * 100_000, "p.json"): (1, 1),
        ('{"a":' * 100_000, "p.yaml"): (1, 1),
        ('{"a": 1,\n "b" 2}', "p.json"): (2, 6),
        ('{"version": ' + "9" * 5000 + "}", "p.json"): (1, 1),
    }
    found = {row: place(problem(*row)) for row in faults}
    assert {row: each for row, each in found.items() if each != ("syntax", *faults[row])} == {}


def test_an_enormous_number_is_reported_in_our_own_words():
    message = problem('{"version": ' + "9" * 5000 + "}", "p.json").message
    assert message == snapshot("a number has too many digits")


def test_alias_expansion_is_bounded():
    """A few hundred bytes that expand to a billion values are refused before they are counted."""
    lines = ["x0: &a0 [1, 2, 3, 4, 5, 6, 7, 8, 9]"]
    lines += [f"x{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 10)]
    assert problem("\n".join(lines)).message == snapshot("the text has more than 1,000,000 values")


def test_a_long_value_is_shortened_in_messages():
    message = problem(ACTION + f"kind: {'x' * 1000}").message
    assert len(message) < 150


def test_a_second_document_is_refused_whatever_the_first_is():
    for first in ("a", "[a]", "{a: b}", "&x a"):
        assert "another document" in problem(f"{first}\n---\nb").message


def test_a_scalar_with_an_anchor_is_read_as_itself():
    read, _ = read_plan(ACTION + "role: &said audit\n    description: *said\n", name="plan.yaml")
    assert (read.actions[0].role, read.actions[0].description) == ("audit", "audit")


def test_a_duplicate_anchor_is_refused_at_the_second():
    finding = problem("version: &a 1\ngoals: &a 2")
    assert ("found duplicate anchor" in finding.message, finding.line) == (True, 2)


STEP = """
version: 1
goals:
- name: g
  goal_state: [b]
  actions:
  - {key: a, kind: compound, method: story, effects: [b]}
  - {key: a/1, parent: a, workspace: parent, method: story, effects: [b]}
"""


def test_where_actions_work_and_how_compounds_are_broken_down_is_kept():
    """DR-10."""
    plan, warnings = read_plan(STEP, name="p.yaml")
    assert warnings == ()
    assert [(each.method, each.workspace) for each in plan.actions] == [("story", "own"), ("story", "parent")]
    assert read_plan(write_plan(plan), name="p.yaml")[0] == plan


def test_a_wrong_word_for_an_action_is_refused():
    faults = {
        "method: waterfall": snapshot("method: `waterfall` is not a method"),
        "workspace: shared": snapshot("workspace: `shared` is not a workspace"),
        "workspace: parent": snapshot("workspace: there is no parent to share a worktree with"),
        "type: CHORE": snapshot("type: `CHORE` is not a type of task"),
        'title: "a\\nb"': snapshot("title: `a\\nb` contains a line break"),
    }
    assert {line: message_of(problem(ACTION + line)) for line in faults} == faults
