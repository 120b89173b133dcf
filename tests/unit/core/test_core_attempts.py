"""Attempts: where one begins, and which worktree it has."""

from msgspec import structs

from builders import BASE, HEAD, a_run, an_action, an_attempt, some_evidence
from scaffold.core.model import Fact


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


def test_a_fact_shown_by_a_step_alone_only_orders():
    """DR-10: it says nothing about the branch."""
    given = {"goal_id": "g", "assertion": "a", "state": "holds", "commit": HEAD, "paths": ()}
    checked, step = some_evidence(), structs.replace(some_evidence(), kind="step")
    assert not Fact(**given, evidence=(checked,)).only_orders
    assert Fact(**given, evidence=(step,)).only_orders
