"""A model provider on loopback that speaks the wires of all of them and does what the prompts of the drill ask for.

It answers a request with the next call of a tool that the program offers, then with a sentence.
"""

import gzip
import itertools
import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar, NamedTuple

FOLDER = re.compile(r"/[^\s\"'\\<>`]*/executors/[0-9a-f]{16}/repository")
COMMAND = re.compile(r"shell commands: (sh \w+\.sh)")
EDIT = "Replace the word draft by final"
OLD, NEW, NOTE = "a draft", "a final", "note.txt"
PATCH = f"*** Begin Patch\n*** Update File: {NOTE}\n@@\n-{OLD}\n+{NEW}\n*** End Patch\n"
READERS = ("Read", "read", "read_file", "view")
EDITORS = ("Edit", "edit", "replace", "str_replace_editor")
SHELLS = ("Bash", "bash", "exec_command", "shell_command", "run_shell_command", "shell", "local_shell")
VALUES = {
    **dict.fromkeys(("oldstring", "oldstr", "oldtext", "search"), OLD),
    **dict.fromkeys(("newstring", "newstr", "newtext", "replacement", "replace"), NEW),
    **dict.fromkeys(("description", "explanation", "instruction"), "as asked"),
    "edits": [{"oldText": OLD, "newText": NEW}],
    "isbackground": False,
}
PATHS = ("path", "filepath", "absolutepath", "file", "targetfile")
USAGE_IN, USAGE_OUT = 1000, 20


class Call(NamedTuple):
    """A call of a tool; `custom` tools take text instead of arguments."""

    name: str
    args: dict[str, Any]
    custom: str = ""


class Request(NamedTuple):
    """What counts of a request, whichever wire it came by."""

    text: str
    tools: Mapping[str, Mapping[str, Any]]
    """The properties of the arguments by tool."""
    calls: int
    """How many calls of tools the conversation has."""
    custom: frozenset[str] = frozenset()


def reply_to(request: Request) -> Call | str:
    """Return the next call that the prompt asks for, or the last words."""
    command = COMMAND.search(request.text)
    steps = []
    if command and EDIT not in request.text:
        steps = [shell_call(request, command[1])]
    elif EDIT in request.text:
        reader = _offered(request, READERS)
        steps = [Call(reader, _filled(request, reader)), _edit_call(request)] if reader else [_edit_call(request)]
    return steps[request.calls] if request.tools and request.calls < len(steps) else "It is done."


def _edit_call(request: Request) -> Call:
    if editor := _offered(request, EDITORS):
        return Call(editor, _filled(request, editor))
    if "apply_patch" in request.tools:
        return Call("apply_patch", {"input": PATCH}, PATCH if "apply_patch" in request.custom else "")
    return shell_call(request, f"sed -i 's/{OLD}/{NEW}/' {NOTE}")


def shell_call(request: Request, command: str) -> Call:
    """Return a call of the program's tool for shell commands."""
    shell = _offered(request, SHELLS)
    args = _filled(request, shell)
    for name, schema in request.tools.get(shell, {}).items():
        if name in {"command", "cmd"}:
            args[name] = ["sh", "-c", command] if schema.get("type") == "array" else command
    return Call(shell, args)


def _offered(request: Request, names: tuple[str, ...]) -> str:
    return next((name for name in names if name in request.tools), "")


def _filled(request: Request, tool: str) -> dict[str, Any]:
    folder = FOLDER.search(request.text)
    note = f"{folder[0] if folder else '.'}/{NOTE}"
    plain = {name: name.lower().replace("_", "") for name in request.tools.get(tool, {})}
    known = {**VALUES, **dict.fromkeys(PATHS, note)}
    return {name: known[word] for name, word in plain.items() if word in known}


# ------------------------------------------------------------------------------------------------ the wires


def _anthropic(body: dict[str, Any], text: str) -> Request:
    tools = {tool["name"]: _properties(tool.get("input_schema")) for tool in body.get("tools") or () if "name" in tool}
    blocks = (block for each in body["messages"] if isinstance(each["content"], list) for block in each["content"])
    return Request(text, tools, sum(block.get("type") == "tool_use" for block in blocks))


