"""Responses: OpenAI's newer wire format, also used by Codex."""

import hashlib
import re
from collections.abc import Sequence
from typing import Final

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
from scaffold.llm.wire.codec import OPAQUE, ModelTarget, OptionalFields, without_named_field
from scaffold.llm.wire.format import PLAIN_ID, encode_json, request_body, wire_id, wire_name
from scaffold.llm.wire.openai_json import SCHEMA_NAME, data_url, is_strict_schema, output_limit
from scaffold.llm.wire.responses_reader import ResponsesReader

_SUMMARY, _ENCRYPTED, _REASONING, _CACHE_KEY = "reasoning.summary", "include", "reasoning", "prompt_cache_key"
_LIMIT = "max_output_tokens"
_OPTIONAL: OptionalFields = (
    # Thoughts that another key, or another server, has encrypted.
    (OPAQUE, re.compile(r"encrypted[_ ]content.*(verif|decrypt|parse)|invalid_encrypted", re.IGNORECASE)),
    (_SUMMARY, re.compile(r"reasoning[._ ]summar", re.IGNORECASE)),
    (_ENCRYPTED, re.compile(r"encrypted_content|['\"`]include\b", re.IGNORECASE)),
    (_REASONING, re.compile(r"\breasoning\b", re.IGNORECASE)),
    (_CACHE_KEY, re.compile(r"prompt_cache_key")),
    # The client hangs up without it, too.
    (_LIMIT, re.compile(r"max_output_tokens")),
)

# Bytes of a conversation's first message that go into its cache key.
_KEYED = 4096
_Item = dict[str, object]


class ResponsesCodec:
    """Translates to and from Responses; nothing is stored at the provider.

    The instructions are only the base prompt, and what changes between requests comes last, so that everything before
    it is served from the cache. `codex` is for subscriptions: always streamed, no length limit.
    """

    path: Final = "/responses"

    def __init__(self, *, codex: bool = False) -> None:
        self._codex = codex

    def message(self, message: Message, target: ModelTarget) -> bytes:
        """Return the message's items joined by commas; empty if it has no content.

        Encrypted thoughts are sent back only to the model that produced them, and only before a text or call.
        """
        if not isinstance(message, UserMessage):
            return b",".join(map(encode_json, self._assistant_items(message, target)))
        items: list[_Item] = []
        content: list[_Item] = []
        for part in message.parts:
            match part:
                case ToolResult():
                    call_id = wire_id(part.call_id, PLAIN_ID)
                    items.append({"type": "function_call_output", "call_id": call_id, "output": part.content})
                case Image():
                    content.append({"type": "input_image", "image_url": data_url(part), "detail": "auto"})
                case Text() if part.text:
                    content.append(_input_text(part.text))
        # Results of calls come first, as in the other wires.
        items += [_message_item("user", content)] if content else []
        return b",".join(map(encode_json, items))

    def request(self, request: Request, pieces: Sequence[bytes], target: ModelTarget) -> bytes:
        """Return the request's body; the context follows the history, as it may change."""
        fields: dict[str, object] = {"model": target.name, "instructions": request.system, "store": False}
        if _CACHE_KEY not in target.refused:
            # The same for all requests of a conversation, as it depends on how that begins.
            beginning = request.system.encode(errors="replace") + b"\0" + (pieces[0][:_KEYED] if pieces else b"")
            fields[_CACHE_KEY] = hashlib.sha256(beginning).hexdigest()[:32]
        if target.stream or self._codex:
            fields["stream"] = True
        if target.thinking.form != "none" and _ENCRYPTED not in target.refused:
            # The provider stores nothing, so its thoughts have to travel with the conversation, encrypted.
            fields["include"] = ["reasoning.encrypted_content"]
        if request.tools:
            fields["tools"] = [
                {
                    "type": "function",
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": tool.schema,
                    "strict": False,
                }
                for tool in request.tools
            ]
        if request.answer_schema is not None:
            strict = is_strict_schema(request.answer_schema)
            schema = {"type": "json_schema", "name": SCHEMA_NAME, "schema": request.answer_schema, "strict": strict}
            fields["text"] = {"format": schema}
        if reasoning := _reasoning_fields(request, target):
            fields["reasoning"] = reasoning
        if (limit := output_limit(request, target)) is not None and not self._codex and _LIMIT not in target.refused:
            fields[_LIMIT] = limit
        texts = [_input_text(text) for text in (request.context, request.reminder) if text]
        after = [encode_json(_message_item("developer", texts))] if texts else []
        return request_body(fields, "input", [*pieces, *after])

    def adapted(self, target: ModelTarget, error: str) -> ModelTarget | None:
        """Return the target without what the error names; None if it names nothing optional."""
        return without_named_field(target, error, _OPTIONAL)

    def reader(self, target: ModelTarget) -> ResponsesReader:
        """Return a reader for one streamed reply."""
        return ResponsesReader(target)

    def _assistant_items(self, message: AssistantMessage, target: ModelTarget) -> list[_Item]:
        items: list[_Item] = []
        thoughts: list[_Item] = []
        mine = target.returns(message)
        opaque = message.opaque if mine else {}
        texts = list(opaque.get("", {}).get("texts", ()))
        for part in message.parts:
            match part:
                case Thinking():
                    if part.signature and mine:
                        summary = [{"type": "summary_text", "text": part.text}] if part.text else []
                        name = {"id": part.id} if part.id else {}
                        sealed = {"summary": summary, "encrypted_content": part.signature}
                        thoughts.append({"type": "reasoning", **name, **sealed})
                case Text() if part.text:
                    # Codex takes a list of parts; other servers plain text, without the id of the part.
                    content: list[_Item] = [{"type": "output_text", "text": part.text}]
                    more = texts.pop(0) if texts else {}
                    items += [*thoughts, more | _message_item("assistant", content if self._codex else part.text)]
                    thoughts = []
                case ToolCall():
                    called = {"name": wire_name(part.name), "arguments": encode_json(part.args).decode()}
                    call_id = wire_id(part.id, PLAIN_ID)
                    call = {"type": "function_call", "call_id": call_id, **called}
                    items += [*thoughts, {**opaque.get(part.id, {}), **call}]
                    thoughts = []
        return items


def _reasoning_fields(request: Request, target: ModelTarget) -> _Item:
    """Return the effort and the wish for a summary; empty for what the model decides or refuses."""
    support, effort = target.thinking, request.effort
    asked = support.form == "effort" or (support.form == "unknown" and effort != "auto")
    if effort is None or not asked or _REASONING in target.refused:
        return {}
    if effort == "off" and support.off != "least":
        return {"effort": "none" if support.form == "unknown" else support.off}
    summary = {} if _SUMMARY in target.refused else {"summary": "auto"}
    return {"effort": support.level(effort), **summary}


def _message_item(role: str, content: str | Sequence[_Item]) -> _Item:
    return {"type": "message", "role": role, "content": content}


def _input_text(text: str) -> _Item:
    return {"type": "input_text", "text": text}
