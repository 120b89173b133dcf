"""Text told without the secrets in it: those whose values are known, and those known by their shape. Pure.

What is not caught: a secret that was cut, reversed, encrypted or spelled out, or whose encoded form breaks over lines.
"""

import base64
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, pairwise
from typing import Any
from urllib.parse import quote, quote_plus

from msgspec import Struct

from scaffold.policy.shapes import SHAPES

SHORTEST = 8
"""Characters; a shorter value stands in too many texts by chance."""
LONG_LINE = 20
"""Characters from which on each line of a longer value is a secret by itself."""


class Span(Struct, frozen=True, order=True):
    """Where a secret stands in a text: from `start` up to `end`."""

    start: int
    end: int
    name: str


class Redactor:
    """Tells text with `[redacted:NAME]` in place of each secret."""

    def __init__(self, *known: Mapping[str, str]) -> None:
        """Take secrets by name from several sources; those of fewer than `SHORTEST` characters are left out."""
        named = [(name, value) for source in known for name, value in source.items()]
        forms = [(form, _plain(name)) for name, value in named for form in _forms(value)]
        self._forms: Mapping[str, str] = dict(reversed(forms))  # the first name of a value counts
        names = sorted({*self._forms.values(), *(shape.name for shape in SHAPES)})
        self._marks = rf"\[redacted:(?:{'|'.join(map(re.escape, names))})\]"

    def clean(self, text: str) -> str:
        """Return `text` without secrets, the very same object if there is none; cleaning it again changes nothing."""
        # What stood beside a secret, and is no part of it, may be seen for what it is once that is gone.
        while spans := self._secrets(text):
            text = _covered(text, spans)
        return text

    def clean_all(self, value: Any) -> Any:
        """Return a JSON value with all its texts, keys included, cleaned."""
        match value:
            case str():
                return self.clean(value)
            case Mapping():
                return {self.clean_all(key): self.clean_all(each) for key, each in value.items()}
            case list() | tuple():
                return [self.clean_all(each) for each in value]
            case _:
                return value

    def mark_in(self, value: Any) -> str | None:
        """Return the first mark of ours in a JSON value, None if there is none: whoever says it quotes no text."""
        match value:
            case str():
                found = re.search(self._marks, value) if "[redacted:" in value else None
                return found and found[0]
            case Mapping():
                return self.mark_in([*value, *value.values()])
            case list() | tuple():
                return next(filter(None, map(self.mark_in, value)), None)
            case _:
                return None

    def _secrets(self, text: str) -> Sequence[Span]:
        """Return where secrets stand, in order and apart from each other and from our marks."""
        spans = _merged(sorted(chain(self._known(text), _shaped(text)), key=lambda span: (span.start, -span.end)))
        if not spans or "[redacted:" not in text:
            return spans
        marks = [found.span() for found in re.finditer(self._marks, text)]
        return list(_outside(spans, marks))

    def _known(self, text: str) -> Iterator[Span]:
        for form, name in self._forms.items():
            start = text.find(form)
            while start >= 0:
                end = start + len(form)
                yield Span(start, end, name)
                start = text.find(form, end)


def _shaped(text: str) -> Iterator[Span]:
    # looking for a literal is many times faster than any expression, and almost always there is none
    for shape in [shape for shape in SHAPES if shape.literal in text]:
        for start, end in shape.found_in(text):
            yield Span(start, end, shape.name)


def _merged(spans: Sequence[Span]) -> Sequence[Span]:
    """Return sorted spans with those that overlap joined under the name of the first."""
    merged: list[Span] = []
    for span in spans:
        last = merged[-1] if merged else None
        if last is not None and span.start < last.end:
            merged[-1] = Span(last.start, max(last.end, span.end), last.name)
        else:
            merged.append(span)
    return merged


def _outside(spans: Sequence[Span], marks: Sequence[tuple[int, int]]) -> Iterator[Span]:
    """Yield what of each span lies outside of all marks; both are in order."""
    at = 0
    for span in spans:
        while at < len(marks) and marks[at][1] <= span.start:
            at += 1
        start, later = span.start, at
        while later < len(marks) and marks[later][0] < span.end:
            if start < marks[later][0]:
                yield Span(start, marks[later][0], span.name)
            start, later = marks[later][1], later + 1
        if start < span.end:
            yield Span(start, span.end, span.name)


def _covered(text: str, spans: Sequence[Span]) -> str:
    """Return `text` with a mark over each span."""
    first, last = Span(0, 0, ""), Span(len(text), len(text), "")
    pieces = []
    for before, span in pairwise((first, *spans, last)):
        pieces += [text[before.end : span.start], f"[redacted:{span.name}]" if span.name else ""]
    return "".join(pieces)


def _plain(name: str) -> str:
    return re.sub(r"[^\w.-]+", "_", name)[:64] or "secret"


def _forms(value: str) -> Iterator[str]:
    """Yield a secret as it may be written: as it is, in JSON, in a URL, in base64 wherever it begins there, in hex."""
    value = value.strip()
    if len(value) < SHORTEST:
        return
    lines = value.splitlines()
    yield value
    yield from (line.strip() for line in lines if len(lines) > 1 and len(line.strip()) >= LONG_LINE)
    data = value.encode(errors="surrogateescape")
    written = [json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]]
    written += [quote(data, safe=""), quote(data), quote_plus(data), data.hex()]
    written += [form for offset in range(3) for form in _base64(data, offset)]
    yield from dict.fromkeys(form for form in written if form != value)


def _base64(data: bytes, offset: int) -> tuple[str, str]:
    """Return what base64, in both alphabets, always writes of `data` when it begins `offset` bytes into a group."""
    begin, end = (0, 2, 3)[offset], (offset + len(data)) * 8 // 6
    padded = b"\0" * offset + data
    return base64.b64encode(padded).decode()[begin:end], base64.urlsafe_b64encode(padded).decode()[begin:end]
