import asyncio

import msgspec
import pytest
from inline_snapshot import snapshot

from fakes import (
    CALLER,
    ECHO,
    FakeBudget,
    JournalList,
    MemoryHistory,
    RecordingModel,
    ScriptedModel,
    agent,
    call_entry,
    cassette_model,
    text_reply,
    tool,
)
from scaffold.agent.toolbox import REFUSED, UNKNOWN_RESULT
from scaffold.agent.turn_loop import CUT_OFF
from scaffold.core.conversation import (
    AssistantMessage,
    Image,
    Reply,
    RetryWait,
    StreamReset,
    Text,
    TextDelta,
    ToolCall,
    ToolResult,
    UserMessage,
    ignore_delta,
)
from scaffold.core.errors import BudgetExceeded, ModelError, TurnLimitExceeded
from scaffold.core.model import Usage
from scaffold.core.tool import ToolOutput
from scaffold.llm.cassette_model import CassetteEntry, CassetteFault, CassetteToolCall, CassetteUsage, RequestMatcher


async def test_a_turn_ends_with_the_first_reply_without_calls_and_returns_its_text():
    """SC-11: the result is the last reply's own text."""
    model = RecordingModel(
        cassette_model(
            call_entry(1, ("echo", {"text": "a"}), text="First I look."),
            call_entry(2, ("echo", {"text": "b"})),
            call_entry(3, text="Done: both."),
        )
    )
    finish = await agent(model, ECHO).turn("do it")
    assert finish.text == "Done: both."
    assert finish.requests == 3
    first, second, third = model.requests
    assert first.system == "Be good."
    assert [known.name for known in first.tools] == ["echo"]
    assert first.messages == (UserMessage((Text("do it"),)),)
    assert second.messages == (
        *first.messages,
        AssistantMessage((Text("First I look."), ToolCall("call-1-1", "echo", {"text": "a"}))),
        UserMessage((ToolResult("call-1-1", "echo", "<a>"),)),
    )
    assert third.messages[: len(second.messages)] == second.messages


async def test_request_numbers_continue_over_turns_and_the_conversation_is_kept():
    model = RecordingModel(
        cassette_model(call_entry(1, ("echo", {"text": "a"})), call_entry(2, text="one"), call_entry(3, text="two"))
    )
    worker = agent(model, ECHO)
    first = await worker.turn("begin")
    second = await worker.turn("a check failed")
    assert (first.text, first.requests, second.text, second.requests) == ("one", 2, "two", 1)
    assert [request.caller for request in model.requests] == [
        msgspec.structs.replace(CALLER, turn=turn) for turn in (1, 2, 3)
    ]
    words = [part.text for message in model.requests[-1].messages for part in message.parts if isinstance(part, Text)]
    assert words == ["begin", "one", "a check failed"]


async def test_usage_adds_up_over_a_turn_and_each_reply_is_settled_at_once():
    budget = FakeBudget()
    model = cassette_model(
        call_entry(1, ("echo", {"text": "a"}), output_tokens=1_000_000), call_entry(2, output_tokens=500_000)
    )
    finish = await agent(model, ECHO, budget=budget).turn("go")
    assert finish.usage == Usage(output_tokens=1_500_000, cost_usd=1.5, requests=2)
    assert [(reservation, usage.output_tokens) for reservation, usage in budget.settled] == [
        ("reservation 1", 1_000_000),
        ("reservation 2", 500_000),
    ]
    assert [usage.output_tokens for usage in budget.reserved] == [1_000_000, 500_000]


async def test_no_request_starts_without_budget():
    model = RecordingModel(cassette_model(call_entry(1, ("echo", {"text": "a"})), CassetteEntry(text="never")))
    with pytest.raises(BudgetExceeded):
        await agent(model, ECHO, budget=FakeBudget(requests=1)).turn("go")
    assert len(model.requests) == 1


async def test_an_agent_that_never_ends_reaches_the_turn_limit():
    model = RecordingModel(cassette_model(CassetteEntry(tool_calls=(CassetteToolCall("echo", {"text": "again"}),))))
    worker = agent(model, ECHO, max_requests=3)
    with pytest.raises(TurnLimitExceeded, match="turn limit") as caught:
        await worker.turn("go")
    assert len(model.requests) == 3
    assert not caught.value.transient
    assert worker.usage.requests == 3


