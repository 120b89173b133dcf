"""What a person reads of a run while it happens."""

from scaffold.cli.progress import sentence
from scaffold.core.events import ActionMoved
from scaffold.core.ids import Key


def test_an_action_that_failed_is_one_line_whatever_its_checks_printed():
    """AL-6: what failed, first; `scaffold contract` shows the rest."""
    event = ActionMoved(Key("store"), "failed", "gate_failed after 3 attempts: test\n- a::b: new failure\nFF  [100%]")
    assert sentence(event) == "failed   store: gate_failed after 3 attempts: test"


def test_an_action_that_waits_for_nobody_is_told_without_a_reason():
    assert sentence(ActionMoved(Key("store"), "skipped", None)) == "skipped  store"
