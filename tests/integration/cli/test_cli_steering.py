"""`send`, `path`, and `stop`, `pause`, `cancel` of goals and actions, as typed: answers and refusals."""

import os
import subprocess  # noqa: TID251 - standard input is a process's own
import sys
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from builders import begin, fail, land, make_run, submit, work
from scaffold.core.model import ProcessIdentity
from scaffold.core.states import PAUSED_BY_USER, Cancelled, Completed, Failed, Paused, status_of
from scaffold.git.refs import rescue_ref, work_ref

DEAD = ProcessIdentity(1, "long ago", "another boot")


@pytest.fixture
def run(context, plan):
    """A run in progress whose owner is gone."""
    begun = begin(context, make_run(context, plan, attempts=3))
    with context.store.transaction():
        context.store.runs.take(begun.id, DEAD, expected_fence=begun.fence)
    return context.store.runs.get(begun.id)


def letters(context, run, key):
    action = context.store.actions.by_key(run.id, key)
    return [envelope.body["text"] for envelope in context.store.messages.peek(run.id, action.id)]


def state(context, run, key):
    return status_of(context.store.actions.by_key(run.id, key).state)


def expect_refusal(answer, what, fix=""):
    assert (answer.code, answer.out) == (64, "")
    error, hint = answer.err.splitlines()
    assert what in error
    assert fix in hint


def test_a_message_comes_before_the_next_request_or_waits_for_an_agent(context, run, scaffold):
    """SC-19: from another terminal, without a model."""
    work(context, run, "store")
    said = [scaffold("send", "store", "use", "sqlite").out, scaffold("send", "api", "be brief").out]
    assert said == snapshot(
        [
            "store#1 reads the message before its next request\n",
            "no agent is working on api; its next attempt reads the message\n",
        ]
    )
    assert (letters(context, run, "store"), letters(context, run, "api")) == (["use sqlite"], ["be brief"])


SEND_STDIN = [sys.executable, "-m", "scaffold", "send", "store", "-"]


def test_a_dash_reads_standard_input(context, run, repository):
    """SC-19: whatever its bytes."""
    strict = {**os.environ, "PYTHONIOENCODING": "utf-8:strict"}
    given = b"line one\nline two caf\xe9 \xe2\x82\xac\n"
    subprocess.run(SEND_STDIN, input=given, env=strict, cwd=repository, capture_output=True, check=True)
    assert letters(context, run, "store") == ["line one\nline two caf\\udce9 \u20ac"]


@pytest.mark.slow
def test_endless_input_is_refused_and_closed_input_is_empty(context, run, repository):
    with Path("/dev/zero").open("rb") as endless:
        done = subprocess.run(SEND_STDIN, stdin=endless, cwd=repository, capture_output=True, text=True, check=False)
    assert (done.returncode, "longer than 32,000 characters" in done.stderr) == (64, True)
    closed = ["sh", "-c", 'exec "$0" "$@" <&-', *SEND_STDIN]
    done = subprocess.run(closed, cwd=repository, capture_output=True, text=True, check=False)
    assert (done.returncode, "empty" in done.stderr) == (64, True)
    assert letters(context, run, "store") == []


def test_an_unreadable_message_is_refused(context, run, scaffold):
    expect_refusal(scaffold("send", "store", "  "), "empty")
    expect_refusal(scaffold("send", "store", "x" * 32_001), "32,000 characters")
    expect_refusal(scaffold("send", "stoer", "hello"), "`stoer`", "`store`")
    assert letters(context, run, "store") == []


def test_messages_to_ended_actions_are_refused(context, plan, scaffold):
    run = begin(context, make_run(context, plan))
    land(context, run, "store", {"store.py": "x = 1\n"})
    expect_refusal(scaffold("send", "store", "hello"), "`store` is completed", "scaffold tasks")
    with context.store.transaction():
        context.store.runs.move(run.id, Completed())
    expect_refusal(scaffold("send", "api", "hello"), f"{run.id} is completed")


def test_the_path_of_a_running_agent_is_its_worktree(context, run, scaffold, tmp_path):
    """SC-19: exactly the folder, whatever its name."""
    folder = tmp_path / "wörk tree"
    attempt = work(context, run, "store", folder=folder)
    assert scaffold("path", "store").code == 1, "its worktree is not there yet"
    folder.mkdir()
    assert scaffold("path", "store").out == f"{folder}\n"
    assert scaffold("path", "store", "--json").json == {
        "run": run.id,
        "alternative": False,
        "failures": [],
        "action": "store",
        "attempt": attempt.number,
        "path": str(folder),
        "ports": [],
        "database_name": None,
        "scratch": None,
    }


