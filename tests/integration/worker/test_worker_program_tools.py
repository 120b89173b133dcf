"""The tools of a run that a program has, and programs that advise on work."""

import json

import pytest
from msgspec import structs

from builders import sandbox_or_skip
from integration.worker.builders import WITH_CRITIC
from scaffold.llm.transport.live_context import Patience
from scaffold.orchestrator.user_control.inbox_decisions import InboxDecision, decide_items
from scaffold.run.attempts.assignment import read_assignment
from scaffold.run.failures.attempt_end import AttemptEnd
from scaffold.worker.agent.role_agents import program_of
from scaffold.worker.attempt_records import CandidateReady
from support.acting_program import WIRES, call, edit, install_programs, say, write_script
from support.harness import act, goal, scripted_model


@pytest.fixture
async def programs(harness):
    """The harness, with programs on the user's PATH."""
    await sandbox_or_skip()
    folder, home = install_programs(harness.repo.parent / "programs"), harness.repo.parent / "home"
    own = {variable: str(home / place) for variable, place in WIRES.values() if variable}
    environ = {**harness.context.environ, "PATH": f"{folder}:{harness.context.environ['PATH']}", **own}
    harness.context = structs.replace(harness.context, environ=environ)
    return harness


def script(harness, **steps):
    return write_script(harness.repo.parent / "home", "claude", **steps)


def results(harness):
    """Return what the tools of the action's agents returned."""
    lines = map(json.loads, harness.context.journal("g", "a").path.read_text().splitlines())
    return [(each["name"].rpartition("__")[2], each["content"]) for each in lines if each["type"] == "tool_result"]


@pytest.mark.slow
async def test_a_question_of_a_program_waits_for_a_human_and_its_conversation_gets_the_answer(programs):
    """AL-20, AL-24: its process does not wait, and asks again once there is an answer."""
    script(programs, **{"Do a": [call("ask_human", question="Red or blue?"), edit("a")]})
    run = await programs.own(goal("g", act("a")), default="claude", inbox_wait_s=0.05)
    ending = await programs.execute(await programs.queue(run, "a"), None)
    (item,) = programs.store.inbox.open()
    assert ending == AttemptEnd("waiting", ending.error, item.id)
    assert "Red or blue?" in item.text
    assert results(programs) == []
    decide_items(programs.store, [item.id], InboxDecision(to="answered", words="Blue."))
    ending = await programs.execute(await programs.queue(run, "a"), None)
    assert isinstance(ending, CandidateReady), ending.error
    ((name, told), *_) = results(programs)
    assert name == "ask_human"
    assert "Blue." in told


async def test_a_program_has_the_tools_of_its_run_and_their_failures(programs):
    """AL-20: as our own agents have them, but for those that it has itself."""
    script(
        programs,
        **{
            "Do a": [
                call("file_item", title="Another thing", description="Seen by the way."),
                call("file_item", title=1),
                call("remember", content="The tests need a server."),
                call("goap_create_goal", name="x", description="x", goal_state=["x"]),
                call("shell", command="true"),
                edit("a"),
            ]
        },
    )
    run = await programs.own(goal("g", act("a")), default="claude")
    ending = await programs.execute(await programs.queue(run, "a"), None)
    assert isinstance(ending, CandidateReady), ending.error
    told = [content for name, content in results(programs) if name != "Edit"]
    assert told[0].startswith("Filed as item")
    assert told[1].startswith("Not run: `title` must be a string")
    assert told[2].startswith("Remembered")
    assert told[3].startswith("There is no tool `goap_create_goal`")
    assert told[4].startswith("There is no tool `shell`")


@pytest.mark.slow
async def test_a_program_criticises_the_work_of_another_agent(programs):
    """AL-20, AL-5: its answer is read as a model's, and asked for again in the same conversation."""
    own = script(programs, **{"Critique the change": [say("It is fine."), say("Fine.\nTotal: 9/9\nDONE")]})
    run = await programs.own(goal("g", act("a", executor="native")), **WITH_CRITIC, default="claude")
    attempt = await programs.queue(run, "a")
    task = read_assignment(programs.store, attempt.id)
    critic = program_of(programs.context, task.run, "critic", programs.context.worktree_of(attempt), Patience())
    ending = await programs.execute(attempt, scripted_model({"a": ["echo x > a"]}), advisers={"critic": critic})
    assert isinstance(ending, CandidateReady), ending.error
    (ended,) = programs.attempts(run, "a")
    assert ended.score.total == 9
    asked = [json.loads(line) for line in (own / "prompts.txt").read_text().splitlines()]
    assert len(asked) == 2
    assert len({session for session, _ in asked}) == 1
    booked = {each.spender.role: each.spender.model for each in programs.store.bookings.for_run(run.id)}
    assert booked["critic"] == "claude (subscription)"
    assert booked["implementation"] != booked["critic"]


async def test_an_adviser_that_is_not_installed_loses_no_work(programs):
    """AL-24, AL-5: as a critic whose model cannot be used."""
    run = await programs.own(goal("g", act("a", executor="native")), **WITH_CRITIC, default="acp:no-such-program")
    attempt = await programs.queue(run, "a")
    task = read_assignment(programs.store, attempt.id)
    critic = program_of(programs.context, task.run, "critic", programs.context.worktree_of(attempt), Patience())
    ending = await programs.execute(attempt, scripted_model({"a": ["echo x > a"]}), advisers={"critic": critic})
    assert isinstance(ending, CandidateReady), ending.error
    assert [each for each in programs.notices(run) if "was not critiqued" in each] == [
        "a was not critiqued: the executor acp:no-such-program is not installed: there is no program `no-such-program`"
    ]
