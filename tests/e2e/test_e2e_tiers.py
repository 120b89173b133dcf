"""Tiers by the real command: the words that choose them, their models, and how many agents work."""

import asyncio
import json

import pytest
from inline_snapshot import snapshot

from builders import machine_sandbox
from support.scenario import action, calls_entry, create_actions, plan_of, text_entry, write

SIZES = ("small", "medium", "large")


def dry_run(scenario, *args):
    done = scenario.call(scenario.command("run", *args, "--dry-run", "--model", "anthropic:none"), code=0)
    return json.loads(done.stdout)["run"], done.stderr


@pytest.mark.slow
def test_a_dry_run_says_which_tier_the_words_choose_and_how_sure_that_is(scenario):
    """AL-2: shown with the words, overridden by `--tier`; a specification counts as a request, a list by its titles."""
    run, said = dry_run(scenario, "rename the shelf")
    assert (run["tier"], run["tier_confidence"], run["agents"]) == ("quick", 0.95, 1)
    assert said == snapshot("note: tier quick: the request has `rename` (confidence 0.95); `--tier` chooses another\n")
    assert (run["budget"], run["budget_tokens"]) == (None, 60_000), "AL-21: the tier's limit, for one action"
    run, said = dry_run(scenario, "rename the shelf", "--tier", "scout")
    assert (run["tier"], run["tier_confidence"], said) == ("scout", 1.0, "")
    (scenario.home / "spec.md").write_text(
        "# Redesign of the shop\n\nIt is to have shelves, and each one has a page.\n"
    )
    assert dry_run(scenario, "--spec", str(scenario.home / "spec.md"))[0]["tier"] == "architect"
    tasks = [{"description": "Find the shelf"}, {"description": "Count its parts", "depends_on": [0]}]
    (scenario.home / "tasks.json").write_text(json.dumps(tasks))
    run, _ = dry_run(scenario, "--tasks", str(scenario.home / "tasks.json"))
    assert (run["tier"], run["agents"]) == ("scout", 1), "the second task waits for the first"


@pytest.mark.slow
def test_fewer_agents_work_where_the_plan_deserves_no_more(scenario):
    """BX-18: the tier is the most, `--agents` is obeyed, and the reason is shown."""
    alone = [action(key, effects=[f"{key}_there"], check="true", files=["shop.py"]) for key in ("a", "b", "c")]
    scenario.plan(plan_of(g=alone))
    plan = ("--plan", str(scenario.home / "plan.yaml"))
    run, _ = dry_run(scenario, *plan)
    assert (run["agents"], run["tier"]) == (1, "builder")
    assert "3 actions change `shop.py` one after the other" in run["agents_reason"]
    run, _ = dry_run(scenario, *plan, "--agents", "3")
    assert (run["agents"], run["agents_reason"]) == (3, None)
    scenario.cassette(a=[write("shop.py", "a = 1\n")])
    saved = scenario.run()
    assert "3 actions in 1 goal, up to 1 agent at once\n" in saved.stderr
    assert "at most 3 in parallel, longest chain 1 action, 3 actions change `shop.py` one after the other" in (
        " ".join(scenario.scaffold("status").stdout.split())
    )
    assert scenario.status()["run"]["agents"] == 1


def goal_of(*actions):
    wants = [effect for each in actions for effect in each["effects"]]
    goal = {"name": "goap_create_goal", "args": {"name": "g", "description": "all", "goal_state": wants}}
    return calls_entry("planner", goal, create_actions("g", *actions), turn=1)


def typed(key, task):
    return {**action(key, effects=[f"{key}_there"], check=f"test -f out/{key}"), "kind": "primitive", "type": task}


def sized_cassettes(scenario, *entries):
    """Write a cassette for each size, all with the same replies, and configure them."""
    for size in SIZES:
        scenario.replies(*entries, name=f"{size}.yaml")
    models = {size: f"cassette:{scenario.home / size}.yaml" for size in SIZES}
    scenario.configure(models=models, reviews={"human": "never"})


def size_of(model):
    return model.rpartition("/")[2].removesuffix(".yaml")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("tier", "agents", "model", "works"),
    [
        ("quick", 1, "small", ["small"]),
        ("scout", 2, "small", ["small", "small", "small"]),
        ("builder", 3, "medium", ["small", "medium", "large"]),
        ("architect", 3, "large", ["small", "medium", "large"]),
    ],
)
def test_a_run_of_each_tier_has_its_numbers_models_and_agents(scenario, tier, agents, model, works):
    """AL-1, AL-2: from the configured sizes to the model of each attempt, turn and critique."""
    tasks = {"base": "SETUP", "shelf": "FEATURE", "rework": "REFACTOR"}
    actions = [typed(key, task) for key, task in tasks.items()]
    each = [calls_entry("implementation", write(f"out/{key}", "x"), action=key, turn=1) for key in tasks]
    sized_cassettes(
        scenario,
        goal_of(*actions),
        text_entry("planner"),
        text_entry("critic", "Total: 9/9"),
        *each,
        calls_entry("implementation", write("out/quick", "x"), turn=1, contains="Build"),
        text_entry("implementation"),
    )
    level = ["--yolo"] if asyncio.run(machine_sandbox()).level == "none" else []
    scenario.call(scenario.command("run", "Build a shop", "--tier", tier, "--yes", *level), code=0)
    status = scenario.status()
    run = status["run"]
    assert (run["tier"], run["tier_confidence"], run["agents"]) == (tier, 1.0, agents)
    assert size_of(run["models"]["model"]) == model
    assert [size_of(attempt["model"]) for each in status["actions"] for attempt in each["attempts"]] == works
    costs = json.loads(scenario.scaffold("cost", "--json").stdout)
    counted = {size_of(line["name"]): line["agents"] for line in costs["models"]}
    turns = [] if tier == "quick" else [model]
    # Whoever worked or criticised for an action, in each model that it used.
    critics = [] if model == "small" else ["medium"] * 3
    used = [*turns, *(size for at, work in enumerate(works) for size in {work, *critics[at : at + 1]})]
    assert counted == {size: used.count(size) for size in used}
