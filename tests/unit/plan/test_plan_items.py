"""Work items: what is ready, what may follow, and links that would make a circle."""

from datetime import UTC, datetime, timedelta

from inline_snapshot import snapshot

from scaffold.core.work_item import WorkItem
from scaffold.plan.items import circle_in, hindrances, moved, open_parts, problem_of, ready_items

NOW = datetime(2026, 3, 1, tzinfo=UTC)


def an_item(name, **fields):
    return WorkItem(id=name, **{"title": f"do {name}", "created_at": NOW, "updated_at": NOW, **fields})


def known(*items):
    return {each.id: each for each in items}


def ready(*items):
    return [each.id for each in ready_items(items)]


def test_the_most_urgent_task_that_waits_for_nothing_comes_first():
    """AL-29: then the oldest; epics are no tasks."""
    items = (
        an_item("later", created_at=NOW + timedelta(1)),
        an_item("epic", kind="epic"),
        an_item("now", priority=0, parent="epic"),
        an_item("waits", blocked_by=("now",)),
        an_item("begun", status="in_progress"),
        an_item("held", status="blocked"),
        an_item("earlier", blocked_by=("gone", "over", "unwanted")),
        an_item("over", status="done"),
        an_item("unwanted", status="canceled"),
        an_item("whole"),
        an_item("part", parent="whole", status="in_progress"),
    )
    assert ready(*items) == ["now", "earlier", "later"]


def test_a_part_waits_for_what_the_whole_waits_for():
    """AL-29."""
    epics = (
        ({"status": "blocked"}, "e, which it is a part of, is blocked"),
        ({"status": "canceled"}, "e, which it is a part of, is canceled"),
        ({"blocked_by": ("other",)}, "it waits for other"),
        ({"parent": "e"}, ""),
        ({"parent": "nobody"}, ""),
    )
    for fields, why in epics:
        items = known(an_item("e", kind="epic", **fields), an_item("other"), an_item("x", parent="e"))
        assert next(hindrances(items["x"], items), "") == why, fields
        assert ("x" in ready(*items.values())) is (why == ""), fields


def test_a_circle_of_waiting_is_found():
    """AL-29: over parts, blockers, and both."""
    rows = (
        ((an_item("a", blocked_by=("b",)), an_item("b", blocked_by=("a",))), {"a", "b"}),
        ((an_item("a", blocked_by=("a",)),), {"a"}),
        ((an_item("a", parent="a"),), {"a"}),
        ((an_item("a", parent="b"), an_item("b", parent="a")), {"a", "b"}),
        ((an_item("e"), an_item("x", parent="e", blocked_by=("e",))), {"e", "x"}),
        ((an_item("e", blocked_by=("x",)), an_item("x", parent="e")), {"x"}),
        ((an_item("a", blocked_by=("b",)), an_item("b", blocked_by=("c", "gone")), an_item("c")), set()),
    )
    assert [{*circle_in(known(*items))} for items, _ in rows] == [circle for _, circle in rows]
    refused = [bool(problem_of(items[0], known(*items))) for items, _ in rows]
    assert refused == [bool(circle or "gone" in items[0].blocked_by) for items, circle in rows]


def test_what_cannot_be_stored_is_told():
    faults = (
        {"title": ""},
        {"title": "x" * 201},
        {"reason": "x" * 501},
        {"description": "x" * 8_001},
        {"priority": 10},
        {"priority": -1},
        {"labels": tuple(f"l{n}" for n in range(11))},
        {"labels": ("two words",)},
        {"project": "p\n"},
        {"parent": "nobody"},
        {"blocked_by": ("nobody",)},
        {"parent": "other", "labels": ("a/b-c.d",), "project": "shop"},
    )
    found = [problem_of(an_item("a", **fields), known(an_item("other"))) for fields in faults]
    assert found == snapshot(
        [
            "it has no title",
            "its title has more than 200 characters",
            "the reason has more than 500 characters",
            "its description has more than 8,000 characters",
            "its priority is not between 0 and 9",
            "its priority is not between 0 and 9",
            "it has more than 10 labels",
            "a label is not a word of up to 40 characters",
            "its project is not a word of up to 40 characters",
            "an item that it names does not exist",
            "an item that it names does not exist",
            "",
        ]
    )


def test_a_status_follows_from_another_only_where_that_makes_sense():
    """AL-29: open, in_progress, blocked, done, canceled."""
    items = known(
        an_item("a"),
        an_item("waits", blocked_by=("a",)),
        an_item("over", status="done"),
        an_item("held", status="blocked", reason="because"),
        an_item("e", kind="epic"),
        an_item("x", parent="e"),
    )
    assert moved(items["a"], "in_progress", items).status == "in_progress"
    begun = moved(items["a"], "in_progress", items)
    assert moved(begun, "in_progress", items) == snapshot("it is in progress")
    assert moved(items["waits"], "in_progress", items) == "it waits for a"
    assert moved(items["a"], "blocked", items, reason=" ") == "it needs a reason"
    held = moved(items["a"], "blocked", items, reason="no\nserver")
    assert (held.status, held.reason) == ("blocked", "no server")
    assert moved(items["held"], "open", items).reason == ""
    assert moved(items["e"], "done", items) == snapshot("parts of it are open: x")
    assert [each.id for each in open_parts(items["e"], items)] == ["x"]
    assert moved(items["over"], "in_progress", items) == "it is done"
    assert moved(items["over"], "canceled", items) == "it is done"
    assert moved(items["over"], "done", items) == items["over"]
    assert moved(items["over"], "open", items).status == "open"
    assert moved(items["x"], "canceled", items).has_ended
