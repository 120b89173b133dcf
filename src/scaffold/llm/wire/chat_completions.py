"""Chat Completions: OpenAI's older wire format, which every local server uses."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Literal, get_args

from msgspec import structs

from scaffold.core.conversation import (
    AssistantMessage,
    Image,
    Message,
    Request,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    UserMessage,
)
from scaffold.llm.wire.chat_reader import ChatReader
from scaffold.llm.wire.codec import ModelTarget, OptionalFields, without_named_field
from scaffold.llm.wire.format import encode_json, request_body, stable_id, wire_id, wire_name
from scaffold.llm.wire.openai_json import SCHEMA_NAME, data_url, is_strict_schema, output_limit

# Permissive, because some local models interpret the ids (`functions.shell:0`).
_ID = re.compile("[!-~]+")
_THOUGHTS, _EFFORT, _TEMPLATE = "reasoning_content", "reasoning_effort", "chat_template_kwargs"
_COUNTS, _LIMIT = "stream_options", "max_tokens"
# Histories that servers refuse which want back what other models did not send: these get a stand-in for it.
_THOUGHTLESS, _UNSIGNED = "replies without thoughts", "calls without signatures"
_UNSIGNED_CALL = {"extra_content": {"google": {"thought_signature": "skip_thought_signature_validator"}}}
_OPTIONAL: OptionalFields = (
    (_THOUGHTLESS, re.compile(r"missing.{0,40}reasoning_content|reasoning_content.{0,80}must be passed back")),
    (_UNSIGNED, re.compile(r"missing.{0,9}thought_?signature", re.IGNORECASE)),
    (_THOUGHTS, re.compile(r"\breasoning_content\b|\breasoning\b")),
    (_TEMPLATE, re.compile(r"chat_template_kwargs|enable_thinking")),
    (_EFFORT, re.compile(r"reasoning[_ ]effort")),
    (_COUNTS, re.compile(r"stream_options|include_usage")),
    # The client hangs up without it, too.
    (_LIMIT, re.compile(r"max_(completion_)?tokens")),
)
SystemForm = Literal["separate", "joined", "prompt"]
SYSTEM_FORMS: Sequence[SystemForm] = get_args(SystemForm)
"""Where the base prompt and the context go: one message each, one for both, the user's first message."""


class ChatCodec:
    """Translates to and from Chat Completions.

    `local` is for servers other than OpenAI's, which need the older name of the length limit. Some of their models'
    chat templates refuse or drop a second system message, some each: `system` says where the texts go, the base prompt
    first. Some take one call in a reply, ids of nine characters, no user after a result: with `one_call` they get that.
    """

    path: Final = "/chat/completions"

    def __init__(self, *, local: bool = False, system: SystemForm = "separate", one_call: bool = False) -> None:
        self._local = local
        self._system = system
        self._one_call = one_call
        self._limit = "max_tokens" if local else "max_completion_tokens"

    def message(self, message: Message, target: ModelTarget) -> bytes:
        """Return the message's JSON objects joined by commas, tool results first; empty if it has no content.

        Thoughts go back, in the field they came in, to the model that had them: some servers refuse calls without.
        """
        if isinstance(message, UserMessage):
            return b",".join(encode_json(each) for each in _user_messages(message))
        encoded = _assistant_message(message, target)
        return encode_json(encoded) if encoded else b""

    def request(self, request: Request, pieces: Sequence[bytes], target: ModelTarget) -> bytes:
        """Return the request's body; the base prompt comes first with constant bytes, for the provider's cache."""
        fields: dict[str, object] = {"model": target.name}
        if target.stream:
            fields["stream"] = True
            if _COUNTS not in target.refused:
                fields[_COUNTS] = {"include_usage": True}
        if request.tools:
            described = (
                {"name": tool.name, "description": tool.description, "parameters": tool.schema}
                for tool in request.tools
            )
            fields["tools"] = [{"type": "function", "function": each} for each in described]
        if request.answer_schema is not None:
            strict = is_strict_schema(request.answer_schema)
            schema = {"name": SCHEMA_NAME, "schema": request.answer_schema, "strict": strict}
            fields["response_format"] = {"type": "json_schema", "json_schema": schema}
        fields |= {name: value for name, value in self._thinking_fields(request, target) if name not in target.refused}
        if (limit := output_limit(request, target)) is not None and _LIMIT not in target.refused:
            fields[self._limit] = limit
        texts = [text for text in (request.system, request.context) if text]
        if self._system != "separate" and texts:
            texts = ["\n\n".join(texts)]
        if self._one_call:
            request = structs.replace(request, messages=tuple(_one_call_each(request.messages)))
            pieces = [self.message(each, target) for each in request.messages]
        begin, *rest = request.messages or (None,)
        if self._system == "prompt" and texts and isinstance(begin, UserMessage):
            begin = UserMessage((Text(texts.pop() + "\n"), *begin.parts))
            request = structs.replace(request, messages=(begin, *rest))
            pieces = [self.message(begin, target), *pieces[1:]]
        system = [encode_json({"role": "system", "content": text}) for text in texts]
        return request_body(fields, "messages", [*system, *_with_reminder(request, pieces)])

    def adapted(self, target: ModelTarget, error: str) -> ModelTarget | None:
        """Return the target without what the error names; None if it names nothing optional."""
        return without_named_field(target, error, _OPTIONAL)

    def reader(self, target: ModelTarget) -> ChatReader:
        """Return a reader for one streamed reply."""
        return ChatReader(target)

    def _thinking_fields(self, request: Request, target: ModelTarget) -> Iterator[tuple[str, object]]:
        support, effort = target.thinking, request.effort
        if effort is None:
            return
        if support.form == "effort":
            off = effort == "off" and support.off != "least"
            # OpenAI refuses to think and to call tools on this wire.
            silent = bool(request.tools) and not support.with_chat_tools
            yield _EFFORT, "none" if silent else support.off if off else support.level(effort)
        elif support.form == "unknown" and effort == "off":
            yield _EFFORT, "none"
            if self._local:
                yield _TEMPLATE, {"enable_thinking": False}
        elif support.form == "unknown" and effort != "auto":
            yield _EFFORT, effort


