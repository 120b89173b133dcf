"""Which keys do what, and when they answer a question."""

import asyncio

import msgspec
import pytest
from inline_snapshot import snapshot

from scaffold.cli.approval_answers import counts_as_answer, parse_answer
from scaffold.cli.repl.approval_queue import ApprovalQueue, answer_choices, wrap_choices
from scaffold.cli.repl.user_input import InterruptContext, on_enter, on_interrupt
from scaffold.policy.permission.approval_gate import ApprovalQuestion, DenyBecause
from support.fake_clock import FakeClock

RUN = ApprovalQuestion(tool="shell", category="shell", subject="ls")
WRITE = ApprovalQuestion(tool="write_file", category="file_write", subject="a.py")


def moment(**changes):
    idle = {"now_s": 10.0, "asked": False, "busy": False, "stopping": False, "typed": False, "warned_s": None}
    return InterruptContext(**{**idle, **changes})


def test_ctrl_c_first_stops_the_turn_then_ends_the_session():
    """RA-19: the first one stops the turn, the second one ends everything."""
    rows = [
        ({}, "warn"),
        ({"warned_s": 9.0}, "leave"),
        ({"warned_s": 7.0}, "warn"),
        ({"typed": True, "warned_s": 9.0}, "clear"),
        ({"busy": True}, "stop"),
        ({"busy": True, "typed": True}, "stop"),
        ({"busy": True, "asked": True}, "deny"),
        ({"busy": True, "stopping": True}, "end"),
        ({"busy": True, "stopping": True, "asked": True}, "end"),
    ]
    assert [(changes, on_interrupt(moment(**changes))) for changes, _ in rows] == rows


def test_enter_sends_or_continues_the_line():
    table = {
        ("hi", ""): "send",
        ("hi\\", ""): "continue",
        ("a\\", "b"): "send",
        ("", ""): "ignore",
        (" \n", " "): "ignore",
    }
    assert {(before, after): on_enter(before, after) for before, after in table} == table


def test_a_key_answers_only_a_question_that_was_visible():
    """RA-13: a key typed before the question was shown is no consent."""
    table = {(None, 0.0, 99.0): False, (10.0, 0.0, 10.2): False, (10.0, 0.0, 10.6): True, (10.0, 10.4, 10.6): False}
    assert {
        (shown_s, last_key_s, now_s): counts_as_answer(shown_s=shown_s, last_key_s=last_key_s, now_s=now_s)
        for shown_s, last_key_s, now_s in table
    } == table


@pytest.fixture
async def session():
    class QuestionSession:
        clock = FakeClock()

        def __init__(self):
            self.shown = []
            self.questions = ApprovalQueue(self.clock, self.shown.append)
            self.tasks = []

        async def ask(self, question):
            self.tasks.append(asyncio.create_task(self.questions.ask(question)))
            await asyncio.sleep(0)
            return self.tasks[-1]

    session = QuestionSession()
    yield session
    for task in session.tasks:
        task.cancel()


async def test_questions_are_asked_one_after_another(session):
    """RA-13."""
    first, second = await session.ask(RUN), await session.ask(WRITE)
    assert session.shown == [RUN]
    assert session.questions.waiting_count == 1
    session.questions.answer("allow")
    assert await first == "allow"
    assert session.shown == [RUN, WRITE]
    session.questions.answer("deny")
    assert await second == "deny"
    assert session.questions.current is None


async def test_identical_questions_are_asked_once(session):
    """RA-13."""
    both = [await session.ask(RUN), await session.ask(RUN)]
    assert session.questions.identical_count == 2
    session.questions.answer("always")
    assert [await each for each in both] == ["always", "always"]


async def test_two_writes_to_one_file_are_two_questions(session):
    """RA-13: their content may differ, so one answer does not cover both."""
    await session.ask(WRITE)
    await session.ask(msgspec.structs.replace(WRITE, digest="of another content"))
    await session.ask(WRITE)
    assert (session.questions.identical_count, session.questions.waiting_count) == (2, 1)


async def test_the_answers_say_how_many_calls_they_are_for_and_when_keys_count(session):
    """RA-13."""
    await session.ask(RUN)
    await session.ask(WRITE)
    assert answer_choices(session.questions) == "… y yes   n no   r no, because   a don't ask again   (1 more)"
    session.clock.advance(0.6)
    assert answer_choices(session.questions) == "y yes   n no   r no, because   a don't ask again   (1 more)"
    await session.ask(RUN)
    assert answer_choices(session.questions) == snapshot(
        "y yes to all 2   n no   r no, because   a don't ask again   (1 more)"
    )


