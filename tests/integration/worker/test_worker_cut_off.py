"""An attempt that is cut off by a crash: the next one goes on with its conversation and its work."""

import asyncio

import pytest

from fakes import RecordingModel, call_entry, cassette_model
from scaffold.core.conversation import ToolResult
from scaffold.llm.cassette_model import CassetteEntry
from scaffold.orchestrator.owner.recovery.interrupted_run import release_attempt
from scaffold.worker.attempt_records import CandidateReady
from support.harness import act, goal, poll_until

WRITES = call_entry(1, ("write_file", {"path": "a", "content": "made\n"}))
DONE = CassetteEntry(text="done")


async def begin(harness, check, **settings):
    return await harness.own(goal("g", act("a", check=check)), sandbox="off", **settings)


async def cut_off(harness, run, model, until):
    """Let a worker begin, and die as soon as `until` is true."""
    attempt = await harness.queue(run, "a")
    working = asyncio.create_task(harness.execute(attempt, model))
    await poll_until(until)
    working.cancel()
    await asyncio.wait([working])
    attempt = harness.store.attempts.get(attempt.id)
    await release_attempt(harness.context, run, attempt, outcome="lost", error="killed")


async def continued(harness, run):
    model = RecordingModel(cassette_model(WRITES, DONE))
    ending = await harness.execute(await harness.queue(run, "a"), model)
    assert isinstance(ending, CandidateReady), ending
    return ending, model.requests


@pytest.mark.slow
async def test_work_whose_check_is_killed_is_checked_again_and_not_made_again(harness, tmp_path):
    """BX-15, SC-20: no request is paid for it, and what the check left behind is not taken for work."""
    held, checking = tmp_path / "held", tmp_path / "checking"
    held.touch()
    run = await begin(harness, f"test -s a && touch litter {checking} && while test -e {held}; do sleep 0.02; done")
    await cut_off(harness, run, cassette_model(WRITES, DONE), checking.exists)
    held.unlink()
    ending, requests = await continued(harness, run)
    assert requests == []
    assert await harness.show(f"{ending.head}:a") == "made"
    assert "litter" not in (await harness.context.git("ls-tree", "--name-only", ending.head)).line
    assert len(harness.prompts()) == 1
    assert harness.attempts(run, "a")[-1].result == "done"


@pytest.mark.slow
async def test_a_command_that_is_killed_is_not_run_again_where_nobody_knows_what_it_did(harness, tmp_path):
    """BX-15: without a sandbox; what its reply called before is not run again, either."""
    begun = tmp_path / "begun"
    calls = (
        ("write_file", {"path": "a", "content": "made\n"}),
        ("shell", {"command": f"echo once >> {begun}; sleep 600"}),
        ("write_file", {"path": "b", "content": "after\n"}),
    )
    run = await begin(harness, "test -s a", yolo=True)
    await cut_off(harness, run, cassette_model(call_entry(1, *calls), DONE), begun.exists)
    ending, (request,) = await continued(harness, run)
    results = [part for part in request.messages[-1].parts if isinstance(part, ToolResult)]
    assert [each.failed for each in results] == [False, True, False]
    assert "unknown whether this ran" in results[1].content
    assert (request.caller.turn, begun.read_text()) == (2, "once\n")
    assert [await harness.show(f"{ending.head}:{name}") for name in "ab"] == ["made", "after"]
