"""The planner's turn in process: what it can and cannot read, and the plan of a request."""

import asyncio
from pathlib import Path
from random import Random  # noqa: TID251 - seeded

import yaml
from inline_snapshot import snapshot

from builders import begin, make_settings
from scaffold.core.ids import ActionKey, Assertion
from scaffold.core.plan import ActionSpec, GoalSpec
from scaffold.core.run_settings import Signature
from scaffold.git.repository import checkout_status
from scaffold.host.clock import SystemClock
from scaffold.llm.model_factory import open_model
from scaffold.orchestrator.planning.apply_plan import read_draft, stored_plan
from scaffold.orchestrator.planning.planner import plan_errors, plan_run, read_only_tools
from scaffold.orchestrator.planning.turn import PlanRejected, PlanWritten
from scaffold.orchestrator.user_control.open_run import RunInput, open_run
from scaffold.plan.edit.draft import CreateActions, CreateGoal
from support.planner_cassettes import add_planner, create_actions_call, create_goal_call
from support.scenario import action

ADA = Signature("Ada Example", "ada@example.org")


def opened(context, request="greet the world"):
    """Return a run without goals that this process owns."""
    settings = make_settings(repository=str(context.repository.root), author=ADA, committer=ADA, planner=True)
    run = open_run(
        context.store,
        RunInput(request=request, source=request),
        survey=asyncio.run(checkout_status(context.repository)),
        settings=settings,
        now=context.clock.now(),
    )
    return begin(context, run)


def laid_out(context, run, tmp_path, *steps):
    """Have a run planned by a planner with these replies."""
    path = tmp_path / "replies.yaml"
    path.write_text(yaml.safe_dump({"version": 1, "replies": []}))
    model = open_model(add_planner(path, *steps), clock=SystemClock(), rng=Random(0))
    return asyncio.run(plan_run(context, run, model))


def test_a_request_becomes_goals_and_actions_in_the_store(context, tmp_path):
    """SC-8, AL-3: text, criteria, intent, type, notes, check, files and order of each task are stored."""
    run = opened(context)
    task = {
        **action("hello", effects=["hello_there"], check="test -f hello.txt", files=["hello.txt"]),
        "acceptance": ["hello.txt says hello"],
        "verification_intent": "the file is there",
        "title": "Greet",
        "type": "FEATURE",
        "notes": "One line.",
    }
    later = action("world", needs=["hello_there"], effects=["world_there"], check="test -f world.txt")
    steps = [create_goal_call("greeting", "hello_there", "world_there"), create_actions_call("greeting", task, later)]
    ending = laid_out(context, run, tmp_path, steps)
    assert isinstance(ending, PlanWritten)
    (greeting,) = stored_plan(context.store, run).goals
    assert greeting.goal_state == ("hello_there", "world_there")
    hello, world = greeting.actions
    assert hello.files == ("hello.txt",)
    assert hello.acceptance == snapshot(("hello.txt says hello",))
    assert (hello.title, hello.verification_intent) == snapshot(("Greet", "the file is there"))
    assert (hello.type, hello.notes) == ("FEATURE", "One line.")
    assert hello.contract is not None
    assert world.preconditions == ("hello_there",)
    (turn,) = context.store.turns.for_run(run.id)
    assert (turn.event, turn.outcome, turn.goal_id) == ("plan", "done", None)


def test_a_turn_without_proposals_is_unsound_and_stores_nothing(context, tmp_path):
    """SC-8: bounded rounds, then the findings."""
    run = opened(context)
    ending = laid_out(context, run, tmp_path, "no", "no", "no", "no")
    assert isinstance(ending, PlanRejected)
    assert [finding.code for finding in ending.findings] == ["no-goal"]
    assert context.store.goals.for_run(run.id) == ()


def test_the_planner_reads_the_whole_request(context, tmp_path):
    """SC-18: however long it is."""
    run = opened(context, "x" * 200_000 + " THE END")
    path = tmp_path / "replies.yaml"
    said = {"when": {"role": "planner", "turn": 1, "contains": "x THE END"}, "text": "read"}
    path.write_text(yaml.safe_dump({"version": 1, "replies": [said, {"when": {"role": "planner"}, "text": "again"}]}))
    model = open_model(f"cassette:{path}", clock=SystemClock(), rng=Random(0))
    assert isinstance(asyncio.run(plan_run(context, run, model)), PlanRejected)
    assert context.store.turns.for_run(run.id)[0].usage.requests == 3


def test_the_planner_reads_files_but_no_secrets_and_writes_none(context):
    """SC-8: the usual policy applies to its reads."""
    root = context.repository.root
    (root / ".env").write_text("TOKEN=hunter2hunter2hunter2\n")
    tools = {tool.name: tool for tool in read_only_tools(context, opened(context))}
    assert set(tools) == {"read_file", "list_dir", "glob", "search_files"}
    assert "hello" in asyncio.run(tools["read_file"].run({"path": "app.py"})).content
    for path in (".env", "../../etc/passwd", "/etc/passwd"):
        result = asyncio.run(tools["read_file"].run({"path": path}))
        assert (result.failed, "hunter2" in result.content, "root:" in result.content) == (True, False, False)
    found = asyncio.run(tools["search_files"].run({"pattern": "hunter2"}))
    assert "TOKEN=hunter2" not in found.content


def test_a_planner_that_declares_an_ignored_file_is_told_the_rule_at_once(context, tmp_path):
    """BX-30: as `plan check` tells a user, before the action is in the plan."""
    (context.repository.root / ".gitignore").write_text("*.log\n")
    run = opened(context)
    tasks = [action("a", effects=["done"], check="true", files=[file]) for file in ("a.log", "a.txt")]
    steps = [create_goal_call("g", "done"), *(create_actions_call("g", each) for each in tasks)]
    assert isinstance(laid_out(context, run, tmp_path, steps), PlanWritten)
    (stored,) = context.store.actions.for_run(run.id)
    assert stored.files == ("a.txt",)
    (turn,) = context.store.turns.for_run(run.id)
    assert "git ignores `a.log` of action `a`, by `*.log` in .gitignore, line 1" in Path(turn.log_file).read_text()


def test_lint_errors_refuse_a_plan_and_warnings_do_not(context):
    draft = read_draft(context.store, opened(context))
    assert [finding.code for finding in plan_errors(draft)] == ["no-goal"]
    draft.apply(CreateGoal(GoalSpec(name="g", goal_state=(Assertion("x"),))))
    assert [finding.code for finding in plan_errors(draft)] == ["unreachable-goal"]
    more = ActionSpec(key=ActionKey("a"), effects=(Assertion("x"), Assertion("nobody_needs_it")))
    draft.apply(CreateActions("g", (more,)))
    assert [finding.code for finding in draft.findings()] == ["unused-effect"]
    assert plan_errors(draft) == ()
