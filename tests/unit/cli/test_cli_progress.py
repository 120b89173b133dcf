"""Progress messages of a run."""

from datetime import UTC, datetime

from inline_snapshot import snapshot

from scaffold.cli.render.live.event_lines import change_sentence, event_sentence, sentence_lines
from scaffold.cli.render.terminal.text_layout import Layout
from scaffold.core.events import (
    ActionStatusChanged,
    AttemptEnded,
    AttemptQueued,
    AttemptWaitChanged,
    FactStateChanged,
    FilesGranted,
    NoticeRaised,
    PlanningTurnEnded,
    SupervisorEnded,
)
from scaffold.core.ids import ActionKey, Commit


def test_a_failed_action_is_one_line_whatever_its_checks_printed():
    """AL-6: the failure first, then the command that shows the rest."""
    event = ActionStatusChanged(
        ActionKey("store"), "failed", "gate_failed in attempt 2 of 3: test\n- a::b: new failure\nFF  [100%]"
    )
    assert event_sentence(event) == snapshot(
        "failed   store: gate_failed in attempt 2 of 3: test (more: `scaffold status`)"
    )


def test_a_waiting_action_without_a_reason_shows_none():
    assert event_sentence(ActionStatusChanged(ActionKey("store"), "skipped", None)) == "skipped  store"


def test_granted_files_are_a_line_with_who_granted_them():
    """AL-9, BX-13."""
    granted = FilesGranted(ActionKey("store"), ("a.py", "b.py", "c.py", "d.py"), "rule", "needed")
    assert event_sentence(granted) == snapshot("files    store: a.py, b.py, c.py and 1 more granted by rule")
    approved = FilesGranted(ActionKey("store"), ("conftest.py",), "human", "needed")
    assert event_sentence(approved) == snapshot("files    store: conftest.py granted by you")


def test_a_fact_that_only_orders_steps_is_no_line():
    """DR-2: a story has one for each step, and its last one says what is true of the branch."""
    lines = [
        event_sentence(FactStateChanged("shop", "a", "holds", Commit("c" * 40), orders)) for orders in (True, False)
    ]
    assert lines == snapshot([None, "fact     a holds at cccccccc"])


def test_events_are_changes_of_four_kinds_or_none():
    """AL-26: a worker that waits for a human is blocked; a conflict is no error, and neither is a warning."""
    store = ActionKey("store")
    events = [
        AttemptQueued(store, 2, Commit("c" * 40)),
        ActionStatusChanged(store, "running", None),
        AttemptWaitChanged(store, 2, "i7"),
        AttemptWaitChanged(store, 2, None),
        AttemptEnded(store, 2, "conflict", "conflicts with b"),
        AttemptEnded(store, 2, "contract_failed", "one\ntwo"),
        ActionStatusChanged(store, "blocked", "dependency_failed:x"),
        ActionStatusChanged(store, "completed", None),
        PlanningTurnEnded("replan", "g", None, "refused", "no"),
        SupervisorEnded("g", -9),
        SupervisorEnded("g", 0),
        NoticeRaised("warning", "80% of the budget is used"),
    ]
    assert [line for each in events if (line := change_sentence(each))] == snapshot(
        [
            "started  store: attempt 2",
            "blocked  store: waits for you, `scaffold inbox` shows i7",
            "error    store: attempt 2, contract_failed: one (more: `scaffold status`)",
            "blocked  store: a dependency failed",
            "done     store",
            "error    replan refused: no",
            "error    the supervisor of g exited with -9",
        ]
    )


def test_a_first_word_that_is_wider_than_its_column_does_not_touch_the_next():
    """AL-28."""
    now = datetime(2030, 1, 1, tzinfo=UTC)
    lines = [*sentence_lines("cancelled store", now, now, Layout()), *sentence_lines("run active", now, now, Layout())]
    assert [line[10:] for line in lines] == ["cancelled store", "run      active"]
