from datetime import UTC, datetime

import pytest

from builders import make_settings
from scaffold.core.model import Action, Run
from scaffold.core.run_settings import Signature
from scaffold.core.states import Active, Pending
from scaffold.landing.integration import landing_message

THEN = datetime(2030, 1, 1, tzinfo=UTC)
ANN = Signature("Ann", "ann@example.org")
RUN = Run(
    id="r1", request="", input_hash="", state=Active(), base_branch=None, base_sha="b" * 40,
    session_branch="session-r1",
    settings=make_settings(author=ANN, committer=ANN), created_at=THEN, updated_at=THEN,
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
def test_the_commit_message_of_an_action_describes_its_task(description, begin):
    action = Action(
        id="a", run_id="r1", goal_id="g", parent_id=None, key="api", description=description, kind="primitive",
        method="single", role="implementation", preconditions=(), effects=(), files=(), contract=None, state=Pending(),
        unmet=0, position=0, created_at=THEN, updated_at=THEN,
    )  # fmt: skip
    message = landing_message(RUN, action)
    assert message.startswith(begin)
    assert message.endswith("\n\nScaffold-Run: r1\nScaffold-Action: api\n")
