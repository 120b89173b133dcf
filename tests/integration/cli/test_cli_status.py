"""`status`: one JSON shape for scripts, one screen for people, and no side effects."""

import os
import re
import signal
import subprocess  # noqa: TID251 - a watching command must be watched from outside
import sys
from contextlib import contextmanager

import msgspec
import pytest
from inline_snapshot import snapshot

from builders import begin, fail, land, make_run, submit, work
from scaffold.core.model import ProcessIdentity
from scaffold.core.states import Cancelled, Completed, Failed, Paused
from scaffold.host.process_identity import own_identity
from scaffold.run.failures.attempt_end import AttemptEnd, end_attempt
from scaffold.views.run_json import run_view_json, tier_json
from scaffold.views.run_view import read_run_view
from support.terminal import Screen

NOBODY = {"pid": None, "started_at": None, "alive": False, "turn": None}
DEAD = ProcessIdentity(1, "long ago", "another boot")


def test_the_json_of_an_active_run_has_exactly_the_promised_shape(context, plan, scaffold):
    """OR-8, BX-1: status shows the store, and a fact comes with its evidence."""
    run = begin(context, make_run(context, plan, budget_usd=5.0))
    landed = land(context, run, "store", {"store.py": "x = 1\n"})
    waiting = submit(context, run, "api", {"api.py": "y = 2\n"})
    store, api = context.store.actions.for_run(run.id)
    (goal,) = context.store.goals.for_run(run.id)
    (first,) = context.store.attempts.for_action(store.id)
    (fact,) = context.store.facts.for_goal(goal.id)
    with context.store.transaction():
        context.store.goals.supervise(goal.id, own_identity(), was=None)
    goal = context.store.goals.get(goal.id)
    now = context.store.runs.get(run.id)

    answer = scaffold("status", "--json")

    assert answer.code == 0
    assert answer.json == {
        "run": {
            "id": run.id,
            "request": "plan.yaml",
            "status": "active",
            "reason": None,
            "planning": False,
            "tier": "builder",
            **tier_json(now),
            "base_branch": "main",
            "base_sha": run.base_sha,
            "session_branch": f"session-{run.id}",
            "created_at": iso(run.created_at),
            "updated_at": iso(now.updated_at),
            "budget": {
                "limit_usd": 5.0,
                "spent_usd": 0.5,
                "reserved_usd": 0.0,
                "tokens": 2000,
                "confidence": 1.0,
                "limit_tokens": None,
                "spent_tokens": 2000,
                "reserved_tokens": 0,
                "used_share": 0.1,
            },
            "taken": [],
            "open_order": None,
        },
        "goals": [
            {
                "id": goal.id,
                "name": "shop",
                "status": "active",
                "agent_state": "running",
                "reason": None,
                "goal_state": {"store_works": True, "api_works": False},
                "world_state": {"api_works": False, "store_works": True},
                "facts": [
                    {
                        "name": "store_works",
                        "state": "holds",
                        "commit": landed,
                        "strength": "proven",
                        "weak": False,
                        "doubts": [],
                        "evidence": [
                            {
                                "kind": "contract",
                                "command": "make test",
                                "exit_code": 0,
                                "commit": landed,
                                "at": iso(fact.evidence[0].at),
                                "detail": "exit 0\n3 passed",
                            }
                        ],
                    }
                ],
                "supervisor": {
                    "pid": own_identity().pid,
                    "started_at": iso(goal.supervisor_started_at),
                    "alive": True,
                    "turn": None,
                },
            }
        ],
        "actions": [
            PLAIN_ACTION
            | {
                "id": store.id,
                "key": "store",
                "goal_id": goal.id,
                "description": "Build the store",
                "effects": ["store_works"],
                "files": ["store.py"],
                "status": "completed",
                "task_state": "done",
                "attempts": [attempt_shape(first, ended=True)],
                "result": context.store.attempts.get(first.id).result,
            },
            PLAIN_ACTION
            | {
                "id": api.id,
                "key": "api",
                "goal_id": goal.id,
                "description": "api",
                "preconditions": ["store_works"],
                "effects": ["api_works"],
                "status": "landing",
                "task_state": "verifying",
                "attempts": [attempt_shape(waiting, ended=False)],
            },
        ],
        "queue": [
            {
                "action": "api",
                "attempt": 1,
                "phase": "candidate",
                "head_sha": waiting.head_sha,
                "since": iso(api.updated_at),
                "position": 1,
                "lane": None,
                "state": "waiting",
                "waits_for": [],
                "conflicts": {},
                "detail": "",
            }
        ],
        "inbox": [],
    }


PLAIN_ACTION = {
    "kind": "primitive",
    "method": "single",
    "workspace": "own",
    "role": "implementation",
    "failures": 0,
    "attempts_allowed": 1,
    **dict.fromkeys(("parent_id", "type", "reason", "held_back", "result")),
    **dict.fromkeys(("title", "verification_intent", "notes"), ""),
    **{key: [] for key in ("acceptance", "preconditions", "files", "granted_files", "assumptions")},
}
"""What every action of the plan shows that has not been said otherwise."""


