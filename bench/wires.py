"""What the bench's provider says on each wire: whole replies, made once and sent again and again.

A reply is some words and either one call of `read_file` or an end. Only the standard library is used, so that any
Python may run the provider.
"""

import json
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

WORDS = ("Let me ", "look at ", "the notes ", "before I ", "go on.")
TOOL = "read_file"
ARGUMENTS = ('{"path"', ': "notes', '.md"}')
OUTPUT_TOKENS = 30

Events = Iterator[tuple[str, Mapping[str, Any]]]


class TokenCounts(NamedTuple):
    """Tokens of a request: all of them, those read from a cache, and those written to one."""

    total: int = 1000
    read: int = 0
    written: int = 0


class Reply(NamedTuple):
    """Which reply: `number` makes its ids unique; `call` tells whether it asks for the tool."""

    number: int
    call: bool
    counted: TokenCounts = TokenCounts()


def messages_events(reply: Reply) -> Events:
    """Yield the events of an Anthropic Messages stream."""
    total, read, written = reply.counted
    usage = {
        "input_tokens": total - read - written,
        "cache_read_input_tokens": read,
        "cache_creation_input_tokens": written,
        "output_tokens": 1,
    }
    message = _messages_envelope(reply) | {"content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}
    yield "message_start", {"message": message}
    yield from _messages_block(0, {"type": "text", "text": ""}, [{"type": "text_delta", "text": w} for w in WORDS])
    if reply.call:
        start = {"type": "tool_use", "id": f"toolu_{reply.number}", "name": TOOL, "input": {}}
        deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in ARGUMENTS]
        yield from _messages_block(1, start, deltas)
    reason = "tool_use" if reply.call else "end_turn"
    delta = {"stop_reason": reason, "stop_sequence": None}
    yield "message_delta", {"delta": delta, "usage": {"output_tokens": OUTPUT_TOKENS}}
    yield "message_stop", {}


def _messages_envelope(reply: Reply) -> dict[str, Any]:
    return {"id": f"msg_{reply.number}", "type": "message", "role": "assistant", "model": "bench"}


def _messages_block(index: int, start: Mapping[str, Any], deltas: list[dict[str, str]]) -> Events:
    yield "content_block_start", {"index": index, "content_block": start}
    for delta in deltas:
        yield "content_block_delta", {"index": index, "delta": delta}
    yield "content_block_stop", {"index": index}


def chat_events(reply: Reply) -> Events:
    """Yield the chunks of a Chat Completions stream."""
    yield "", _chunk(reply, {"role": "assistant", "content": ""})
    for words in WORDS:
        yield "", _chunk(reply, {"content": words})
    if reply.call:
        call = {
            "index": 0,
            "id": f"call_{reply.number}",
            "type": "function",
            "function": {"name": TOOL, "arguments": ""},
        }
        yield "", _chunk(reply, {"tool_calls": [call]})
        for piece in ARGUMENTS:
            yield "", _chunk(reply, {"tool_calls": [{"index": 0, "function": {"arguments": piece}}]})
    yield "", _chunk(reply, {}, "tool_calls" if reply.call else "stop")
    yield "", _chunk(reply, None) | {"usage": _chat_usage(reply.counted)}


def _chunk(reply: Reply, delta: Mapping[str, Any] | None, reason: str | None = None) -> dict[str, Any]:
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": reason}]
    return _chat_envelope(reply, "chat.completion.chunk") | {"choices": choices}


def _chat_envelope(reply: Reply, kind: str) -> dict[str, Any]:
    return {"id": f"chatcmpl-{reply.number}", "object": kind, "created": 1, "model": "bench"}


def _chat_usage(counted: TokenCounts) -> dict[str, Any]:
    return {
        "prompt_tokens": counted.total,
        "completion_tokens": OUTPUT_TOKENS,
        "total_tokens": counted.total + OUTPUT_TOKENS,
        "prompt_tokens_details": {"cached_tokens": counted.read},
    }


def responses_events(reply: Reply) -> Events:
    """Yield the events of a Responses stream."""
    empty = _response(reply, "in_progress", [])
    events = [("response.created", {"response": empty}), ("response.in_progress", {"response": empty})]
    items = _response_items(reply)
    events += _message_item_events(items[0])
    if reply.call:
        events += _call_item_events(items[1])
    done = _response(reply, "completed", items) | {"usage": _responses_usage(reply.counted)}
    events.append(("response.completed", {"response": done}))
    for number, (name, fields) in enumerate(events):
        yield name, fields | {"sequence_number": number}


