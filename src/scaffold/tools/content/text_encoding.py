r"""Text encoding and line endings of files.

Lines end with `\n` or `\r\n`, nothing else.
"""

import codecs
import contextlib
import tokenize
from collections import Counter
from io import BytesIO

from msgspec import Struct, structs

from scaffold.policy.path.containment import Refusal

SNIFF_BYTES = 8_192


class Encoding(Struct, frozen=True):
    """A file's text encoding. The text is encoded by `python_name`; `bom` is written before it."""

    name: str
    """`utf-8`, `utf-8 with BOM`, `utf-16-le with BOM`, ..., `latin-1`."""
    python_name: str
    bom: bytes = b""
    """The byte order mark before the text, if any."""
    guessed: bool = False
    """Whether the file is not UTF-8 and does not say what it is: its bytes beyond ASCII are kept, none are added."""


class Decoded(Struct, frozen=True):
    """The text of a file and its encoding."""

    text: str
    encoding: Encoding

    def rewritten(self, text: str) -> bytes | Refusal:
        """Return the bytes of the file with `text` as its text; or why they cannot be in the file's encoding."""
        encoding, why = self.encoding, f"which {self.encoding.name} cannot encode"
        # Whatever a character of a guessed encoding stands for, it still does where it stays.
        added = Counter(text) - Counter(self.text) if encoding.guessed else ()
        wrong = next((each for each in added if not each.isascii()), None)
        try:
            if wrong is None:
                stray = encoding.guessed and encoding.python_name == UTF_8.python_name
                plain = text.translate({shown: byte for byte, shown in _SHOWN_BYTES.items()}) if stray else text
                return encoding.bom + plain.encode(encoding.python_name, "surrogateescape" if stray else "strict")
            why = "and the encoding of the file is not known, only that it is not UTF-8"
        except UnicodeEncodeError as error:
            wrong = text[error.start]
        if "\ud800" <= wrong <= "\udfff":
            return Refusal("`content` contains a lone surrogate; send complete Unicode characters.")
        return Refusal(
            f"`content` contains {wrong!r}, {why}; nothing was written. Convert the file to UTF-8 first "
            "(iconv -f ENCODING -t UTF-8), or use ASCII."
        )


UTF_8 = Encoding("utf-8", "utf-8")
LATIN_1 = Encoding("latin-1", "latin-1", guessed=True)
MIXED = Encoding("utf-8 with other bytes", "utf-8", guessed=True)
BOM_ENCODINGS = (
    Encoding("utf-8 with BOM", "utf-8", codecs.BOM_UTF8),
    Encoding("utf-16-le with BOM", "utf-16-le", codecs.BOM_UTF16_LE),
    Encoding("utf-16-be with BOM", "utf-16-be", codecs.BOM_UTF16_BE),
)
BYTE_ORDER_MARK = "\ufeff"
_BINARY_BYTES = frozenset(range(32)) - frozenset(b"\t\n\v\f\r\b\x1b") | {0x7F}
_SHOWN_BYTES = {0xDC00 + byte: 0xF700 + byte for byte in range(128, 256)}
"""A byte that is not UTF-8, as Python decodes it, and the character for private use that stands for it in a text."""


def detect_encoding(head: bytes, *, whole: bool) -> Encoding | None:
    """Return the encoding of a file that starts with `head` (`whole`: `head` is all of it); None if it is binary.

    UTF-32 counts as binary. Any other byte order mark decides. Without one, a NUL in the first 8 KiB means binary; the
    text is UTF-8 if it decodes, else what its first lines declare (`# coding: NAME`), else its encoding is guessed.
    """
    if head.startswith(codecs.BOM_UTF32_LE):  # it begins with the mark of UTF-16
        return None
    marked = next((each for each in BOM_ENCODINGS if head.startswith(each.bom)), None)
    if marked and marked.python_name != UTF_8.python_name:
        return marked
    text = head.removeprefix(codecs.BOM_UTF8)
    sample = text[:SNIFF_BYTES]
    if 0 in sample and marked is None:
        return None
    try:
        codecs.getincrementaldecoder("utf-8")().decode(text, final=whole)
    except UnicodeDecodeError:
        if not _BINARY_BYTES.isdisjoint(sample):
            return None
        characters = {ord(each) for each in text.decode(errors="ignore")}
        # One that could also stand for a byte would be ambiguous.
        mixed = max(characters, default=0) > 127 and characters.isdisjoint(_SHOWN_BYTES.values())
        known = MIXED if mixed else LATIN_1
    else:
        # ISO-2022 has seven bits: this sequence begins its characters of two bytes.
        known = LATIN_1 if b"\x1b$" in text and text.isascii() else UTF_8
    if marked:
        return structs.replace(
            marked, name=f"{known.name} with BOM", python_name=known.python_name, guessed=known.guessed
        )
    # A file of ASCII alone may declare another encoding than UTF-8, too.
    declared = _declared_encoding(text) if whole and (known.guessed or text.isascii()) else None
    return declared or known


def _declared_encoding(data: bytes) -> Encoding | None:
    """Return the encoding that `# coding: NAME` in the first two lines declares, if the file is in it."""
    with contextlib.suppress(SyntaxError, LookupError, UnicodeError):
        plain = data[:SNIFF_BYTES].decode("ascii", "replace").encode("ascii", "replace")
        name, _ = tokenize.detect_encoding(BytesIO(plain).readline)
        # Characters of some encodings change those around them: `idna`, `punycode`.
        sample = "a\né\n".encode(name, "replace")
        is_plain = sample.startswith(b"a\n") and sample.endswith(b"\n")
        text = data.decode(name)
        if name != UTF_8.python_name and is_plain and text.encode(name) == data and data.isascii() == text.isascii():
            return Encoding(name, name)
    return None


def decode(data: bytes) -> Decoded | None:
    """Return the text of a file; None if it is binary or does not match its byte order mark."""
    encoding = detect_encoding(data, whole=True)
    if encoding is None:
        return None
    data = data[len(encoding.bom) :]
    if encoding.guessed and encoding.python_name == UTF_8.python_name:
        return Decoded(data.decode(errors="surrogateescape").translate(_SHOWN_BYTES), encoding)
    try:
        return Decoded(data.decode(encoding.python_name), encoding)
    except UnicodeDecodeError:
        return None


def split_lines(text: str) -> list[str]:
    """Return the lines without their line endings; a final newline starts no further line."""
    *ended, last = text.split("\n")
    lines = [line.removesuffix("\r") for line in ended]
    return [*lines, last] if last else lines


def dominant_line_end(text: str) -> str:
    r"""Return the most common line ending of `text`; `\n` if there is none, or on a tie."""
    crlf_count = text.count("\r\n")
    return "\r\n" if crlf_count * 2 > text.count("\n") else "\n"
