from datetime import UTC, datetime

from inline_snapshot import snapshot

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


def an_action(**fields):
    given = {
        "id": "a", "run_id": "r1", "goal_id": "g", "parent_id": None, "key": "api", "kind": "primitive",
        "method": "single", "role": "implementation", "preconditions": (), "effects": (), "files": (),
        "contract": None, "state": Pending(), "unmet": 0, "position": 0, "created_at": THEN, "updated_at": THEN,
    }  # fmt: skip
    return Action(**(given | fields))


def test_the_commit_message_of_an_action_describes_its_task():
    rows = [
        ("Sell things", "api: Sell things\n\nScaffold-Run"),
        ("Sell things\n\nAll of them.\n", "api: Sell things\n\nAll of them.\n\nScaffold-Run"),
        ("api", "api\n\nScaffold-Run"),
        ("", "api\n\nScaffold-Run"),
    ]
    for description, begin in rows:
        message = landing_message(RUN, an_action(description=description))
        assert message.startswith(begin)
        assert message.endswith("\n\nScaffold-Run: r1\nScaffold-Action: api\n")


def test_the_commit_of_a_story_has_its_id_and_title():
    """DR-11."""
    story = an_action(
        key="US-001",
        title="A cart",
        description="Keep it.",
        acceptance=("it keeps two",),
        kind="compound",
        method="story",
    )
    assert landing_message(RUN, story) == snapshot(
        "feat(ralph): US-001 - A cart\n\nKeep it.\n\nAccepted when:\n- it keeps two\n\n"
        "Scaffold-Run: r1\nScaffold-Action: US-001\n"
    )
