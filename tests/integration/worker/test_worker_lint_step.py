"""The linting step of a story: our own run of the gates first, an agent only if they fail."""

import pytest

from integration.worker.test_worker_verification import LINT, hold
from scaffold.core.states import Running
from scaffold.worker.attempt_records import CandidateReady
from support.harness import UNSANDBOXED, act, goal

KEY = "US-1/step-001"


async def linting(harness, *gates):
    """Own a run with a story whose first step lints."""
    story = act("US-1", kind="compound", method="story", effects=("done:US-1",))
    step = {"parent": "US-1", "method": "story", "workspace": "parent"}
    steps = [
        act(KEY, role="linting", effects=("linted",), **step),
        act("US-1/step-002", role="final_review", needs=["linted"], effects=("done:US-1",), **step),
    ]
    run = await harness.own(goal("g", story, *steps, wants=["done:US-1"]), **UNSANDBOXED)
    hold(harness, run, *gates)
    harness.move(harness.action(run, "US-1"), Running())
    return run


async def test_no_agent_is_asked_if_the_gates_pass(harness):
    """DR-2: the step is done by the gates alone."""
    run = await linting(harness, LINT)
    assert isinstance(await harness.run_attempt(await harness.queue(run, KEY), {}), CandidateReady)
    (attempt,) = harness.attempts(run, KEY)
    assert attempt.usage.requests == 0
    assert [(each.gate.name, each.verdict) for each in attempt.verification.gates] == [("lint", "pass")]
    assert "! grep -rn bad ." in attempt.result


@pytest.mark.parametrize("gates", [(LINT,), ()], ids=["fails", "none"])
async def test_an_agent_is_asked_if_they_fail_or_there_are_none(harness, gates):
    """DR-2: it is told what they said; a gate that ran nothing shows nothing."""
    (harness.repo / "list").write_text("bad\n" if gates else "one\n")
    await harness.sh("git commit -qam lint")
    run = await linting(harness, *gates)
    assert isinstance(await harness.work(run, KEY, "echo good > list"), CandidateReady)
    (attempt,) = harness.attempts(run, KEY)
    assert attempt.usage.requests > 0
    log = (harness.context.projections.path / "logs" / "US-1" / "step-001.jsonl").read_text()
    assert ("list:1" in log) == bool(gates)
