r"""Text of files: how its characters are encoded and where its lines end.

Lines end with `\n` or `\r\n`; nothing else ends one.
"""

import codecs
import contextlib

from msgspec import Struct

from scaffold.policy.paths import Refusal

SNIFFED_BYTES = 8_192


class Encoding(Struct, frozen=True):
    """How a file's characters are written as bytes, in a way that gives the same bytes back."""

    name: str
    """What it is called: `utf-8`, `utf-8 with BOM`, `utf-16-le with BOM`, ..., `latin-1`."""
    codec: str
    mark: bytes = b""
    """What stands before the text."""


class Decoded(Struct, frozen=True):
    """The text of a file and how it is encoded."""

    text: str
    encoding: Encoding


UTF_8 = Encoding("utf-8", "utf-8")
LATIN_1 = Encoding("latin-1", "latin-1")
MARKED = (
    Encoding("utf-8 with BOM", "utf-8", codecs.BOM_UTF8),
    Encoding("utf-16-le with BOM", "utf-16-le", codecs.BOM_UTF16_LE),
    Encoding("utf-16-be with BOM", "utf-16-be", codecs.BOM_UTF16_BE),
)
_CONTROLS = bytes(byte for byte in range(32) if byte not in b"\t\n\v\f\r\b\x1b") + b"\x7f"


def sniff(head: bytes, *, whole: bool) -> Encoding | None:
    """Return the encoding of a file that begins with `head`, or that `head` is the whole of; None for a binary one.

    A byte order mark decides; without one it is UTF-8, or else, if there are no control characters in its first
    8 KiB, latin-1, which gives any byte a character.
    """
    marked = next((each for each in MARKED if head.startswith(each.mark)), None)
    if head.startswith(codecs.BOM_UTF32_LE):  # begins like UTF-16; nobody writes it
        return None
    if marked or 0 in head[:SNIFFED_BYTES]:
        return marked
    with contextlib.suppress(UnicodeDecodeError):
        codecs.getincrementaldecoder("utf-8")().decode(head, final=whole)
        return UTF_8
    return None if head[:SNIFFED_BYTES].translate(None, _CONTROLS) != head[:SNIFFED_BYTES] else LATIN_1


def decode(data: bytes) -> Decoded | None:
    """Return the text of a file; None for a binary one, or one that is not what its byte order mark says."""
    encoding = sniff(data, whole=True)
    if encoding is None:
        return None
    with contextlib.suppress(UnicodeDecodeError):
        return Decoded(data[len(encoding.mark) :].decode(encoding.codec), encoding)
    return None


def as_bytes(content: str, encoding: Encoding) -> bytes | Refusal:
    """Return a model's `content` in the encoding of a file, without its mark, or why it cannot stand there."""
    try:
        return content.encode(encoding.codec)
    except UnicodeEncodeError as error:
        if any("\ud800" <= character <= "\udfff" for character in error.object[error.start : error.end]):
            return Refusal("`content` has half a surrogate pair in it; send whole Unicode characters.")
        wrong = error.object[error.start]
        return Refusal(
            f"`content` has {wrong!r} in it, which a {encoding.name} file cannot hold; convert the file first."
        )


def lines_of(text: str) -> list[str]:
    """Return the lines without their ends; a last end opens no further line."""
    *ended, last = text.split("\n")
    lines = [line.removesuffix("\r") for line in ended]
    return [*lines, last] if last else lines


def line_end(text: str) -> str:
    """Return how most lines of `text` end; without any, as Unix ends them."""
    windows = text.count("\r\n")
    return "\r\n" if windows * 2 > text.count("\n") else "\n"
