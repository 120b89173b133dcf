"""`runs` and `queue`, and the script for a shell."""

import pytest
import yaml
from inline_snapshot import snapshot

from builders import begin, fail, land, make_run, pay, submit
from scaffold.core.landing.branch_move import BranchMove
from scaffold.core.landing.queue_place import QueuePlace
from scaffold.core.model import Usage
from scaffold.core.states import Cancelled, Completed, Failed, Paused
from scaffold.orchestrator.owner.run_end import save_run

SPLITS = ("purposes", "goals", "actions", "roles", "models")


@pytest.fixture
def runs(context, plan):
    """Three runs; the first one was touched last."""
    made = [make_run(context, plan) for _ in range(3)]
    with context.store.transaction():
        context.store.runs.move(made[1].id, Paused("stopped by the user"))
        context.store.runs.move(made[0].id, Paused("the budget is used up"))
    return made


def ids(answer):
    return [each["id"] for each in answer.json["runs"]]


def test_runs_are_listed_by_what_happened_last(runs, scaffold):
    """SC-19: all at once, or those with a status."""
    first, second, third = (run.id for run in runs)
    assert ids(scaffold("runs", "--json")) == [first, second, third]
    assert ids(scaffold("runs", "--json", "-n", "1")) == [first]
    assert ids(scaffold("runs", "--json", "--status", "interrupted", "--status", "saved")) == [third]
    lines = scaffold("runs").out.splitlines()
    assert [line.split()[1:3] for line in lines] == [["paused", first], ["paused", second], ["interrupted", third]]
    assert "0/2 landed" in lines[0]
    assert scaffold("runs", "--status", "failed").out == snapshot("No run has this status.\n")
    assert scaffold("runs", "--status", "tired").code == 64


def test_runs_are_listed_with_whether_their_branches_have_their_work(runs, context, scaffold):
    """AL-12: what was undone, or deleted since, is not taken; git is asked once for each branch."""
    at = ("main", runs[0].base_sha), ("gone", runs[0].base_sha), ("main", "1" * len(runs[0].base_sha))
    with context.store.transaction():
        for run, (branch, new) in zip(runs, at, strict=True):
            move = BranchMove(
                id=f"m{run.id}",
                run_id=run.id,
                purpose="ff",
                branch=branch,
                head=new,
                old=None,
                new=new,
                created_at=context.clock.now(),
            )
            context.store.branch_moves.add(move)
            context.store.branch_moves.settle(move.id, done=True)
    listed = {each["id"]: each["taken"] for each in scaffold("runs", "--json").json["runs"]}
    assert listed == {run.id: run is runs[0] for run in runs}


def test_a_run_is_listed_with_what_landed_and_what_it_cost(context, plan, scaffold):
    run = make_run(context, plan)
    (listed,) = scaffold("runs", "--json").json["runs"]
    assert listed | {"created_at": "", "updated_at": ""} == {
        "id": run.id,
        "request": "plan.yaml",
        "status": "interrupted",
        "is_executed": False,
        "base_branch": "main",
        "session_branch": f"session-{run.id}",
        "created_at": "",
        "updated_at": "",
        "goals": 1,
        "actions": 2,
        "landed": 0,
        "taken": False,
        "tokens": 0,
        "cost_usd": 0.0,
    }


def test_the_queue_shows_candidates_that_wait_to_land(context, run, scaffold):
    """BX-3, SC-19: the same entries as `status --json`."""
    assert scaffold("queue").out == snapshot("Nothing waits to land.\n")
    attempt = submit(context, run, "store", {"store.py": "x = 1\n"})
    (entry,) = scaffold("queue", "--json").json["queue"]
    assert (entry["action"], entry["attempt"]) == ("store", attempt.number)
    assert [entry] == scaffold("status", "--json").json["queue"]
    assert "store" in scaffold("queue", run.id).out