def test_no_answer_is_broken_on_a_narrow_terminal():
    """RA-18: 60 columns."""
    answers = ["y yes   n no", "a don't ask again for `npm test *`"]
    whole = "   ".join(answers)
    assert wrap_choices(whole, 80).split("\n") == [whole]
    assert wrap_choices(whole, 40).split("\n") == answers


async def test_always_answers_only_a_question_that_offers_it(session):
    """RA-13: what keeps no rule is asked for each time."""
    await session.ask(msgspec.structs.replace(RUN, always=None))
    await session.ask(WRITE)
    session.clock.advance(0.6)
    assert answer_choices(session.questions) == "y yes   n no   r no, because   (1 more)"
    meanings = {
        words: session.questions.meaning(words) for words in ("y", " Yes ", "n", "a", "always", "", "yes please")
    }
    assert meanings == {
        "y": "allow",
        " Yes ": "allow",
        "n": "deny",
        "a": None,
        "always": None,
        "": None,
        "yes please": None,
    }
    session.questions.answer("allow")
    await asyncio.sleep(0)
    assert (session.questions.meaning("a"), session.questions.meaning("ALWAYS")) == ("always", "always")


async def test_all_edits_and_one_by_one_answer_only_questions_that_offer_them(session):
    """RA-13: only the upper-case letter is for all edits; one row says what each answer is for."""
    await session.ask(msgspec.structs.replace(WRITE, always="file_write:a.py", edits=True))
    await session.ask(msgspec.structs.replace(RUN, always=None, together=(WRITE, WRITE)))
    session.clock.advance(0.6)
    words = ("A", "a", "edits", "o", "one by one", "AA")
    assert [session.questions.meaning(each) for each in words] == ["edits", "always", "edits", None, None, None]
    assert answer_choices(session.questions) == snapshot(
        "y yes   n no   r no, because   a don't ask again for `a.py`   A accept all edits in this folder   (1 more)"
    )
    session.questions.answer("edits")
    await asyncio.sleep(0)
    assert [session.questions.meaning(each) for each in words] == [None, None, None, "singly", "singly", None]
    assert answer_choices(session.questions, by_line=True) == snapshot(
        "y yes to all 3   n no   no, because ...   o one by one"
    )


def test_a_line_denies_with_its_reason():
    """RA-13: where whole lines answer."""
    table = {
        "no, because it is late": DenyBecause("it is late"),
        "No because: so": DenyBecause("so"),
        "n, because\nof this": DenyBecause("of this"),
        "no, because": None,
        "no, it is late": None,
    }
    assert {words: parse_answer(words) for words in table} == table


async def test_the_answers_name_a_short_rule(session):
    """RA-13: a longer one is in the question."""
    await session.ask(msgspec.structs.replace(RUN, always="shell:npm test"))
    session.clock.advance(0.6)
    assert answer_choices(session.questions).endswith("a don't ask again for `npm test *`")
    await session.ask(msgspec.structs.replace(RUN, always=f"shell:{'x' * 41}"))
    session.questions.answer("deny")
    await asyncio.sleep(0)
    assert answer_choices(session.questions, by_line=True) == "y yes   n no   no, because ...   a don't ask again"


@pytest.mark.parametrize("path", ["a\x1b]0;owned\x07", "a\u202eb", "a\u3164b", "a\nn no", "a   n no"])
async def test_the_answers_name_no_rule_that_could_pass_for_something_else(session, path):
    """RA-13, RA-18: the question shows it, escaped."""
    await session.ask(msgspec.structs.replace(WRITE, always=f"write_file:{path}"))
    session.clock.advance(0.6)
    for by_line in (False, True):
        assert answer_choices(session.questions, by_line=by_line).endswith("   a don't ask again")


async def test_a_question_is_withdrawn_when_its_agent_has_ended(session):
    asked = await session.ask(RUN)
    waiting = await session.ask(WRITE)
    asked.cancel()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert session.questions.current == WRITE
    session.questions.answer("allow")
    assert await waiting == "allow"


