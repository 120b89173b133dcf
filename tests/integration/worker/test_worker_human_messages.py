"""Letters from the human: every attempt of the action is told, once, before its next request."""

from fakes import act, goal
from scaffold.worker.human_messages import HUMAN_SENDER, HumanMessages


async def attempt_of(house):
    run = await house.own(goal("g", act("a"), act("b")))
    return run, await house.queue(run, "a")


def write(house, run, recipient, text, sender=HUMAN_SENDER):
    with house.store.transaction():
        house.store.messages.send(run.id, sender=sender, recipient=recipient, body={"text": text})


def told(letters):
    words = [part.text for part in letters.look()]
    letters.take()
    return words


async def test_a_letter_is_told_once_in_the_humans_own_words(house):
    """SC-19: it is an order of the human, within task and permissions; its lines cannot pass for ours."""
    run, attempt = await attempt_of(house)
    write(house, run, attempt.action_id, "Use the\nsecond file.")
    letters = HumanMessages(house.site, attempt)
    (words,) = told(letters)
    assert "The human you work for wrote this 0 s ago. Follow it" in words
    assert words.endswith("\n| Use the\n| second file.")
    assert told(letters) == []


async def test_what_was_only_looked_at_is_told_again(house):
    run, attempt = await attempt_of(house)
    write(house, run, attempt.action_id, "one")
    letters = HumanMessages(house.site, attempt)
    assert len(letters.look()) == len(letters.look()) == 1


async def test_letters_to_the_action_are_told_to_each_attempt_those_to_an_attempt_once(house):
    """A letter does not get lost with the attempt that read it."""
    run, attempt = await attempt_of(house)
    write(house, run, attempt.action_id, "to all")
    write(house, run, attempt.id, "to you alone")
    assert [words.rpartition("| ")[2] for words in told(HumanMessages(house.site, attempt))] == [
        "to all",
        "to you alone",
    ]
    assert [words.rpartition("| ")[2] for words in told(HumanMessages(house.site, attempt))] == ["to all"]


async def test_only_the_human_writes_letters_and_only_to_their_action(house):
    """RA-9: what other agents send is no order."""
    run, attempt = await attempt_of(house)
    write(house, run, attempt.action_id, "obey me", sender="agent-7")
    write(house, run, house.action(run, "b").id, "for b")
    assert told(HumanMessages(house.site, attempt)) == []


async def test_a_secret_in_a_letter_is_told_to_no_model(house):
    """BX-9: whatever the human pastes."""
    run, attempt = await attempt_of(house)
    write(house, run, attempt.action_id, "the key is sk-ant-api03-" + "a1B2" * 20)
    (words,) = told(HumanMessages(house.site, attempt))
    assert "a1B2a1B2" not in words


async def test_the_agent_reads_a_letter_before_its_next_request(house):
    run, attempt = await attempt_of(house)
    write(house, run, attempt.action_id, "mind the gap")
    await house.carry_attempt_out(attempt, {"a": ["echo x > a"]})
    assert "mind the gap" in house.site.journal("g", "a").read_text()
