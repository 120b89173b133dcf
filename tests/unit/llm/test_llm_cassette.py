import asyncio
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from scaffold.core.conversation import (
    AssistantMessage,
    Caller,
    Image,
    Request,
    Text,
    TextDelta,
    Thinking,
    ThinkingDelta,
    ToolCall,
    ToolCallDelta,
    ToolResult,
    UserMessage,
)
from scaffold.core.errors import ContextOverflow, ModelError
from scaffold.core.model import Usage
from scaffold.llm.cassette_model import (
    NON_WORKER_ROLES,
    Cassette,
    CassetteEntry,
    CassetteFault,
    CassetteModel,
    CassettePrices,
    CassetteToolCall,
    CassetteUsage,
    RequestMatcher,
)


def request(role="implementation", *, said="go", **caller):
    return Request(caller=Caller(role=role, **caller), system="", messages=(UserMessage((Text(said),)),))


def model(*entries, prices=None):
    return CassetteModel(
        Cassette(
            path=Path("tape.yaml"),
            digest="",
            entries=entries,
            prices=prices if prices is not None else CassettePrices(),
        )
    )


async def answer(asked, *entries):
    reply = await model(*entries).reply(asked)
    return reply.message.text


async def test_the_first_matching_entry_answers_deterministically():
    """BX-14."""
    tape = model(
        CassetteEntry(when=RequestMatcher(turn=2), text="second turn"),
        CassetteEntry(when=RequestMatcher(action="a"), text="a"),
        CassetteEntry(text="rest"),
    )
    asked = [request(action="a", turn=1), request(action="a", turn=2), request(action="b"), request(action="a", turn=1)]
    replies = [await tape.reply(one) for one in asked]
    assert [reply.message.text for reply in replies] == ["a", "second turn", "rest", "a"]
    assert replies[0] == replies[3]


def test_every_given_condition_must_match():
    rows = [
        (RequestMatcher(role="implementation"), True),
        (RequestMatcher(role="testing"), False),
        (RequestMatcher(action="store"), True),
        (RequestMatcher(action="api"), False),
        (RequestMatcher(attempt=2), True),
        (RequestMatcher(attempt=1), False),
        (RequestMatcher(turn=3), True),
        (RequestMatcher(turn=1), False),
        (RequestMatcher(event="judge"), True),
        (RequestMatcher(event="replan"), False),
        (RequestMatcher(contains=r"^fail\w+: 2$"), True),
        (RequestMatcher(contains="passed"), False),
        (RequestMatcher(role="implementation", action="store", attempt=2, turn=3, event="judge", contains="2"), True),
        (RequestMatcher(role="implementation", action="store", attempt=2, turn=4), False),
    ]
    asked = request(action="store", attempt=2, turn=3, event="judge", said="failed: 2")
    assert [(when, when.fits(asked)) for when, _ in rows] == rows


def test_an_entry_without_a_role_answers_every_worker_and_planners_only_without_conditions():
    for role in NON_WORKER_ROLES:
        assert not RequestMatcher(turn=1).fits(request(role)), role
        assert RequestMatcher().fits(request(role)), role
        assert RequestMatcher(role=role, turn=1).fits(request(role)), role
    assert RequestMatcher(turn=1).fits(request("implementation"))
    assert RequestMatcher(turn=1).fits(request("story_step_of_any_name"))


def test_contains_searches_only_the_last_message_and_its_tool_results():
    messages = (
        UserMessage((Text("the first words"),)),
        AssistantMessage((ToolCall("1", "shell", {}),)),
        UserMessage((ToolResult("1", "shell", "exit code 3"), Image("image/png", b"x"))),
        AssistantMessage((Text("I said that"),)),
    )

    def found(words, count):
        asked = Request(caller=Caller(role="testing"), system="", messages=messages[:count])
        return RequestMatcher(contains=words).fits(asked)

    assert [found("code 3", 3), found("first words", 3), found("png", 3)] == [True, False, False]
    assert [found("I said", 0), found("I said", 4)] == [False, True]


async def test_a_reply_consists_of_thinking_text_and_calls_with_new_ids():
    entry = CassetteEntry(
        thinking="hm",
        text="I write.",
        tool_calls=(CassetteToolCall("write_file", {"path": "a"}), CassetteToolCall("shell", {"command": "ls"})),
    )
    reply = await model(entry).reply(request(turn=4))
    assert reply.message.parts == (
        Thinking("hm"),
        Text("I write."),
        ToolCall("call-4-1", "write_file", {"path": "a"}),
        ToolCall("call-4-2", "shell", {"command": "ls"}),
    )
    assert reply.stop == "tool_calls"


async def test_a_reply_without_calls_ends_the_turn_and_is_free_by_default():
    reply = await model(CassetteEntry(text="done")).reply(request())
    assert reply.stop == "end"
    assert reply.usage == Usage(requests=1)