async def test_calls_of_a_truncated_reply_are_not_run():
    """Trap: a call cut by its length limit may parse to a whole object."""
    ran = []

    async def note(text):
        ran.append(text)
        return ToolOutput("")

    model = RecordingModel(
        ScriptedModel(
            text_reply(Text("I wri"), ToolCall("1", "note", {"text": "half"}), stop="max_tokens"),
            text_reply(Text("so"), stop="max_tokens"),
            text_reply(Text("done")),
        )
    )
    finish = await agent(model, tool("note", note, text="string")).turn("go")
    assert finish.text == "done"
    assert ran == []
    assert model.requests[1].messages[-1] == UserMessage((ToolResult("1", "note", CUT_OFF, failed=True),))
    assert model.requests[2].messages[-1] == UserMessage((Text(CUT_OFF, "note"),))


async def test_a_refusal_ends_the_turn_without_running_its_calls():
    refusal = text_reply(Text("No."), ToolCall("1", "echo", {"text": "a"}), stop="refused")
    model = RecordingModel(ScriptedModel(text_reply(Text("hi")), refusal, text_reply()))
    worker = agent(model, ECHO)
    await worker.turn("hello")
    finish = await worker.turn("do harm")
    assert (finish.text, finish.stop, finish.requests) == ("No.", "refused", 1)
    again = await worker.turn("something else, then")
    assert again.stop == "end"
    assert model.requests[2].messages[-1] == UserMessage(
        (ToolResult("1", "echo", REFUSED, failed=True), Text("something else, then"))
    )


async def test_every_reservation_is_settled_whether_or_not_the_request_succeeds():
    """BX-11: a request without any reply costs nothing."""
    budget = FakeBudget()
    with pytest.raises(ModelError):
        await agent(ScriptedModel(ModelError("down", "wait")), budget=budget).turn("go")
    assert budget.settled == [("reservation 1", Usage())]

    turn = asyncio.create_task(
        agent(cassette_model(CassetteEntry(fault=CassetteFault(kind="hang"))), budget=budget).turn("go")
    )
    for _ in range(10):
        await asyncio.sleep(0)
    turn.cancel()
    with pytest.raises(asyncio.CancelledError):
        await turn
    assert budget.settled[1:] == [("reservation 2", Usage())]


async def test_every_completed_step_is_stored_before_the_next_one_begins():
    """RA-10, RA-21: a crash loses no completed step."""
    history = MemoryHistory()
    seen = []

    async def look():
        seen.append(list(history.messages))
        return ToolOutput("seen")

    model = cassette_model(call_entry(1, ("look", {}), text="First."), CassetteEntry(text="done"))
    await agent(model, tool("look", look), history=history).turn("go")
    prompt, call, result, reply = history.messages
    assert seen == [[prompt, call]]
    assert prompt == UserMessage((Text("go"),))
    assert result == UserMessage((ToolResult("call-1-1", "look", "seen"),))
    assert reply == AssistantMessage((Text("done"),))
    assert history.usage.requests == 2


@pytest.mark.parametrize("killed", [False, True])
async def test_a_conversation_interrupted_in_a_tool_continues_without_running_it_again(killed):
    """RA-10, RA-21: it is not known whether the call ran; the model is told so, and the ids still match."""
    history, ran = MemoryHistory(), []

    async def hang(text):
        ran.append(text)
        await asyncio.Event().wait()

    tools = tool("hang", hang, text="string")
    turn = asyncio.create_task(
        agent(cassette_model(call_entry(1, ("hang", {"text": "a"}))), tools, history=history).turn("go")
    )
    for _ in range(10):
        await asyncio.sleep(0)
    turn.cancel()
    with pytest.raises(asyncio.CancelledError):
        await turn
    if killed:
        history.messages.pop()

    model = RecordingModel(cassette_model(CassetteEntry(text="I look.")))
    finish = await agent(model, tools, conversation=history.loaded()).turn("and now?")
    assert finish.text == "I look."
    assert ran == ["a"]
    prompt, call, answer = model.requests[0].messages
    assert prompt == UserMessage((Text("go"),))
    assert answer == UserMessage(
        (ToolResult(call.tool_calls[0].id, "hang", UNKNOWN_RESULT, failed=True), Text("and now?"))
    )


async def test_user_messages_after_a_failed_request_are_merged():
    """Some models require alternating roles; the stored messages stay as they were."""
    history = MemoryHistory()
    model = RecordingModel(ScriptedModel(ModelError("down", "wait"), text_reply(Text("yes"))))
    worker = agent(model, history=history)
    with pytest.raises(ModelError):
        await worker.turn("are you there?")
    await worker.turn("and now?")
    assert model.requests[1].messages == (UserMessage((Text("are you there?"), Text("and now?"))),)
    assert [message.parts for message in history.messages[:2]] == [(Text("are you there?"),), (Text("and now?"),)]


