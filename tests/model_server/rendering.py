"""Turns rendered for the three wires: the events of a stream, a whole body, an error."""

import json
from collections.abc import Iterator
from itertools import count
from typing import Any

from model_server.turn import Call, Protocol, Turn, Used

PIECE = 12
"""Characters in one delta."""

_numbers = count(1)


def events(protocol: Protocol, turn: Turn, model: str) -> Iterator[bytes]:
    """Yield the server-sent events of a turn; nothing after an in-band error."""
    render = {"anthropic": _anthropic, "chat": _chat, "responses": _responses}[protocol]
    return render(_with_ids(turn), model)


def whole(protocol: Protocol, turn: Turn, model: str) -> bytes:
    """Return the body of a turn that is not streamed."""
    turn = _with_ids(turn)
    body = {
        "anthropic": lambda: _message(turn, model, _anthropic_content(turn), _anthropic_stop(turn)),
        "chat": lambda: _completion(turn, model),
        "responses": lambda: _response(turn, model, list(_items(turn))),
    }[protocol]()
    if turn.error:
        body = _error(protocol, *turn.error)
    return json.dumps(body).encode()


def error(protocol: Protocol, turn: Turn) -> bytes:
    """Return the body of a refusal."""
    kind, message = turn.error or ("api_error", f"the script says {turn.status}")
    return json.dumps(_error(protocol, kind, message)).encode()


def _with_ids(turn: Turn) -> Turn:
    calls = tuple(Call(call.name, call.args, call.id or f"call_{next(_numbers)}") for call in turn.calls)
    values = {name: getattr(turn, name) for name in turn.__struct_fields__}
    return Turn(**(values | {"calls": calls}))


def _error(protocol: Protocol, kind: str, message: str) -> dict[str, Any]:
    said = {"type": kind, "message": message}
    if protocol == "anthropic":
        return {"type": "error", "error": said, "request_id": "req_1"}
    return {"error": said | {"code": kind, "param": None}}


def _pieces(text: str, *, endless: bool = False) -> Iterator[str]:
    while True:
        yield from (text[at : at + PIECE] for at in range(0, len(text), PIECE))
        if not endless:
            return


def _stop(turn: Turn) -> str:
    return turn.stop or ("tool_calls" if turn.calls else "end")


def _event(data: Any, name: str = "") -> bytes:
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {data if isinstance(data, str) else json.dumps(data)}\n\n".encode()


# Anthropic Messages


def _named(data: dict[str, Any]) -> bytes:
    return _event(data, data["type"])


def _anthropic_stop(turn: Turn) -> str:
    return {"end": "end_turn", "tool_calls": "tool_use", "max_tokens": "max_tokens", "refused": "refusal"}[_stop(turn)]


def _anthropic_usage(used: Used) -> dict[str, int]:
    return {
        "input_tokens": used.input - used.cached - used.written,
        "cache_creation_input_tokens": used.written,
        "cache_read_input_tokens": used.cached,
        "output_tokens": used.output,
    }


def _message(turn: Turn, model: str, content: list[Any], stop: str | None) -> dict[str, Any]:
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": content,
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": _anthropic_usage(turn.usage),
    }


def _anthropic_content(turn: Turn) -> list[Any]:
    thinking = [{"type": "thinking", "thinking": turn.thinking, "signature": "c2VhbA=="}] if turn.thinking else []
    text = [{"type": "text", "text": turn.text}] if turn.text else []
    return [
        *thinking,
        *text,
        *({"type": "tool_use", "id": call.id, "name": call.name, "input": call.args} for call in turn.calls),
    ]


def _anthropic(turn: Turn, model: str) -> Iterator[bytes]:
    yield _named({"type": "message_start", "message": _message(turn, model, [], None)})
    yield _named({"type": "ping"})
    for index, block in enumerate(_anthropic_content(turn)):
        yield from _block(index, block, endless=turn.endless)
    if turn.error:
        yield _named(_error("anthropic", *turn.error))
        return
    delta = {"stop_reason": _anthropic_stop(turn), "stop_sequence": None}
    yield _named({"type": "message_delta", "delta": delta, "usage": _anthropic_usage(turn.usage)})
    yield _named({"type": "message_stop"})


def _block(index: int, block: dict[str, Any], *, endless: bool) -> Iterator[bytes]:
    match block:
        case {"type": "text", "text": text}:
            empty: dict[str, Any] = {"text": ""}
            deltas = [("text_delta", "text", _pieces(text, endless=endless))]
        case {"type": "thinking", "thinking": text}:
            empty = {"thinking": "", "signature": ""}
            deltas = [
                ("thinking_delta", "thinking", _pieces(text)),
                ("signature_delta", "signature", iter(["c2VhbA=="])),
            ]
        case _:
            empty = {"input": {}}
            deltas = [("input_json_delta", "partial_json", iter(["", *_pieces(json.dumps(block["input"]))]))]
    yield _named({"type": "content_block_start", "index": index, "content_block": block | empty})
    for kind, field, pieces in deltas:
        for piece in pieces:
            yield _named({"type": "content_block_delta", "index": index, "delta": {"type": kind, field: piece}})
    yield _named({"type": "content_block_stop", "index": index})


# OpenAI Chat Completions


def _chat_stop(turn: Turn) -> str:
    return {"end": "stop", "tool_calls": "tool_calls", "max_tokens": "length", "refused": "content_filter"}[_stop(turn)]


