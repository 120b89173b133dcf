from inline_snapshot import snapshot

from scaffold.core.errors import ContextOverflow, EnvironmentNotReady, HumanDecisionRequired, ScaffoldError


def test_an_error_on_one_line_is_two_sentences():
    assert ScaffoldError("no key", "Set one.").in_full == "no key. Set one."
    assert ScaffoldError("It broke.", "Try again.").in_full == "It broke. Try again."


def test_waiting_for_a_human_names_the_inbox_item():
    """BX-13."""
    waits = HumanDecisionRequired("may I", "Decide.", item="abc123")
    assert (waits.item, waits.in_full) == ("abc123", "may I. Decide.")


def test_an_environment_that_is_not_ready_keeps_the_output_that_shows_why():
    error = EnvironmentNotReady("pytest cannot run", "Install it.", "No module named pytest")
    assert (error.what, error.output) == snapshot(("pytest cannot run", "No module named pytest"))


def test_an_overflow_may_name_the_window():
    """RA-10: the conversation is then compacted to it."""
    assert ContextOverflow("too long", "shorten it", window_tokens=4096).window_tokens == 4096
    assert ContextOverflow("too long", "shorten it").window_tokens is None
    assert not ContextOverflow("too long", "shorten it").transient
