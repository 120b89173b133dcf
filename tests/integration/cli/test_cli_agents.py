"""`agents` and the last activity of each: every process of a run, read from the store and the ends of journals."""

import click
import msgspec
import pytest
from inline_snapshot import snapshot

from builders import a_turn, an_item, begin, make_run, submit, work
from scaffold.agent.journal import JournalFile
from scaffold.cli.render.goals_tasks_agents import agents_text, format_goals, format_tasks, goals_text, tasks_text
from scaffold.cli.render.terminal.text_layout import Layout
from scaffold.core.model import ProcessIdentity
from scaffold.core.states import Pending, blocked_on_inbox
from scaffold.host.contained_path import ContainedPath
from scaffold.host.process_identity import own_identity
from scaffold.views.journal_entries import last_activity
from scaffold.views.run_view import read_run_view, read_summary

DEAD = ProcessIdentity(1, "long ago", "another boot")


@pytest.fixture
def journal(context):
    """Return a function that opens the journal of an attempt."""

    def opened(run, attempt, key="store"):
        fields = {"run": run.id, "action": key, "attempt": attempt.number}
        return JournalFile(context.journal("shop", key), clock=context.clock, fields=fields)

    return opened


def begin_turn(context, run, **fields):
    turn = a_turn(run, event="decompose", started_at=context.clock.now(), **fields)
    with context.store.transaction():
        context.store.turns.begin(turn)
    return turn


def ask(context, run, attempt):
    item = an_item(attempt)
    with context.store.transaction():
        context.store.inbox.ask(item)
        context.store.attempts.wait_for(attempt.id, item.id, fence=attempt.fence, most=1)
    return item


def everything(path):
    return last_activity(ContainedPath(path.parent, path.name), lambda entry: True)


def test_every_process_is_listed_with_its_activity(context, run, scaffold, journal):
    """SC-19, AL-3: orchestrator, supervisor and workers: pid, liveness, phase, tokens, cost, the last activity."""
    (goal,) = context.store.goals.for_run(run.id)
    with context.store.transaction():
        context.store.goals.supervise(goal.id, DEAD, was=None)
    attempt = work(context, run, "store")
    journal(run, attempt).note("tool_call", id="1", name="shell", args={"command": "make test"})
    data = scaffold("agents", "--json").json
    assert data["run"] == run.id
    orchestrator, supervisor, worker = data["agents"]
    assert (orchestrator["role"], orchestrator["pid"], orchestrator["alive"]) == (
        "orchestrator",
        own_identity().pid,
        True,
    )
    assert (supervisor["role"], supervisor["goal"], supervisor["alive"]) == ("supervisor", "shop", False)
    assert worker == worker | {
        "role": "implementation",
        "goal": "shop",
        "action": "store",
        "attempt": 1,
        "pid": own_identity().pid,
        "alive": True,
        "agent_state": "running",
        "phase": "executing",
        "tokens": 1000,
        "cost_usd": 0.25,
        "waits_on": None,
    }
    assert worker["last_act"]["text"] == "shell: make test"
    lines = scaffold("agents").out.splitlines()
    assert lines[0].startswith("▶ orchestrator running, active  pid ")
    assert lines[2].endswith("pid 1, exited")
    assert lines[4].startswith("▶ implementation store#1 running, executing  pid ")
    assert lines[5].endswith(" ago: shell: make test")


def test_a_worker_that_submitted_its_candidate_waits_in_the_merge_queue(context, run, scaffold):
    submit(context, run, "store", {"store.py": "x = 1\n"})
    assert [each["role"] for each in scaffold("agents", "--json").json["agents"]] == ["orchestrator"]
    (member,) = read_summary(context, run).active_agents
    assert (member.waits_on, member.state) == ("the merge queue", "done")


def test_agents_that_need_the_user_come_first_whether_running_or_not(context, plan):
    """BX-12, BX-13: what waits for a human is on top of every screen; with its answer, an agent waits for a slot."""
    text = plan.replace("preconditions: [store_works], ", "")
    run = begin(context, make_run(context, text))
    work(context, run, "api")
    item = ask(context, run, work(context, run, "store"))
    first, second = read_summary(context, run).active_agents
    assert (first.action, first.state, first.waits_on) == ("store", "waiting_approval", "you (i7): shell: make deploy")
    assert (second.action, second.state) == ("api", "running")
    with context.store.transaction():
        context.store.inbox.decide(item.id, "approved")
    (member,) = [each for each in read_summary(context, run).active_agents if each.action == "store"]
    assert (member.state, member.waits_on) == ("running", "a free slot")