def _response(reply: Reply, status: str, output: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "id": f"resp_{reply.number}",
        "object": "response",
        "created_at": 1,
        "status": status,
        "model": "bench",
        "output": output,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": None,
    }


def _response_items(reply: Reply) -> list[dict[str, Any]]:
    text = {"type": "output_text", "text": "".join(WORDS), "annotations": []}
    message = {"id": f"msg_{reply.number}", "type": "message", "status": "completed", "role": "assistant"}
    items: list[dict[str, Any]] = [message | {"content": [text]}]
    if reply.call:
        call = {"id": f"fc_{reply.number}", "type": "function_call", "status": "completed"}
        items.append(call | {"call_id": f"call_{reply.number}", "name": TOOL, "arguments": "".join(ARGUMENTS)})
    return items


def _message_item_events(item: Mapping[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    at = {"item_id": item["id"], "output_index": 0, "content_index": 0}
    opened = dict(item) | {"status": "in_progress", "content": []}
    empty = {"type": "output_text", "text": "", "annotations": []}
    return [
        ("response.output_item.added", {"output_index": 0, "item": opened}),
        ("response.content_part.added", at | {"part": empty}),
        *(("response.output_text.delta", at | {"delta": words}) for words in WORDS),
        ("response.output_text.done", at | {"text": "".join(WORDS)}),
        ("response.content_part.done", at | {"part": item["content"][0]}),
        ("response.output_item.done", {"output_index": 0, "item": item}),
    ]


def _call_item_events(item: Mapping[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    at = {"item_id": item["id"], "output_index": 1}
    opened = dict(item) | {"status": "in_progress", "arguments": ""}
    return [
        ("response.output_item.added", {"output_index": 1, "item": opened}),
        *(("response.function_call_arguments.delta", at | {"delta": piece}) for piece in ARGUMENTS),
        ("response.function_call_arguments.done", at | {"arguments": item["arguments"]}),
        ("response.output_item.done", {"output_index": 1, "item": item}),
    ]


def _responses_usage(counted: TokenCounts) -> dict[str, Any]:
    return {
        "input_tokens": counted.total,
        "input_tokens_details": {"cached_tokens": counted.read},
        "output_tokens": OUTPUT_TOKENS,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": counted.total + OUTPUT_TOKENS,
    }


def chat_whole(reply: Reply) -> dict[str, Any]:
    """Return a Chat Completions reply in one piece: the one wire on which somebody here asks for that."""
    message: dict[str, Any] = {"role": "assistant", "content": "".join(WORDS)}
    if reply.call:
        function = {"name": TOOL, "arguments": "".join(ARGUMENTS)}
        message["tool_calls"] = [{"id": f"call_{reply.number}", "type": "function", "function": function}]
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if reply.call else "stop"}
    return _chat_envelope(reply, "chat.completion") | {"choices": [choice], "usage": _chat_usage(reply.counted)}


@lru_cache(maxsize=4096)
def answer(path: str, reply: Reply, *, stream: bool) -> bytes:
    """Return the whole HTTP response to a request at `path`, whose end is the wire's name."""
    if not stream:
        return http("200 OK", "application/json", json.dumps(chat_whole(reply)).encode())
    if path.endswith("/messages"):
        body = "".join(_event(name, {"type": name, **fields}) for name, fields in messages_events(reply))
    elif path.endswith("/chat/completions"):
        body = "".join(_event(name, fields) for name, fields in chat_events(reply)) + "data: [DONE]\n\n"
    else:
        body = "".join(_event(name, {"type": name, **fields}) for name, fields in responses_events(reply))
    return http("200 OK", "text/event-stream", body.encode())


def _event(name: str, fields: Mapping[str, Any]) -> str:
    data = f"data: {json.dumps(fields, separators=(',', ':'))}\n\n"
    return f"event: {name}\n{data}" if name else data


def http(status: str, kind: str, body: bytes) -> bytes:
    """Return an HTTP response; streams come in chunks, as real providers send them."""
    if kind == "text/event-stream":
        framing, body = "Transfer-Encoding: chunked", b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
    else:
        framing = f"Content-Length: {len(body)}"
    return f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\n{framing}\r\n\r\n".encode() + body
