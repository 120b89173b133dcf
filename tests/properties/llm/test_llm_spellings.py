"""The same conversation, spelled in any of the ways that servers have, gives the same deltas and the same reply.

A row of a table is what one server does to a sentence of the specification, with the report of a user of another tool.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise, zip_longest
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from properties.llm.openai_client import TARGET, args, names, said, split
from scaffold.core.conversation import Delta, TextDelta, ThinkingDelta, ToolCallDelta
from scaffold.llm.wire.anthropic import AnthropicCodec
from scaffold.llm.wire.chat_completions import ChatCodec
from scaffold.llm.wire.codec import Codec, WireReply
from scaffold.llm.wire.responses import ResponsesCodec
from scaffold.llm.wire.sse import SseDecoder
from support.property_examples import up_to

Json = dict[str, Any]
Call = tuple[str, Json, list[str]]
"""A name, the arguments, and how their JSON is cut."""
MANY = settings(max_examples=up_to(150))


class Turn:
    """What a model said: pieces of a thought, of a text, and calls."""

    def __init__(self, thought: list[str], text: list[str], calls: list[Call]) -> None:
        self.thought, self.text, self.calls = thought, text, calls

    def meant(self) -> tuple[object, ...]:
        """Return the deltas, the reply and its usage, as they should be read."""
        calls = [(name, arguments) for name, arguments, _ in self.calls]
        return "".join(self.thought), "".join(self.text), calls, "tool_calls" if calls else "end", (9, 4, 2)


@st.composite
def turns(draw: st.DrawFn) -> Turn:
    """Draw a turn with some output; no two of its calls are equal."""
    made = draw(st.lists(st.tuples(names, args), max_size=3, unique_by=json.dumps))
    calls = [(name, arguments, draw(split(json.dumps(arguments)))) for name, arguments in made]
    calls = [(name, arguments, [piece for piece in pieces if piece]) for name, arguments, pieces in calls]
    thought, text = (draw(split(draw(said))) for _ in range(2))
    return Turn([each for each in thought if each], [each for each in text if each], calls)


# Chat Completions

THOUGHTS: dict[str, Callable[[str], Json]] = {
    "reasoning_content, DeepSeek": lambda text: {"reasoning_content": text},
    "reasoning, vLLM": lambda text: {"reasoning": text},
    "reasoning_text, Copilot": lambda text: {"reasoning_text": text},
    "an object, mlx-lm": lambda text: {"reasoning": {"text": text}},
    "details only, OpenRouter": lambda text: {
        "reasoning_details": [{"type": "reasoning.text", "text": text, "index": 0}]
    },
    "both, OpenRouter": lambda text: {
        "reasoning": text,
        "reasoning_details": [{"type": "reasoning.text", "text": text, "index": 0}],
    },
    "parts of the content, ruby_llm#420": lambda text: {
        "content": [{"type": "thinking", "thinking": [{"type": "text", "text": text}]}]
    },
}
TEXTS: dict[str, Callable[[str], object]] = {
    "a text": lambda text: text,
    "a list of parts, big-AGI#873": lambda text: [{"type": "text", "text": text}],
    "a value in a part": lambda text: [{"type": "text", "text": {"value": text}}, {"type": "reference", "ids": [1]}],
}


def piece(index: object, own: str | None, name: str | None, words: object) -> Json:
    """Return a piece of a call; None leaves a field out."""
    function = {key: value for key, value in (("name", name), ("arguments", words)) if value is not None}
    fields = {key: value for key, value in (("index", index), ("id", own)) if value is not None}
    return {"tool_calls": [{**fields, "type": "function", "function": function}]}


def calls_of(
    turn: Turn, numbered: Callable[[int], object], later: Callable[[int, int], tuple[str | None, bool]]
) -> list[Json]:
    """Return the pieces of the calls; `later` gives the id of a later piece, and whether it repeats the name."""
    pieces = []
    for number, (name, _, (first, *more)) in enumerate(turn.calls):
        pieces.append(piece(numbered(number), f"call_{number}", name, first))
        for place, words in enumerate(more):
            own, named = later(number, place)
            pieces.append(piece(numbered(number), own, name if named else None, words))
    return pieces


def heads_first(turn: Turn, numbered: Callable[[int], object], *, own: bool = True, start: str = "") -> list[Json]:
    """Return the pieces of the calls, the names in pieces of their own."""
    pieces = []
    for number, (name, _, words) in enumerate(turn.calls):
        mine = f"call_{number}" if own else None
        pieces.append(piece(numbered(number), mine, name, start))
        pieces += [piece(numbered(number), None, None, each) for each in words]
    return pieces


def interleaved(turn: Turn) -> list[Json]:
    """Return the pieces of the calls, one of each in turn."""
    queues = [
        heads_first(Turn([], [], [call]), lambda _, number=number: number) for number, call in enumerate(turn.calls)
    ]
    for number, queue in enumerate(queues):
        queue[0]["tool_calls"][0]["id"] = f"call_{number}"
    return [each for row in zip_longest(*queues) for each in row if each]


def repeated(turn: Turn, *, arguments: bool) -> list[Json]:
    pieces = heads_first(turn, lambda number: number)
    for number, (name, _, words) in enumerate(turn.calls):
        pieces.append(piece(number, f"call_{number}", name, "".join(words) if arguments else ""))
    return pieces


CALLS: dict[str, Callable[[Turn], list[Json]]] = {
    "as specified": lambda turn: heads_first(turn, lambda number: number),
    "the name with the first arguments": lambda turn: calls_of(turn, lambda number: number, lambda *_: (None, False)),
    "index as a text, vllm": lambda turn: heads_first(turn, str),
    "the first index is 1, litellm#11407": lambda turn: heads_first(turn, lambda number: number + 1),
    "no index, term-llm#314": lambda turn: heads_first(turn, lambda number: None),
    "one index for all, ollama#15457": lambda turn: heads_first(turn, lambda number: 0),
    "interleaved": interleaved,
    "id in each piece, langchain4j#4544": lambda turn: calls_of(turn, lambda n: n, lambda n, _: (f"call_{n}", False)),
    "id and name in each piece, DeepSeek": lambda turn: calls_of(turn, lambda n: n, lambda n, _: (f"call_{n}", True)),
    "a new id in each piece, mlx-openai-server#216": lambda turn: calls_of(
        turn, lambda n: n, lambda n, at: (f"x{n}_{at}", False)
    ),
    "a new id and the name in each, vllm#23522": lambda turn: calls_of(
        turn, lambda n: 0, lambda n, at: (f"x{n}_{at}", True)
    ),
    "no ids, vllm#18412": lambda turn: heads_first(turn, lambda number: number, own=False),
    "an empty object first": lambda turn: heads_first(turn, lambda number: number, start="{}"),
    "null first": lambda turn: heads_first(turn, lambda number: number, start="null"),
    "each call repeated without its arguments, vllm": lambda turn: repeated(turn, arguments=False),
    "each call repeated whole": lambda turn: repeated(turn, arguments=True),
    "arguments as an object, Ollama": lambda turn: [
        piece(number, f"call_{number}", name, arguments) for number, (name, arguments, _) in enumerate(turn.calls)
    ],
    "an empty name first, vmlx#244": lambda turn: [
        each
        for number, (name, _, words) in enumerate(turn.calls)
        for each in (piece(number, f"c{number}", "", ""), piece(number, f"c{number}", name, "".join(words)))
    ],
    "all in one piece": lambda turn: [
        {"tool_calls": [each["tool_calls"][0] for each in CALLS["no index, whole"](turn)]}
    ],
    "no index, whole": lambda turn: [
        piece(None, f"call_{number}", name, "".join(words)) for number, (name, _, words) in enumerate(turn.calls)
    ],
    "empty pieces between, vmlx#219": lambda turn: [
        {"tool_calls": []},
        *heads_first(turn, lambda n: n),
        {"tool_calls": None},
    ],
}
# How a reply ends: the finish reasons of its last chunks.
ENDS: dict[str, list[object]] = {
    "as specified": [None, "CALLS"],
    "stop for calls, Gemini": ["stop"],
    "capitals, Gemini": ["STOP"],
    "an enumeration": ["FinishReason.STOP"],
    "an empty text first, ollama#4357": ["", "stop"],
    "eos, openai-dotnet#267": ["eos"],
    "end, pi#2107": ["end"],
    "names of another wire": ["end_turn"],
    "names of another wire for calls": ["tool_use"],
    "twice": ["CALLS", "CALLS"],
    "none before [DONE]": [None],
}
USAGES: dict[str, list[Json]] = {
    "as specified": [
        {
            "choices": [],
            "usage": {
                "prompt_tokens": 9,
                "completion_tokens": 4,
                "total_tokens": 13,
                "prompt_tokens_details": {"cached_tokens": 2},
            },
        }
    ],
    "in the choice, Moonshot": [
        {
            "choices": [
                {"index": 0, "delta": {}, "usage": {"prompt_tokens": 9, "completion_tokens": 4, "cached_tokens": 2}}
            ]
        }
    ],
    "in a field of its own, Groq": [
        {
            "choices": [],
            "x_groq": {
                "usage": {"prompt_tokens": 9, "completion_tokens": 4, "prompt_tokens_details": {"cached_tokens": 2}}
            },
        }
    ],
    "numbers as texts": [
        {"choices": [], "usage": {"prompt_tokens": "9", "completion_tokens": "4", "prompt_cache_hit_tokens": 2.0}}
    ],
    "corrected to 0": [
        {
            "choices": [],
            "usage": {"prompt_tokens": 9, "completion_tokens": 4, "prompt_tokens_details": {"cached_tokens": 2}},
        },
        {
            "choices": [],
            "usage": {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0, "prompt_tokens_details": None},
        },
    ],
    "names of another wire": [
        {"usage": {"input_tokens": 9, "output_tokens": 4, "input_tokens_details": {"cached_tokens": 2}}}
    ],
}
NOISE: dict[str, object] = {
    "choices null": {"id": "c", "choices": None},
    "filter results, Azure": {"id": "", "choices": [], "prompt_filter_results": []},
    "a null chunk, pi#2466": None,
    "other fields": {
        "object": "chat.completion.chunk",
        "created": 1.5,
        "x": {"y": [1]},
        "choices": [{"index": "0", "logprobs": {"p": 1}}],
    },
    "delta null": {"choices": [{"index": 0, "delta": None}]},
    "another choice": {"choices": [{"index": 7, "delta": {"content": "other"}, "finish_reason": "length"}]},
}


@st.composite
def chat_streams(draw: st.DrawFn, turn: Turn) -> list[object]:
    """Draw a spelling of the turn as chunks, then `[DONE]`."""
    thought, text, calls, end, usage = (
        draw(st.sampled_from(sorted(table))) for table in (THOUGHTS, TEXTS, CALLS, ENDS, USAGES)
    )
    deltas = [{"role": "assistant", "content": ""}]
    deltas += [THOUGHTS[thought](each) for each in turn.thought]
    deltas += [{"content": TEXTS[text](each)} for each in turn.text]
    deltas += CALLS[calls](turn)
    index = draw(st.sampled_from([{"index": 0}, {"index": "0"}, {}]))
    chunks: list[object] = [{"id": "c1", "choices": [{**index, "delta": delta}]} for delta in deltas]
    for place in sorted(draw(st.lists(st.integers(1, len(chunks)), max_size=2)), reverse=True):
        chunks.insert(place, NOISE[draw(st.sampled_from(sorted(NOISE)))])
    finish = "tool_calls" if turn.calls else "stop"
    chunks += [
        {
            "choices": [
                {
                    "index": 0,
                    "delta": draw(st.sampled_from([{}, None])),
                    "finish_reason": finish if reason == "CALLS" else reason,
                }
            ]
        }
        for reason in ENDS[end]
    ]
    chunks += USAGES[usage]
    if draw(st.booleans()):
        # A whole message at the end, as Perplexity has it.
        chunks.append({"choices": [{"index": 0, "message": {"content": "".join(turn.text)}}]})
    done = [] if end != "none before [DONE]" and draw(st.booleans()) else ["[DONE]"]
    return [*chunks, *done]


# Messages


def message_events(turn: Turn, *, indexes: str, starts: bool, inputs: str) -> Iterator[Json]:
    """Yield the events of the blocks of the turn."""
    blocks: list[tuple[Json, str, str, list[str]]] = [
        ({"type": "thinking", "thinking": ""}, "thinking_delta", "thinking", turn.thought),
        ({"type": "text", "text": ""}, "text_delta", "text", turn.text),
    ]
    for number, (name, arguments, words) in enumerate(turn.calls):
        block = {
            "type": "tool_use",
            "id": f"toolu_{number}",
            "name": name,
            "input": arguments if inputs in {"start", "both"} else {},
        }
        pieces = {"start": [], "an empty object": ["{}", *words], "twice": [*words, "".join(words)]}.get(inputs, words)
        blocks.append((block, "input_json_delta", "partial_json", pieces))
    for number, (block, kind, field, pieces) in enumerate(blocks):
        index = {
            "own": {"index": number},
            "text": {"index": str(number)},
            "zero": {"index": 0},
            "gaps": {"index": 3 * number},
            "none": {},
        }[indexes]
        if starts or block["type"] == "tool_use":
            yield {"type": "content_block_start", **index, "content_block": block}
        yield from ({"type": "content_block_delta", **index, "delta": {"type": kind, field: words}} for words in pieces)
        yield {"type": "content_block_stop", **index}


@st.composite
def message_streams(draw: st.DrawFn, turn: Turn) -> list[object]:
    """Draw a spelling of the turn as events."""
    indexes = draw(st.sampled_from(["own", "text", "zero", "gaps", "none"]))
    inputs = draw(st.sampled_from(["pieces", "start", "both", "an empty object", "twice"]))
    # Without a start only another index, or another kind, shows where a block begins.
    events = list(message_events(turn, indexes=indexes, starts=draw(st.booleans()), inputs=inputs))
    begin = {
        "type": "message_start",
        "message": draw(st.sampled_from([{"content": []}, {}]))
        | {"usage": {"input_tokens": 7, "cache_read_input_tokens": 2, "output_tokens": 1}},
    }
    reasons = ["tool_use" if turn.calls else "end_turn", "stop", "tool_calls", "STOP", "something_new"]
    delta = {"stop_reason": draw(st.sampled_from(reasons))}
    last = draw(
        st.sampled_from([{"output_tokens": 4}, {"output_tokens": "4", "input_tokens": 0, "cache_read_input_tokens": 0}])
    )
    end = {"type": "message_delta", "delta": delta, "usage": last}
    stop: list[object] = draw(st.sampled_from([[{"type": "message_stop"}], [], ["[DONE]"]]))
    return [begin, *([begin] if draw(st.booleans()) else []), {"type": "ping"}, *events, end, *stop]


# Responses


def items_of(turn: Turn) -> list[tuple[Json, str, list[str]]]:
    """Return the items of the turn, each with its delta event and pieces."""
    items: list[tuple[Json, str, list[str]]] = [
        (
            {"type": "reasoning", "id": "rs", "content": [{"type": "reasoning_text", "text": "".join(turn.thought)}]},
            "reasoning_text",
            turn.thought,
        ),
        (
            {"type": "message", "id": "msg", "content": [{"type": "output_text", "text": "".join(turn.text)}]},
            "output_text",
            turn.text,
        ),
    ]
    for number, (name, arguments, words) in enumerate(turn.calls):
        call = {
            "type": "function_call",
            "id": f"fc{number}",
            "call_id": f"call_{number}",
            "name": name,
            "arguments": json.dumps(arguments),
        }
        items.append((call, "function_call_arguments", words))
    return items


@st.composite
def response_streams(draw: st.DrawFn, turn: Turn) -> list[object]:
    """Draw a spelling of the turn as events."""
    indexes = draw(st.sampled_from(["own", "text", "zero", "none"]))
    pieces, announced, finished = draw(st.booleans()), draw(st.booleans()), draw(st.booleans())
    events: list[object] = []
    for number, (item, kind, words) in enumerate(items_of(turn)):
        index = {
            "own": {"output_index": number},
            "text": {"output_index": str(number)},
            "zero": {"output_index": 0},
            "none": {},
        }[indexes]
        whole = item["type"] != "message" or draw(st.booleans())
        if announced or item["type"] == "function_call":
            content = {"content": None} if item["type"] == "message" else {}
            events.append(
                {
                    "type": "response.output_item.added",
                    **index,
                    "item": item | content | ({"arguments": ""} if "arguments" in item else {}),
                }
            )
        if pieces or not (finished and whole):
            events += [{"type": f"response.{kind}.delta", **index, "delta": each} for each in words]
        if finished or item["type"] == "function_call":
            events.append({"type": "response.output_item.done", **index, "item": item})
    usage = {"input_tokens": 9, "output_tokens": 4, "input_tokens_details": {"cached_tokens": 2}}
    output = draw(
        st.sampled_from([{}, {"output": []}, {"output": None}, {"output": [item for item, *_ in items_of(turn)]}])
    )
    kind = draw(st.sampled_from(["response.completed", "response.done"]))
    return [*events, {"type": kind, "response": {"id": "resp", "usage": usage, **output}}]


# All of them


@st.composite
def framed(draw: st.DrawFn, events: Sequence[object]) -> list[bytes]:
    """Draw the bytes of a stream, as servers and proxies frame and cut them."""
    end = draw(st.sampled_from(["\n", "\r\n", "\r"]))
    before = draw(st.sampled_from(["", ": OPENROUTER PROCESSING\n\n", "event: message\n", "id: 1\n", "retry: 3000\n"]))
    mark = draw(st.sampled_from(["data: ", "data:", "data: data: "]))
    one_by_one = draw(st.sampled_from(["\n\n", "\n\n", "\n"]))
    indent = draw(st.sampled_from([None, None, 1])) if one_by_one == "\n\n" and mark != "data: data: " else None
    stream = draw(st.sampled_from(["", "\ufeff"]))
    for event in events:
        data = event if isinstance(event, str) else json.dumps(event, indent=indent, ensure_ascii=draw(st.booleans()))
        stream += (before if one_by_one == "\n\n" else "") + mark + f"\n{mark}".join(data.split("\n")) + one_by_one
    stream += draw(st.sampled_from(["\n", "\n\n"]))
    if draw(st.booleans()):
        stream = stream.rstrip("\n")
    whole = stream.replace("\n", end).encode()
    cuts = sorted(draw(st.lists(st.integers(0, len(whole)), max_size=4)))
    return [whole[start:stop] for start, stop in pairwise([0, *cuts, len(whole)])]


def read(codec: Codec, pieces: Sequence[bytes]) -> tuple[list[Delta], WireReply]:
    """Return our reading of a stream."""
    events, reader = SseDecoder(), codec.reader(TARGET)
    received = [event for part in pieces for event in events.feed(part)] + events.end()
    deltas = [delta for event in received for delta in reader.feed(event)]
    return deltas, reader.end()


def expect_what_was_meant(turn: Turn, codec: Codec, pieces: Sequence[bytes]) -> None:
    """Compare the deltas, put together, and the reply with what was meant."""
    deltas, reply = read(codec, pieces)
    thought, text = ("".join(d.text for d in deltas if isinstance(d, kind)) for kind in (ThinkingDelta, TextDelta))
    heard = [delta for delta in deltas if isinstance(delta, ToolCallDelta)]
    streamed = [
        (
            [delta.name for delta in heard if delta.index == number][-1],
            json.loads("".join(delta.arguments for delta in heard if delta.index == number) or "{}"),
        )
        for number in sorted({delta.index for delta in heard})
    ]
    calls = [(call.name, call.args) for call in reply.message.tool_calls]
    used = (reply.usage.input_tokens, reply.usage.output_tokens, reply.usage.cached_input_tokens)
    assert (thought, text, streamed, reply.stop, used) == turn.meant()
    assert (reply.message.text, calls) == (text, streamed)
    assert len({call.id for call in reply.message.tool_calls}) == len(calls)


@MANY
@given(st.data())
def test_a_chat_completion_is_read_however_it_is_spelled(data):
    """RA-1, RA-2: any OpenAI-compatible server; ids of tool calls are unique."""
    turn = data.draw(turns())
    expect_what_was_meant(turn, ChatCodec(), data.draw(framed(data.draw(chat_streams(turn)))))


@MANY
@given(st.data())
def test_a_message_is_read_however_it_is_spelled(data):
    """RA-1, RA-2."""
    turn = data.draw(turns())
    expect_what_was_meant(turn, AnthropicCodec(), data.draw(framed(data.draw(message_streams(turn)))))


@MANY
@given(st.data())
def test_a_response_is_read_however_it_is_spelled(data):
    """RA-1, RA-2."""
    turn = data.draw(turns())
    expect_what_was_meant(turn, ResponsesCodec(), data.draw(framed(data.draw(response_streams(turn)))))