def _chat(body: dict[str, Any], text: str) -> Request:
    functions = (tool["function"] for tool in body.get("tools") or () if tool.get("type") == "function")
    tools = {each["name"]: _properties(each.get("parameters")) for each in functions}
    return Request(text, tools, sum(len(each.get("tool_calls") or ()) for each in body["messages"]))


def _responses(body: dict[str, Any], text: str) -> Request:
    offered = body.get("tools") or []
    tools = {tool.get("name") or tool["type"]: _properties(tool.get("parameters")) for tool in offered}
    custom = frozenset(tool["name"] for tool in offered if tool.get("type") == "custom")
    items = body["input"] if isinstance(body.get("input"), list) else []
    calls = sum(str(each.get("type")).endswith("_call") for each in items)
    return Request(text, tools, calls, custom)


def _gemini(body: dict[str, Any], text: str) -> Request:
    functions = (each for tool in body.get("tools") or () for each in tool.get("functionDeclarations", ()))
    tools = {
        each["name"]: _properties(each.get("parametersJsonSchema") or each.get("parameters")) for each in functions
    }
    parts = (part for each in body.get("contents", ()) for part in each.get("parts", ()))
    return Request(text, tools, sum("functionCall" in part for part in parts))


def _properties(schema: dict[str, Any] | None) -> Mapping[str, Any]:
    return (schema or {}).get("properties") or {}


def _anthropic_events(reply: Call | str, number: int) -> Iterator[tuple[str, dict[str, Any]]]:
    usage = {"input_tokens": USAGE_IN, "output_tokens": USAGE_OUT}
    message = {"id": f"msg_{number}", "type": "message", "role": "assistant", "model": "loop", "content": []}
    yield "message_start", {"message": {**message, "stop_reason": None, "stop_sequence": None, "usage": usage}}
    block, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": reply}
    if isinstance(reply, Call):
        block = {"type": "tool_use", "id": f"toolu_{number}", "name": reply.name, "input": {}}  # type: ignore[dict-item]
        delta = {"type": "input_json_delta", "partial_json": json.dumps(reply.args)}
    yield "content_block_start", {"index": 0, "content_block": block}
    yield "content_block_delta", {"index": 0, "delta": delta}
    yield "content_block_stop", {"index": 0}
    stop = "tool_use" if isinstance(reply, Call) else "end_turn"
    yield "message_delta", {"delta": {"stop_reason": stop, "stop_sequence": None}, "usage": usage}
    yield "message_stop", {}


