"""Progress messages of a run."""

from datetime import UTC, datetime

from inline_snapshot import snapshot

from scaffold.cli.render.live.event_lines import event_sentence, sentence_lines
from scaffold.cli.render.terminal.text_layout import Layout
from scaffold.core.events import ActionStatusChanged, FactStateChanged, FilesGranted
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


def test_a_first_word_that_is_wider_than_its_column_does_not_touch_the_next():
    """AL-28."""
    now = datetime(2030, 1, 1, tzinfo=UTC)
    lines = [*sentence_lines("cancelled store", now, now, Layout()), *sentence_lines("run active", now, now, Layout())]
    assert [line[10:] for line in lines] == ["cancelled store", "run      active"]