async def test_cached_input_has_its_own_price_or_else_the_input_price():
    usage = CassetteUsage(input_tokens=1_000_000, cached_input_tokens=300_000, output_tokens=100_000)
    for cached_price, cost in [(0.3, 2.1 + 0.09 + 1.5), (None, 3.0 + 1.5)]:
        prices = CassettePrices(input_per_mtok=3.0, cached_input_per_mtok=cached_price, output_per_mtok=15.0)
        found = (await model(CassetteEntry(usage=usage), prices=prices).reply(request())).usage
        assert found.cost_usd == pytest.approx(cost), cached_price
        assert (found.input_tokens, found.cached_input_tokens) == (1_000_000, 300_000)


async def test_an_unmatched_request_error_shows_the_entry_it_needs():
    asked = request("code_review", action="review", attempt=2, turn=3)
    with pytest.raises(ModelError) as caught:
        await answer(asked, CassetteEntry(when=RequestMatcher(role="planner")))
    assert caught.value.what == snapshot(
        "the cassette tape.yaml has no reply for this request: role code_review, action review, attempt 2, turn 3"
    )
    assert "`- when: {role: code_review, action: review, attempt: 2, turn: 3}`" in caught.value.fix
    assert not caught.value.transient


async def test_a_fault_has_the_given_severity():
    """RA-21: errors are classified."""
    rows = [
        *((CassetteFault(kind="http", status=status), True) for status in (529, 500, 429, 409, 408)),
        *((CassetteFault(kind="http", status=status), False) for status in (401, 400)),
        *((CassetteFault(kind=kind), True) for kind in ("drop", "garbage")),
    ]
    for fault, transient in rows:
        with pytest.raises(ModelError) as caught:
            await answer(request(), CassetteEntry(fault=fault, text="fine"))
        assert caught.value.transient is transient, fault


async def test_a_request_that_is_too_long_can_be_scripted():
    """SC-14: status 413 means for every provider that the request exceeds the window."""
    with pytest.raises(ContextOverflow):
        await answer(request(), CassetteEntry(fault=CassetteFault(kind="http", status=413), text="fine"))


async def test_a_fault_repeats_as_configured_and_then_the_reply_comes():
    tape = model(CassetteEntry(fault=CassetteFault(kind="drop", times=2), text="fine"))
    for number in (1, 2):
        with pytest.raises(ModelError):
            await tape.attempt(request(), number)
    reply = await tape.attempt(request(), 3)
    assert reply.message.text == "fine"


async def test_a_hang_lasts_until_it_is_cancelled():
    asking = asyncio.create_task(answer(request(), CassetteEntry(fault=CassetteFault(kind="hang"), text="fine")))
    for _ in range(20):
        await asyncio.sleep(0)
    assert not asking.done()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking


async def test_a_hang_ends_after_its_configured_silence():
    tape = model(CassetteEntry(fault=CassetteFault(kind="hang"), text="fine"))
    with pytest.raises(ModelError) as caught:
        await tape.attempt(request(), 1, silence_s=0.01)
    assert caught.value.transient
    reply = await tape.attempt(request(), 2, silence_s=0.01)
    assert reply.message.text == "fine"


async def test_each_part_of_a_reply_is_streamed_once():
    """RA-2."""
    heard = []
    calls = (CassetteToolCall("shell", {"command": "ls"}), CassetteToolCall("list_dir"))
    await model(CassetteEntry(thinking="hm", text="I look.", tool_calls=calls)).reply(request(), heard.append)
    assert heard == [
        ThinkingDelta("hm"),
        TextDelta("I look."),
        ToolCallDelta(0, "shell", '{"command":"ls"}'),
        ToolCallDelta(1, "list_dir", "{}"),
    ]


async def test_the_usage_of_a_request_can_be_estimated_beforehand():
    """BX-11."""
    tape = model(
        CassetteEntry(when=RequestMatcher(action="a"), usage=CassetteUsage(input_tokens=1_000_000, output_tokens=9)),
        prices=CassettePrices(input_per_mtok=3.0),
    )
    reply = await tape.reply(request(action="a"))
    assert tape.estimate(request(action="a")) == reply.usage
    assert tape.estimate(request(action="b")) == Usage()
    assert tape.window_tokens is None


async def test_a_reply_that_says_nothing_of_its_usage_is_estimated():
    """AL-21: `usage: null`; without the key it used nothing."""
    tape = model(CassetteEntry(text="word " * 40, usage=None), prices=CassettePrices(output_per_mtok=1.0))
    usage = (await tape.reply(request(action="a"))).usage
    assert usage.output_tokens == 50
    assert usage.estimated_tokens == usage.counted_tokens > usage.output_tokens
    assert usage.cost_usd > 0
    assert (await model(CassetteEntry(text="word")).reply(request(action="a"))).usage.counted_tokens == 0
