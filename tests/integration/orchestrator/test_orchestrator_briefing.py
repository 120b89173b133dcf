"""What an attempt is told of those before it: real git and store, a scripted model."""

from scaffold.run.attempt_end import AttemptEnd, end_attempt
from support.harness import act, goal

GOOD = "grep -q good a"
WHY = f"The check `{GOOD}` failed."


async def begin(harness, **settings):
    return await harness.own(goal("g", act("a", check=GOOD)), **settings)


async def briefing(harness, run):
    return (await harness.queue(run, "a")).briefing


async def test_the_first_attempt_is_told_nothing(harness):
    assert await briefing(harness, await begin(harness)) == ""


async def test_a_refusal_is_told_with_its_change_and_what_may_be_done(harness):
    """AL-6, SC-20: in plain words, and once."""
    run = await begin(harness, iterations=1)
    await harness.work(run, "a", "echo bad > a")
    text = await briefing(harness, run)
    assert text.startswith(f"Attempt 1 ended: it did not pass its checks: {WHY}")
    assert "\n\nWhat you may do:\n- Change the work until the check passes" in text
    assert "\n\nIts changes, which did not land:\n" in text
    assert "+bad" in text


async def test_work_that_the_repository_lost_is_told_and_holds_up_nothing(harness):
    """AL-27, BX-10: a user's `git prune` took it."""
    run = await begin(harness, iterations=1)
    await harness.work(run, "a", "echo bad > a")
    (attempt,) = harness.attempts(run, "a")
    folder = harness.context.repository.common_dir / "objects"
    (folder / attempt.head_sha[:2] / attempt.head_sha[2:]).unlink()
    text = await briefing(harness, run)
    assert text.endswith("\n\nIts changes are lost: the repository no longer has them.")


async def test_after_an_attempt_that_changed_nothing_the_earlier_refusal_is_told(harness):
    """AL-6, BX-12: the last attempt's end says nothing about the work."""
    run = await begin(harness, iterations=1)
    await harness.work(run, "a", "echo bad > a")
    await harness.work(run, "a", "")
    text = await briefing(harness, run)
    assert text.startswith(
        "Attempt 2 ended: it did not pass its checks: the agent said it was done, but nothing changed"
    )
    assert f"\n\nAttempt 1 ended: it did not pass its checks: {WHY}" in text


async def test_of_an_attempt_that_was_interrupted_the_last_refusal_is_told(harness):
    """AL-6, BX-12: its work had been refused before."""
    run = await begin(harness, iterations=1)
    await harness.work(run, "a", "echo bad > a")
    refused = harness.attempts(run, "a")[0].verification
    attempt = await harness.queue(run, "a")
    with harness.store.transaction():
        harness.store.attempts.claim(attempt.id, fence=attempt.fence, worker=None, worktree="", log_file="")
        for phase in ("executing", "verifying"):
            harness.store.attempts.advance(attempt.id, fence=attempt.fence, phase=phase, verification=refused)
    end_attempt(harness.store, run, attempt.id, AttemptEnd("timeout", "not finished after 900 s"))
    text = await briefing(harness, run)
    assert "Attempt 2 ended: it ran out of time: not finished after 900 s\n\nIts work had been refused" in text
    assert WHY in text
    assert "Attempt 1" not in text
