r"""Text encoding and line endings of files.

Lines end with `\n` or `\r\n`, nothing else.
"""

import codecs
import contextlib

from msgspec import Struct

from scaffold.policy.path.containment import Refusal

SNIFF_BYTES = 8_192


class Encoding(Struct, frozen=True):
    """A file's text encoding; decoding and encoding again gives the same bytes."""

    name: str
    """`utf-8`, `utf-8 with BOM`, `utf-16-le with BOM`, ..., `latin-1`."""
    codec: str
    mark: bytes = b""
    """The byte order mark before the text, if any."""


class Decoded(Struct, frozen=True):
    """The text of a file and its encoding."""

    text: str
    encoding: Encoding


UTF_8 = Encoding("utf-8", "utf-8")
LATIN_1 = Encoding("latin-1", "latin-1")
BOM_ENCODINGS = (
    Encoding("utf-8 with BOM", "utf-8", codecs.BOM_UTF8),
    Encoding("utf-16-le with BOM", "utf-16-le", codecs.BOM_UTF16_LE),
    Encoding("utf-16-be with BOM", "utf-16-be", codecs.BOM_UTF16_BE),
)
_CONTROLS = bytes(byte for byte in range(32) if byte not in b"\t\n\v\f\r\b\x1b") + b"\x7f"


def detect_encoding(head: bytes, *, whole: bool) -> Encoding | None:
    """Return the encoding of a file that starts with `head` (`whole`: `head` is all of it); None if it is binary.

    A byte order mark decides. Without one the text is UTF-8 if it decodes, else latin-1 (which maps every byte) if
    its first 8 KiB have no control characters.
    """
    marked = next((each for each in BOM_ENCODINGS if head.startswith(each.mark)), None)
    if head.startswith(codecs.BOM_UTF32_LE):  # starts with the UTF-16 mark; UTF-32 is not supported
        return None
    if marked or 0 in head[:SNIFF_BYTES]:
        return marked
    with contextlib.suppress(UnicodeDecodeError):
        codecs.getincrementaldecoder("utf-8")().decode(head, final=whole)
        return UTF_8
    return None if head[:SNIFF_BYTES].translate(None, _CONTROLS) != head[:SNIFF_BYTES] else LATIN_1


def decode(data: bytes) -> Decoded | None:
    """Return the text of a file; None if it is binary or does not match its byte order mark."""
    encoding = detect_encoding(data, whole=True)
    if encoding is None:
        return None
    with contextlib.suppress(UnicodeDecodeError):
        return Decoded(data[len(encoding.mark) :].decode(encoding.codec), encoding)
    return None


def encode_text(content: str, encoding: Encoding) -> bytes | Refusal:
    """Return `content` in the file's encoding without a BOM, or why it cannot be encoded."""
    try:
        return content.encode(encoding.codec)
    except UnicodeEncodeError as error:
        if any("\ud800" <= character <= "\udfff" for character in error.object[error.start : error.end]):
            return Refusal("`content` contains a lone surrogate; send complete Unicode characters.")
        wrong = error.object[error.start]
        return Refusal(f"`content` contains {wrong!r}, which {encoding.name} cannot encode; convert the file first.")


def split_lines(text: str) -> list[str]:
    """Return the lines without their line endings; a final newline starts no further line."""
    *ended, last = text.split("\n")
    lines = [line.removesuffix("\r") for line in ended]
    return [*lines, last] if last else lines


def dominant_line_end(text: str) -> str:
    r"""Return the most common line ending of `text`; `\n` if there is none."""
    windows = text.count("\r\n")
    return "\r\n" if windows * 2 > text.count("\n") else "\n"
