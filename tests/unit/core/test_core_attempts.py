"""Attempts: where one begins, and which worktree it has."""

from builders import BASE, HEAD, a_run, an_action, an_attempt


def test_an_attempt_begins_at_its_base_or_where_earlier_steps_ended():
    """DR-8."""
    assert an_attempt(an_action("a")).start == BASE
    assert an_attempt(an_action("a"), start_sha=HEAD).start == HEAD


def test_an_attempt_has_a_worktree_of_its_own_or_shares_one():
    """DR-10."""
    own = an_attempt(an_action("a"))
    assert own.workspace_name == own.id
    assert an_attempt(an_action("a"), workspace="US-1").workspace_name == "US-1"


def test_a_run_names_the_ref_of_its_branch():
    run = a_run()
    assert run.session_ref == f"refs/heads/{run.session_branch}"