def _one_call_each(messages: Sequence[Message]) -> Iterator[Message]:
    """Yield the messages with one call in each reply, its result behind it, and the user's words in the last result."""
    calls: Mapping[str, ToolCall] = {}
    split = AssistantMessage(())
    for message in messages:
        if isinstance(message, AssistantMessage):
            calls = {call.id: structs.replace(call, id=_plain_id(call.id)) for call in message.tool_calls}
            first = [*calls.values()][:1]
            # What the server wants back is found by the id of its call.
            signed = {_plain_id(each) if each else "": value for each, value in message.opaque.items()}
            others = tuple(part for part in message.parts if not isinstance(part, ToolCall))
            message = structs.replace(message, parts=(*others, *first), opaque=signed)  # noqa: PLW2901 - as it is sent
            split = structs.replace(message, opaque={each: value for each, value in signed.items() if each})
            yield message
            continue
        results = [part for part in message.parts if isinstance(part, ToolResult)]
        if not results:
            yield message
            continue
        order = [*calls]
        results.sort(key=lambda each: order.index(each.call_id) if each.call_id in calls else len(order))
        words = [part.text for part in message.parts if isinstance(part, Text) and part.text]
        results[-1] = structs.replace(results[-1], content="\n\n".join((results[-1].content, *words)))
        for result in results:
            if result.call_id in order[1:]:
                yield structs.replace(split, parts=(calls[result.call_id],))
            yield UserMessage((structs.replace(result, call_id=_plain_id(result.call_id)),))
        if images := tuple(part for part in message.parts if isinstance(part, Image)):
            yield UserMessage(images)


def _plain_id(call_id: str) -> str:
    # Mistral's templates take nine letters and digits, and no other id.
    return stable_id(call_id)[-9:]


def _with_reminder(request: Request, pieces: Sequence[bytes]) -> Sequence[bytes]:
    """Return the pieces, with the reminder in the last message: some templates refuse one more of the user."""
    last = request.messages[-1] if request.messages else None
    if not request.reminder or not isinstance(last, UserMessage):
        return pieces
    *before, end = last.parts or (Text(""),)
    if isinstance(end, ToolResult):
        added = (*before, structs.replace(end, content=f"{end.content}\n\n{request.reminder}"))
    else:
        added = (*before, end, Text(f"\n{request.reminder}"))
    return [*pieces[:-1], b",".join(map(encode_json, _user_messages(UserMessage(added))))]


def _user_messages(message: UserMessage) -> list[dict[str, object]]:
    results = [part for part in message.parts if isinstance(part, ToolResult)]
    messages: list[dict[str, object]] = [
        {"role": "tool", "tool_call_id": wire_id(result.call_id, _ID), "content": result.content} for result in results
    ]
    parts = [part for part in message.parts if isinstance(part, Image) or (isinstance(part, Text) and part.text)]
    # Plain text if there are no images, since many local servers accept nothing else.
    content: str | list[dict[str, object]] = "\n".join(part.text for part in parts if isinstance(part, Text))
    if any(isinstance(part, Image) for part in parts):
        content = [
            {"type": "image_url", "image_url": {"url": data_url(part)}}
            if isinstance(part, Image)
            else {"type": "text", "text": part.text}
            for part in parts
        ]
    return [*messages, {"role": "user", "content": content}] if content else messages


def _assistant_message(message: AssistantMessage, target: ModelTarget) -> dict[str, object] | None:
    text = "\n".join(part.text for part in message.parts if isinstance(part, Text) and part.text)
    opaque = message.opaque if target.returns(message) else {}
    calls = []
    for call in message.tool_calls:
        more = opaque.get(call.id, _UNSIGNED_CALL if _UNSIGNED in target.refused else {})
        function = {"name": wire_name(call.name), "arguments": encode_json(call.args).decode()}
        function |= more.get("function", {})
        calls.append({**more, "id": wire_id(call.id, _ID), "type": "function", "function": function})
    if not text and not calls:
        return None
    fields: dict[str, object] = {**opaque.get("", {}), "role": "assistant", "content": text or None}
    fields |= _thought_fields(message, target)
    return fields | {"tool_calls": calls} if calls else fields


def _thought_fields(message: AssistantMessage, target: ModelTarget) -> dict[str, str]:
    if _THOUGHTS in target.refused:
        return {}
    mine = [part for part in message.parts if isinstance(part, Thinking) and part.field]
    if not target.returns(message) or not mine:
        return {_THOUGHTS: ""} if _THOUGHTLESS in target.refused else {}
    return {mine[0].field: "".join(part.text for part in mine)}