def attempt_shape(attempt, *, ended):
    return {
        "id": attempt.id,
        "number": 1,
        "status": "ended" if ended else "claimed",
        "phase": "recorded" if ended else "candidate",
        "outcome": "landed" if ended else None,
        "agent_state": "done",
        "iteration": 0,
        "score": None,
        "executor": "native",
        "executor_version": None,
        "model": "cassette:/nowhere.yaml",
        "base_sha": attempt.base_sha,
        "head_sha": attempt.head_sha,
        "started_at": iso(attempt.started_at),
        "ended_at": iso(attempt.ended_at) if ended else None,
        "tokens": 1000,
        "cost_usd": 0.25,
        "log_file": attempt.log_file,
        **dict.fromkeys(("error", "fingerprint", "same_failure_as", "escalation")),
        "alternative": False,
    }


def iso(at):
    text = msgspec.to_builtins(at)
    assert text.endswith("Z")
    return text


def test_attempts_are_listed_oldest_first_with_their_errors(context, plan, scaffold):
    """SC-20: the count of attempts is visible."""
    run = begin(context, make_run(context, plan, attempts=3))
    fail(context, run, "store", {}, error="first")
    fail(context, run, "store", {}, error="second")
    store = scaffold("status", "--json").json["actions"][0]
    assert [(each["number"], each["error"]) for each in store["attempts"]] == [(1, "first"), (2, "second")]
    assert store["status"] == "pending"


def test_an_unknown_cost_is_null(context, run, scaffold):
    attempt = work(context, run, "store")
    with context.store.transaction():
        usage = msgspec.structs.replace(attempt.usage, cost_usd=None)
        context.store.attempts.account(attempt.id, fence=run.fence, usage=usage)
    assert scaffold("status", "--json").json["run"]["budget"]["spent_usd"] is None
    assert "cost unknown" in scaffold("status").out


def test_a_run_whose_owner_died_is_interrupted(context, run, scaffold):
    """SC-16, OR-10: after a crash the status is derived from the owner's liveness."""
    with context.store.transaction():
        context.store.runs.take(run.id, DEAD, expected_fence=run.fence)
    shown = scaffold("status", "--json").json
    assert shown["run"]["status"] == "interrupted"
    assert shown["goals"][0]["supervisor"] == NOBODY
    assert f"scaffold resume {run.id}" in scaffold("status").out
    with context.store.transaction():
        context.store.runs.move(run.id, Paused("used up"))
    paused = scaffold("status").out
    assert "used up" in paused
    assert f"scaffold resume {run.id}" in paused


def test_problems_of_a_run_come_first_on_the_screen(context, run, scaffold):
    fail(context, run, "store", {}, error="make test: 1 failed\nassert 1 == 2")
    lines = scaffold("status").out.splitlines()
    assert lines[0].startswith(f"▶ run {run.id} active")
    assert lines.index("Needs attention") < lines.index("shop: active, 0 of 2 hold")
    assert "  ✗ store failed" in lines
    (line,) = [line for line in lines if line.startswith("      contract_failed")]
    assert line.endswith(": make test: 1 failed")
    assert "  · missing   store_works, api_works" in lines
    assert "  ■ blocked   api    needs store, which failed" in lines
    assert any(line.startswith("  scaffold logs store ") for line in lines)


def test_the_screen_of_an_active_run_shows_what_waits_for_what(context, run, scaffold):
    attempt = work(context, run, "store")
    lines = scaffold("status").out.splitlines()
    (running,) = (line for line in lines if line.startswith("  ▶ running   store"))
    assert "attempt 1 of 1, executing" in running
    assert [line for line in lines if "pending" in line] == snapshot(["  · pending   api    waits for store_works"])
    end_attempt(context.store, run, attempt.id, AttemptEnd("lost", "gone"))
    submit(context, run, "store", {"store.py": "x = 1\n"})
    lines = scaffold("status").out.splitlines()
    assert lines[lines.index("Waits to land") + 1].startswith("  1 ↓ store  attempt ")


def test_control_characters_of_a_model_never_reach_the_screen(context, plan, scaffold):
    """And a suggested command can be pasted, whatever the key of the action is."""
    run = begin(context, make_run(context, plan.replace("key: store", 'key: "a;reboot"')))
    fail(context, run, "a;reboot", {}, error="\x1b]0;owned\x07 \x1b[31mred\u202e")
    for command in (("status",), ("tasks",), ("contract", "a;reboot")):
        assert not {"\x1b", "\x07", "\u202e"} & set(scaffold(*command).out)
    assert r"\x1b]0;owned\x07" in scaffold("status").out
    assert "  scaffold logs 'a;reboot' " in scaffold("status").out


