"""Goals broken down when ready and replanned when stuck, from a request to landed commits."""

import os
import signal

import pytest
import yaml

from support.planner_cassettes import add_planner, compound, create_actions_call, create_goal_call, reply_entries
from support.scenario import action, plan_of, put_before, shell, text_entry, wait_until, write


def supervised(scenario):
    """A request of two goals: a shop in two compounds, one after the other, and docs whose first way fails.

    The second compound is broken down once the first is done; `guide` never passes, and a replan adds another way.
    """
    cassette = scenario.cassette(
        model=[write("model.py", "VALUE = 1\n")],
        tests=[write("test_model.py", "import model\n")],
        api=[write("api.py", "import model\n")],
        guide=[write("GUIDE.txt", "# Guide\n")],
        manual=[write("GUIDE.md", "# Guide\n")],
    )
    model = action("model", effects=["model_there"], check="test -f model.py")
    tests = action("tests", needs=["model_there"], effects=["store_works"], check="test -f test_model.py")
    api = action("api", effects=["api_works"], check="grep -q model api.py")
    manual = action("manual", effects=["guide_written"], check="test -s GUIDE.md")
    put_before(
        cassette,
        *reply_entries([create_actions_call("shop", model, tests, parent="store")], role="supervisor", action="store"),
        *reply_entries([create_actions_call("shop", api, parent="front")], role="supervisor", action="front"),
        *reply_entries([create_actions_call("docs", manual)], role="supervisor", event="replan"),
        text_entry("supervisor", "that is all"),
    )
    return add_planner(
        cassette,
        [create_goal_call("shop", "store_works", "api_works"), create_goal_call("docs", "guide_written")],
        [
            create_actions_call(
                "shop",
                compound("store", effects=["store_works"]),
                compound("front", effects=["api_works"], needs=["store_works"]),
            ),
            create_actions_call("docs", action("guide", effects=["guide_written"], check="test -s NOWHERE.md")),
        ],
    )


def expect_the_end(scenario):
    status = scenario.status()
    assert {each["name"]: each["status"] for each in status["goals"]} == {"shop": "completed", "docs": "completed"}
    states = {each["key"]: each["status"] for each in status["actions"]}
    done = {"store", "front", "model", "tests", "api", "manual"}
    assert {key for key, state in states.items() if state == "completed"} == done
    assert states["guide"] == "failed"
    parents = {each["id"]: each["key"] for each in status["actions"]}
    under = {each["key"]: parents.get(each["parent_id"]) for each in status["actions"]}
    assert (under["model"], under["tests"], under["api"], under["manual"]) == ("store", "store", "front", None)
    for each in status["actions"]:
        landings = [attempt for attempt in each["attempts"] if attempt["outcome"] == "landed"]
        assert len(landings) == (each["kind"] == "primitive" and each["key"] != "guide"), "landed once, no more"
    files = set(scenario.git("ls-tree", "--name-only", status["run"]["session_branch"]).split())
    assert {"model.py", "test_model.py", "api.py", "GUIDE.md"} <= files
    assert len(scenario.git("worktree", "list").splitlines()) == 1


@pytest.mark.slow
def test_a_request_of_two_goals_is_broken_down_just_in_time_and_replanned_once(scenario):
    """SC-8, SC-1: plan, compounds, children when they are ready, another way after a failure; all of it lands."""
    done = scenario.scaffold("run", "a shop with a guide", "--model", supervised(scenario), "--yes", code=0)
    expect_the_end(scenario)
    order = [line.split("  ", 1)[1] for line in done.stdout.splitlines() if line[:2].isdigit()]
    children = next(n for n, line in enumerate(order) if line.startswith("plan     shop: api under front"))
    landed = next(n for n, line in enumerate(order) if line.startswith("landed   tests"))
    assert landed < children, "a compound was broken down before it was ready"


@pytest.mark.slow
def test_a_plan_with_a_tier_may_be_broken_down_and_without_one_is_refused(scenario):
    """SC-22: `--plan --tier` adds a planner to a given plan."""
    model = supervised(scenario)
    shop = [{**compound("store", effects=["store_works"]), "description": "a store"}]
    plan = {"version": 1, "goals": [{"name": "shop", "goal_state": ["store_works"], "actions": shop}]}
    file = scenario.home / "given.yaml"
    file.write_text(yaml.safe_dump(plan))
    refused = scenario.scaffold("run", "--plan", str(file), "--model", model, "--yes")
    assert (refused.returncode, "no planner" in refused.stderr) == (4, True)
    scenario.scaffold("run", "--plan", str(file), "--tier", "builder", "--model", model, "--yes", code=0)
    assert {each["key"] for each in scenario.status()["actions"]} == {"store", "model", "tests"}


