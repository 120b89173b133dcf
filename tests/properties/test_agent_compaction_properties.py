"""RA-10: whatever the conversation, its compaction can be sent, and fits."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from scaffold.agent.context.call_summary import NO_EFFECTS, ToolEffects
from scaffold.agent.context.compaction import MIN_LIMIT, compact_messages, fit_messages
from scaffold.agent.context.conversation_window import Conversation
from scaffold.agent.context.rolling_summary import ENTRY_KINDS, SummaryEntry, extend_summary, summary_entries
from scaffold.agent.context.text_size import cut_middle, message_size, text_size
from scaffold.core.conversation import AssistantMessage, Image, Text, ToolCall, ToolResult, UserMessage

WORDS = st.sampled_from(
    ("w", "fix it", "a\nb", "é漢\n\n", "w\n- user: not me", "w\n  - tool: x", "- left out: 3", "\nq ", "z" * 90)
)
LONG = st.builds(lambda words, times: words * times, WORDS, st.sampled_from((1, 2, 30, 400, 2_000)))
IMAGE = Image("image/png", b"\x89PNG")


@st.composite
def steps(draw):
    """One reply that calls tools, and their results."""
    count = draw(st.integers(1, 3))
    number = draw(st.integers(0, 10**9))
    ids = [f"c{number}-{index}" for index in range(count)]
    calls = tuple(ToolCall(call_id, "shell", {"command": draw(LONG), "timeout_s": 3}) for call_id in ids)
    results = tuple(ToolResult(call_id, "shell", draw(LONG), draw(st.booleans())) for call_id in ids)
    words = (Text(draw(WORDS)),) if draw(st.booleans()) else ()
    return [AssistantMessage((*words, *calls)), UserMessage(results)]


@st.composite
def turns(draw):
    """A user message, any number of steps, and mostly a final reply."""
    images = (IMAGE,) * draw(st.integers(0, 3))
    said = [UserMessage((Text(draw(LONG)), *images))]
    said += [message for step in draw(st.lists(steps(), max_size=4)) for message in step]
    return [*said, AssistantMessage((Text(draw(LONG)),))] if draw(st.integers(0, 3)) else said


CONVERSATIONS = st.lists(turns(), min_size=1, max_size=5).map(lambda all_turns: [m for turn in all_turns for m in turn])
EFFECTS = st.sampled_from(
    (NO_EFFECTS, ToolEffects(reading=frozenset({"shell"})), ToolEffects(writing=frozenset({"shell"})))
)
LIMITS = st.integers(MIN_LIMIT, 60_000)


def checked(shown):
    """Return the messages after checking that a wire accepts them: alternating roles, a result for each call."""
    assert isinstance(shown[0], UserMessage)
    for before, after in pairwise(shown):
        assert type(before) is not type(after)
        results = [part.call_id for part in after.parts if isinstance(part, ToolResult)]
        calls = [call.id for call in before.tool_calls] if isinstance(before, AssistantMessage) else []
        assert results == calls
    assert not any(isinstance(part, ToolResult) for part in shown[0].parts)
    return shown


@given(CONVERSATIONS, LIMITS, EFFECTS)
def test_a_compacted_conversation_fits_and_can_be_sent(messages, limit, effects):
    """RA-10."""
    conversation = Conversation(messages)
    last = messages[-1]
    conversation.compact(limit, effects)
    shown = checked(conversation.shown())
    assert sum(map(message_size, shown)) == conversation.size
    overhead = sum(60 for message in conversation.kept for _ in message.parts)
    assert conversation.size <= max(limit, overhead)
    assert type(shown[-1]) is type(last)


@given(CONVERSATIONS, LIMITS)
def test_a_fitting_conversation_is_unchanged(messages, limit):
    """RA-10: compacting twice is compacting once."""
    conversation = Conversation(messages)
    conversation.compact(limit)
    once = conversation.shown()
    assert conversation.compact(max(limit, conversation.size)) is None
    assert conversation.shown() == once


@given(CONVERSATIONS, LIMITS, EFFECTS)
def test_the_end_is_kept_and_the_rest_is_counted(messages, limit, effects):
    after = compact_messages(messages, "", limit, effects)
    assert after.dropped + len(after.kept) == len(messages)
    assert [type(message) for message in after.kept] == [type(message) for message in messages[after.dropped :]]
    assert bool(after.summary) == bool(after.dropped)
    assert text_size(after.summary) <= limit // 4
    exact = compact_messages(messages, "", max(sum(map(message_size, messages)), MIN_LIMIT), effects)
    assert exact.kept == tuple(messages)


@given(st.lists(CONVERSATIONS, min_size=2, max_size=4), st.integers(600, 30_000), EFFECTS)
def test_a_summary_of_summaries_stays_bounded_and_keeps_the_first_request(parts, limit, effects):
    """RA-10: rolling."""
    summary = ""
    for messages in parts:
        summary = extend_summary(summary, messages, limit, effects)
        assert text_size(summary) <= limit
        assert extend_summary(summary, [], limit) == summary
    first, again = summary_entries("", parts[0])[0], summary_entries(summary, [])[0]
    assert again.kind == "user"
    assert again.text.split()[0][:3] == first.text.split()[0][:3]


@given(st.lists(LONG, min_size=1, max_size=6), st.integers(200, 5_000))
def test_the_longest_texts_are_cut_first(texts, limit):
    messages = [UserMessage(tuple(Text(text) for text in texts))]
    [after] = fit_messages(messages, limit)
    assert message_size(after) <= limit
    cut = [text_size(old) for old, new in zip(texts, after.parts, strict=True) if old != new.text]
    whole = [text_size(old) for old, new in zip(texts, after.parts, strict=True) if old == new.text]
    assert not cut or max(whole, default=0) <= min(cut)
    assert not cut or message_size(after) >= limit - 20 * len(texts), "the room there is is used"


@given(LONG, st.sampled_from(ENTRY_KINDS), st.integers(20, 3_000))
def test_an_entry_stays_within_its_bound(text, kind, limit):
    entry = SummaryEntry(kind, text)
    short = entry.within(limit)
    assert text_size(str(short)) <= limit
    assert (short == entry) == (text_size(str(entry)) <= limit)


@given(LONG, st.integers(0, 3_000))
def test_a_shortened_text_stays_within_its_bound(text, limit):
    short = cut_middle(text, limit)
    assert text_size(short) <= limit
    assert (short == text) == (text_size(text) <= limit)