def test_a_plan_of_many_actions_is_shortened_to_the_important_ones(context, scaffold):
    actions = "".join(f"      - {{key: a{n}, effects: [e{n}]}}\n" for n in range(100))
    run = begin(
        context, make_run(context, f"version: 1\ngoals:\n  - name: g\n    goal_state: [e0]\n    actions:\n{actions}")
    )
    work(context, run, "a99")
    out = scaffold("status").out
    assert "▶ running   a99" in out
    assert "and 60 more: `scaffold tasks`" in out
    assert len(out.splitlines()) < 60


def test_an_older_run_is_found_by_a_prefix_of_its_id(context, plan, scaffold):
    older, newer = make_run(context, plan), make_run(context, plan)
    assert run_view_json(read_run_view(context, newer)) == scaffold("status", newer.id, "--json").json
    assert len(scaffold("status", "--watch", "--json").out.splitlines()) == 1, "without an owner it has ended"
    assert scaffold("status", "--json").json["run"]["id"] == newer.id
    assert scaffold("status", f"session-{older.id}", "--json").json["run"]["id"] == older.id
    assert scaffold("status", "nosuchrun").code == 64


@pytest.mark.slow
def test_watching_draws_until_the_run_ends(context, run, repository):
    command = [sys.executable, "-m", "scaffold", "status", "--watch", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=repository, env=os.environ.copy()) as watching:
        assert b'"status":"active"' in watching.stdout.readline()
        with context.store.transaction():
            context.store.runs.move(run.id, Paused("enough"))
        *_, last = watching.stdout.read().splitlines()
        assert b'"status":"paused"' in last
        assert watching.wait(timeout=20) == 0


@pytest.mark.slow
def test_watching_without_a_terminal_prints_one_line_per_change_without_escapes(context, run, repository):
    """BX-12, AL-26: of the run, a goal or an agent; and the whole run at its end."""
    command = [sys.executable, "-m", "scaffold", "status", "--watch"]
    with watcher(command, repository) as watching:
        first = [watching.stdout.readline().decode() for _ in range(3)]
        assert re.fullmatch(r"\d\d:\d\d:\d\d    No agent is working\.\n", first[-1])
        work(context, run, "store")
        line = ""
        while "store#1" not in line:
            line = watching.stdout.readline().decode()
        assert re.match(r"\d\d:\d\d:\d\d  ▶ store#1  executing  ", line)
        with context.store.transaction():
            context.store.runs.move(run.id, Paused("enough"))
        rest = watching.stdout.read().decode()
        assert watching.wait(timeout=20) == 0
    assert rest.count("store#1") == 0, "nothing but time had passed"
    assert f"■ run {run.id} paused: plan.yaml\n  enough\n" in rest
    assert "\x1b" not in "".join(first) + rest


@contextmanager
def watcher(command, folder):
    """Run a command and read its output while it runs; it is ended with the block at the latest."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=folder, env=os.environ.copy()) as watching:
        try:
            yield watching
        finally:
            watching.kill()


@pytest.mark.slow
@pytest.mark.parametrize(("columns", "rows"), [(80, 24), (40, 8)])
def test_watching_in_a_terminal_redraws_in_place_and_leaves_the_final_state(context, run, repository, columns, rows):
    """BX-12: it fits, does not flicker, and has no colours where they are unwanted."""
    work(context, run, "store")
    env = {**os.environ, "TERM": "xterm", "NO_COLOR": "1", "CI": ""}
    screen = Screen(
        [sys.executable, "-m", "scaffold", "status", "--watch"], cwd=repository, env=env, columns=columns, rows=rows
    )
    try:
        screen.wait_for(r"^▶ store#1 +executing" if columns == 80 else r"^▶ store#1 ")
        with context.store.transaction():
            context.store.runs.move(run.id, Paused("enough"))
        screen.wait_for(r"^  scaffold resume " if columns == 80 else "scaffold resume")
        assert screen.wait_for_exit() == 0
    finally:
        screen.stop()
    assert "store#1" not in screen.text, "the frame gave way to the whole run"
    assert "\x1b[3" not in screen.raw
    assert "\x1b[2J" not in screen.raw


def test_leaving_the_watch_is_no_error_and_does_not_affect_the_run(context, plan, repository):
    begin(context, make_run(context, plan))
    command = [sys.executable, "-m", "scaffold", "status", "--watch"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, cwd=repository, env=os.environ.copy(), **pipes) as watching:
        watching.stdout.readline()
        watching.send_signal(signal.SIGINT)
        _, complaints = watching.communicate(timeout=20)
    assert (watching.returncode, complaints) == (0, b"")


def test_the_last_lines_are_commands_that_fit(context, plan, scaffold):
    fits = ((Completed(), "land"), (Failed("shop: no way on"), "retry"), (Cancelled(), 'run "TASK"'))
    for state, command in fits:
        run = begin(context, make_run(context, plan))
        with context.store.transaction():
            context.store.runs.move(run.id, state)
        after = scaffold("status", run.id).out.split("Next\n")[1]
        assert f"  scaffold {command} " in after
        failed_with_nothing = isinstance(state, Failed)
        assert (f"scaffold diff {run.id}" in after) == (not failed_with_nothing)
