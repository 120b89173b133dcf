"""Exports of beads: issues, dependencies, statuses, errors with line and column."""

import json

from inline_snapshot import snapshot

from scaffold.plan.source.formats import read_tasks_of
from support.findings import refused_at


def issue(issue_id, *dependencies, **fields):
    listed = [{"issue_id": issue_id, "depends_on_id": key, "type": kind} for kind, key in dependencies]
    return {"id": issue_id, "title": f"Issue {issue_id}", "issue_type": "task", "dependencies": listed} | fields


def read(*lines):
    text = "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines)
    return read_tasks_of("beads", text, name="issues.jsonl").tasks


def test_an_issue_is_read_with_what_plans_have_a_place_for():
    """AL-3: description and design, acceptance criteria, type, notes, priority."""
    (one,) = read(
        issue(
            "bd-1",
            description="What",
            design="How",
            acceptance_criteria="1. works\n2. is tested",
            notes="Mind it ",
            priority=2,
            issue_type="bug",
            status="open",
        )
    )
    assert (one.description, one.acceptance, one.notes) == ("What\n\nHow", ("works", "is tested"), "Mind it")
    assert (one.priority, one.type, one.done, one.held) == (2, "BUGFIX", False, "")


def test_blocking_issues_are_dependencies_and_epics_have_parts():
    """SC-22: other types of dependencies do not order anything, and deleted issues are gone."""
    issues = read(
        issue("bd-3", ("parent-child", "bd-1"), ("blocks", "bd-2"), ("related", "bd-9"), ("parent-child", "gone")),
        "",
        issue("bd-2", ("parent-child", "gone"), status="closed"),
        issue("bd-1", issue_type="epic"),
        issue("gone", status="tombstone"),
        issue("bd-4", status="deferred", dependencies=[{"issue_id": "bd-1", "depends_on_id": "bd-7"}]),
        issue("bd-5", dependencies=[{"depends_on_id": "bd-4"}]),
    )
    by_id = {each.id: each for each in issues}
    assert (by_id["bd-3"].parent, by_id["bd-3"].depends_on) == ("bd-1", ("bd-2",))
    assert (by_id["bd-2"].done, by_id["bd-2"].parent) == (True, None)
    assert (by_id["bd-4"].held, by_id["bd-4"].depends_on) == snapshot(("has the status `deferred`", ()))
    assert by_id["bd-5"].depends_on == ("bd-4",)


def test_what_nobody_works_on_is_held():
    rows = (
        ({"status": "in_progress"}, ""),
        ({"status": "pinned"}, "has the status `pinned`"),
        ({"issue_type": "gate"}, "has the type `gate`"),
        ({"dependencies": [{"depends_on_id": "b", "type": "conditional-blocks"}]}, "is to be done only if `b` fails"),
        ({"issue_type": "gate", "status": "closed"}, ""),
    )
    assert [(fields, read(issue("a", **fields))[0].held) for fields, _ in rows] == list(rows)


def test_records_that_are_no_issues_are_skipped():
    lines = [{"_type": "memory", "key": "x"}, issue("a", _type="issue"), issue("b", ("waits-for", "a"))]
    assert [(each.id, each.depends_on) for each in read(*lines)] == [("a", ()), ("b", ("a",))]


def test_errors_have_their_line_and_column():
    """OR-6."""
    faults = (
        (("",), "bad-value", (1, 1)),
        ((issue("a"), '{"id": '), "syntax", (2, 8)),
        ((issue("a"), "", "[1]"), "wrong-type", (3, 1)),
        ((issue("a"), '{"id": "b"}'), "missing-key", (2, 1)),
        ((issue("a"), '{"id": "b", "title": 1}'), "wrong-type", (2, 22)),
        ((issue("a"), issue("b"), issue("a")), "duplicate-key", (3, 1)),
        ((issue("a", ("blocks", "b")), issue("b", ("blocks", "a"))), "cycle", (1, 1)),
        ((issue("a"), issue("b", ("blocks", "c"))), "unknown-dependency", (2, 1)),
        ((issue("a"), issue("b", dependencies=[{}])), "missing-key", (2, 72)),
        ((issue("a", ("parent-child", "b")), issue("b", ("parent-child", "a"))), "cycle", (1, 1)),
        ((issue("a"), "[" * 100_000), "syntax", (1, 1)),
        ((issue("a"), "9" * 5000), "syntax", (2, 1)),
    )
    assert [(lines, *refused_at(read, *lines)) for lines, *_ in faults] == list(faults)
