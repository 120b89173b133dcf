"""What an attempt is told of those before it: real git and store, a scripted model."""

import pytest
from inline_snapshot import snapshot

from scaffold.run.failures.attempt_end import AttemptEnd, end_attempt
from support.harness import act, goal

GOOD = "grep -q good a"
WHY = f"The check `{GOOD}` failed."


async def begin(harness, **settings):
    return await harness.own(goal("g", act("a", check=GOOD)), **settings)


async def briefing(harness, run):
    return (await harness.queue(run, "a")).briefing


@pytest.mark.slow
async def test_a_refusal_is_told_with_its_change_and_what_may_be_done(harness):
    """AL-6, SC-20: in plain words, and once."""
    run = await begin(harness, iterations=1)
    await harness.work(run, "a", "echo bad > a")
    assert harness.attempts(run, "a")[0].briefing == "", "there was none before it"
    said, *rest = (await briefing(harness, run)).split("\n\n")
    assert [said, rest[0], rest[1].partition("\n")[0]] == snapshot(
        [
            (
                "Attempt 1 ended: it did not pass its checks: The check `grep -q good a` failed. Expected exit "
                "code 0, but got exit code 1."
            ),
            """\
What you may do:
- Change the work until the check passes; the check itself stays as it is.
- If the task cannot be done within these limits, change nothing more and say so, with the reason.\
""",
            "Its changes, which did not land:",
        ]
    )
    assert "+bad" in rest[1]


@pytest.mark.slow
async def test_work_that_the_repository_lost_is_told_and_holds_up_nothing(harness):
    """AL-27, BX-10: a user's `git prune` took it."""
    run = await begin(harness, iterations=1)
    await harness.work(run, "a", "echo bad > a")
    (attempt,) = harness.attempts(run, "a")
    folder = harness.context.repository.common_dir / "objects"
    (folder / attempt.head_sha[:2] / attempt.head_sha[2:]).unlink()
    text = await briefing(harness, run)
    assert text.rpartition("\n\n")[2] == snapshot("Its changes are lost: the repository no longer has them.")


@pytest.mark.slow
async def test_after_an_attempt_that_changed_nothing_the_earlier_refusal_is_told(harness):
    """AL-6, BX-12: the last attempt's end says nothing about the work."""
    run = await begin(harness, iterations=1)
    await harness.work(run, "a", "echo bad > a")
    await harness.work(run, "a", "")
    text = await briefing(harness, run)
    assert (text.startswith("Attempt 2 "), "\n\nAttempt 1 " in text, text.count(WHY)) == (True, True, 1)


@pytest.mark.slow
async def test_of_an_attempt_that_was_interrupted_the_last_refusal_is_told(harness):
    """AL-6, BX-12: its work had been refused before."""
    run = await begin(harness, iterations=1)
    await harness.work(run, "a", "echo bad > a")
    refused = harness.attempts(run, "a")[0].verification
    attempt = await harness.queue(run, "a")
    harness.claim(attempt)
    with harness.store.transaction():
        for phase in ("executing", "verifying"):
            harness.store.attempts.advance(attempt.id, fence=attempt.fence, phase=phase, verification=refused)
    end_attempt(harness.store, run, attempt.id, AttemptEnd("timeout", "not finished after 900 s"))
    text = await briefing(harness, run)
    assert ("Attempt 2 " in text, "900 s" in text, WHY in text) == (True, True, True)
    assert "Attempt 1" not in text
