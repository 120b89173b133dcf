"""Work items with any links: the ready list compared with its definition, and work that always gets done."""

from datetime import UTC, datetime

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from scaffold.core.work_item import WorkItem
from scaffold.plan.items import circle_in, moved, problem_of, ready_items
from support.property_examples import up_to

NOW = datetime(2026, 3, 1, tzinfo=UTC)
NAMES = "abcdef"


@st.composite
def any_items(draw, *, statuses=("open", "in_progress", "blocked", "done", "canceled")):
    """Items with links in any direction, stored one after another as far as they can be."""
    known = {}
    for name in NAMES[: draw(st.integers(1, len(NAMES)))]:
        known[name] = WorkItem(
            id=name,
            title=name,
            kind=draw(st.sampled_from(["task", "task", "epic"])),
            status=draw(st.sampled_from(statuses)),
            priority=draw(st.integers(0, 3)),
            created_at=NOW,
            updated_at=NOW,
        )
    for name in NAMES[: len(known)]:
        others = st.sampled_from([*known])
        linked = replace(
            known[name],
            parent=draw(st.none() | others),
            blocked_by=tuple(draw(st.lists(others, max_size=2, unique=True))),
        )
        if not problem_of(linked, known):
            known[name] = linked
    return known


@settings(max_examples=up_to(300))
@given(any_items())
def test_what_is_stored_has_no_circle_and_what_is_ready_waits_for_nothing(known):
    """AL-29."""
    assert not circle_in(known)
    ready = ready_items(known.values())
    for item in ready:
        assert (item.kind, item.status) == ("task", "open")
        assert all(known[each].has_ended for each in item.blocked_by)
        assert moved(item, "in_progress", known).status == "in_progress"
    assert [each.priority for each in ready] == sorted(each.priority for each in ready)


@settings(max_examples=up_to(300))
@given(any_items(statuses=("open",)))
def test_doing_what_is_ready_gets_everything_done(known):
    """AL-29: an epic is done once its parts are."""
    for _ in range(len(known)):
        left = [each for each in known.values() if not each.has_ended]
        if not left:
            break
        ended = next(iter(ready_items(known.values())), None) or next(
            each for each in left if each.kind == "epic" and not isinstance(moved(each, "done", known), str)
        )
        known = {**known, ended.id: moved(ended, "done", known)}
    assert all(each.has_ended for each in known.values())
