"""Common parts of all wire formats: JSON, ids and names."""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from typing import TypeVar

import msgspec

from scaffold.llm.wire.provider_errors import unreadable_reply

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


def read_usage(kind: type[_Read], reported: object) -> _Read | None:
    """Return the token counts that a reply reports; None if it reports none, or none that can be read.

    The reply itself is good either way: a server's wrong number must not cost the work.
    """
    try:
        return None if reported is None else msgspec.convert(reported, kind, strict=False)
    except msgspec.ValidationError:
        return None


def wire_id(call_id: str, shape: re.Pattern[str]) -> str:
    """Return the call's id if it matches `shape`, else a stable replacement that the wire accepts."""
    return call_id if len(call_id) <= MAX_ID_CHARS and shape.fullmatch(call_id) else stable_id(call_id)


def wire_name(name: str) -> str:
    """Return a tool's name as the wires accept it; the model may have invented an invalid one."""
    return _FOREIGN.sub("_", name)[:MAX_NAME_CHARS] or "unknown"


def stable_id(*parts: str) -> str:
    """Return an id that every wire accepts, the same for the same `parts`."""
    return "call_" + hashlib.sha256("\0".join(parts).encode(errors="replace")).hexdigest()[:24]
