from datetime import UTC, datetime

import pytest

from scaffold.core.contract import CheckResult, Verification
from scaffold.core.model import Action, Run, RunSettings, Signature
from scaffold.core.states import Active, Pending
from scaffold.landing.queue import landing_message
from scaffold.landing.record import evidence_of

THEN = datetime(2030, 1, 1, tzinfo=UTC)
ANN = Signature("Ann", "ann@example.org")
RUN = Run(
    id="r1", request="", input_hash="", state=Active(), base_branch=None, base_sha="b" * 40,
    session_branch="session-r1",
    settings=RunSettings(repository="/r", model="m", author=ANN, committer=ANN), created_at=THEN, updated_at=THEN,
)  # fmt: skip


@pytest.mark.parametrize(
    ("description", "begin"),
    [
        ("Sell things", "api: Sell things\n\nScaffold-Run"),
        ("Sell things\n\nAll of them.\n", "api: Sell things\n\nAll of them.\n\nScaffold-Run"),
        ("api", "api\n\nScaffold-Run"),
        ("", "api\n\nScaffold-Run"),
    ],
)
def test_the_commit_of_an_action_says_what_was_to_be_done(description, begin):
    action = Action(
        id="a", run_id="r1", goal_id="g", parent_id=None, key="api", description=description, kind="primitive",
        method="single", role="implementation", preconditions=(), effects=(), files=(), contract=None, state=Pending(),
        unmet=0, position=0, created_at=THEN, updated_at=THEN,
    )  # fmt: skip
    message = landing_message(RUN, action)
    assert message.startswith(begin)
    assert message.endswith("\n\nScaffold-Run: r1\nScaffold-Action: api\n")


def test_evidence_is_what_passed_and_nothing_else():
    """BX-2: a fact's evidence names the command, how it ended, and the commit that landed."""
    results = (
        CheckResult(name="make test", verdict="pass", exit_code=0, detail="3 passed", output_hash="h"),
        CheckResult(name="lint", verdict="warn", exit_code=1),
        CheckResult(name="change", verdict="pass", detail="2 paths changed"),
    )
    tested, changed = evidence_of(Verification(commit="m", results=results), "attempt-1", "c" * 40, THEN)
    assert (tested.kind, tested.command, tested.exit_code, tested.commit) == ("contract", "make test", 0, "c" * 40)
    assert (tested.attempt_id, tested.at, tested.output_hash, tested.detail) == ("attempt-1", THEN, "h", "3 passed")
    assert (changed.kind, changed.exit_code) == ("change", None)
