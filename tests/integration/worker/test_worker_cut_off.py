"""An attempt that is cut off by a crash: the next one goes on with its conversation and its work."""

import asyncio

import pytest
from msgspec import structs

from fakes import RecordingModel, call_entry, cassette_model
from scaffold.core.conversation import ToolResult
from scaffold.core.proof.contract import Check, Contract
from scaffold.llm.cassette_model import CassetteEntry, RequestMatcher
from scaffold.orchestrator.owner.recovery.interrupted_run import release_attempt
from scaffold.worker.attempt_records import CandidateReady
from support.harness import act, goal, poll_until

WRITES = call_entry(1, ("write_file", {"path": "a", "content": "made\n"}))
DONE = CassetteEntry(text="done")
LITTER = {"path": "run.log", "content": "x\n"}


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


class Interrupted:
    """A model that never answers the requests of one role."""

    def __init__(self, inner, role):
        self._inner, self._role, self.is_reached = inner, role, False
        self.window_tokens, self.is_small = None, False

    def estimate(self, request):
        return self._inner.estimate(request)

    async def reply(self, request, on_delta):
        if request.caller.role == self._role:
            self.is_reached = True
            await asyncio.Event().wait()
        return await self._inner.reply(request, on_delta)


def judged_model(score):
    """Return what a model says of work that fails, then passes; a critic scores it, and its improvement breaks off."""
    better = call_entry(3, ("write_file", {"path": "a", "content": "good\n"}), ("write_file", LITTER))
    said = {2: CassetteEntry(text="early"), 4: CassetteEntry(text="done")}
    worker = [structs.replace(each, when=RequestMatcher(role="implementation", turn=at)) for at, each in said.items()]
    advice = {"critic": f"Total: {score}/9", "learner": "a | must be | good"}
    advisers = [CassetteEntry(when=RequestMatcher(role=role), text=text) for role, text in advice.items()]
    return RecordingModel(cassette_model(*advisers, WRITES, better, *worker))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("role", "score", "repeated"),
    [("critic", 9, ["critic", "learner"]), ("learner", 9, ["learner"]), ("learner", 3, ["learner"])],
)
async def test_nothing_that_judged_finished_work_is_paid_again(harness, tmp_path, role, score, repeated):
    """BX-15, SC-20: though its checks would say something else now, and files that git ignores are gone.

    An improvement that was given up is not tried again, either.
    """
    await harness.sh("echo '*.log' > .gitignore; git add .gitignore; git commit -qm ignored")
    warns = tmp_path / "warns"
    checks = (Check(command="grep -q good a"), Check(command=f"test ! -e {warns}", required=False))
    settings = {"critic": True, "threshold": 7, "extract": True, "sandbox": "off"}
    run = await harness.own(goal("g", act("a", contract=Contract(commands=checks))), **settings)
    model = Interrupted(judged_model(score), role)
    await cut_off(harness, run, model, lambda: model.is_reached)
    warns.touch()
    again = judged_model(score)
    ending = await harness.execute(await harness.queue(run, "a"), again)
    assert isinstance(ending, CandidateReady), ending
    assert [each.caller.role for each in again.requests] == repeated
    assert await harness.show(f"{ending.head}:a") == "good"
