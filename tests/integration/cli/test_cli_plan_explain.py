"""`plan explain`, `plan diff` and `plan simulate`: the meaning of a plan, before it costs anything."""

import os
import re
import subprocess  # noqa: TID251 - the same answer is wanted from another process
import sys
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from support.terminal import printed_lines

PLAN = """\
version: 1
goals:
  - name: shop
    goal_state: [store_works, api_works]
    actions:
      - {key: store, effects: [store_works], contract: {commands: [make test]}}
      - {key: api, preconditions: [store_works], effects: [api_works, spare]}
"""
UNREADABLE = "version: 1\ngoals: }"
UNSOUND = PLAN.replace("effects: [store_works]", "effects: [stor_works]")


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def written(content=PLAN, name="plan.yaml"):
        (tmp_path / name).write_text(content)
        return name

    return written


def test_a_plan_is_explained(file, scaffold):
    """BX-7, BX-18: levels, providers and consumers, the longest chain, weaknesses, and the number of agents."""
    answer = scaffold("plan", "explain", file())
    assert answer.code == 0
    assert answer.out == snapshot("""\
plan.yaml: 2 actions, at most 1 in parallel
changed existing tests, check settings and protected files are refused unless their action lists them in `files`
  store, api list none; an agent can ask for others with `request_files`

Goal shop
  1. store
  2. api
  longest chain: store -> api (10 m 00 s, at 5 m 00 s an action)
  store_works: from store for api, the goal
  api_works: from api for the goal
  spare: from api for no action

Agents
  1 agent, because no two actions can run in parallel. Times by number of agents, means of simulations: 1: 12 m 03 s.

Weak spots
  unused-effect: nothing needs the effect `spare` of action `api`
    Add it to the goal state or to the preconditions of an action that should wait for it.
    for example:
      actions:
        - {key: store, effects: [store_works]}
        - {key: api, preconditions: [store_works], effects: [api_works]}
  no-contract: action `api` has no contract: the only check is that it changed something
    Add a command that shows its effects.
    for example:
      actions:
        - key: store
          effects: [store_works]
          contract: {commands: [python -m pytest -q tests/test_store.py], must_exist: [store.py]}
""")


def test_an_explanation_is_available_as_json(file, scaffold):
    """BX-18."""
    explained = scaffold(
        "plan", "explain", file(PLAN.replace("api_works, spare]", "api_works], odd: 1")), "--json"
    ).json
    assert set(explained) == {"valid", "actions", "width", "critical_path", "goals", "weaknesses", "advice"}
    (goal,) = explained["goals"]
    assert goal == {
        "name": "shop",
        "levels": [["store"], ["api"]],
        "supplies": [
            {"assertion": "store_works", "providers": ["store"], "needed_by": ["api"], "wanted": True},
            {"assertion": "api_works", "providers": ["api"], "needed_by": [], "wanted": True},
        ],
        "critical_path": ["store", "api"],
        "width": 1,
        "bound_s": 600.0,
    }
    assert [weakness["code"] for weakness in explained["weaknesses"]] == ["unknown-key", "no-contract"]
    sound = PLAN.replace("api_works, spare]", "api_works], contract: {commands: [make test]}")
    assert scaffold("plan", "explain", file(sound), "--json").json["weaknesses"] == []
    assert "Weak spots" not in scaffold("plan", "explain", "plan.yaml").out
    assert explained["advice"]["agents"] == 1
    assert [set(prediction) for prediction in explained["advice"]["predictions"]] == [{"agents", "makespan_s"}]


@pytest.mark.slow
def test_a_long_explanation_is_shortened_and_fits_the_screen(file):
    """BX-7."""
    actions = "".join(
        f"      - {{key: a{i}, effects: [f{i}], preconditions: [g{i % 35}, {'x' * 50}]}}\n" for i in range(40)
    )
    links = "".join(
        f"      - {{key: b{i}, effects: [g{i}], preconditions: {[f'g{i - 1}'] if i else []}}}\n" for i in range(35)
    )
    spare = f"      - {{key: spare, effects: [{'x' * 50}]}}\n"
    text = f"version: 1\ngoals:\n  - name: g\n    goal_state: {[f'f{i}' for i in range(40)]}\n    actions:\n"
    path = file(text + spare + links + actions)
    lines = printed_lines(["plan", "explain", path], cwd=Path.cwd(), columns=80)
    assert max(len(line) for line in lines if "contract: {" not in line) <= 80  # an example is copied as it is
    out = "\n".join(lines)
    assert "  ... and 6 more" in out
    assert " and 10 more for" not in out
    assert "a29 and " not in out