def test_without_a_running_agent_the_pinned_work_is_named(context, run, scaffold):
    fix = scaffold("path", "api").err.splitlines()[1]
    assert fix == snapshot("  It has not started; `scaffold tasks` shows what it waits for.")
    failed = fail(context, run, "store", {"store.py": "x = 1\n"})
    answer = scaffold("path", "store")
    assert (answer.code, answer.out) == (1, "")
    assert answer.err.splitlines()[0] == snapshot("error: no agent is working on `store`")
    assert rescue_ref(failed.id) in answer.err
    waiting = submit(context, run, "store", {"store.py": "x = 2\n"})
    assert work_ref(waiting.id) in scaffold("path", "store").err


def test_an_action_cannot_be_paused_and_stopping_it_is_final(context, run, scaffold):
    """SC-17: its dependents are blocked, and say so."""
    for command, instead in (("pause", "stop store"), ("cancel", "stop store"), ("resume", "resume shop")):
        expect_refusal(scaffold(command, "store"), "`store`", f"scaffold {instead}")
    answer = scaffold("stop", "store")
    assert (answer.code, answer.out.splitlines()[0]) == snapshot(
        (0, "action store is cancelled; its unfinished work is pinned: `scaffold salvage`")
    )
    assert (state(context, run, "store"), state(context, run, "api")) == ("cancelled", "blocked")
    expect_refusal(scaffold("stop", "store"), "`store` is already cancelled", "scaffold tasks")


def test_a_goal_is_paused_and_cancelled_by_name(context, run, scaffold):
    """SC-17: independently of its run."""
    assert scaffold("pause", "shop").out.splitlines() == snapshot(
        ["goal shop is paused: set aside by the user; `scaffold resume shop` continues it"]
    )
    assert scaffold("stop", "shop").code == 0, "it may be stopped when it is paused"
    assert scaffold("cancel", "shop").out == snapshot(
        "goal shop is cancelled; unlanded work is pinned: `scaffold salvage`\n"
    )
    assert state(context, run, "store") == "cancelled"
    expect_refusal(scaffold("pause", "shop"), "`shop` is already cancelled", "scaffold tasks")


def test_a_failed_goal_can_only_be_retried_or_cancelled(context, run, scaffold):
    (goal,) = context.store.goals.for_run(run.id)
    with context.store.transaction():
        context.store.goals.move(goal.id, Failed("no way"))
    for command in ("stop", "pause", "resume"):
        expect_refusal(scaffold(command, "shop"), "`shop`", "scaffold retry shop")
    assert scaffold("cancel", "shop").code == 0
    assert context.store.goals.get(goal.id).state == Cancelled()


def test_a_run_is_found_after_actions_and_goals(context, run, scaffold):
    assert scaffold("pause", run.id).out.replace(run.id, "RUN") == snapshot(
        "run RUN is paused: paused by the user; `scaffold resume RUN` continues it\n"
    )
    for command in ("stop", "pause", "cancel", "resume", "retry"):
        expect_refusal(scaffold(command, "stoer"), "`stoer`", "`store`")


def test_an_empty_name_matches_nothing(context, run, scaffold):
    """SC-19: a script whose variable is unset ends no run."""
    for command in ("stop", "pause", "cancel", "resume", "retry", "status", "attach"):
        expect_refusal(scaffold(command, ""), "empty", "shell variable")
    assert status_of(context.store.runs.get(run.id).state) == "active"


def test_an_action_of_another_run_is_not_retried_by_its_id(context, plan, run, scaffold):
    store = context.store.actions.by_key(run.id, "store")
    with context.store.transaction():
        context.store.actions.move(store.id, Failed("no way"))
    latest = make_run(context, plan)
    expect_refusal(scaffold("retry", store.id), latest.id, "`scaffold tasks")
    assert state(context, run, "store") == "failed"
    assert scaffold("stop", "api", "--run", run.id).code == 0
    assert state(context, run, "api") == "cancelled"


def test_goals_of_a_paused_run_stay_paused(context, run, scaffold):
    scaffold("pause")
    (goal,) = context.store.goals.for_run(run.id)
    assert isinstance(goal.state, Paused)
    assert goal.state != Paused(PAUSED_BY_USER)
    scaffold("pause", "shop")
    assert context.store.goals.get(goal.id).state == Paused(PAUSED_BY_USER)