async def test_duplicate_call_ids_are_made_unique_before_they_are_stored():
    """RA-1, trap (e): results are matched by id; providers and cassettes may use one twice, or none."""
    history = MemoryHistory()
    call = ToolCall("x", "echo", {"text": "a"})
    twice = text_reply(call, call, ToolCall("", "echo", {"text": "b"}), stop="tool_calls")
    model = ScriptedModel(twice, text_reply(call, stop="tool_calls"), text_reply(Text("ok")))
    await agent(model, ECHO, history=history).turn("go")
    ids = [call.id for message in history.messages[1::2] for call in message.tool_calls]
    assert len(set(ids)) == 4
    assert "" not in ids
    assert ids[0] == "x"
    answered = [part.call_id for message in history.messages[2::2] for part in message.parts]
    assert answered == ids


async def test_images_and_unusual_characters_are_encoded_for_the_model():
    """RA-20."""
    picture = Image("image/png", b"png")
    model, journal = RecordingModel(cassette_model(CassetteEntry(text="a cat"))), JournalList()
    await agent(model, journal=journal).turn((Text("caf\udce9"), picture))
    assert model.requests[0].messages == (UserMessage((Text("caf\\udce9"), picture)),)
    assert journal.entries[0] == {"type": "prompt", "text": "caf\\udce9"}


async def test_base_prompt_context_and_tools_are_the_same_bytes_in_every_request():
    """RA-3: or no provider can cache them; the context comes beside the base prompt."""
    model = RecordingModel(
        cassette_model(call_entry(1, ("echo", {"text": "a"})), call_entry(2, text="one"), CassetteEntry(text="two"))
    )
    worker = agent(model, ECHO, context="Date: today", effort="low")
    await worker.turn("begin")
    await worker.turn("go on")
    first, *others = model.requests
    for request in others:
        assert (request.system, request.context, request.tools, request.effort) == (
            first.system,
            first.context,
            first.tools,
            first.effort,
        )
        assert all(new is old for new, old in zip(request.messages, first.messages, strict=False))
    assert (first.system, first.context, first.effort) == ("Be good.", "Date: today", "low")


async def test_a_new_model_answers_from_the_next_request_on():
    """RA-1: the conversation continues unchanged."""
    first, second = (
        RecordingModel(cassette_model(CassetteEntry(text="one"))),
        RecordingModel(cassette_model(CassetteEntry(text="two"))),
    )
    worker = agent(first)
    await worker.turn("a")
    worker.switch(second)
    assert (await worker.turn("b")).text == "two"
    assert len(first.requests) == 1
    assert [type(message) for message in second.requests[0].messages] == [UserMessage, AssistantMessage, UserMessage]


async def test_the_journal_lists_replies_and_calls_in_order():
    journal = JournalList()
    first = CassetteEntry(
        when=RequestMatcher(turn=1),
        thinking="hm",
        text="I call.",
        tool_calls=(CassetteToolCall("echo", {"text": "a"}),),
        usage=CassetteUsage(input_tokens=7, output_tokens=2),
    )
    await agent(cassette_model(first, CassetteEntry(text="done")), ECHO, journal=journal).turn("go")
    assert [entry["type"] for entry in journal.entries] == [
        *("prompt", "thinking", "text", "tool_call", "usage", "tool_result"),
        *("text", "usage"),
    ]
    assert journal.entries[0] == {"type": "prompt", "text": "go"}
    assert journal.entries[3] == {"type": "tool_call", "id": "call-1-1", "name": "echo", "args": {"text": "a"}}
    assert journal.entries[4]["input_tokens"] == 7
    assert journal.entries[5] == {
        "type": "tool_result",
        "id": "call-1-1",
        "name": "echo",
        "content": "<a>",
        "failed": False,
    }


async def test_repeatedly_truncated_replies_end_the_turn():
    """A model that cannot come to an end does not use up the turn limit."""
    cut = text_reply(Text("so"), stop="max_tokens")
    model = RecordingModel(
        ScriptedModel(cut, cut, text_reply(ToolCall("1", "echo", {"text": "a"}), stop="tool_calls"), cut, cut, cut)
    )
    worker = agent(model, ECHO)
    with pytest.raises(ModelError) as caught:
        await worker.turn("go")
    assert caught.value.what == snapshot("3 replies in a row were cut off at the model's length limit")
    assert len(model.requests) == 6
    assert worker.conversation.kept[-1] == UserMessage((Text(CUT_OFF, "note"),))


