"""Stories that conflict with what lands before them, again and again, until a human is asked."""

import pytest

from builders import an_attempt
from scaffold.core.states import Completed, Paused
from scaffold.orchestrator.owner.run_files import STATE_NAME
from scaffold.plan.source.task import SourceTask
from scaffold.plan.story.stories_goal import stories_goal
from support.harness import UNSANDBOXED

STEPS = [f"step-{number:03d}" for number in range(1, 12)]
KEEP_BOTH = "grep -v '^[<=>][<=>]' list > kept; mv kept list"


def conflicted(harness, run, key, count):
    """Let so many attempts at an action have ended in a conflict."""
    action = harness.action(run, key)
    for number in range(1, count + 1):
        with harness.store.transaction():
            attempt = an_attempt(action, number, base_sha=run.base_sha, fence=run.fence)
            harness.store.attempts.open(attempt)
            harness.store.attempts.end(attempt.id, outcome="conflict", error="conflicts with work in list")


@pytest.mark.slow
async def test_a_story_that_conflicts_again_and_again_asks_and_lands_after_the_answer(harness):
    """DR-11: the step that resolves the conflict is there, too, and runs once the human has answered."""
    stories = [SourceTask(id=key, title=key) for key in ("US-1", "US-2")]
    run = await harness.open_run(stories_goal("prd", "", stories), **(UNSANDBOXED | {"agents": 2}))
    conflicted(harness, run, "US-2/step-010", 19)
    wait = f'while [ -z "$(git log --oneline {run.session_branch} | grep US-1)" ]; do sleep 0.1; done'
    script = {f"{key}/{step}": [""] for key in ("US-1", "US-2") for step in STEPS}
    script |= {"US-1/step-005": ["echo six >> list"], "US-2/step-005": [f"echo seven >> list; {wait}"]}
    script["US-2/step-011"] = [KEEP_BOTH]
    first = await harness.run_to_end(run, **script)
    (item,) = harness.store.inbox.open_of_run(run.id)
    assert ("20 " in item.text, "US-2/step-010" in item.text) == (True, True)
    assert isinstance(first.state, Paused)
    with harness.store.transaction():
        harness.store.inbox.decide(item.id, "answered", answer="keep both")
    assert (await harness.run_to_end(harness.store.runs.get(run.id), **script)).state == Completed()
    lines = (await harness.show(f"{run.session_branch}:list")).splitlines()
    assert sorted(lines) == ["one", "seven", "six", "three", "two"]
    assert len(await harness.landed(run)) == 2
    assert '"status": "completed"' in (harness.context.projections.path / STATE_NAME).read_text()
