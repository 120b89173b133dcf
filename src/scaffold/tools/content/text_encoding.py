r"""Text encoding and line endings of files.

Lines end with `\n` or `\r\n`, nothing else.
"""

import codecs

from msgspec import Struct

from scaffold.policy.path.containment import Refusal

SNIFF_BYTES = 8_192


class Encoding(Struct, frozen=True):
    """A file's text encoding. The text is encoded by `python_name`; `bom` is written before it."""

    name: str
    """`utf-8`, `utf-8 with BOM`, `utf-16-le with BOM`, ..., `latin-1`."""
    python_name: str
    bom: bytes = b""
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
BYTE_ORDER_MARK = "\ufeff"
_BINARY_BYTES = frozenset(range(32)) - frozenset(b"\t\n\v\f\r\b\x1b") | {0x7F}


def detect_encoding(head: bytes, *, whole: bool) -> Encoding | None:
    """Return the encoding of a file that starts with `head` (`whole`: `head` is all of it); None if it is binary.

    UTF-32 counts as binary. Any other byte order mark decides. Without one, a NUL in the first 8 KiB means binary; the
    text is UTF-8 if it decodes, else latin-1 (which maps every byte) unless the first 8 KiB have bytes of binary files.
    """
    if head.startswith(codecs.BOM_UTF32_LE):  # it begins with the mark of UTF-16
        return None
    for encoding in BOM_ENCODINGS:
        if head.startswith(encoding.bom):
            return encoding
    sample = head[:SNIFF_BYTES]
    if 0 in sample:
        return None
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head, final=whole)
    except UnicodeDecodeError:
        return LATIN_1 if _BINARY_BYTES.isdisjoint(sample) else None
    return UTF_8


def decode(data: bytes) -> Decoded | None:
    """Return the text of a file; None if it is binary or does not match its byte order mark."""
    encoding = detect_encoding(data, whole=True)
    if encoding is None:
        return None
    try:
        return Decoded(data[len(encoding.bom) :].decode(encoding.python_name), encoding)
    except UnicodeDecodeError:
        return None


def encode_text(content: str, encoding: Encoding) -> bytes | Refusal:
    """Return `content` in the file's encoding, without `encoding.bom`; or why it cannot be encoded."""
    try:
        return content.encode(encoding.python_name)
    except UnicodeEncodeError as error:
        if any("\ud800" <= character <= "\udfff" for character in error.object[error.start : error.end]):
            return Refusal("`content` contains a lone surrogate; send complete Unicode characters.")
        wrong = error.object[error.start]
        return Refusal(
            f"`content` contains {wrong!r}, which {encoding.name} cannot encode; convert the file to UTF-8 first."
        )


def split_lines(text: str) -> list[str]:
    """Return the lines without their line endings; a final newline starts no further line."""
    *ended, last = text.split("\n")
    lines = [line.removesuffix("\r") for line in ended]
    return [*lines, last] if last else lines


def dominant_line_end(text: str) -> str:
    r"""Return the most common line ending of `text`; `\n` if there is none, or on a tie."""
    crlf_count = text.count("\r\n")
    return "\r\n" if crlf_count * 2 > text.count("\n") else "\n"
