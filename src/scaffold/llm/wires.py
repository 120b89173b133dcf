"""What all wires have in common: JSON there and back, and the ids and names they take."""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from typing import TypeVar

import msgspec

from scaffold.llm.trouble import unreadable

LONGEST_ID, LONGEST_NAME = 64, 64
"""Characters; every wire refuses longer ones in the history, also those it gave itself."""

PLAIN_ID = re.compile("[A-Za-z0-9_-]+")
"""Ids that Messages and Responses take."""

_FOREIGN = re.compile(r"[^A-Za-z0-9_-]")

_Read = TypeVar("_Read")


def encoded(value: object) -> bytes:
    """Return `value` as JSON; what UTF-8 cannot say, as half a surrogate pair in a file's name, becomes `?`."""
    try:
        return msgspec.json.encode(value, enc_hook=dict)
    except UnicodeEncodeError:
        plain = msgspec.to_builtins(value, enc_hook=dict)
        return json.dumps(plain, ensure_ascii=False, separators=(",", ":")).encode(errors="replace")


def body(fields: Mapping[str, object], name: str, pieces: Iterable[bytes]) -> bytes:
    """Return a JSON object of `fields`, at least one, and the array `name` of what is encoded already.

    Pieces that say nothing are left out; nothing else is looked at, however long the history is.
    """
    return b"".join((encoded(fields)[:-1], b',"', name.encode(), b'":[', b",".join(filter(None, pieces)), b"]}"))


def decoded(decoder: msgspec.json.Decoder[_Read], data: str | bytes) -> _Read:
    """Return what the server sent; ModelTrouble, transient, if that is not what the wire allows."""
    try:
        return decoder.decode(data)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise unreadable(str(error)) from error


def wire_id(call_id: str, shape: re.Pattern[str]) -> str:
    """Return the call's id as a wire takes it: itself if it has the `shape`, else always the same one in its place."""
    return call_id if len(call_id) <= LONGEST_ID and shape.fullmatch(call_id) else made_id(call_id)


def wire_name(name: str) -> str:
    """Return a tool's name, which a model may have made up, as the wires take it in the history."""
    return _FOREIGN.sub("_", name)[:LONGEST_NAME] or "unknown"


def made_id(*parts: str) -> str:
    """Return an id that every wire takes, the same for the same `parts`."""
    return "call_" + hashlib.sha256("\0".join(parts).encode(errors="replace")).hexdigest()[:24]
