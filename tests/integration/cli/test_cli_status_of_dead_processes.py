"""`status` after a crash or a failure: dead processes are not shown as running."""

import re
from datetime import timedelta

import msgspec

from builders import work
from scaffold.cli.render.status_text import status_text
from scaffold.cli.render.terminal.text_layout import Layout
from scaffold.core.model import ProcessIdentity
from scaffold.core.states import Failed
from scaffold.views.run_view import read_run_view

DEAD = ProcessIdentity(1, "long ago", "another boot")


def test_no_agent_of_an_interrupted_run_is_shown_as_running(context, run, scaffold):
    """SC-19, AL-3b: what the dead left in the store is not what is going on."""
    work(context, run, "store", worker=DEAD)
    (goal,) = context.store.goals.for_run(run.id)
    with context.store.transaction():
        context.store.goals.supervise(goal.id, DEAD, was=None)
        context.store.runs.take(run.id, DEAD, expected_fence=run.fence)
    shown = scaffold("status", "--json").json
    assert shown["goals"][0]["agent_state"] == "failed"
    assert shown["actions"][0]["attempts"][0]["agent_state"] == "failed"
    assert [each["agent_state"] for each in scaffold("agents", "--json").json["agents"]] == ["failed"] * 3
    assert re.search(r"attempt 1 of \d, was executing\n", scaffold("status").out), "and not for how long"


def test_an_interrupted_run_lasted_until_the_last_change(context, run, scaffold):
    """AL-27: not until its owner took it."""
    store, _ = context.store.actions.for_run(run.id)
    picture = read_run_view(context, run)
    later = msgspec.structs.replace(store, updated_at=run.updated_at + timedelta(minutes=5))
    summary = msgspec.structs.replace(picture.summary, status="interrupted", is_live=False)
    shown = msgspec.structs.replace(picture, summary=summary, actions=(later,))
    assert "  5 m 0" in status_text(shown, Layout())


def test_a_failed_goal_says_why_and_a_failed_run_in_full(context, run, scaffold):
    """AL-10, SC-19: on the screen and for scripts; for example if the environment is not ready, without an action."""
    (goal,) = context.store.goals.for_run(run.id)
    with context.store.transaction():
        context.store.goals.move(goal.id, Failed("out of reach"))
    assert scaffold("status", "--json").json["goals"][0]["reason"] == "out of reach"
    assert "shop: failed, 0 of 2 hold\n  out of reach\n" in scaffold("status").out
    reason = f"environment_not_ready: {'a long reason ' * 20}end"
    with context.store.transaction():
        context.store.runs.move(run.id, Failed(reason))
    lines = scaffold("status").out.splitlines()
    assert lines[0].startswith(f"✗ run {run.id} failed")
    assert lines[1] == f"  {reason}"
    assert "scaffold diff" not in "".join(lines), "nothing has landed that could be looked at"
