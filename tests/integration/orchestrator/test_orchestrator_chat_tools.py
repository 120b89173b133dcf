"""The chat agent's tools: plans executed, goals and projects listed and controlled."""

import json

import pytest
from inline_snapshot import snapshot

from scaffold.agent.toolbox import Toolbox
from scaffold.core.conversation import ToolCall
from scaffold.core.errors import ModelError
from scaffold.core.states import PAUSED_BY_USER, Active, Cancelled, Completed, Failed, Paused, Pending
from scaffold.orchestrator.chat_tools import goal_tools, orchestrator_tools, project_tools
from scaffold.orchestrator.planning.apply_plan import stored_plan
from scaffold.plan.analysis.lint import lint
from support.harness import act, goal

TASKS = [
    {"description": "Write the store."},
    {"description": "Write the API.", "depends_on": [0]},
    {"key": "docs", "description": "Write it down.", "depends_on": ["web-shop-task-2", 0]},
]
PROJECT = {"name": "Web Shop", "description": "A shop on the web.", "tasks": TASKS}


class ChatToolHost:
    """The host of chat tools in a test: one harness, and a list of what it was asked."""

    def __init__(self, harness):
        self.harness = harness
        self.context = harness.context
        self.run_id = None
        self.asked = []
        self.error = None

    def run(self):
        return None if self.run_id is None else self.harness.store.runs.get(self.run_id)

    async def execute_plan(self, plan):
        if self.error:
            raise self.error
        self.asked.append(("plan", plan))
        return "run r1 goes on"

    async def open_unplanned_run(self, request):
        self.asked.append(("open", request))
        run = await self.harness.open_run()
        self.run_id = run.id
        return run

    async def resume_in_background(self, run):
        self.asked.append(("go on", run.id))
        return "it goes on"


@pytest.fixture
async def host(harness):
    return ChatToolHost(harness)


@pytest.fixture
def answer(host):
    """Return the answer of a call that succeeds."""

    async def answer(name, /, **args):
        result = await call(host, name, args)
        assert not result.failed, result.content
        return json.loads(result.content)

    return answer


@pytest.fixture
def refusal(host):
    """Return the message of a call that fails."""

    async def refusal(name, /, **args):
        result = await call(host, name, args)
        assert result.failed, result.content
        assert "broke:" not in result.content
        return result.content

    return refusal


async def call(host, name, args):
    tools = (*orchestrator_tools(host), *goal_tools(host), *project_tools(host))
    return await Toolbox(tools).result(ToolCall("1", name, args))


def state(harness, run_id, name):
    return harness.store.goals.by_name(run_id, name).state


def test_the_tools_have_their_documented_names(host):
    """SC-17, OR-7."""
    assert [tool.name for tool in orchestrator_tools(host)] == [
        "execute_plan",
        "list_goals",
        "goal_status",
        "start_goal",
        "pause_goal",
        "cancel_goal",
    ]
    assert [tool.name for tool in goal_tools(host)] == ["goap_create_goal", "goap_create_actions"]
    assert [tool.name for tool in project_tools(host)] == [
        "create_project",
        "list_projects",
        "project_status",
        "start_project",
        "pause_project",
        "cancel_project",
    ]


async def test_a_plan_is_passed_on_whole(host, answer, refusal):
    """SC-17, SC-18."""
    assert await answer("execute_plan", plan=" Build a shop.\n") == {"note": "run r1 goes on"}
    assert host.asked == [("plan", "Build a shop.")]
    assert await refusal("execute_plan", plan=" ") == snapshot(
        "the plan is empty. Write down everything agreed on with the user."
    )
    host.error = ModelError("the model is away", "Try later.")
    assert await refusal("execute_plan", plan="Build.") == snapshot("the model is away. Try later.")


async def test_before_the_first_run_the_lists_are_empty(answer, refusal):
    """SC-17."""
    assert await answer("list_goals") == snapshot({"goals": [], "note": "There is no run yet."})
    assert await refusal("goal_status", goal="shop") == snapshot(
        "there is no run yet. Plan with the user first, then call execute_plan, goap_create_goal or create_project."
    )


async def test_goals_are_listed_and_shown_from_the_store(harness, host, answer, refusal):
    """SC-17, OR-8: the store is the one source of truth."""
    run = await harness.own(goal("shop", act("store"), act("api", needs=["store_done"])), goal("lab", act("x")))
    host.run_id = run.id
    listing = await answer("list_goals")
    assert [(each["goal"], each["status"], each["actions"]) for each in listing["goals"]] == [
        ("shop", "active", {"pending": 2}),
        ("lab", "active", {"pending": 1}),
    ]
    assert listing["run_status"] == "active"
    status = await answer("goal_status", goal="shop")
    assert status["goal_state"] == {"store_done": False, "api_done": False}
    assert [(each["key"], each["status"]) for each in status["actions"]] == [("store", "pending"), ("api", "pending")]
    assert status["counts"] == {"pending": 2}
    assert "`shop`" in await refusal("goal_status", goal="shp")
    assert (await answer("list_projects"))["projects"] == []
    assert "is a goal, not a project" in await refusal("project_status", project="shop")


