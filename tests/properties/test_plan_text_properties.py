"""Plans as text: written plans are read back, and invalid text is always explained."""

import json

import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from scaffold.core.errors import PlanInvalid
from scaffold.core.plan import ActionSpec, GoalSpec, Plan
from scaffold.core.proof.contract import Check, Contract, ExitCode, OutputContains
from scaffold.plan.text.file_format import bad_glob, bad_key, bad_name, plan_document, read_plan, write_plan
from support.property_examples import up_to

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12)
tricky = st.sampled_from(["yes", "null", "1", "~", "- a", "a: b", "#", "<<", "=", "2020-01-01", "'", '"', "&a", "*a"])
words = texts | tricky
printable = tricky | st.text(st.characters(exclude_categories=["C", "Z"], include_characters=" "), max_size=12)
visible = tricky | st.text(st.characters(exclude_categories=["C", "Z"], exclude_characters="\\"), max_size=12)
"""Mostly what can be a name, and a key: little is drawn in vain."""
names = printable.map(str.strip).filter(lambda text: bad_name(text) is None)
keys = visible.filter(lambda text: bad_key(text) is None)
globs = st.lists(printable.filter(lambda text: bad_glob(text) is None), max_size=2, unique=True).map(tuple)
assertions = st.lists(names, max_size=3, unique=True).map(tuple)
expectations = st.builds(ExitCode, st.integers(0, 255)) | st.builds(OutputContains, words.filter(bool))
checks = st.builds(
    Check,
    command=words.filter(str.strip),
    expect=expectations,
    description=words,
    required=st.booleans(),
    timeout_s=st.none() | st.floats(0.001, 1e6),
)
contracts = st.builds(
    Contract,
    intent=words,
    commands=st.lists(checks, max_size=2).map(tuple),
    must_exist=globs,
    must_not_exist=globs,
    must_not_change=globs,
)


@st.composite
def goals(draw, name):
    keys_here = draw(st.lists(keys, max_size=4, unique=True))
    actions = []
    for key in keys_here:
        compounds = [action.key for action in actions if action.kind == "compound"]
        actions.append(
            ActionSpec(
                key=key,
                description=draw(st.just(key) | words),
                kind=draw(st.sampled_from(["primitive", "compound"])),
                role=draw(st.just("implementation") | names),
                parent=draw(st.sampled_from([None, *compounds])),
                preconditions=draw(assertions),
                effects=draw(assertions),
                files=draw(globs),
                contract=draw(st.none() | contracts),
            )
        )
    return GoalSpec(
        name=name,
        description=draw(words),
        goal_state=draw(assertions.filter(bool)),
        persistent=draw(st.booleans()),
        actions=tuple(draw(st.permutations(actions))),
    )


@st.composite
def plans(draw):
    goal_names = draw(st.lists(names, min_size=1, max_size=2, unique=True))
    return Plan(goals=tuple(draw(goals(name)) for name in goal_names))


@given(plans())
def test_a_written_plan_is_read_back_unchanged(plan):
    """SC-4."""
    text = write_plan(plan)
    assert read_plan(text, name="plan.yaml") == (plan, ())


@given(plans())
def test_json_and_yaml_of_a_plan_are_equivalent(plan):
    document = plan_document(plan)
    assert yaml.safe_load(write_plan(plan)) == document
    assert read_plan(json.dumps(document), name="plan.json") == (plan, ())


def errors(text, name):
    """Return the errors of the text; any other exception passes through."""
    try:
        read_plan(text, name=name)
    except PlanInvalid as error:
        return error.findings
    return ()


@settings(max_examples=up_to(200))
@given(
    st.text(max_size=60) | st.text("version:1goals[]{}-&*!,'\"\n #|>?%<", max_size=60),
    st.sampled_from([".json", ".yaml"]),
)
@example("{a: b", ".yaml")
@example("\ud800", ".yaml")
@example('"\ud800', ".json")
def test_no_text_makes_the_parser_fail_except_with_findings(text, suffix):
    for finding in errors(text, f"plan{suffix}"):
        assert finding.line >= 1
        assert finding.column >= 1
        assert finding.message.isprintable()


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["key", "kind", "effects", "contract", "commands", "expect", "x"]), inner)
    ),
    max_leaves=12,
)


@given(values, values)
def test_no_structure_makes_the_parser_fail_except_with_findings(goal, action):
    document = {"version": 1, "goals": [goal, {"name": "g", "goal_state": ["x"], "actions": [action]}]}
    for name, text in (("p.json", json.dumps(document)), ("p.yaml", yaml.safe_dump(document))):
        assert all(finding.fix and finding.line for finding in errors(text, name))
