"""`prd.json`: stories, their errors, and which of them can be assigned."""

import json

import pytest

from scaffold.core.errors import PlanInvalid
from scaffold.plan.source.formats import read_tasks_of
from scaffold.plan.source.prd import assignable
from scaffold.plan.source.task import SourceTask, TextEdit
from scaffold.plan.text.positioned import TextPosition


def prd(*stories, key="userStories", **others):
    return json.dumps(others | {key: list(stories)}, indent=1)


def entry(story_id, **fields):
    return {"id": story_id, "title": f"Story {story_id}"} | fields


def read(text):
    return read_tasks_of("prd", text, name="prd.json").tasks


def refused(text):
    with pytest.raises(PlanInvalid) as caught:
        read(text)
    return caught.value


def test_a_story_is_read_with_all_its_fields():
    """DR-1."""
    story = {
        "id": "US-003",
        "title": "Add it",
        "description": "As a user ...",
        "acceptanceCriteria": ["It works", "It is tested"],
        "priority": 2,
        "passes": False,
        "notes": "Mind the cache",
        "depends_on": ["US-001"],
        "estimate": {"points": 3},
    }
    text = prd(entry("US-001"), story)
    at = text.index("false")
    assert read(text)[1] == SourceTask(
        id="US-003",
        title="Add it",
        description="As a user ...",
        acceptance=("It works", "It is tested"),
        priority=2,
        notes="Mind the cache",
        depends_on=("US-001",),
        position=TextPosition(7, 3),
        done_edits=(TextEdit(at, at + len("false"), "true"),),
    )


@pytest.mark.parametrize("key", ["userStories", "user_stories", "stories"])
def test_spellings_met_in_the_wild_are_understood(key):
    """DR-1: keys in snake case and camel case, numbers as ids, words as priorities, criteria with a text."""
    first = entry(1, acceptance_criteria=[{"id": "AC-1", "text": "It works"}], priority="High", completed=True)
    second = entry("B", dependsOn=[1], acceptanceCriteria="- It works\n- [ ] It is tested", priority="P2")
    one, two = read(prd(first, second, key=key))
    assert (one.id, one.acceptance, one.priority, one.done) == ("1", ("It works",), 1, True)
    assert (two.depends_on, two.acceptance, two.priority) == (("1",), ("It works", "It is tested"), 2)


def test_a_story_needs_only_an_id_and_a_title():
    (story,) = read(prd(entry("US-001", notes=None, acceptanceCriteria="all of it\n- really")))
    assert (story.priority, story.done, story.notes, story.depends_on) == (None, False, "", ())
    assert story.acceptance == ("all of it\n- really",)


def test_a_cycle_is_refused_and_listed():
    """DR-1."""
    error = refused(prd(entry("A", depends_on=["B"]), entry("B", depends_on=["C"]), entry("C", depends_on=["A"])))
    assert "tasks wait for each other: A -> B -> C -> A" in error.what
    assert [finding.code for finding in error.findings] == ["cycle"]


def test_dependency_errors_have_the_position_of_their_story():
    error = refused(
        '{"userStories": [\n {"id": "A", "title": "t"},\n {"id": "B", "title": "u", "depends_on": ["B", "Z"]},\n'
        ' {"id": "A", "title": "v"}\n]}'
    )
    assert [(f.code, f.line, f.column) for f in error.findings] == [
        ("duplicate-key", 4, 2),
        ("self-dependency", 3, 2),
        ("unknown-dependency", 3, 2),
    ]


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        ("{", "syntax", "invalid JSON"),
        ("[]", "wrong-type", "expected a mapping"),
        ("{}", "missing-key", "`userStories` is missing"),
        ('{"stories": []}', "bad-value", "the list is empty"),
        ('{"userStories": {}}', "wrong-type", "expected a list"),
        ('{"userStories": [1]}', "wrong-type", "expected a mapping"),
        (prd({"id": "A"}), "missing-key", "`title` is missing"),
        (prd({"title": "t"}), "missing-key", "`id` is missing"),
        (prd(entry("../A")), "bad-value", "`../A` has a part"),
        (prd(entry("A", priority="soon")), "bad-value", "neither a finite number nor a known word"),
        (prd(entry("A", priority=float("inf"))), "bad-value", "neither a finite number"),
        (prd(entry("A", acceptanceCriteria=[{"id": 1}])), "missing-key", "`text` is missing"),
        (prd(entry("A", acceptanceCriteria=[1])), "wrong-type", "expected text"),
        (prd(entry("A", passes="no")), "wrong-type", "expected true or false"),
        (prd(entry("A", depends_on=[[]])), "wrong-type", "expected text"),
        ('{"userStories": [{"id": "A", "title": "t", "title": "u"}]}', "duplicate-key", "written twice"),
    ],
)
def test_unreadable_text_is_reported_at_its_position(text, code, message):
    finding = refused(text).findings[0]
    assert (finding.code, message in finding.message) == (code, True)
    assert finding.line


STORIES = read(
    prd(
        entry("late", priority=9),
        entry("none"),
        entry("done", passes=True, priority=0),
        entry("soon", priority=1, depends_on=["done"]),
        entry("later", priority=0, depends_on=["soon"]),
        entry("zero", priority=0),
    )
)


def names(**known):
    return [story.id for story in assignable(STORIES, **known)]


def test_stories_are_assignable_when_their_dependencies_are_completed_lowest_priority_first():
    """DR-1."""
    assert names() == ["zero", "soon", "late", "none"]


def test_claimed_and_completed_stories_are_not_assignable():
    """DR-1."""
    assert names(claimed={"zero"}) == ["soon", "late", "none"]
    assert names(completed={"soon", "none"}) == ["later", "zero", "late"]
