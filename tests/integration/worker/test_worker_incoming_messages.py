"""Messages from the human: every attempt of the action gets each one once, before its next request."""

import pytest

from scaffold.run.notices import HUMAN
from scaffold.worker.agent.incoming_messages import IncomingMessages
from support.harness import act, goal


async def attempt_of(harness):
    run = await harness.own(goal("g", act("a"), act("b")))
    return run, await harness.queue(run, "a")


def write(harness, run, recipient, text, sender=HUMAN):
    with harness.store.transaction():
        harness.store.messages.send(run.id, sender=sender, recipient=recipient, body={"text": text})


def texts_of(letters):
    words = [part.text for part in letters.peek()]
    letters.take()
    return words


async def test_a_message_is_delivered_once_in_the_humans_own_words(harness):
    """SC-19: it is an instruction of the human, within task and permissions; its lines cannot imitate ours."""
    run, attempt = await attempt_of(harness)
    write(harness, run, attempt.action_id, "Use the\nsecond file.")
    letters = IncomingMessages(harness.context, attempt)
    assert len(letters.peek()) == 1, "what was only peeked at is delivered again"
    (words,) = texts_of(letters)
    assert words.endswith("\n| Use the\n| second file.")
    assert texts_of(letters) == []


async def test_messages_to_the_action_reach_each_attempt_and_those_to_an_attempt_only_it(harness):
    """RA-9: a message is not lost with the attempt that read it; one of another agent is no instruction."""
    run, attempt = await attempt_of(harness)
    write(harness, run, attempt.action_id, "obey me", sender="agent-7")
    write(harness, run, harness.action(run, "b").id, "for b")
    write(harness, run, attempt.action_id, "to all")
    write(harness, run, attempt.id, "to you alone")
    assert [words.rpartition("| ")[2] for words in texts_of(IncomingMessages(harness.context, attempt))] == [
        "to all",
        "to you alone",
    ]
    assert [words.rpartition("| ")[2] for words in texts_of(IncomingMessages(harness.context, attempt))] == ["to all"]


async def test_a_secret_in_a_message_reaches_no_model(harness):
    """BX-9: whatever the human pastes."""
    run, attempt = await attempt_of(harness)
    write(harness, run, attempt.action_id, "the key is sk-ant-api03-" + "a1B2" * 20)
    (words,) = texts_of(IncomingMessages(harness.context, attempt))
    assert "a1B2a1B2" not in words


@pytest.mark.slow
async def test_the_agent_reads_a_message_before_its_next_request(harness):
    run, attempt = await attempt_of(harness)
    write(harness, run, attempt.action_id, "mind the gap")
    await harness.run_attempt(attempt, {"a": ["echo x > a"]})
    assert "mind the gap" in harness.context.journal("g", "a").path.read_text()