def test_the_queue_shows_lanes_and_what_each_candidate_waits_for(context, scaffold):
    """BX-6: in the order in which they land, whatever the order in which they were handed in."""
    actions = [{"key": key, "kind": "primitive", "effects": [f"{key}_done"]} for key in "abc"]
    plan = yaml.safe_dump({"version": 1, "goals": [{"name": "g", "goal_state": ["a_done"], "actions": actions}]})
    run = begin(context, make_run(context, plan))
    a, b, c = (submit(context, run, key, {f"{key}.py": "x = 1\n"}) for key in "abc")
    places = [
        QueuePlace(attempt_id=b.id, state="gates", lane=1, conflicts={"c": ("b.py",)}),
        QueuePlace(attempt_id=a.id, state="held", waits_for=("b",)),
        QueuePlace(attempt_id=c.id, state="waiting", waits_for=("a", "b"), conflicts={"b": ("b.py",)}),
    ]
    with context.store.transaction():
        context.store.merge_queues.set(run.id, places, fence=run.fence)
        context.store.merge_queues.set(run.id, [], fence=run.fence - 1)
    entries = scaffold("queue", "--json").json["queue"]
    shown = [(each["position"], each["action"], each["lane"], each["state"], each["waits_for"]) for each in entries]
    assert shown == [(1, "b", 1, "gates", []), (2, "a", None, "held", ["b"]), (3, "c", None, "waiting", ["a", "b"])]
    assert [each["conflicts"] for each in entries] == [{"c": ["b.py"]}, {}, {"b": ["b.py"]}]
    out = scaffold("queue").out
    assert "  1 ↓ b  attempt 1, handed in" in out
    assert [line for line in out.splitlines() if line.startswith("      ")] == snapshot(
        [
            "      lane 1: the gates run for all that land together",
            "      will conflict with c in b.py",
            "      conflicts with what has landed; waits for b, so that it is done again only once",
            "      waits until a, b have landed",
            "      will conflict with b in b.py",
        ]
    )


def test_the_cost_of_a_run_is_split_by_purpose_goal_action_role_and_model(context, plan, scaffold):
    """BX-11, SC-19, AL-21: each split has the same sum; an unknown cost is said to be unknown."""
    run = begin(context, make_run(context, plan, budget_usd=5.0, budget_tokens=2_000))
    attempt = submit(context, run, "store", {"store.py": "x = 1\n"})
    before = attempt.usage.cost_usd
    usage = Usage(input_tokens=1_000, cached_input_tokens=900, output_tokens=50, cost_usd=0.25, requests=2)
    with context.store.transaction():
        pay(context.store, attempt, usage, role="critic")
    found = scaffold("cost", "--json").json
    assert (found["run"], found["total"]["cost_usd"]) == (run.id, before + 0.25)
    assert found["budget"] == scaffold("status", "--json").json["run"]["budget"]
    assert (found["budget"]["limit_tokens"], found["budget"]["spent_tokens"]) == (2_000, 1_150)
    names = [(split, line["name"]) for split in ("goals", "actions") for line in found[split]]
    assert names == [("goals", "shop"), ("actions", "store")]
    assert {line["name"]: line["requests"] for line in found["roles"]} == {"critic": 2, "implementation": 0}
    purposes = {line["name"]: (line["requests"], line["seconds"]) for line in found["purposes"]}
    assert [*purposes] == ["work", "planning", "proof", "landing"]
    assert [requests for requests, _ in purposes.values()] == [0, 0, 2, 0]
    assert all(seconds >= 0 for _, seconds in purposes.values())
    for split in SPLITS:
        assert sum(line["cost_usd"] for line in found[split]) == before + 0.25
        assert sum(line["cached_input_tokens"] for line in found[split]) == found["total"]["cached_input_tokens"]
    lines = scaffold("cost", run.id).out.splitlines()
    assert lines[0].startswith(f"run {run.id}: ${before + 0.25:.2f}, ")
    assert lines[1] == snapshot("  57% of the budget is used: $0.50 of $5.00 and 1,150 of 2,000 uncached tokens")
    assert "By purpose" in lines
    with context.store.transaction():
        pay(context.store, attempt, Usage(input_tokens=1, cost_usd=None, requests=1))
    assert "cost unknown" in scaffold("cost").out
    assert scaffold("cost", "--json").json["total"]["cost_usd"] is None


def test_the_script_for_a_shell_covers_both_programs(scaffold):
    for shell in ("bash", "zsh", "fish"):
        script = scaffold("completion", shell).out
        assert "_SCAFFOLD_COMPLETE" in script
        assert "_RALPH_COMPLETE" in script