def _chat_usage(used: Used) -> dict[str, Any]:
    return {
        "prompt_tokens": used.input,
        "completion_tokens": used.output,
        "total_tokens": used.input + used.output,
        "prompt_tokens_details": {"cached_tokens": used.cached},
    }


def _chat_call(call: Call) -> dict[str, Any]:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": json.dumps(call.args)}}


def _completion(turn: Turn, model: str) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": turn.text or None, "refusal": None}
    if turn.thinking:
        message["reasoning_content"] = turn.thinking
    if turn.calls:
        message["tool_calls"] = [_chat_call(call) for call in turn.calls]
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": model,
        "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": _chat_stop(turn)}],
        "usage": _chat_usage(turn.usage),
    }


def _chat(turn: Turn, model: str) -> Iterator[bytes]:
    def chunk(delta: dict[str, Any], stop: str | None = None) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": stop}
        return {
            "id": "chatcmpl-1",
            "object": "chat.completion.chunk",
            "created": 1,
            "model": model,
            "choices": [choice],
        }

    yield _event(chunk({"role": "assistant", "content": "", "refusal": None}))
    for piece in _pieces(turn.thinking):
        yield _event(chunk({"reasoning_content": piece}))
    for piece in _pieces(turn.text, endless=turn.endless):
        yield _event(chunk({"content": piece}))
    for index, call in enumerate(turn.calls):
        begun = _chat_call(call) | {"index": index, "function": {"name": call.name, "arguments": ""}}
        yield _event(chunk({"tool_calls": [begun]}))
        for piece in _pieces(json.dumps(call.args)):
            yield _event(chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]}))
    if turn.error:
        yield _event(_error("chat", *turn.error))
        return
    yield _event(chunk({}, _chat_stop(turn)))
    yield _event(chunk({}) | {"choices": [], "usage": _chat_usage(turn.usage)})
    yield _event("[DONE]")


# OpenAI Responses


def _items(turn: Turn) -> Iterator[dict[str, Any]]:
    if turn.thinking:
        summary = [{"type": "summary_text", "text": turn.thinking}]
        yield {"type": "reasoning", "id": "rs_1", "summary": summary, "encrypted_content": "c2VhbA=="}
    if turn.text:
        part = {"type": "output_text", "text": turn.text, "annotations": [], "logprobs": []}
        yield {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [part]}
    for call in turn.calls:
        yield {
            "type": "function_call",
            "id": f"fc_{call.id}",
            "call_id": call.id,
            "name": call.name,
            "arguments": json.dumps(call.args),
            "status": "completed",
        }


def _response(turn: Turn, model: str, output: list[Any], *, status: str | None = None) -> dict[str, Any]:
    cut = {"max_tokens": "max_output_tokens", "refused": "content_filter"}.get(_stop(turn))
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "status": status or ("incomplete" if cut else "completed"),
        "error": None,
        "incomplete_details": {"reason": cut} if cut and not status else None,
        "model": model,
        "output": output,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": {
            "input_tokens": turn.usage.input,
            "input_tokens_details": {"cached_tokens": turn.usage.cached},
            "output_tokens": turn.usage.output,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": turn.usage.input + turn.usage.output,
        },
    }


def _responses(turn: Turn, model: str) -> Iterator[bytes]:
    numbers = count()

    def tell(kind: str, **fields: Any) -> bytes:
        return _event({"type": kind, "sequence_number": next(numbers), **fields}, kind)

    yield tell("response.created", response=_response(turn, model, [], status="in_progress") | {"usage": None})
    items = list(_items(turn))
    for index, item in enumerate(items):
        for kind, fields in _item_events(item, endless=turn.endless):
            yield tell(kind, output_index=index, **fields)
    if turn.error:
        kind, message = turn.error
        yield tell("error", code=kind, message=message, param=None)
        return
    final = _response(turn, model, items)
    yield tell(f"response.{final['status']}", response=final)


def _item_events(item: dict[str, Any], *, endless: bool) -> Iterator[tuple[str, dict[str, Any]]]:
    of = {"item_id": item["id"]}
    match item["type"]:
        case "reasoning":
            text = item["summary"][0]["text"]
            place = of | {"summary_index": 0}
            yield "response.output_item.added", {"item": item | {"summary": [], "encrypted_content": ""}}
            yield "response.reasoning_summary_part.added", place | {"part": {"type": "summary_text", "text": ""}}
            for piece in _pieces(text):
                yield "response.reasoning_summary_text.delta", place | {"delta": piece}
            yield "response.reasoning_summary_text.done", place | {"text": text}
        case "message":
            part = item["content"][0]
            place = of | {"content_index": 0}
            yield "response.output_item.added", {"item": item | {"content": [], "status": "in_progress"}}
            yield "response.content_part.added", place | {"part": part | {"text": ""}}
            for piece in _pieces(part["text"], endless=endless):
                yield "response.output_text.delta", place | {"delta": piece, "logprobs": []}
            yield "response.output_text.done", place | {"text": part["text"], "logprobs": []}
            yield "response.content_part.done", place | {"part": part}
        case _:
            yield "response.output_item.added", {"item": item | {"arguments": "", "status": "in_progress"}}
            for piece in _pieces(item["arguments"]):
                yield "response.function_call_arguments.delta", of | {"delta": piece}
            yield "response.function_call_arguments.done", of | {"arguments": item["arguments"], "name": item["name"]}
    yield "response.output_item.done", {"item": item}