async def test_a_goal_is_paused_and_resumed(harness, host, answer):
    """SC-17: without an owner a pause takes effect at once; to resume, a process must own the run."""
    run = await harness.own(goal("shop", act("store")))
    host.run_id = run.id
    harness.orphan(run)
    assert await answer("pause_goal", goal="shop") == snapshot(
        {"goal": "shop", "status": "paused", "note": "Running work finishes and lands."}
    )
    assert state(harness, run.id, "shop") == Paused(PAUSED_BY_USER)
    assert (await answer("start_goal", goal="shop"))["note"] == "it goes on"
    assert state(harness, run.id, "shop") == Active()
    assert host.asked == [("go on", run.id)]
    await harness.take(run)
    assert (await answer("start_goal", goal="shop"))["note"] == snapshot("It is already running.")
    assert host.asked == [("go on", run.id)]


async def test_cancelling_a_goal_is_final(harness, host, answer):
    """SC-17."""
    run = await harness.own(goal("shop", act("store")), goal("lab", act("x")))
    host.run_id = run.id
    harness.orphan(run)
    assert (await answer("cancel_goal", goal="shop"))["status"] == "cancelled"
    assert state(harness, run.id, "shop") == Cancelled()
    assert state(harness, run.id, "lab") == Active()


async def test_only_the_user_can_retry_a_failure(harness, host, refusal):
    """SC-20."""
    run = await harness.own(goal("shop", act("store")))
    host.run_id = run.id
    harness.move(harness.store.goals.by_name(run.id, "shop"), Failed("no way"))
    assert "has failed: no way" in await refusal("start_goal", goal="shop")


async def test_a_project_is_a_goal_with_dependent_tasks(harness, host, answer):
    """OR-2, OR-6, OR-7, SC-22."""
    made = await answer("create_project", **PROJECT)
    assert made["tasks"] == 3
    assert made["created"] is True
    assert host.asked == snapshot([("open", "A shop on the web.")])
    actions = harness.store.actions.for_run(host.run_id)
    assert [(each.key, each.method, each.preconditions) for each in actions] == [
        ("web-shop-task-1", "dag", ()),
        ("web-shop-task-2", "dag", ("done:web-shop-task-1",)),
        ("docs", "dag", ("done:web-shop-task-2", "done:web-shop-task-1")),
    ]
    assert lint(stored_plan(harness.store, host.run())).valid
    assert [(each["goal"], each["status"]) for each in (await answer("list_projects"))["projects"]] == [
        ("Web Shop", "paused")
    ]
    assert (await answer("project_status", project="Web Shop"))["complete"] is False


async def test_creating_the_same_project_again_changes_nothing(harness, host, answer, refusal):
    """OR-7: safe to repeat."""
    await answer("create_project", **PROJECT)
    again = await answer("create_project", **PROJECT)
    assert (again["created"], again["note"]) == snapshot((False, "An identical project already exists."))
    assert len(harness.store.actions.for_run(host.run_id)) == 3
    other = PROJECT | {"description": "Another shop."}
    assert await refusal("create_project", **other) == snapshot(
        "goal `Web Shop` already exists with a different description or goal state. Leave it as it is and add "
        "actions to it, or give the new goal another name."
    )


async def test_several_projects_share_one_run_and_a_new_run_follows_an_ended_one(harness, host, answer):
    """OR-8."""
    await answer("create_project", **PROJECT)
    first = host.run_id
    await answer("create_project", name="Lab", description="x", tasks=[{"description": "Look."}])
    assert [each.name for each in harness.store.goals.for_run(first)] == ["Web Shop", "Lab"]
    with harness.store.transaction():
        harness.store.runs.move(first, Active())
        harness.store.runs.move(first, Completed())
    await answer("create_project", name="Attic", description="x", tasks=[{"description": "Look."}])
    assert host.run_id != first
    assert len(harness.store.goals.for_run(first)) == 2


FAULTY_TASKS = [
    ([], "the list of tasks is empty"),
    ([{"description": "x"}, {"description": "y", "depends_on": [7]}], "tasks[1]: task `web-shop-task-2` depends on"),
    ([{"description": "x", "depends_on": [0]}], "tasks[0]: task `web-shop-task-1` depends on itself"),
    ([{"description": "x", "depends_on": [1]}, {"description": "y", "depends_on": [0]}], "wait for each other"),
    ([{"description": "x", "depends_on": ["nobody"]}], "`nobody`, which is not a task"),
    ([{"description": "x"}, {"description": "y", "depends_on": [{}]}], "tasks[1].depends_on"),
    ([{"description": "x"}, {"key": "web-shop-task-1", "description": "y"}], "more than one task"),
    ([{"description": "x", "depends_on": [9, 8, 7, 6, 5, 4, 3]}], "(and 2 more)"),
    ([{"text": "x"}], "`tasks[0]` needs `description`"),
    (["Look."], "tasks[0]"),
]


