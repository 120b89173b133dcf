"""Programs of others plan, supervise and advise: by our tools, without a model of ours."""

import asyncio
import json
from functools import partial

import pytest
from msgspec import structs

from builders import begin, make_settings
from scaffold.core.errors import UsageError
from scaffold.core.executor_settings import ExecutorSettings
from scaffold.core.run_settings import Signature
from scaffold.git.repository import checkout_status
from scaffold.llm.transport.live_context import Patience
from scaffold.orchestrator.dispatch import queue_attempt
from scaffold.orchestrator.planning.apply_plan import stored_plan
from scaffold.orchestrator.planning.planner import plan_run
from scaffold.orchestrator.planning.supervisor_agent import SupervisorAgent
from scaffold.orchestrator.planning.turn import PlanRejected, PlanWritten
from scaffold.orchestrator.user_control.open_run import RunInput, open_run
from scaffold.worker.agent.role_agents import open_source
from support.acting_program import WIRES, call, install_programs, say, write_script
from support.harness import act, goal, poll_until
from support.scenario import action

ADA = Signature("Ada Example", "ada@example.org")
WORD = "Plan the request"
"""With which the planner's prompt begins."""


@pytest.fixture
def programs(context, tmp_path):
    """The context, with a program for each wire on the user's PATH."""
    folder, home = install_programs(tmp_path / "programs"), tmp_path / "home"
    own = {variable: str(home / place) for variable, place in WIRES.values() if variable}
    environ = {**context.environ, "PATH": f"{folder}:{context.environ['PATH']}", **own}
    return structs.replace(context, environ=environ)


def planned(context, name="claude"):
    """Open a run without goals, and have it planned by a program."""
    settings = make_settings(repository=str(context.repository.root), author=ADA, committer=ADA, planner=True)
    settings = structs.replace(settings, executors=ExecutorSettings(default=name))
    run = begin(
        context,
        open_run(
            context.store,
            RunInput(request="greet the world", source="greet the world"),
            survey=asyncio.run(checkout_status(context.repository)),
            settings=settings,
            now=context.clock.now(),
        ),
    )

    async def plan():
        async with open_source(context, run, "planner", patience=Patience()) as source:
            return await plan_run(context, run, source)

    return run, asyncio.run(plan())


def two_actions():
    goal = call("goap_create_goal", name="greet", description="Greet.", goal_state=["hello", "world"])
    hello = action("hello", effects=["hello"], check="test -f hello")
    actions = [hello, action("world", needs=["hello"], effects=["world"], check="test -f world")]
    return goal, call("goap_create_actions", goal="greet", actions=actions)


@pytest.mark.parametrize(
    "name", ["claude", *(pytest.param(each, marks=pytest.mark.slow) for each in ("codex", "gemini"))]
)
def test_a_program_plans_by_our_tools(programs, tmp_path, name):
    """AL-20, AL-3: its proposals are checked and written as those of a model, and nothing of its turn is left."""
    write_script(tmp_path / "home", name, **{WORD: [*two_actions(), say("Planned.")]})
    run, ending = planned(programs, name)
    assert isinstance(ending, PlanWritten), ending
    assert ending.text == "Planned."
    (goal,) = stored_plan(programs.store, run).goals
    assert [(each.key, each.preconditions) for each in goal.actions] == [("hello", ()), ("world", ("hello",))]
    (turn,) = programs.store.turns.for_run(run.id)
    assert (turn.outcome, turn.model, turn.usage.tokens > 0) == ("done", f"executor:{name}", True)
    (booking,) = programs.store.bookings.for_run(run.id)
    assert booking.spender.role == "planner"
    assert not list(programs.temporary_folder(run.id).glob("program-*"))


def test_a_plan_of_a_program_with_errors_goes_back_to_its_conversation(programs, tmp_path):
    """AL-20, AL-3: as for a model; what is still wrong at the end is not written."""
    goal, actions = two_actions()
    write_script(tmp_path / "home", "claude", **{WORD: [goal, say("Done."), actions, say("Now it is.")]})
    _, ending = planned(programs)
    assert isinstance(ending, PlanWritten), ending
    (first, prompt), (second, findings) = map(
        json.loads, (tmp_path / "home/.claude/prompts.txt").read_text().splitlines()
    )
    assert first == second
    assert WORD in prompt
    assert "Nothing has been written yet" in findings


def test_a_program_without_tools_of_others_is_no_planner(programs):
    """AL-20: said before anything is paid."""
    with pytest.raises(UsageError, match="pi cannot be given tools, so it cannot be the planner"):
        planned(programs, "pi")


def test_a_program_that_plans_nothing_is_refused(programs, tmp_path):
    """AL-24: that it says it is done is a claim."""
    write_script(tmp_path / "home", "claude", **{WORD: [say("All is planned.")]})
    _, ending = planned(programs)
    assert isinstance(ending, PlanRejected)
    assert "there is no goal yet" in ending.why


@pytest.mark.slow
async def test_a_supervisor_that_was_cut_off_goes_on_in_its_conversation(harness):
    """AL-20, AL-24: what it did counts, and what happened since is told; its process has ended meanwhile."""
    folder, home = install_programs(harness.repo.parent / "programs"), harness.repo.parent / "home"
    hangs = home / ".claude" / "hangs"
    steps = [call("goap_dispatch_action", action="a"), {"do": "hang", "path": str(hangs)}, say("Started a.")]
    own = write_script(home, "claude", **{"the goal has started": steps})
    path = f"{folder}:{harness.context.environ['PATH']}"
    environ = {**harness.context.environ, "PATH": path, "CLAUDE_CONFIG_DIR": str(own)}
    harness.context = structs.replace(harness.context, environ=environ)
    run = await harness.own(goal("shop", act("a")), planner=True, supervision="agent", default="claude")

    async def judge():
        source = partial(open_source, harness.context, run, "supervisor")
        dispatch = partial(queue_attempt, harness.context, run)
        agent = SupervisorAgent(harness.context, run, source)
        return await agent.judge(harness.goal(run, "shop").id, "the goal has started", dispatch)

    first = asyncio.create_task(judge())
    await poll_until(lambda: hangs.exists() and hangs.read_text())
    first.cancel()
    await asyncio.wait([first])
    ending = await judge()
    assert isinstance(ending, PlanWritten), ending
    assert ending.text == "Started a."
    assert len(harness.attempts(run, "a")) == 1
    asked = [json.loads(line) for line in (own / "prompts.txt").read_text().splitlines()]
    assert [session for session, _ in asked] == [asked[0][0]] * 2
    assert "Go on with your task where you stopped" in asked[1][1]