def _chat_events(reply: Call | str, number: int) -> Iterator[tuple[str, dict[str, Any]]]:
    head = {"id": f"chatcmpl-{number}", "object": "chat.completion.chunk", "created": 0, "model": "loop"}
    delta: dict[str, Any] = {"role": "assistant", "content": reply}
    if isinstance(reply, Call):
        function = {"name": reply.name, "arguments": json.dumps(reply.args)}
        call = {"index": 0, "id": f"call_{number}", "type": "function", "function": function}
        delta = {"role": "assistant", "content": None, "tool_calls": [call]}
    stop = "tool_calls" if isinstance(reply, Call) else "stop"
    usage = {"prompt_tokens": USAGE_IN, "completion_tokens": USAGE_OUT, "total_tokens": USAGE_IN + USAGE_OUT}
    yield "", {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    yield "", {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": stop}]}
    yield "", {**head, "choices": [], "usage": usage}


def _responses_events(reply: Call | str, number: int) -> Iterator[tuple[str, dict[str, Any]]]:
    item: dict[str, Any]
    if isinstance(reply, str):
        content = [{"type": "output_text", "text": reply, "annotations": []}]
        item = {"type": "message", "id": f"msg_{number}", "role": "assistant", "content": content}
    elif reply.custom:
        item = {"type": "custom_tool_call", "id": f"ctc_{number}", "name": reply.name, "input": reply.custom}
    else:
        item = {"type": "function_call", "id": f"fc_{number}", "name": reply.name, "arguments": json.dumps(reply.args)}
    item |= {"status": "completed"} | ({} if isinstance(reply, str) else {"call_id": f"call_{number}"})
    usage = {"input_tokens": USAGE_IN, "output_tokens": USAGE_OUT, "total_tokens": USAGE_IN + USAGE_OUT}
    usage |= {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}  # type: ignore[dict-item]
    response = {"id": f"resp_{number}", "object": "response", "created_at": 0, "model": "loop", "output": []}
    yield "response.created", {"response": {**response, "status": "in_progress"}}
    yield "response.output_item.added", {"output_index": 0, "item": item}
    yield "response.output_item.done", {"output_index": 0, "item": item}
    done = {**response, "status": "completed", "output": [item], "usage": usage}
    yield "response.completed", {"response": done}


def _gemini_events(reply: Call | str, number: int) -> Iterator[tuple[str, dict[str, Any]]]:
    part: dict[str, Any] = {"text": reply}
    if isinstance(reply, Call):
        part = {"functionCall": {"name": reply.name, "args": reply.args, "id": f"call_{number}"}}
    usage = {"promptTokenCount": USAGE_IN, "candidatesTokenCount": USAGE_OUT, "totalTokenCount": USAGE_IN + USAGE_OUT}
    candidate = {"content": {"role": "model", "parts": [part]}, "index": 0, "finishReason": "STOP"}
    yield "", {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "loop", "responseId": str(number)}


WIRES = (
    (re.compile(r"/messages$"), _anthropic, _anthropic_events),
    (re.compile(r"/chat/completions$"), _chat, _chat_events),
    (re.compile(r"/responses$"), _responses, _responses_events),
    (re.compile(r":(stream)?[gG]enerateContent$"), _gemini, _gemini_events),
)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    seen: ClassVar[list[tuple[bytes, bool]]] = []
    numbers = itertools.count(1)
    reply: ClassVar[Callable[[Request], Call | str]]

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.headers.get("Content-Encoding") == "gzip":
            raw = gzip.decompress(raw)
        path = self.path.partition("?")[0]
        wire = next((each for each in WIRES if each[0].search(path)), None)
        if wire is None:
            self._send_json(
                {"input_tokens": USAGE_IN, "totalTokens": USAGE_IN}, 200 if "count" in path.lower() else 404
            )
            return
        body = json.loads(raw)
        _, read, events_of = wire
        request = read(body, raw.decode())
        self.seen.append((raw, bool(request.tools)))
        events = list(events_of(self.reply(request), next(self.numbers)))
        is_streamed = body.get("stream") or "alt=sse" in self.path or "stream" in path
        self._send_stream(events) if is_streamed else self._send_json(_whole(events, path), 200)

    def do_GET(self) -> None:
        is_list = self.path.partition("?")[0].endswith("/models")
        self._send_json({"object": "list", "data": [{"id": "loop", "object": "model"}]}, 200 if is_list else 404)

    def _send_stream(self, events: list[tuple[str, dict[str, Any]]]) -> None:
        lines = []
        for name, event in events:
            lines.append(f"event: {name}\n" if name else "")
            lines.append(f"data: {json.dumps({'type': name, **event} if name else event)}\n\n")
        if not events[-1][0] and "choices" in events[-1][1]:
            lines.append("data: [DONE]\n\n")
        self._send("".join(lines).encode(), "text/event-stream", 200)

    def _send_json(self, value: Any, status: int) -> None:
        self._send(json.dumps(value).encode(), "application/json", status)

    def _send(self, data: bytes, kind: str, status: int) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


class _Server(ThreadingHTTPServer):
    def handle_error(self, *_: Any) -> None:
        """Say nothing: programs are killed while they are answered."""


def _whole(events: list[tuple[str, dict[str, Any]]], path: str) -> dict[str, Any]:
    """Return the answer to a request that is not streamed: side requests, such as for a title."""
    if path.endswith("/messages"):
        return {**events[0][1]["message"], "content": [{"type": "text", "text": "ok"}], "stop_reason": "end_turn"}
    if path.endswith("/completions"):
        message = {"role": "assistant", "content": "ok"}
        chunk = {**events[0][1], "object": "chat.completion", "usage": events[-1][1]["usage"]}
        return {**chunk, "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
    return events[-1][1].get("response") or events[-1][1]


@contextmanager
def serve_models(reply: Callable[[Request], Call | str] = reply_to) -> Iterator[tuple[int, list[tuple[bytes, bool]]]]:
    """Yield the port of a server, and its requests so far: the body of each, and whether it offers tools."""
    own = {"seen": [], "numbers": itertools.count(1), "reply": staticmethod(reply)}
    handler = type("_OneHandler", (_Handler,), own)
    server = _Server(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_address[1], handler.seen
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