def test_two_plans_are_compared(file, scaffold):
    """BX-7: what was added, removed and changed, and the effect on the plan."""
    other = file(
        PLAN.replace("key: api", "key: http").replace("commands: [make test]", "commands: [make check]"), "b.yaml"
    )
    answer = scaffold("plan", "diff", file(), other)
    assert answer.code == 0
    assert answer.out.splitlines() == snapshot(
        [
            "+ action http",
            "- action api",
            "~ action store: contract",
            "actions: 2 -> 2, in parallel: 1 -> 1",
            "actions in the longest chain: 2 -> 2",
            "new: b.yaml: warning[unused-effect] nothing needs the effect `spare` of action `http`",
            "  Add it to the goal state or to the preconditions of an action that should wait for it.",
            "gone: plan.yaml: warning[unused-effect] nothing needs the effect `spare` of action `api`",
            "  Add it to the goal state or to the preconditions of an action that should wait for it.",
        ]
    )
    assert scaffold("plan", "diff", "plan.yaml", "plan.yaml").out == snapshot(
        "plan.yaml and plan.yaml are the same plan\n"
    )
    found = scaffold(
        "plan", "diff", "plan.yaml", file(PLAN.replace("[make test]", "[make check]"), "b.yaml"), "--json"
    ).json
    assert found["actions_changed"] == [{"name": "store", "fields": ["contract"]}]
    assert found["before"] == {"valid": True, "actions": 2, "width": 1, "critical_path": ["store", "api"]}
    assert (found["findings_new"], found["goals_reordered"]) == ([], False)


GOAL = "  - {name: NAME, goal_state: [done], actions: [{key: NAME/do, effects: [done]}]}\n"


def test_reordered_goals_and_fixed_findings_are_reported(file, scaffold):
    first, second = GOAL.replace("NAME", "g"), GOAL.replace("NAME", "h")
    file("version: 1\ngoals:\n" + first + second)
    out = scaffold("plan", "diff", "plan.yaml", file("version: 1\ngoals:\n" + second + first, "b.yaml")).out
    assert out.startswith("~ the order of the goals\n")
    mended = scaffold("plan", "diff", file(UNSOUND, "c.yaml"), file())
    assert (mended.code, re.findall("^valid now", mended.out, re.MULTILINE)) == (0, ["valid now"])
    broken = scaffold("plan", "diff", "plan.yaml", "c.yaml")
    assert (broken.code, re.findall("^invalid now", broken.out, re.MULTILINE)) == (4, ["invalid now"])
    assert "new: c.yaml: error[unprovided-precondition]" in broken.out


def test_an_unreadable_plan_cannot_be_compared(file, scaffold):
    file()
    file(UNREADABLE, "bad.yaml")
    for names in (("plan.yaml", "bad.yaml"), ("bad.yaml", "plan.yaml")):
        answer = scaffold("plan", "diff", *names, "--json")
        assert (answer.code, answer.json["valid"], answer.json["findings"][0]["code"]) == (4, False, "syntax")


def test_an_invalid_plan_is_reported_as_by_check(file, scaffold):
    for text in (UNREADABLE, UNSOUND):
        checked = scaffold("plan", "check", file(text), "--json")
        plainly = scaffold("plan", "check", "plan.yaml")
        assert (checked.code, plainly.code) == (4, 4)
        for command in ("explain", "simulate"):
            assert scaffold("plan", command, "plan.yaml", "--json") == checked
            plain = scaffold("plan", command, "plan.yaml")
            assert (plain.code, plain.out) == (4, plainly.out)


def test_a_missing_file_and_flags_out_of_range_are_usage_errors(file, scaffold):
    missing = (("explain", "no.yaml"), ("simulate", "no.yaml"), ("diff", "no.yaml", "no.yaml"))
    flags = (("--agents", "0"), ("--failure-rate", "1.1"), ("--failure-rate", "nan"), ("--seed", "x"))
    commands = (*missing, *(("simulate", file(), *flag) for flag in flags))
    answers = {command: scaffold("plan", *command) for command in commands}
    refused = {command: (answer.code, answer.out) for command, answer in answers.items()}
    assert refused == dict.fromkeys(commands, (64, ""))


