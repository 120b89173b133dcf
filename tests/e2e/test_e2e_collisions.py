"""Runs whose actions may change the same files: what waits for what, as users see it."""

import json

import pytest

from support.scenario import COMMAND_S, action, plan_of, shell, wait_until

NESTED = {"inner": "src/shop/cart.txt", "outer": "src/", "web": "web/page.txt"}


@pytest.fixture
def scenario(scenario):
    scenario.configure()
    return scenario


def makes(path):
    return shell(f"mkdir -p $(dirname {path}); echo x >> {path}")


def events_of(output):
    """Return the events that `run --json` printed."""
    return [json.loads(line) for line in output.splitlines() if line.startswith("{")]


def at_once(events, keys, *, until):
    """Return the largest number of these actions that were open at the same time, by the order of the run's events."""
    open_ones, most = set(), 0
    for each in events:
        if each["type"] == "attempt_queued" and each["action"] in keys:
            open_ones.add(each["action"])
        elif (each["type"], each.get("phase")) in until:
            open_ones.discard(each["action"])
        most = max(most, len(open_ones))
    return most


HANDED_IN = {("attempt_phase_changed", "candidate")}
LANDED = {("attempt_ended", None)}


@pytest.mark.slow
def test_actions_on_nested_paths_never_run_at_the_same_time_and_status_says_why(scenario):
    """AL-4: `status`, `tasks`, `agents`, `path` and JSON name the rule; another action runs meanwhile."""
    paths = NESTED | {"outer": "src/other.txt"}
    made = [action(key, effects=[key], check=f"test -f {paths[key]}", files=[NESTED[key]]) for key in NESTED]
    scenario.plan(plan_of(g=made))
    # Both work until it is asked below what holds the third one back.
    go = f"until test -f {scenario.out}/go; do sleep 0.1; done"
    first = {"inner": f"touch {scenario.out}/inner; {go}", "web": go, "outer": "true"}
    scenario.cassette(
        **{key: [shell(f"{first[key]}; mkdir -p $(dirname {path}); echo x > {path}")] for key, path in paths.items()}
    )
    run = scenario.start(scenario.run_command("--yes", "--json", "--agents", "3", "--sandbox", "off", "--yolo"))
    assert wait_until((scenario.out / "inner").exists), scenario.said()
    why = {each["key"]: each["held_back"] for each in scenario.status()["actions"]}
    text = "waits for inner: both may change src/shop/cart.txt"
    assert why["outer"] == {"rule": "path", "waits_for": ["inner"], "path": "src/shop/cart.txt", "text": text}
    assert why["inner"] is None
    for command in ("status", "tasks", "agents"):
        assert f"held back: {text}" in " ".join(scenario.scaffold(command).stdout.split())
    listed = json.loads(scenario.scaffold("agents", "--json").stdout)["held_back"]
    assert listed == [{"action": "outer", **why["outer"]}]
    assert text in " ".join(scenario.scaffold("path", "outer").stderr.split())
    (scenario.out / "go").touch()
    assert run.wait(COMMAND_S) == 0, scenario.said()
    events = events_of(scenario.said())
    assert at_once(events, {"inner", "outer"}, until=LANDED) == 1
    assert at_once(events, {"inner", "web"}, until=LANDED) == 2


@pytest.mark.slow
def test_what_collides_is_worked_on_one_after_another_and_a_package_by_two(scenario):
    """AL-4: five wait for one file, two at most work in a package, and the others go on."""
    for name in ("api", "web"):
        (scenario.repo / "packages" / name).mkdir(parents=True)
        (scenario.repo / "packages" / name / "package.json").write_text("{}")
    (scenario.repo / "package.json").write_text('{"workspaces": ["packages/*"]}')
    scenario.commit("a workspace")
    files = {f"api{n}": f"packages/api/{n}.txt" for n in range(4)} | {"web": "packages/web/x.txt"}
    files |= {f"hot{n}": "hot.txt" for n in range(5)}
    made = [action(key, effects=[key], check=f"test -f {path}", files=[path]) for key, path in files.items()]
    scenario.plan(plan_of(g=made))
    scenario.configure(max_workers_per_goal=6, quality_gates={"test": "off"})
    scenario.cassette(**{key: [makes(path)] for key, path in files.items()})
    done = scenario.run("--yes", "--json", "--agents", "6", "--sandbox", "off", "--yolo", code=0)
    events = events_of(done.stdout)
    assert at_once(events, {key for key in files if key.startswith("hot")}, until=LANDED) == 1
    assert at_once(events, {key for key in files if key.startswith("api")}, until=HANDED_IN) == 2
    assert at_once(events, {*files}, until=LANDED) > 2, "the others went on"