async def test_a_malformed_list_of_tasks_is_refused_whole_with_the_position(harness, host, refusal):
    """OR-5, OR-6: indices and cycles are checked before anything is stored."""
    told = [(words, await refusal("create_project", **(PROJECT | {"tasks": tasks}))) for tasks, words in FAULTY_TASKS]
    assert [(words, message) for words, message in told if words not in message] == []
    assert host.asked == []
    assert harness.store.runs.latest() is None


async def test_a_large_project_is_created_in_one_call(harness, host, answer):
    """OR-2."""
    tasks = [{"description": f"Step {n}.", "depends_on": [n - 1] if n else []} for n in range(80)]
    assert (await answer("create_project", name="!!", description="x", tasks=tasks))["tasks"] == 80
    assert harness.store.actions.for_run(host.run_id)[79].key == "project-task-80"


async def test_a_project_starts_on_request(harness, host, answer):
    """OR-7, SC-17."""
    await answer("create_project", **PROJECT)
    assert state(harness, host.run_id, "Web Shop") == Paused(PAUSED_BY_USER)
    started = await answer("start_project", project="Web Shop")
    assert started["note"] == "it goes on"
    assert state(harness, host.run_id, "Web Shop") != Paused(PAUSED_BY_USER)
    assert (await answer("pause_project", project="Web Shop"))["status"] == "paused"
    assert (await answer("cancel_project", project="Web Shop"))["status"] == "cancelled"


GOAL = {"name": "shop", "description": "A shop on the web.", "goal_state": ["shop_works"]}
ACTIONS = {"goal": "shop", "actions": [{"key": "store", "description": "Write it.", "effects": ["shop_works"]}]}


async def test_a_goal_and_its_actions_are_created_as_a_planner_does_and_wait_for_the_user(harness, host, answer):
    """SC-12, SC-17: in a new run, which costs nothing until the user starts it."""
    assert await answer("goap_create_goal", **GOAL) == {"goal": "shop", "created": True}
    assert host.asked == snapshot([("open", "A shop on the web.")])
    made = await answer("goap_create_actions", **ACTIONS)
    assert (made["created"], made.get("not_sound_yet")) == (["store"], None)
    run = host.run()
    assert lint(stored_plan(harness.store, run)).findings == ()
    assert state(harness, run.id, "shop") == Paused(PAUSED_BY_USER)
    assert [each.state for each in harness.store.actions.for_run(run.id)] == [Pending()]
    assert (await answer("goap_create_goal", **GOAL))["note"] == snapshot("An identical goal already exists.")
    assert (await answer("start_goal", goal="shop"))["note"] == "it goes on"
    assert state(harness, run.id, "shop") == Active()


async def test_a_goal_joins_the_run_that_is_being_executed_and_does_not_start_there(harness, host, answer):
    """SC-17, OR-7, OR-8: not even a persistent one, nor a project."""
    run = await harness.own(goal("lab", act("x")))
    host.run_id = run.id
    await answer("goap_create_goal", **GOAL)
    await answer("goap_create_goal", **(GOAL | {"name": "watch", "persistent": True}))
    await answer("goap_create_actions", **ACTIONS)
    await answer("create_project", **PROJECT)
    assert host.asked == []
    made = {name: state(harness, run.id, name) for name in ("shop", "watch", "Web Shop")}
    assert made == dict.fromkeys(made, Paused(PAUSED_BY_USER))
    assert state(harness, run.id, "lab") == Active()


async def test_actions_are_not_added_to_a_goal_at_work(harness, host, refusal):
    """SC-17: they would start, and cost money, before the user agreed."""
    host.run_id = (await harness.own(goal("shop", act("store")))).id
    more = {"goal": "shop", "actions": [{"key": "api", "description": "Write it.", "effects": ["api_done"]}]}
    assert await refusal("goap_create_actions", **more) == snapshot(
        "goal `shop` is being worked on, so new actions would start at once. Pause it with pause_goal, add them, "
        "and start it again once the user agrees."
    )
    assert [each.key for each in harness.store.actions.for_run(host.run_id)] == ["store"]


async def test_a_goal_that_is_refused_opens_no_run(host, refusal):
    """SC-12: errors say what to change; a run that has ended takes no goals either."""
    assert "`shop`" in await refusal("goap_create_goal", name="shop", description="A shop.", goal_state=[])
    assert "goap_create_goal" in await refusal("goap_create_actions", **ACTIONS)
    assert host.asked == []
