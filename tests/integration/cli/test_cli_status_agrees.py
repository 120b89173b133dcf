"""One read model: the text, the JSON, the watch frame and the trees of a run say the same in every state."""

import re
from collections import Counter

import click
import pytest

from builders import an_item, begin, fail, land, make_run, submit, work
from scaffold.cli.render.live.watch_view import frame_lines
from scaffold.core.model import ProcessIdentity
from scaffold.core.states import Cancelled, Completed, Failed, Paused, Pending, Skipped, blocked_on_inbox
from scaffold.host.process_identity import own_identity
from scaffold.views.run_view import read_summary

DEAD = ProcessIdentity(1, "long ago", "another boot")
PLAN = """\
version: 1
goals:
  - name: shop
    goal_state: [store_works, till_works]
    actions:
      - {key: store, effects: [store_works]}
      - {key: till, effects: [till_works]}
      - {key: sign, effects: [sign_hangs]}
      - {key: door, effects: [door_opens]}
      - {key: bell, preconditions: [door_opens], effects: [bell_rings]}
      - {key: floor, effects: [floor_shines]}
      - {key: 漢字, effects: [漢字_steht]}
  - name: street
    goal_state: [street_swept]
    actions:
      - {key: sweep, effects: [street_swept]}
"""
STATES = {
    "paused": Paused("the budget is used up"),
    "completed": Completed(),
    "failed": Failed("no way on"),
    "cancelled": Cancelled(),
}


@pytest.fixture
def run(context):
    """A run whose actions have every status."""
    run = begin(context, make_run(context, PLAN))
    land(context, run, "store", {"store.py": "x = 1\n"})
    submit(context, run, "till", {"till.py": "y = 2\n"})
    work(context, run, "sign")
    fail(context, run, "door", {})
    ask(context, run, work(context, run, "floor"))
    store = context.store
    with store.transaction():
        store.actions.move(store.actions.by_key(run.id, "漢字").id, Skipped("no longer needed"))
    return run


def ask(context, run, attempt):
    """End the attempt to wait for a human."""
    item = an_item(attempt, kind="question", text="Which wax?", detail={})
    with context.store.transaction():
        context.store.inbox.ask(item)
        context.store.attempts.end(attempt.id, outcome="waiting", fence=run.fence)
        context.store.actions.move(attempt.action_id, Pending())
        context.store.actions.move(attempt.action_id, blocked_on_inbox(item.id))


@pytest.mark.slow
@pytest.mark.parametrize("statuses", ["planning active interrupted paused", "completed", "failed", "cancelled"])
def test_every_screen_of_a_run_agrees_with_its_json(context, run, scaffold, statuses):
    """OR-8: the same statuses and counts everywhere."""
    for status in statuses.split():
        compare_screens(context, make_run(context, PLAN) if status == "planning" else run, scaffold, status)


def compare_screens(context, run, scaffold, status):
    """Bring the run into this status, and compare each screen with the JSON."""
    with context.store.transaction():
        if status in {"planning", "interrupted"}:
            owner = DEAD if status == "interrupted" else own_identity()
            context.store.runs.take(run.id, owner, expected_fence=run.fence)
        elif status != "active":
            context.store.runs.move(run.id, STATES[status])
    shown = scaffold("status", run.id, "--json").json
    assert shown["run"]["status"] == status
    check_status(scaffold("status", run.id).out, shown)
    check_tasks(scaffold("tasks", "--run", run.id).out, shown)
    check_summary(read_summary(context, run), shown)
    agents = scaffold("agents", "--run", run.id)
    rows = scaffold("agents", "--run", run.id, "--json").json["agents"]
    heads = [line for line in agents.out.splitlines() if not line.startswith("    ")]
    assert [line.split(" ", 1)[1].startswith(row["role"]) for line, row in zip(heads, rows, strict=True)]
    assert all(f" {row['agent_state']}" in line for line, row in zip(heads, rows, strict=True))


def check_status(text, shown):
    """Compare the status screen with the JSON."""
    lines = text.splitlines()
    assert re.match(rf". run {shown['run']['id']} {shown['run']['status']}: ", lines[0])
    for goal in shown["goals"]:
        held = sum(goal["goal_state"].values())
        assert f"{goal['name']}: {goal['status']}, {held} of {len(goal['goal_state'])} hold" in lines
    for action in shown["actions"]:
        assert any(re.match(rf"  . {action['status']} +{action['key']} ", f"{line} ") for line in lines), action["key"]
    assert text.count("scaffold answer ") == len(shown["inbox"])
    assert ("Waits to land" in lines) == bool(shown["queue"])


def check_tasks(text, shown):
    """Compare the tree of actions with the JSON."""
    lines = text.splitlines()
    for goal in shown["goals"]:
        counts = Counter(action["task_state"] for action in shown["actions"] if action["goal_id"] == goal["id"])
        assert f"  {', '.join(f'{number} {word}' for word, number in sorted(counts.items()))}" in lines
    for action in shown["actions"]:
        assert any(re.match(rf"  . {action['status']} {action['key']} ", line) for line in lines), action["key"]


def check_summary(view, shown):
    """Compare what is watched with the JSON."""
    assert click.unstyle(frame_lines(view, 80)[0]).split()[3].rstrip(":") == shown["run"]["status"]
    assert len(view.inbox) == len(shown["inbox"])
    for seen, goal in zip(view.goals, shown["goals"], strict=True):
        counts = Counter(action["status"] for action in shown["actions"] if action["goal_id"] == goal["id"])
        assert (seen.status, seen.held, seen.status_counts) == (
            goal["status"],
            sum(goal["goal_state"].values()),
            counts,
        )
    running = {
        (action["key"], attempt["number"], attempt["agent_state"])
        for action in shown["actions"]
        for attempt in action["attempts"][-1:]
        if attempt["outcome"] in {None, "waiting"}
    }
    assert {(row.action, row.attempt, row.state) for row in view.active_agents} == running
