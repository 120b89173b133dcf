"""An attempt that waited for a human: the next one continues its conversation and its work."""

import sqlite3
from contextlib import closing

import pytest
from inline_snapshot import snapshot

from builders import with_settings
from fakes import RecordingModel, call_entry, cassette_model
from integration.worker.test_worker_approvals import carried_out, decide, worked
from scaffold.core.conversation import AssistantMessage, KeptTurn, Text, ToolResult, UserMessage
from scaffold.core.printable_text import utf8_safe
from scaffold.landing.queue.merge_queue import MergeQueue
from scaffold.llm.cassette_model import CassetteEntry
from scaffold.orchestrator.user_control.open_run import reconfigure_run
from scaffold.run.failures.attempt_end import AttemptEnd, end_attempt
from scaffold.worker.attempt_records import CandidateReady
from scaffold.worker.workspace.attempt_worktree import rescue_and_remove
from support.harness import act, goal

ASK = ("ask_human", {"question": "Which word?"})
DONE = CassetteEntry(text="done")


def write(path, content):
    return ("write_file", {"path": path, "content": content})


async def begin(harness, *more):
    plan = goal("g", act("a", check="test -f a"), act("b"), *more)
    return await harness.own(plan, sandbox="off", allow=("shell:cp",), inbox_wait_s=0.05)


async def waited(harness, run, *calls):
    """Let the first attempt write a file, then make these calls, one of which waits; and answer it."""
    replies = (call_entry(1, write("a", "first\n")), call_entry(2, *calls))
    ending = await worked(harness, run, *replies)
    assert ending.outcome == "waiting", ending.error
    decide(harness, ending.item, "answered", answer="made")


async def continued(harness, run, *replies):
    model = RecordingModel(cassette_model(*replies, DONE))
    return await worked(harness, run, model=model), model.requests


@pytest.mark.slow
async def test_the_conversation_and_the_work_go_on_where_they_waited(harness):
    """BX-13, BX-3: nothing is paid twice, and no call that has ended runs again."""
    run = await begin(harness)
    await waited(harness, run, write("b", "once\n"), ASK, write("c", "after\n"))
    ending, requests = await continued(harness, run)
    assert isinstance(ending, CandidateReady)
    (request,) = requests
    assert request.caller.turn == 3
    assert request.caller.attempt == 2
    *_, reply, last = request.messages
    assert [call.name for call in reply.tool_calls] == ["write_file", "ask_human", "write_file"]
    results = [(part.content.partition(":")[0], part.failed) for part in last.parts[:3]]
    assert results == [("b created", False), ("made", False), ("c created", False)]
    assert isinstance(last.parts[3], Text)
    assert [await harness.show(f"{ending.head}:{name}") for name in "abc"] == ["first", "once", "after"]
    assert [text for text in harness.notices(run) if text.startswith("a ")] == snapshot(
        ["a continues where attempt 1 waited for you."]
    )
    assert harness.store.kept_turns.get(harness.attempts(run, "a")[0].id) is None


@pytest.mark.slow
async def test_the_paths_of_the_old_worktree_are_those_of_the_new_one(harness):
    """BX-13, RA-13: also in the call that waits, so that its approval is for it."""
    run = await begin(harness)
    attempt = await harness.queue(run, "a")
    folder = harness.context.attempt_folder(run.id, attempt.id)
    model = RecordingModel(
        cassette_model(
            call_entry(1, write("a", "x\n"), ("python", {"code": f"open({str(folder / 'd')!r}, 'w').write('x')"}))
        )
    )
    ending = await carried_out(harness, attempt, model)
    decide(harness, ending.item, "approved")
    ending, requests = await continued(harness, run)
    assert isinstance(ending, CandidateReady)
    assert len(harness.store.inbox.all()) == 1
    assert str(folder) not in repr(requests[0].messages)
    assert await harness.show(f"{ending.head}:d") == "x"


@pytest.mark.slow
async def test_a_second_wait_is_continued_too(harness):
    """BX-13: a worker that dies while it waits leaves the conversation, as one that has given up does."""
    run = await begin(harness)
    await waited(harness, run, ASK)
    again = ("ask_human", {"question": "And which next?"})
    ending, _ = await continued(harness, run, call_entry(3, again))
    assert ending.outcome == "waiting"
    decide(harness, ending.item, "answered", answer="next")
    # As if it had been killed before it began.
    lost = await harness.queue(run, "a")
    end_attempt(harness.store, run, lost.id, AttemptEnd("lost", "killed"))
    ending, requests = await continued(harness, run)
    assert isinstance(ending, CandidateReady)
    assert [request.caller.turn for request in requests] == [4]
    assert await harness.show(f"{ending.head}:a") == "first"