def test_a_simulated_run_is_drawn_over_time(file, scaffold):
    answer = scaffold("plan", "simulate", file(), "--agents", "1")
    assert answer.code == 0
    assert answer.out.splitlines() == snapshot(
        [
            "store █████████████████████████·                        0 s - 6 m 53 s",
            "api                            ████████████████████████ 6 m 53 s - 13 m 28 s",
            "█ works  x fails  · waits to land",
            "",
            "1 agent, seed 0, failure rate 0",
            "13 m 28 s in total, at best 13 m 08 s; agents busy 98%; 2 attempts, 2 landings",
            "goal shop: completed after 13 m 28 s",
            "12 m 03 s is the mean of seeds 0 to 2, as `explain` shows",
        ]
    )


def test_what_explain_predicts_is_what_simulate_shows(file, scaffold):
    """BX-18: on average over the same seeds, by default with the advised number of agents."""
    advice = scaffold("plan", "explain", file(), "--json").json["advice"]
    runs = [scaffold("plan", "simulate", "plan.yaml", "--seed", str(seed), "--json").json for seed in (0, 1, 2)]
    assert {each["agents"] for each in runs} == {advice["agents"]}
    predicted = {each["agents"]: each["makespan_s"] for each in advice["predictions"]}
    assert round(sum(each["makespan_s"] for each in runs) / 3, 1) == predicted[advice["agents"]]


def test_failures_are_drawn_and_counted(file, scaffold):
    """OR-3: after three failures the goal is unreachable; the command itself succeeds."""
    answer = scaffold("plan", "simulate", file(), "--failure-rate", "1")
    assert answer.code == 0
    assert answer.out.startswith(f"store {'x' * 49} 0 s - ")
    assert "3 attempts, 0 landings\ngoal shop: failed after " in answer.out
    assert answer.out.splitlines()[-1] == snapshot("  `store_works` cannot be reached: `store` failed permanently")


@pytest.mark.parametrize("columns", [40, pytest.param(200, marks=pytest.mark.slow)])
def test_many_long_and_short_actions_fit_the_screen(file, columns):
    """BX-7."""
    actions = "".join(f"      - {{key: {'k' * 30}{i}, effects: [f{i}]}}\n" for i in range(60))
    head = f"version: 1\ngoals:\n  - name: {'g' * 90}\n    goal_state: {[f'f{i}' for i in range(60)]}\n"
    text = f"{head}    actions:\n{actions}"
    lines = printed_lines(["plan", "simulate", file(text)], cwd=Path.cwd(), columns=columns)
    assert max(map(len, lines)) <= columns
    assert "... and 20 more" in lines
    assert "█·" in "".join(lines)
    assert "g" * 90 in "".join(line.strip() for line in lines)


def test_in_a_pipe_the_keys_of_a_simulation_are_whole(file, scaffold):
    """BX-7."""
    action = f"{{key: {'k' * 120}, effects: [done]}}"
    head = "version: 1\ngoals:\n  - name: g\n    goal_state: [done]\n"
    out = scaffold("plan", "simulate", file(f"{head}    actions:\n      - {action}\n")).out
    assert out.startswith(f"{'k' * 120} █")


def test_a_simulation_depends_only_on_file_and_flags(file, scaffold):
    """BX-7: the same bytes, from any process, on any day."""
    flags = ("plan", "simulate", file(), "--agents", "2", "--seed", "11", "--failure-rate", "0.4", "--json")
    first = scaffold(*flags)
    env = os.environ | {"PYTHONHASHSEED": "77", "TZ": "Asia/Tokyo"}
    other = subprocess.run([sys.executable, "-m", "scaffold", *flags], capture_output=True, env=env, check=True)
    assert other.stdout.decode() == first.out
    assert scaffold(*(*flags[:-2], "0.5", "--json")).json["failure_rate"] == 0.5
    assert set(first.json) == {
        *("agents", "seed", "failure_rate", "makespan_s", "bound_s", "utilization", "goals", "actions", "landings")
    }
