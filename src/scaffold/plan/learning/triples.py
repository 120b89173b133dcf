"""Read and write triples as text: `WHEN condition DO advice RESULT result`."""

import re
from collections.abc import Mapping

from scaffold.core.learning import Triple
from scaffold.core.printable_text import one_line

MAX_CHARS: Mapping[str, int] = {"WHEN": 400, "DO": 600, "RESULT": 400}
"""Limit for each part."""
MAX_TEXT_CHARS = 16_000
"""A longer text is not even read."""
FORM = "Write it as `WHEN condition DO advice RESULT result`; RESULT may be left out."

# Only words in capitals: "when" and "do" are ordinary words of the parts.
_PART = re.compile(r"(?:^|(?<=[\s,;.]))(WHEN|DO|RESULT)(?=[\s:])[:\s]*")


def read_triple(text: str) -> Triple | str:
    """Return the triple in `text`, or why there is none."""
    if len(text) > MAX_TEXT_CHARS:
        return f"the text has {len(text):,} characters, and at most {MAX_TEXT_CHARS:,} are read"
    found = list(_PART.finditer(text))
    names = [each[1] for each in found]
    # Text before WHEN would be lost.
    if names not in (["WHEN", "DO"], ["WHEN", "DO", "RESULT"]) or text[: found[0].start()].strip():
        return "it does not consist of WHEN, DO and RESULT, in this order and each once"
    ends = [*(each.start() for each in found[1:]), len(text)]
    parts = [text[each.end() : end] for each, end in zip(found, ends, strict=True)]
    return checked_triple(*parts)


def checked_triple(condition: str, advice: str, result: str = "") -> Triple | str:
    """Return the triple of these parts, each on one line and safe to print, or why there is none."""
    # Punctuation between the parts belongs to none of them.
    parts = [one_line(part).strip(" ,;") for part in (condition, advice, result)]
    for name, part in zip(MAX_CHARS, parts, strict=True):
        if not part and name != "RESULT":
            return f"nothing follows {name}"
        if len(part) > MAX_CHARS[name]:
            return f"{name} has {len(part):,} characters, and at most {MAX_CHARS[name]} are kept"
    return Triple(*parts)


def triple_text(triple: Triple) -> str:
    """Return the triple as it is written on one line."""
    result = f" RESULT {triple.result}" if triple.result else ""
    return f"WHEN {triple.condition} DO {triple.advice}{result}"