@pytest.mark.slow
async def test_a_wait_before_any_change_is_continued_after_its_worktree_is_gone(harness):
    """BX-13, BX-3: the owner looks for the work of every worker that exits, also where the worker has left none."""
    run = await begin(harness)
    ending = await worked(harness, run, call_entry(1, ASK, write("a", "x\n")))
    assert ending.outcome == "waiting", ending.error
    assert await rescue_and_remove(harness.context, run, harness.attempts(run, "a")[0].id) is None
    decide(harness, ending.item, "answered", answer="made")
    ending, requests = await continued(harness, run)
    assert isinstance(ending, CandidateReady)
    assert [request.caller.turn for request in requests] == [2]


@pytest.mark.slow
async def test_after_other_work_has_landed_the_agent_is_told_which_files_changed(harness):
    """BX-13: the work is merged with what landed."""
    run = await begin(harness)
    await waited(harness, run, ASK)
    await harness.work(run, "b", "cp README b")
    await MergeQueue(harness.context, run).step()
    ending, requests = await continued(harness, run)
    assert isinstance(ending, CandidateReady)
    assert requests[0].messages[-1].parts[-1].text.endswith("read these again: b")
    assert [await harness.show(f"{ending.head}:{name}") for name in "ab"] == ["first", "sample"]


@pytest.mark.slow
async def test_work_that_conflicts_with_what_landed_starts_over(harness):
    """BX-13: with a notice; its work stays pinned, and the new conversation shows it."""
    run = await begin(harness)
    await waited(harness, run, ASK)
    await harness.work(run, "b", "cp README a")
    await MergeQueue(harness.context, run).step()
    ending, requests = await continued(harness, run, call_entry(1, write("a", "second\n")))
    assert isinstance(ending, CandidateReady)
    assert requests[0].caller.turn == 1
    assert "+first" in requests[0].messages[0].parts[0].text
    assert [text for text in harness.notices(run) if text.startswith("a ")] == snapshot(
        ["a starts over after attempt 1: its work conflicts with what landed meanwhile in a."]
    )


@pytest.mark.slow
async def test_a_continued_turn_is_not_continued_again_once_it_has_gone_on(harness):
    """BX-13: also if its call needs no decision any more, so that no wait ends."""
    run = await begin(harness)
    asking = call_entry(1, ("shell", {"command": "echo x >> log; cp log a"}))
    assert (await worked(harness, run, asking)).outcome == "waiting"
    run = harness.store.runs.get(run.id)
    reconfigure_run(harness.context, run, with_settings(run.settings, yolo=True))
    ending, requests = await continued(harness, run)
    assert isinstance(ending, CandidateReady)
    assert [request.caller.turn for request in requests] == [2]
    assert not any(harness.store.kept_turns.is_kept(each.id) for each in harness.attempts(run, "a"))


@pytest.mark.slow
async def test_with_another_model_it_starts_over(harness):
    """BX-13: what one model has thought is not sent to another."""
    run = await begin(harness)
    await waited(harness, run, ASK)
    (first,) = harness.attempts(run, "a")
    with closing(sqlite3.connect(harness.repo / ".git/scaffold/state.db")) as raw, raw:
        raw.execute("UPDATE attempt SET model = 'another' WHERE id = ?", [first.id])
    _, requests = await continued(harness, run, call_entry(1, write("a", "x\n")))
    assert requests[0].caller.turn == 1
    assert [text for text in harness.notices(run) if text.startswith("a ")] == snapshot(
        ["a starts over after attempt 1: its conversation is with another, and the model is now script."]
    )


async def test_a_turn_is_stored_whole(harness):
    """BX-13."""
    run = await begin(harness)
    attempt = await harness.queue(run, "a")
    turns = harness.store.kept_turns
    for text in ("plain", "\ud800 lone", "\x00\u202e"):
        turn = KeptTurn(
            messages=(UserMessage((Text(text),)), AssistantMessage((Text("hm"),), model="m")),
            results=(ToolResult("1", "shell", "ok"),),
            requests=2,
            answered=1,
        )
        with harness.store.transaction():
            turns.keep(attempt.id, turn)
            turns.keep(attempt.id, turn)
        found = turns.get(attempt.id)
        assert (found.results, turns.is_kept(attempt.id)) == (turn.results, True)
        assert found.messages == (UserMessage((Text(utf8_safe(text)),)), turn.messages[1])
        with harness.store.transaction():
            turns.forget(attempt.action_id)
        assert (turns.get(attempt.id), turns.is_kept(attempt.id)) == (None, False)