class Breaking:
    """A model whose stream breaks off `times` times; then it answers, or fails for good."""

    window_tokens = None
    is_small = False

    def __init__(self, times, *, answers):
        self._times = times
        self._answers = answers

    def estimate(self, request):
        return Usage(input_tokens=10, cost_usd=0.5, requests=1)

    async def reply(self, request, on_delta=ignore_delta):
        on_delta(RetryWait(1.0, "busy"))
        for _ in range(self._times):
            on_delta(TextDelta("he"))
            on_delta(StreamReset("it broke"))
        on_delta(TextDelta("he"))
        if not self._answers:
            raise ModelError("It broke.", "Try again.", transient=True)
        usage = Usage(input_tokens=10, cost_usd=0.25, requests=1)
        return Reply(message=AssistantMessage((Text("here"),)), usage=usage, stop="end")


async def test_a_reply_that_broke_off_is_paid_for():
    """BX-11: a provider bills a stream that broke, so its reservation counts as spent."""
    budget, history = FakeBudget(), MemoryHistory()
    finish = await agent(Breaking(2, answers=True), budget=budget, history=history).turn("go")
    [(_, settled)] = budget.settled
    assert (
        settled
        == finish.usage
        == history.usage
        == Usage(input_tokens=30, cost_usd=1.25, requests=1, estimated_tokens=20)
    )


async def test_a_started_request_is_paid_for_even_without_a_reply():
    """BX-11."""
    budget = FakeBudget()
    worker = agent(Breaking(1, answers=False), budget=budget)
    with pytest.raises(ModelError, match="It broke"):
        await worker.turn("go")
    [(_, settled)] = budget.settled
    assert settled == worker.usage == Usage(input_tokens=20, cost_usd=1.0, estimated_tokens=20)


class Arriving:
    """Incoming messages by the number of the poll before a request; kept until they are taken."""

    def __init__(self, **words):
        self._due = {int(look.removeprefix("look_")): text for look, text in words.items()}
        self._looks = 0
        self.waiting = []
        self.taken = []

    def peek(self):
        self._looks += 1
        if self._looks in self._due:
            self.waiting.append(Text(self._due.pop(self._looks)))
        return tuple(self.waiting)

    def take(self):
        self.taken += self.waiting
        self.waiting = []


async def test_messages_that_arrive_during_a_turn_come_before_its_next_request():
    """RA-12: messages wake and reach a loop that is at work."""
    model = RecordingModel(cassette_model(call_entry(1, ("echo", {"text": "a"})), call_entry(2, text="seen")))
    news, history = Arriving(look_2="a message"), MemoryHistory()
    await agent(model, ECHO, incoming=news, history=history).turn("go")
    assert model.requests[1].messages[-1].parts[-1] == Text("a message")
    assert news.taken == [Text("a message")]
    assert UserMessage((Text("a message"),)) in history.messages


async def test_a_turn_started_by_messages_adds_no_prompt_and_counts_towards_the_limit():
    """RA-12: a waiting loop is woken by a message, and the turn limit of a task applies to it, too."""
    model = RecordingModel(
        cassette_model(call_entry(1, text="waiting"), call_entry(2, text="woken"), call_entry(3, text="too far"))
    )
    worker = agent(model, incoming=Arriving(look_2="it ended", look_3="another"), max_requests=2)
    await worker.turn("go")
    assert (await worker.turn(())).text == "woken"
    assert model.requests[1].messages[-1] == UserMessage((Text("it ended"),))
    with pytest.raises(TurnLimitExceeded):
        await worker.turn(())
    model = RecordingModel(cassette_model(*(call_entry(turn, text=str(turn)) for turn in (1, 2))))
    worker = agent(model, max_requests=1)
    await worker.turn("one")
    assert (await worker.turn("two")).text == "2"


class Counting:
    """A context that counts how often it was renewed."""

    renewals = 0

    def text(self):
        return f"renewed {self.renewals} times"

    def reminder(self):
        return ""

    def renew(self):
        self.renewals += 1


async def test_the_context_changes_only_when_the_conversation_is_compacted():
    """RA-3, RA-10: cached prefixes stay valid; changes are taken in when nothing is cached any more."""
    model = RecordingModel(cassette_model(*(call_entry(turn, text="word " * 2000) for turn in (1, 2, 3))))
    worker = agent(model, context=Counting())
    await worker.turn("one")
    await worker.turn("two")
    assert await worker.compact()
    await worker.turn("three")
    assert [request.context for request in model.requests] == ["renewed 0 times"] * 2 + ["renewed 1 times"]
