"""`prd.json`: stories, their errors, and which of them can be assigned."""

import json

import pytest

from scaffold.core.errors import PlanInvalid
from scaffold.plan.source.prd import Story, assignable, read_prd


def prd(*stories, key="userStories", **others):
    return json.dumps(others | {key: list(stories)}, indent=1)


def entry(story_id, **fields):
    return {"id": story_id, "title": f"Story {story_id}"} | fields


def read(text):
    return read_prd(text, name="prd.json")


def refused(text):
    with pytest.raises(PlanInvalid) as caught:
        read(text)
    return caught.value


FULL = entry(
    "US-003",
    description="As a user ...",
    acceptanceCriteria=["It works", "It is tested"],
    priority=2,
    passes=True,
    notes="Mind the cache",
    depends_on=["US-001"],
    estimate={"points": 3, "by": ["Ada"]},
)


def test_a_story_is_read_with_all_its_fields():
    """DR-1."""
    story = read(prd(entry("US-001"), FULL)).stories[1]
    assert story == Story(
        id="US-003",
        title="Story US-003",
        description="As a user ...",
        acceptance_criteria=("It works", "It is tested"),
        priority=2,
        passes=True,
        notes="Mind the cache",
        depends_on=("US-001",),
        given=FULL,
    )


def test_unknown_fields_are_kept_without_a_warning():
    """DR-1: of stories and of the document."""
    text = prd(entry("US-001"), FULL, project="Shop", branchName=None)
    document = read(text)
    assert document.given == json.loads(text)
    assert document.stories[1].given["estimate"] == {"points": 3, "by": ["Ada"]}


def test_a_story_needs_only_an_id_and_a_title():
    (story,) = read(prd(entry("US-001", notes=None), key="stories")).stories
    assert (story.priority, story.passes, story.notes, story.depends_on) == (None, False, "", ())


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
        (prd(entry("A", priority="high")), "wrong-type", "expected a number"),
        (prd(entry("A", priority=float("inf"))), "bad-value", "not a finite number"),
        (prd(entry("A", passes="no")), "wrong-type", "expected true or false"),
        (prd(entry("A", depends_on=[1])), "wrong-type", "expected text"),
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
).stories


def names(**known):
    return [story.id for story in assignable(STORIES, **known)]


def test_stories_are_assignable_when_their_dependencies_are_completed_lowest_priority_first():
    """DR-1."""
    assert names() == ["zero", "soon", "late", "none"]


def test_claimed_and_completed_stories_are_not_assignable():
    """DR-1."""
    assert names(claimed={"zero"}) == ["soon", "late", "none"]
    assert names(completed={"soon", "none"}) == ["later", "zero", "late"]
