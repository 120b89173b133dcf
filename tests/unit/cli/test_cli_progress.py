"""What a person reads of a run while it happens."""

from scaffold.cli.render.progress import event_sentence
from scaffold.core.events import ActionStatusChanged
from scaffold.core.ids import ActionKey


def test_an_action_that_failed_is_one_line_whatever_its_checks_printed():
    """AL-6: what failed, first; `scaffold contract` shows the rest."""
    event = ActionStatusChanged(
        ActionKey("store"), "failed", "gate_failed after 3 attempts: test\n- a::b: new failure\nFF  [100%]"
    )
    assert event_sentence(event) == "failed   store: gate_failed after 3 attempts: test"


def test_an_action_that_waits_for_nobody_is_told_without_a_reason():
    assert event_sentence(ActionStatusChanged(ActionKey("store"), "skipped", None)) == "skipped  store"
