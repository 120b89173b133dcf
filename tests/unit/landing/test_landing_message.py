from inline_snapshot import snapshot
from msgspec import structs

from builders import a_run, an_action, make_settings
from scaffold.core.landing.branch_move import TakenCommit
from scaffold.core.run_settings import Signature
from scaffold.landing.integration import landing_message
from scaffold.landing.taking.remake import squash_message, work_title

ANN = Signature("Ann", "ann@example.org")
RUN = a_run("r1", settings=make_settings(author=ANN, committer=ANN))


def test_the_subject_of_a_commit_is_the_title_as_it_stands_or_the_description_cut_to_fit():
    """BX-2: no prefix is added; trailers say which action it is."""
    long = "Sell things " * 9
    rows = [
        ("docs: sell #things", "Sell.\n", "docs: sell #things\n\nSell."),
        (long, "", long.strip()),
        ("", "Sell things", "Sell things"),
        ("", "Sell things\n\nAll of them.\n", "Sell things\n\nAll of them."),
        ("", "# Sell\n\nAll.", "Sell\n\n# Sell\n\nAll."),
        ("", long, f"{long[:64]}...\n\n{long.strip()}"),
        ("", "売" * 90, f"{'売' * 69}...\n\n{'売' * 90}"),
        ("", "api", "api"),
        ("", "", "api"),
    ]
    for title, description, text in rows:
        message = landing_message(RUN, an_action("api", title=title, description=description))
        assert message == f"{text}\n\nScaffold-Run: r1\nScaffold-Action: api\n"


def test_the_commit_of_a_story_has_its_id_and_title():
    """DR-11."""
    story = an_action(
        "US-001", title="A cart", description="Keep it.", acceptance=("it keeps two",), kind="compound", method="story"
    )
    assert landing_message(RUN, story) == snapshot(
        "feat(ralph): US-001 - A cart\n\nKeep it.\n\nAccepted when:\n- it keeps two\n\n"
        "Scaffold-Run: r1\nScaffold-Action: US-001\n"
    )


def test_what_is_taken_is_called_by_its_only_commit_or_by_the_request_cut_to_fit():
    """BX-2: as one commit, and as a pull request; with `--only`, by the commit of that action."""
    run = structs.replace(RUN, request="Sell things " * 9)
    api, docs = (TakenCommit(old="1", new="2", action=key, subject=f"{key}: {key}") for key in ("api", "docs"))
    assert work_title(run, (), [api], None) == "api: api"
    assert work_title(run, (), [docs, api], an_action("api")) == "api: api"
    assert work_title(run, (), [docs, api], None) == f"{('Sell things ' * 6)[:64]}..."
    message = squash_message(run, (), [api], "{request}\n\n{actions}", only=None)
    assert message == "api: api\n\n- api: api\n\nScaffold-Run: r1\nScaffold-Action: api\n"
