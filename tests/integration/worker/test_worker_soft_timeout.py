"""Attempts that take long: a human is asked to kill them or to wait, and they work on meanwhile."""

import asyncio

import pytest

from scaffold.core.errors import IllegalTransition, UsageError
from scaffold.orchestrator.owner.recovery.interrupted_run import recover_run
from scaffold.orchestrator.user_control.inbox_decisions import InboxDecision, decide_items
from scaffold.run.failures.attempt_end import AttemptEnd, end_attempt
from scaffold.run.failures.soft_timeouts import granted_extensions
from scaffold.worker.attempt_records import CandidateReady
from support.harness import act, goal, poll_until


async def begin(harness, *, timeout_s=2.0, **settings):
    return await harness.own(
        goal("g", act("a", check="test -f a")), attempt_timeout_s=timeout_s, soft_timeout=0.25, **settings
    )


def questions(harness, run):
    return harness.store.inbox.open_of_run(run.id)


def answer(harness, item, words):
    decide_items(harness.store, [item.id], InboxDecision(to="answered", words=words))


async def asked_while(harness, run, *turns, words=None):
    """Start an attempt, answer each question with the next of `words`, and return its ending."""
    work = asyncio.create_task(harness.work(run, "a", *turns))
    for each in words or ():
        await poll_until(lambda: questions(harness, run))
        answer(harness, questions(harness, run)[0], each)
    return await work


@pytest.mark.slow
async def test_who_waits_gives_an_attempt_more_time_and_its_work_lands(harness):
    """AL-25: it works on while it is asked."""
    run = await begin(harness, timeout_s=4.0)
    ending = await asked_while(harness, run, "echo x > a; sleep 4.6", words=["wait"])
    assert isinstance(ending, CandidateReady)


@pytest.mark.slow
async def test_who_kills_ends_an_attempt_at_once_and_its_work_is_pinned(harness):
    """AL-25: the reason is kept, and it is a timeout."""
    run = await begin(harness, timeout_s=6.0)
    ending = await asked_while(harness, run, "echo x > a; sleep 60", words=["kill it loops"])
    assert ending.outcome == "timeout"
    assert ending.error.startswith("a human ended it after ")
    assert ending.error.endswith(" s: it loops")
    (attempt,) = harness.attempts(run, "a")
    assert await harness.show(f"{attempt.head_sha}:a") == "x"


@pytest.mark.slow
async def test_without_an_answer_an_attempt_is_extended_once_and_then_ends(harness):
    """AL-25: headless; afterwards nobody is asked any more, and an answer says so."""
    run = await begin(harness, timeout_s=2.0)
    ending = await harness.work(run, "a", "echo x > a; sleep 60")
    assert ending == AttemptEnd("timeout", "not finished after 3 s")
    (item,) = questions(harness, run)
    assert item.text.startswith("attempt 1 of `a` has worked for ")
    with pytest.raises(IllegalTransition):
        answer(harness, item, "wait")
    await recover_run(harness.context, run)
    assert not questions(harness, run)


async def test_a_share_of_one_asks_nobody(harness):
    """AL-25: then the hard limit counts alone."""
    run = await harness.own(goal("g", act("a")), attempt_timeout_s=0.3)
    ending = await harness.work(run, "a", "sleep 60")
    assert ending.outcome == "timeout"
    assert not questions(harness, run)


@pytest.mark.slow
async def test_a_crash_keeps_what_a_human_granted_and_withdraws_the_question(harness):
    """AL-25: the question is the record of the extension, so no kill loses it; a failure of its own ends it."""
    run = await begin(harness, timeout_s=8.0)
    work = asyncio.create_task(harness.work(run, "a", "sleep 60"))
    await poll_until(lambda: questions(harness, run))
    (item,) = questions(harness, run)
    with pytest.raises(UsageError, match="is no answer"):
        answer(harness, item, "whatever")
    answer(harness, item, "Wait, please")
    work.cancel()
    await asyncio.wait([work])
    (first,) = harness.attempts(run, "a")
    end_attempt(harness.store, run, first.id, AttemptEnd("lost", "its worker died"), fence=first.fence)
    second = await harness.queue(run, "a")
    assert granted_extensions(harness.store, second) == 1
    harness.claim(second)
    end_attempt(harness.store, run, second.id, AttemptEnd("timeout", "too slow"), fence=second.fence)
    assert granted_extensions(harness.store, await harness.queue(run, "a")) == 0
