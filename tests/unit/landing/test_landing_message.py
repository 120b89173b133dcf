from inline_snapshot import snapshot

from builders import a_run, an_action, make_settings
from scaffold.core.run_settings import Signature
from scaffold.landing.integration import landing_message

ANN = Signature("Ann", "ann@example.org")
RUN = a_run("r1", settings=make_settings(author=ANN, committer=ANN))


def test_the_commit_message_of_an_action_describes_its_task():
    rows = [
        ("Sell things", "api: Sell things\n\nScaffold-Run"),
        ("Sell things\n\nAll of them.\n", "api: Sell things\n\nAll of them.\n\nScaffold-Run"),
        ("api", "api\n\nScaffold-Run"),
        ("", "api\n\nScaffold-Run"),
    ]
    for description, begin in rows:
        message = landing_message(RUN, an_action("api", description=description))
        assert message.startswith(begin)
        assert message.endswith("\n\nScaffold-Run: r1\nScaffold-Action: api\n")


def test_the_commit_of_a_story_has_its_id_and_title():
    """DR-11."""
    story = an_action(
        "US-001", title="A cart", description="Keep it.", acceptance=("it keeps two",), kind="compound", method="story"
    )
    assert landing_message(RUN, story) == snapshot(
        "feat(ralph): US-001 - A cart\n\nKeep it.\n\nAccepted when:\n- it keeps two\n\n"
        "Scaffold-Run: r1\nScaffold-Action: US-001\n"
    )
