"""`prd.json`: stories, their errors, and which of them can be assigned."""

import json

import pytest
from inline_snapshot import snapshot

from scaffold.core.errors import PlanInvalid
from scaffold.plan.source.formats import read_tasks_of, with_done
from scaffold.plan.source.prd import by_priority
from scaffold.plan.source.task import SourceTask, TextEdit
from scaffold.plan.text.parse_tree import TextPosition
from support.findings import fault


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


def test_spellings_met_in_the_wild_are_understood():
    """DR-1: keys in snake case and camel case, numbers as ids, words as priorities, criteria with a text."""
    first = entry(1, acceptance_criteria=[{"id": "AC-1", "text": "It works"}], priority="High", completed=True)
    second = entry("B", dependsOn=[1], acceptanceCriteria="- It works\n- [ ] It is tested", priority="P2")
    for key in ("userStories", "user_stories", "stories"):
        one, two = read(prd(first, second, key=key))
        assert (one.id, one.acceptance, one.priority, one.done) == ("1", ("It works",), 1, True)
        assert (two.depends_on, two.acceptance, two.priority) == (("1",), ("It works", "It is tested"), 2)


def test_a_story_needs_only_an_id_and_a_title():
    (story,) = read(prd(entry("US-001", notes=None, acceptanceCriteria="all of it\n- really")))
    assert (story.priority, story.done, story.notes, story.depends_on) == (None, False, "", ())
    assert story.acceptance == snapshot(("all of it\n- really",))


def test_a_cycle_is_refused_and_listed():
    """DR-1."""
    error = refused(prd(entry("A", depends_on=["B"]), entry("B", depends_on=["C"]), entry("C", depends_on=["A"])))
    assert "A -> B -> C -> A" in error.what
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


def test_unreadable_text_is_reported_at_its_position():
    faults = {
        "{": "syntax",
        "[]": "bad-value prd.features",
        '[{"description": "a", "passes": true}, 1]': "wrong-type prd.features[1] 1",
        "{}": "missing-key prd userStories",
        '{"userStories": {}}': "wrong-type prd.userStories",
        '{"userStories": [1]}': "wrong-type prd.userStories[0] 1",
        prd({"id": "A"}): "missing-key prd.userStories[0] title",
        prd({"title": "t"}): "missing-key prd.userStories[0] id",
        prd(entry("../A")): "bad-value prd.userStories[0].id ../A . ..",
        prd(entry("A", priority="soon")): "bad-value prd.userStories[0].priority",
        prd(entry("A", priority=float("inf"))): "bad-value prd.userStories[0].priority",
        prd(entry("A", acceptanceCriteria=[{"id": 1}])): "missing-key prd.userStories[0].acceptanceCriteria[0] text",
        prd(entry("A", passes="no")): "wrong-type prd.userStories[0].passes no",
        prd(entry("A", depends_on=[[]])): "wrong-type prd.userStories[0].depends_on[0]",
        '{"userStories": [{"id": "A", "title": "t", "title": "u"}]}': "duplicate-key prd.userStories[0] title",
    }
    found = {text: refused(text).findings[0] for text in faults}
    assert {text: fault(each) for text, each in found.items()} == faults
    assert all(each.line for each in found.values())


FEATURES = """[
  {"category": "ui", "description": "The list is\\n sorted", "steps": ["Open it", "Look"], "passes": false},
  {"id": 7, "name": "Search", "description": "It finds.", "criteria": ["fast"], "steps": ["Type"], "done": true},
  {"description": "\u00e9", "tags": ["a", "b"]}
]
"""


def test_a_list_of_features_without_ids_and_titles_is_read():
    """SC-22: what a feature is about names it, and its steps say when it is done."""
    for text in (FEATURES, f'{{"features": {FEATURES}}}', f'{{"tasks": {FEATURES}}}'):
        assert [story.id for story in read(text)] == ["the-list-is-sorted-d35f7d", "7", "story-4a9955"]
    one, two, three = read(FEATURES)
    assert (one.title, one.description, one.acceptance) == snapshot(("The list is sorted", "", ("Open it", "Look")))
    assert (one.notes, one.done) == ("category: ui", False)
    assert (two.title, two.description, two.acceptance) == ("Search", "It finds.", ("fast",))
    assert (two.notes, two.done) == ("steps: Type", True)
    assert (three.title, three.notes) == ("\u00e9", "tags: a; b")


def test_a_feature_keeps_its_id_wherever_it_stands():
    """Marks find the right one in a list that was edited meanwhile."""
    moved = json.dumps([{"description": "new", "passes": False}, *json.loads(FEATURES)])
    assert [story.id for story in read(moved)][1:] == [story.id for story in read(FEATURES)]
    result = with_done("prd", FEATURES, [read(FEATURES)[0].id], name="x")
    assert (result.text, result.unmarked) == (FEATURES.replace("false", "true"), ())


def test_a_long_description_is_shortened_for_the_title_only():
    (story,) = read(json.dumps([{"description": "many words " * 30, "passes": False}]))
    assert story.description == "many words " * 30
    assert story.title.endswith("\u2026")
    assert len(story.title) <= 100


def test_a_story_without_a_flag_is_done_or_left_out_by_its_status():
    """DR-1: what passes counts more."""
    fields = [
        {"status": "Done"},
        {"status": "in_progress"},
        {"status": "on_hold"},
        {"status": "done", "passes": False},
        {"passes": False, "skip": True},
        {"passes": True, "blocked": True},
    ]
    text = prd(*(entry(f"S{number}", **each) for number, each in enumerate(fields)))
    stories = read(text)
    assert [story.done for story in stories] == [True, False, False, False, False, True]
    held = ["", "", "has the status `on-hold`", "", "is marked as `skip`", ""]
    assert [story.held for story in stories] == held
    assert with_done("prd", text, ["S1"], name="x").text == text.replace('"in_progress"', '"done"')


def test_all_that_a_story_says_is_read():
    """Texts may be lists, and keys that nothing else is made of go into the notes."""
    given = entry("A", deps=["B"], acceptance=["good"], notes=["Mind it", "Hm"], files=["a.py", "b.py"], tags=[], n=1)
    story = read(prd(given, entry("B")))[0]
    assert (story.depends_on, story.acceptance) == (("B",), ("good",))
    assert story.notes == "- Mind it\n- Hm\n\nfiles: a.py; b.py"


def test_stories_come_by_priority_and_otherwise_as_they_were_written():
    """DR-1: the lowest number first, stories without one last."""
    text = prd(
        entry("late", priority=9), entry("none"), entry("soon", priority=1), entry("zero", priority=0), entry("last")
    )
    assert [story.id for story in by_priority(read(text))] == ["zero", "soon", "late", "none", "last"]