async def test_keys_typed_in_a_burst_do_not_answer(session):
    """RA-13: a user who is typing a word has not read the question."""
    await session.ask(RUN)
    assert not session.questions.key_pressed()
    session.clock.advance(0.4)
    assert not session.questions.key_pressed()
    session.clock.advance(0.4)
    assert not session.questions.key_pressed()
    session.clock.advance(0.6)
    assert session.questions.key_pressed()


async def test_keys_typed_while_a_question_is_drawn_do_not_answer():
    """RA-13: a long diff takes time to draw, and cannot have been read before."""
    clock = FakeClock()
    questions = ApprovalQueue(clock, lambda _: clock.advance(3.0))
    asked = asyncio.create_task(questions.ask(RUN))
    await asyncio.sleep(0)
    assert not questions.key_pressed()
    clock.advance(0.6)
    assert questions.key_pressed()
    asked.cancel()


class Torn:
    """A screen that cannot draw shell questions while it is torn."""

    torn = True

    def __init__(self):
        self.shown = []

    def show(self, question):
        if self.torn and question.tool == "shell":
            raise OSError(5, "the screen is torn")
        self.shown.append(question)


async def asked_of(questions, question):
    """Have the question asked; return the task once it waits."""
    asking = asyncio.create_task(questions.ask(question))
    await a_moment()
    return asking


async def a_moment():
    """Let every task go as far as it can."""
    for _ in range(9):
        await asyncio.sleep(0)


async def test_a_question_that_cannot_be_drawn_does_not_block_later_ones():
    """RA-13: its own caller gets the error, and nobody has consented."""
    screen = Torn()
    questions = ApprovalQueue(FakeClock(), screen.show)
    with pytest.raises(OSError, match="torn"):
        await questions.ask(RUN)
    assert questions.current is None
    asking = await asked_of(questions, WRITE)
    assert (questions.current, screen.shown) == (WRITE, [WRITE])
    questions.answer("allow")
    assert await asking == "allow"


async def test_a_question_that_cannot_be_drawn_when_its_turn_comes_fails_its_own_callers():
    """RA-13: neither the key that answered the question before, nor the callers of other questions."""
    screen = Torn()
    questions = ApprovalQueue(FakeClock(), screen.show)
    before = await asked_of(questions, WRITE)
    torn = [await asked_of(questions, RUN), await asked_of(questions, RUN)]
    after = await asked_of(questions, msgspec.structs.replace(WRITE, subject="b.py"))
    questions.answer("allow")
    assert await before == "allow"
    for asking in torn:
        with pytest.raises(OSError, match="torn"):
            await asking
    await a_moment()
    assert [question.subject for question in screen.shown] == ["a.py", "b.py"]
    questions.answer("deny")
    assert await after == "deny"


async def test_a_withdrawn_question_is_followed_by_one_that_can_be_drawn():
    screen = Torn()
    questions = ApprovalQueue(FakeClock(), screen.show)
    before, torn, after = [
        await asked_of(questions, question) for question in (WRITE, RUN, msgspec.structs.replace(WRITE, subject="b.py"))
    ]
    before.cancel()
    with pytest.raises(asyncio.CancelledError):
        await before
    with pytest.raises(OSError, match="torn"):
        await torn
    questions.answer("allow")
    assert await after == "allow"


async def test_an_identical_question_is_drawn_by_whoever_still_waits():
    screen = Torn()
    screen.torn = False
    questions = ApprovalQueue(FakeClock(), screen.show)
    before = await asked_of(questions, WRITE)
    first, second = await asked_of(questions, RUN), await asked_of(questions, RUN)
    questions.answer("allow")
    first.cancel()
    assert await before == "allow"
    await a_moment()
    assert screen.shown == [WRITE, RUN]
    questions.answer("deny")
    assert await second == "deny"


async def test_a_question_answered_before_it_is_drawn_is_not_drawn():
    """RA-19: Ctrl-C in that moment denies it."""
    screen = Torn()
    screen.torn = False
    questions = ApprovalQueue(FakeClock(), screen.show)
    before, waiting = await asked_of(questions, WRITE), await asked_of(questions, RUN)
    questions.answer("allow")
    questions.answer("deny")
    assert (await before, await waiting) == ("allow", "deny")
    assert (questions.current, questions.waiting_count) == (None, 0)