def test_a_saved_run_is_started_or_given_up_by_its_name(context, plan, scaffold):
    """SC-19: its goals are not resumed on their own."""
    run = make_run(context, plan)
    save_run(context, run.id)
    text = scaffold("status").out
    assert f"run {run.id} saved" in text
    hints = [line.split("  ")[1] for line in text.partition("Next\n")[2].splitlines()]
    assert hints == [f"scaffold resume {run.id}", f"scaffold cancel {run.id}"]
    assert f"`scaffold resume {run.id}`" in scaffold("tasks", "--run", run.id).out


def test_the_commands_of_another_run_than_the_latest_name_it(context, plan, scaffold):
    """SC-19: without a name they would be about the latest."""
    done = begin(context, make_run(context, plan))
    with context.store.transaction():
        for goal in context.store.goals.for_run(done.id):
            context.store.goals.move(goal.id, Completed())
        context.store.runs.move(done.id, Completed())
    assert "  scaffold tasks  " in scaffold("status").out
    make_run(context, plan)
    assert f"  scaffold tasks --run {done.id}  " in scaffold("status", done.id).out


SHOWN = ("status", "goals", "tasks", "agents", "cost", "audit", "queue", "baseline", "contract store", "diff store")
LANDED = ("review --stat", "diff", "land")


@pytest.fixture
def worked(context, plan):
    """A run with landed work that failed in the end, and after it one that nobody started, one that was given up."""
    made = begin(context, make_run(context, plan))
    land(context, made, "store", {"store.py": "x = 1\n"})
    with context.store.transaction():
        context.store.runs.move(made.id, Failed("shop: no way on"))
        context.store.runs.release(made.id, fence=made.fence)
    saved, cancelled = make_run(context, plan), make_run(context, plan)
    save_run(context, saved.id)
    with context.store.transaction():
        context.store.runs.move(cancelled.id, Cancelled())
    return made, saved, cancelled


def test_a_run_that_nobody_agreed_to_hides_none_with_work(worked, scaffold):
    """SC-19: each command shows the newest run that has something to show for it, and names the newer one."""
    made, saved, newest = worked
    for command in (*SHOWN, *LANDED):
        answer = scaffold(*command.split())
        lacks = "asked no agent" if command == "cost" else "has landed nothing" if command in LANDED else "has no work"
        note = f"note: run {newest.id} is newer; it {lacks} (cancelled): this is about run {made.id}\n"
        assert (answer.code, note in answer.err) == (0, True), (command, answer)
    assert scaffold("status", "--json").json["run"]["id"] == made.id
    assert f"run {saved.id} saved" in scaffold("status", saved.id).out
    assert scaffold("status", saved.id).err == ""


def test_the_newest_run_is_the_one_whose_work_a_command_shows(worked, context, plan, scaffold):
    """SC-19, AL-12: a run that landed nothing hides none that did; a name decides among actions of several runs."""
    made, *_ = worked
    failed = begin(context, make_run(context, plan.replace("store", "shelf")))
    fail(context, failed, "shelf", {"shelf.py": "x = 1\n"})
    with context.store.transaction():
        context.store.runs.move(failed.id, Failed("shop: no way on"))
        context.store.runs.release(failed.id, fence=failed.fence)
    assert scaffold("status", "--json").json["run"]["id"] == failed.id
    assert scaffold("review", "--json").json["run"] == made.id
    assert scaffold("contract", "store", "--json").json["action"] == "store"
    assert f"it has no `store` (failed): this is about run {made.id}" in scaffold("contract", "store").err
    assert scaffold("diff", "shelf", "--json").json["paths"] == ["shelf.py"]
    assert f"has landed nothing (failed): this is about run {made.id}" in scaffold("diff").err
    # What ends a run for good is not passed on to an older one.
    assert scaffold("cancel").code == 0
    assert context.store.runs.get(failed.id).state == Cancelled()
    assert scaffold("cancel").code != 0
    assert context.store.runs.get(made.id).state == Failed("shop: no way on")


def test_where_no_run_has_what_a_command_shows_the_newest_says_so(context, plan, scaffold):
    """SC-19: a plan that waits to be started is shown, and no older run is made up."""
    saved = make_run(context, plan)
    save_run(context, saved.id)
    answers = {command: scaffold(command) for command in ("status", "tasks", "review")}
    assert all((answer.code, answer.err) == (0, "") for answer in answers.values()), answers
    assert f"run {saved.id} saved" in answers["status"].out
