"""Text made safe for databases, prompts, protocols and screens; amounts of money as text."""

import re
from collections.abc import Sequence

_CONTROL = r"\x00-\x08\x0b-\x1f\x7f-\x9f"
_REORDERING = r"\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
_WITHOUT_WIDTH = r"\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200d\u2028\u2029\u2060-\u2065\u206a-\u206f"
_MORE_WITHOUT_WIDTH = r"\u3164\ufe00-\ufe0d\ufeff\uffa0\ufff0-\ufffb"
# Characters without width, and variation selectors, can hide text from people that models still read.
_INVISIBLE_SELECTORS = r"\U000e0000-\U000e0fff"
_UNSAFE = re.compile(f"[{_CONTROL}{_REORDERING}{_WITHOUT_WIDTH}{_MORE_WITHOUT_WIDTH}{_INVISIBLE_SELECTORS}]")
_JOINING = r"\u0600-\u06ff\u0750-\u077f\u08a0-\u0dff\u1000-\u109f\u1780-\u17ff"
_EMOJI = r"\u2190-\u2bff\ufe0f\U0001f000-\U0001faff"
# Joiners that belong to the spelling of a script, such as Persian and Hindi, or to an emoji.
_JOINER = re.compile(f"(?<=[{_JOINING}])[\u200c\u200d](?=[{_JOINING}])|(?<=[{_EMOJI}])\u200d(?=[{_EMOJI}])")
_TERMINAL_CODE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?)")


def without_colors(text: str) -> str:
    """Return what a program printed without the codes for terminals: colors, movements of the cursor, links."""
    return _TERMINAL_CODE.sub("", text)


def printable(text: str) -> str:
    """Return `text` with control, reordering and invisible characters shown as escapes.

    Newlines, tabs, and the joiners within words of scripts that need them and within emoji stay.
    """
    return _UNSAFE.sub(
        lambda found: found[0] if _JOINER.match(found.string, found.start()) else f"\\x{ord(found[0]):02x}",
        text.encode("utf-8", "replace").decode(),
    )


def one_line(text: str) -> str:
    """Return `text` on one line, with single spaces, and as safe as `printable` makes it."""
    return printable(" ".join(text.split()))


def short_line(text: str, limit: int) -> str:
    """Return `text` as `one_line` makes it, cut to `limit` characters."""
    line = one_line(text)
    return line if len(line) <= limit else f"{line[: limit - 3]}..."


def json_escaped(text: str) -> str:
    """Return JSON with control, reordering and invisible characters written as JSON escapes; it means the same."""
    # JSON's escapes are units of UTF-16: characters above U+FFFF need two.
    return _UNSAFE.sub(lambda found: f"\\u{found[0].encode('utf-16-be').hex('-', 2)}".replace("-", "\\u"), text)


def utf8_safe(text: str) -> str:
    r"""Return `text` with each surrogate (from undecodable file names or split pairs) written as `\udcNN`."""
    return text.encode(errors="backslashreplace").decode()


def truncate_text(text: str, limit: int) -> str:
    """Return `text`; if longer than `limit` characters, its head and tail with a note between them."""
    if len(text) <= limit:
        return text
    head, tail = limit * 2 // 3, limit // 3
    return f"{text[:head]}\n... {len(text) - head - tail} characters omitted ...\n{text[len(text) - tail :]}"


def join_limited(names: Sequence[str], most: int) -> str:
    """Return the names joined by commas; of more than `most`, the first ones and a count: `a, b and 3 more`."""
    shown = ", ".join(names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown


def count_of(number: int, noun: str, plural: str | None = None) -> str:
    """Return a number with its noun: `1 action`, `2 actions`; a plural that does not end in -s alone is given."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"


def format_usd(usd: float) -> str:
    """Return an amount in US dollars with two decimals; below $0.10, with two significant digits."""
    exponent = int(f"{usd:e}".rpartition("e")[2])
    digits = max(2, 1 - exponent)
    return f"${usd:,.{digits}f}"
