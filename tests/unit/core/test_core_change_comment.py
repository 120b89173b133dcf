"""Comments of humans on changes."""

from datetime import UTC, datetime

import pytest

from scaffold.core.change_approval import ReviewComment


@pytest.mark.parametrize(
    ("first", "last", "before", "place"),
    [(3, 3, False, "app.py:3"), (3, 5, False, "app.py:3-5"), (3, 3, True, "app.py:-3"), (3, 5, True, "app.py:-3-5")],
)
def test_a_place_is_written_as_the_user_names_it(first, last, before, place):
    """BX-25."""
    comment = ReviewComment(
        id="c",
        run_id="r",
        action_id="a",
        attempt_id="t",
        number=1,
        base_sha="b",
        commit_sha="c",
        fingerprint="f",
        path="app.py",
        first_line=first,
        last_line=last,
        before=before,
        quoted="x",
        text="y",
        author="me",
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
    )
    assert comment.place == place
