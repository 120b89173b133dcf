"""Common parts of all wire formats: JSON, ids and names."""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import msgspec

from scaffold.core.tool import MAX_NESTING, is_nested_too_deeply
from scaffold.llm.wire.provider_errors import unreadable_reply

UNREADABLE_ARGUMENT = "unreadable_arguments"
"""The only argument of a call whose text is not a JSON object, or too deeply nested.

No tool accepts it, so the call is refused, not run.
"""

MAX_SHOWN_CHARS = 500
"""Longer texts are cut to this before they are shown to the model."""


MAX_ID_CHARS, MAX_NAME_CHARS = 64, 64
"""Every wire refuses longer ones in the history, even its own."""
PLAIN_ID = re.compile("[A-Za-z0-9_-]+")
"""Ids that Messages and Responses accept."""
_FOREIGN = re.compile(r"[^A-Za-z0-9_-]")
_Read = TypeVar("_Read")


def encode_json(value: object) -> bytes:
    """Return `value` as JSON; characters that UTF-8 cannot encode, e.g. a lone surrogate, become `?`."""
    try:
        return msgspec.json.encode(value, enc_hook=dict)
    except UnicodeEncodeError:
        plain = msgspec.to_builtins(value, enc_hook=dict)
        return json.dumps(plain, ensure_ascii=False, separators=(",", ":")).encode(errors="replace")


def request_body(fields: Mapping[str, object], name: str, pieces: Iterable[bytes]) -> bytes:
    """Return a JSON object of `fields` (not empty) and the array `name` of the already encoded `pieces`.

    Empty pieces are skipped. The pieces are not parsed, so long histories stay cheap.
    """
    return b"".join((encode_json(fields)[:-1], b',"', name.encode(), b'":[', b",".join(filter(None, pieces)), b"]}"))


def decode_json(decoder: msgspec.json.Decoder[_Read], data: str | bytes) -> _Read:
    """Return the decoded data; ModelError, transient, if it does not match the wire format."""
    try:
        return decoder.decode(data)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise unreadable_reply(str(error)) from error


def wire_id(call_id: str, shape: re.Pattern[str]) -> str:
    """Return the call's id if it matches `shape`, else a stable replacement that the wire accepts."""
    return call_id if len(call_id) <= MAX_ID_CHARS and shape.fullmatch(call_id) else stable_id(call_id)


def wire_name(name: str) -> str:
    """Return a tool's name as the wires accept it; the model may have invented an invalid one."""
    return _FOREIGN.sub("_", name)[:MAX_NAME_CHARS] or "unknown"


def stable_id(*parts: str) -> str:
    """Return an id that every wire accepts, the same for the same `parts`."""
    return "call_" + hashlib.sha256("\0".join(parts).encode(errors="replace")).hexdigest()[:24]


def parse_arguments(text: str, *, cut: bool = False) -> Mapping[str, Any]:
    """Return the arguments in `text`; empty text and `null` mean no arguments.

    With `cut` the reply ended at its length limit: nothing is parsed, because truncated arguments may look complete.
    Text that is not a JSON object, or has more than MAX_NESTING levels, becomes the one argument `UNREADABLE_ARGUMENT`,
    which describes the problem.
    """
    if cut or not text.strip():
        return {}
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        return _unreadable_arguments(f"not a JSON object ({error})", text)
    if value is None:
        return {}
    if not isinstance(value, dict):
        return _unreadable_arguments(f"not a JSON object (it is {type(value).__name__}, not an object)", text)
    if is_nested_too_deeply(value):
        return _unreadable_arguments(f"nested more than {MAX_NESTING} levels deep", text)
    return value


def _unreadable_arguments(problem: str, text: str) -> Mapping[str, Any]:
    return {UNREADABLE_ARGUMENT: f"{problem}: {text[:MAX_SHOWN_CHARS]}"}