@pytest.mark.slow
def test_a_compound_that_cannot_be_broken_down_is_named_with_the_reason(scenario):
    """SC-8, AL-27: the user sees why, and the fix: a failed run is retried before it continues."""
    model = add_planner(
        scenario.cassette(store=["nothing"]),
        [
            create_goal_call("shop", "store_works"),
            create_actions_call("shop", compound("store", effects=["store_works"])),
        ],
    )
    put_before(scenario.home / "cassette.yaml", text_entry("supervisor", "I know no way."))
    done = scenario.scaffold("run", "a shop", "--model", model, "--yes", code=1)
    output = done.stdout.partition("\n\n")[2]
    assert "store  failed: could not be decomposed" in output
    refused = scenario.scaffold("resume")
    assert (refused.returncode, "scaffold retry" in refused.stderr) == (64, True)


@pytest.mark.slow
def test_a_goal_has_no_more_workers_than_the_user_sets(scenario):
    """SC-15, SC-22: however many agents the run may have."""
    folder = scenario.home / "scaffold" / "config"
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text("max_workers_per_goal: 1\n")
    shelves = [action(key, effects=[f"{key}_there"], check=f"test -f {key}") for key in ("left", "right")]
    scenario.plan(plan_of(shop=shelves))
    scenario.cassette(**{key: [shell("sleep 0.5"), write(key, "x\n")] for key in ("left", "right")})
    done = scenario.run("--agents", "5", "--yes", code=0)
    lines = [line.split()[1:3] for line in done.stdout.splitlines() if line[:2].isdigit()]
    assert lines.index(["check", "left"]) < lines.index(["start", "right"])


@pytest.mark.slow
def test_a_retry_resets_the_replans_of_a_goal(scenario):
    """SC-20: a human gave it up, and the goal failed; after a human's retry another way is found."""
    cassette = scenario.cassette(guide=[write("GUIDE.txt", "x\n")], manual=[write("GUIDE.md", "# Guide\n")])
    plan = [
        create_goal_call("docs", "written"),
        create_actions_call("docs", action("guide", effects=["written"], check="test -s GUIDE.md")),
    ]
    model = add_planner(cassette, plan)
    better = scenario.home / "better.yaml"
    better.write_text(cassette.read_text())
    put_before(cassette, text_entry("supervisor", "I know no other way."))
    scenario.scaffold("run", "a guide", "--model", model, "--yes", code=3)
    (item,) = scenario.status()["inbox"]
    scenario.scaffold("answer", item["id"], "fail", code=0)
    scenario.scaffold("resume", code=1)
    manual = action("manual", effects=["written"], check="test -s GUIDE.md")
    helpful = reply_entries([create_actions_call("docs", manual), "that is all"], role="supervisor", event="replan")
    put_before(better, *helpful)
    scenario.scaffold("retry", "guide", code=0)
    scenario.scaffold("resume", "--model", f"cassette:{better}", code=0)
    assert {each["key"]: each["status"] for each in scenario.status()["actions"]}["manual"] == "completed"


@pytest.mark.slow
@pytest.mark.parametrize("phase", ["planning", "deciding", "working"])
def test_a_kill_at_any_stage_does_not_change_the_outcome(scenario, phase):
    """SC-8, OR-5: the orchestrator is killed during planning, breaking down, and an agent's work."""
    model = supervised(scenario)
    path = scenario.home / "cassette.yaml"
    slow = yaml.safe_load(path.read_text())
    for reply in slow["replies"]:
        when = reply["when"]
        stuck = {"planning": when.get("role") == "planner", "deciding": when.get("action") == "front"}
        if stuck.get(phase, False):
            reply["fault"] = {"kind": "hang", "times": 50}
    if phase == "working":
        first = next(each for each in slow["replies"] if each["when"] == {"action": "tests", "turn": 1})
        first["tool_calls"] = [shell("touch began; sleep 60")]
    stuck = scenario.home / "stuck.yaml"
    stuck.write_text(yaml.safe_dump(slow))
    started = scenario.start(scenario.command("run", "a shop", "--model", f"cassette:{stuck}", "--yes"))
    try:
        assert wait_until(lambda: _is_at(scenario, phase))
    finally:
        os.killpg(started.pid, signal.SIGKILL)
        started.wait()
    assert scenario.status()["run"]["status"] == "interrupted"
    scenario.scaffold("resume", "--model", model, code=0)
    expect_the_end(scenario)


def _is_at(scenario, phase):
    status = scenario.status()
    if phase == "planning":
        return (status["run"] or {}).get("planning", False)
    if phase == "deciding":
        return any((each["supervisor"]["turn"] or {}).get("action") == "front" for each in status["goals"])
    attempts = [attempt for each in status["actions"] if each["key"] == "tests" for attempt in each["attempts"]]
    return any(attempt["phase"] == "executing" for attempt in attempts)
