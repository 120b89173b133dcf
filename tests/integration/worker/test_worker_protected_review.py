"""Changes of protected files, which a human approves before they are submitted."""

from contextlib import suppress

import pytest
from inline_snapshot import snapshot

from builders import commit_all
from integration.worker.builders import claimed_attempt
from scaffold.core.errors import HumanDecisionRequired
from scaffold.core.run_settings import ExtraProtectedAreas
from scaffold.worker.human.protected_review import approve_protected_change
from support.harness import UNSANDBOXED, act, goal

ASKED = {"sandbox": "off", "inbox_wait_s": 0.0, "planner": True}


async def approve(working, head):
    human = working.capabilities.human
    return await approve_protected_change(working.place.workspace, human, working.records, head)


async def committed(working, **texts):
    """Write files, with a double underscore in a name for a dot, and return the commit."""
    for name, text in texts.items():
        (working.place.workspace.path / name.replace("__", ".")).write_text(text)
    settings = working.records.task.run.settings
    return await commit_all(
        working.place.workspace.git, "work", author=settings.identity.author, committer=settings.identity.committer
    )


def decide(harness, run, to, **more):
    item = harness.store.inbox.open_of_run(run.id)[-1]
    with harness.store.transaction():
        harness.store.inbox.decide(item.id, to, **more)
    return item


async def test_a_declared_change_of_a_protected_area_waits_for_a_human(harness):
    """AL-9: a declaration leads to a question, bound to the base and to this very change."""
    run = await harness.own(goal("g", act("a", files=("login.sql",))), **ASKED)
    async with claimed_attempt(harness, run, "a") as working:
        head = await committed(working, login__sql="DROP", other__py="x")
        with pytest.raises(HumanDecisionRequired, match=r"login\.sql"):
            await approve(working, head)
        item = decide(harness, run, "approved")
        assert item.detail["protected"] == ["login.sql"]
        assert item.detail["base"] == working.place.workspace.base
        assert await approve(working, head) is None
        other = await committed(working, login__sql="DROP ALL")
        with pytest.raises(HumanDecisionRequired):
            await approve(working, other)


async def test_a_rejected_change_fails_the_action_permanently(harness):
    run = await harness.own(goal("g", act("a", files=("login.sql",))), **ASKED)
    async with claimed_attempt(harness, run, "a") as working:
        head = await committed(working, login__sql="DROP")
        with pytest.raises(HumanDecisionRequired):
            await approve(working, head)
        decide(harness, run, "rejected", answer="not today")
        given_up = await approve(working, head)
        assert given_up.permanent
        assert given_up.error == snapshot("a human rejected the change to login.sql: not today")


OWN_PLAN = ASKED | {"planner": False}
CHANGES = {
    "a file that the user's plan names": (("login.sql",), OWN_PLAN, "login__sql", False),
    "it names it beside a pattern": (("*.sql", "login.sql"), OWN_PLAN, "login__sql", False),
    "it has a pattern": (("login*",), OWN_PLAN, "login__sql", True),
    "with --yolo": (("login.sql",), ASKED | UNSANDBOXED, "login__sql", False),
    "not in a protected area": (("list",), ASKED, "list", False),
    "in an area of the settings": (("list",), ASKED | {"areas": ExtraProtectedAreas(words=("list",))}, "list", True),
    "a protected file": ((".npmrc",), OWN_PLAN, "__npmrc", True),
    "a protected file with --yolo": ((".npmrc",), ASKED | UNSANDBOXED, "__npmrc", True),
}


async def test_which_changes_need_an_approval(harness):
    """AL-9, RA-14: not a file that the user's own plan names, and none with --yolo, unless it is a protected file."""
    asked = {}
    for what, (files, settings, changed, _) in CHANGES.items():
        run = await harness.own(goal("g", act("a", files=files)), **settings)
        async with claimed_attempt(harness, run, "a") as working:
            head = await committed(working, **{changed: "x"})
            with suppress(HumanDecisionRequired):
                assert await approve(working, head) is None
        asked[what] = bool(harness.store.inbox.open_of_run(run.id))
    assert asked == {what: each[-1] for what, each in CHANGES.items()}
