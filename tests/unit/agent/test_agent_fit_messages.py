import pytest
from inline_snapshot import snapshot

from fakes import JournalList, MemoryHistory, RecordingModel, ScriptedModel, agent, cassette_model, text_reply
from scaffold.agent.context.compaction import fit_messages
from scaffold.agent.context.conversation_window import Conversation
from scaffold.agent.context.text_size import message_size
from scaffold.core.conversation import NO_IMAGE, AssistantMessage, Image, Text, Thinking, ToolCall, UserMessage
from scaffold.core.errors import ContextOverflow
from scaffold.llm.cassette_model import CassetteEntry


def long_talk(turns, length=2_000):
    said = []
    for number in range(turns):
        said += [
            UserMessage((Text(f"request {number} " + "x" * length),)),
            AssistantMessage((Text(f"reply {number}"),)),
        ]
    return Conversation(said)


async def test_a_conversation_is_compacted_at_four_fifths_of_the_window_and_not_before():
    """RA-10: at 80% of the window it shrinks to 50%."""
    window = 10_000
    talk = long_talk(15)
    assert talk.size == pytest.approx(30_000, rel=0.02)
    below = RecordingModel(cassette_model(CassetteEntry(text="fine")), window_tokens=window)
    await agent(below, conversation=talk).turn("go")
    assert len(below.requests[0].messages) == 31

    history, journal = MemoryHistory(), JournalList()
    above = RecordingModel(cassette_model(CassetteEntry(text="fine")), window_tokens=window)
    talk = long_talk(17)
    for message in talk.kept:
        history.add(message)
    await agent(above, conversation=talk, history=history, journal=journal).turn("go")
    [(kept, summary, _)] = history.compactions
    shown = above.requests[0].messages
    assert sum(map(message_size, shown)) <= 4 * window / 2
    assert shown[-1] == UserMessage((Text("go"),))
    assert "- user: request 0 xxx" in shown[0].parts[0].text
    assert kept < 35
    assert summary in shown[0].parts[0].text
    assert history.loaded().shown()[:-1] == shown
    assert [entry["type"] for entry in journal.entries] == ["prompt", "notice", "text", "usage"]


async def test_a_single_message_that_is_too_long_loses_its_middle_with_a_notice():
    """RA-10."""
    journal = JournalList()
    model = RecordingModel(cassette_model(CassetteEntry(text="fine")), window_tokens=8_000)
    await agent(model, journal=journal).turn("begin " + "x" * 5_000_000 + " end")
    [message] = model.requests[0].messages
    assert message_size(message) <= 16_000
    words = message.parts[0].text
    assert (words[:5], words[-3:], "bytes omitted" in words) == ("begin", "end", True)
    [notice] = [entry["text"] for entry in journal.entries if entry["type"] == "notice"]
    assert notice == snapshot("the conversation was shortened: its longest texts were cut")


async def test_an_unknown_window_is_never_full():
    model = RecordingModel(cassette_model(CassetteEntry(text="fine")))
    await agent(model, conversation=long_talk(200)).turn("go")
    assert len(model.requests[0].messages) == 401


async def test_the_estimate_is_corrected_by_the_tokens_a_reply_reports():
    """RA-10: a model that counts three tokens for each of ours is full three times as early."""
    history = MemoryHistory()
    inner = ScriptedModel(text_reply(Text("one"), input_tokens=6_000), text_reply(Text("two"), input_tokens=100))
    model = RecordingModel(inner, window_tokens=10_000)
    worker = agent(model, conversation=long_talk(4), history=history)
    await worker.turn("go")
    assert history.compactions == []
    await worker.turn("go " + "y" * 4_000)
    assert len(history.compactions) == 1


async def test_a_request_that_overflows_is_compacted_and_retried():
    """RA-10, RA-21."""
    history = MemoryHistory()
    model = RecordingModel(ScriptedModel(ContextOverflow("too long", "shorten it"), text_reply(Text("ok"))))
    worker = agent(model, conversation=long_talk(10), history=history)
    assert (await worker.turn("go")).text == "ok"
    first, second = model.requests
    assert sum(map(message_size, second.messages)) <= sum(map(message_size, first.messages)) / 2
    assert second.messages[-1] == UserMessage((Text("go"),))
    assert first.caller == second.caller
    assert len(history.compactions) == 1


async def test_it_is_shortened_as_long_as_that_helps():
    """RA-10, RA-21, SC-14: a small window of which only the server knows; an overflow that stays is reported."""
    model = RecordingModel(ScriptedModel(*[ContextOverflow("too long", "a")] * 3, text_reply(Text("ok"))))
    assert (await agent(model, conversation=long_talk(100)).turn("go")).text == "ok"
    never = RecordingModel(ScriptedModel(*[ContextOverflow(f"too long {n}", "b") for n in range(50)]))
    with pytest.raises(ContextOverflow):
        await agent(never, conversation=long_talk(100)).turn("go")
    sizes = [sum(map(message_size, request.messages)) for request in never.requests]
    assert sizes == sorted(set(sizes), reverse=True)
    assert len(sizes) < 20


async def test_an_overflow_that_compaction_cannot_fix_is_not_retried():
    model = RecordingModel(ScriptedModel(ContextOverflow("too long", "use another model")))
    with pytest.raises(ContextOverflow):
        await agent(model).turn("go")
    assert len(model.requests) == 1


@pytest.mark.parametrize("window_tokens", [None, 8_000])
async def test_a_prompt_that_must_arrive_whole_is_never_cut(window_tokens):
    """SC-14: an agent that sees half of its task would do something else; the turn fails instead."""
    model = RecordingModel(ScriptedModel(ContextOverflow("too long", "b")), window_tokens=window_tokens)
    prompt = "begin " + "x" * 5_000_000 + " end"
    with pytest.raises(ContextOverflow):
        await agent(model, whole_prompt=True).turn(prompt)
    assert [request.messages for request in model.requests] == [(UserMessage((Text(prompt),)),)]


async def test_after_its_first_reply_such_a_conversation_is_shortened_like_others():
    """RA-10, SC-14."""
    calls = ScriptedModel(text_reply(Text("one")), ContextOverflow("too long", "b"), text_reply(Text("two")))
    model = RecordingModel(calls)
    worker = agent(model, whole_prompt=True)
    await worker.turn("begin")
    assert (await worker.turn("x" * 100_000)).text == "two"


def test_long_arguments_are_cut_at_any_depth_and_stay_valid_arguments():
    """RA-10: a call that wrote a long file is still a call."""
    args = {"path": "a", "edits": [{"text": "x" * 50_000, "line": 3}], "more": {"deep": ("y" * 50_000,)}, "force": True}
    [message] = fit_messages(
        [AssistantMessage((Thinking("t" * 100, signature="s"), ToolCall("1", "edit", args)))], 4_000
    )
    assert message_size(message) <= 4_000
    thought, call = message.parts
    assert thought.text == "t" * 100
    assert (call.args["path"], call.args["force"], call.args["edits"][0]["line"]) == ("a", True, 3)
    assert call.args["edits"][0]["text"].startswith("xxx")
    assert "bytes omitted" in call.args["more"]["deep"][0]


def test_images_are_dropped_before_text():
    """RA-10: if they leave too little room for anything else."""
    picture = Image("image/png", b"png")
    messages = [UserMessage((Text("look"), picture, picture)), AssistantMessage((Text("I see."),))]
    assert fit_messages(messages, 12_100) == tuple(messages)
    assert fit_messages(messages, 12_000) == (UserMessage((Text("look"), Text(NO_IMAGE), Text(NO_IMAGE))), messages[1])