def test_an_agent_that_stopped_to_wait_still_needs_the_user(context, run, scaffold):
    attempt = work(context, run, "store")
    item = ask(context, run, attempt)
    with context.store.transaction():
        context.store.attempts.end(attempt.id, outcome="waiting", fence=run.fence)
        context.store.actions.move(attempt.action_id, Pending())
        context.store.actions.move(attempt.action_id, blocked_on_inbox(item.id))
    (member,) = read_summary(context, run).active_agents
    assert (member.action, member.attempt, member.phase, member.needs_you) == ("store", 1, "waiting", True)
    (shown,) = scaffold("status", "--json").json["actions"][0]["attempts"]
    assert shown["agent_state"] == "waiting_approval"


def test_a_supervisors_planning_turn_is_shown_with_its_subject(context, run, scaffold):
    """OR-8: status and agents tell the same turn."""
    (goal,) = context.store.goals.for_run(run.id)
    store = context.store.actions.by_key(run.id, "store")
    with context.store.transaction():
        context.store.goals.supervise(goal.id, own_identity(), was=None)
    turn = begin_turn(context, run, goal_id=goal.id, action_id=store.id)
    (member,) = read_summary(context, run).active_agents
    assert (member.name, member.phase, member.since) == ("supervisor shop: store", "decompose", turn.started_at)
    data = scaffold("status", "--json").json
    assert data["goals"][0]["supervisor"]["turn"] == {
        "event": "decompose",
        "action": "store",
        "since": msgspec.to_builtins(turn.started_at),
    }
    assert data["run"]["planning"] is False


def test_a_planner_is_shown_and_not_as_running_once_it_died_with_its_owner(context, run, scaffold):
    """AL-3b: in the words for agents."""
    begin_turn(context, run)
    assert scaffold("status", "--json").json["run"]["planning"] is True
    assert [each["role"] for each in scaffold("agents", "--json").json["agents"]] == ["orchestrator", "planner"]
    with context.store.transaction():
        context.store.runs.take(run.id, DEAD, expected_fence=run.fence)
    planner = scaffold("agents", "--json").json["agents"][-1]
    assert (planner["role"], planner["alive"], planner["agent_state"]) == ("planner", False, "failed")


def test_goals_and_tasks_of_an_unplanned_run_say_so(context, plan, scaffold):
    """SC-19: and not nothing."""
    picture = msgspec.structs.replace(read_run_view(context, make_run(context, plan)), goals=())
    assert (
        format_goals(picture, (), Layout()) == format_tasks(picture, (), Layout()) == snapshot("There is no plan yet.")
    )


def test_slash_commands_use_the_same_words(context, run, scaffold):
    """SC-19: goals, tasks and agents need no model."""
    assert click.unstyle(goals_text(context, run, Layout())) == scaffold("goals").out.rstrip("\n")
    assert click.unstyle(tasks_text(context, run, Layout())) == scaffold("tasks").out.rstrip("\n")
    assert click.unstyle(agents_text(context, run, Layout())).splitlines()[0] == scaffold("agents").out.splitlines()[0]


def test_the_last_activity_is_read_past_torn_and_long_lines(context, run, journal):
    book = journal(run, work(context, run, "store"))
    book.note("text", text="I will test it.\nThen land it.")
    path = context.journal("shop", "store").path
    assert everything(path.with_name("missing")) is None
    assert everything(path).text == "I will test it."
    book.note("tool_result", id="1", name="shell", content="x" * 200_000, failed=False)
    with path.open("ab") as file:
        file.write(b'{"ts": "2030-01-01T12:00:00Z", "type": "text", "text": "torn')
    assert everything(path).text == "I will test it."
    book.note("usage", input_tokens=1, output_tokens=1, cost_usd=0.0)
    assert everything(path).text == "I will test it.", "a torn line swallows the one behind it, and no more"


def test_only_the_end_of_a_long_journal_is_read(context, run, journal):
    book = journal(run, work(context, run, "store"))
    book.note("text", text="long ago")
    path = context.journal("shop", "store").path
    with path.open("ab") as file:
        file.truncate(8 << 30)  # a sparse file: reading all of it would take minutes, or exhaust the memory
        file.seek(0, 2)
        file.write(b"\n")
    assert everything(path) is None
    book.note("tool_call", id="1", name="read_file", args={"path": "a.py"})
    assert everything(path).text == "read_file: a.py"
