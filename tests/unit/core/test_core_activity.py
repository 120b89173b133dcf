"""What a process of a run is busy with, as text."""

from datetime import UTC, datetime

from scaffold.core.model import Activity, CurrentActivity


def test_a_command_is_shown_with_what_it_is_for():
    """AL-26: a wait has no command."""
    gate = Activity(label="test", command="pytest -q")
    assert gate.text == "test: pytest -q"
    assert Activity(label="waits", is_whole=False).text == "waits"
    step = CurrentActivity(
        run_id="r", attempt_id=None, fence=1, stage="preparing", work=gate, since=datetime(2030, 1, 1, tzinfo=UTC)
    )
    assert (step.work, step.last_s) == (gate, None)
