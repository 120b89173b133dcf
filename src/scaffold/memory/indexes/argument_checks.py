"""Checks of the arguments of the vector database's tools: names, vectors, metadata, texts and times."""

import contextlib
import hashlib
import json
import math
import unicodedata
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from scaffold.core.errors import UsageError
from scaffold.core.knowledge import CollectionName
from scaffold.core.printable_text import printable, utf8_safe
from scaffold.plan.message_text import quoted
from scaffold.policy.secret.redaction import Redactor

MAX_NAME_CHARS = 64
MAX_DIMENSION = 4_096
"""More numbers than the vectors of any model that is common have."""
MAX_FIELDS = 20
MAX_FIELD_CHARS = 64
MAX_VALUE_CHARS = 1_000


def index_name(given: str) -> CollectionName:
    """Return the name of an index; UsageError if none may be called so."""
    name = unicodedata.normalize("NFC", utf8_safe(given))
    if not name or len(name) > MAX_NAME_CHARS or name != name.strip() or not name.isprintable():
        raise UsageError(
            f"{quoted(name[:MAX_NAME_CHARS])} cannot be the name of an index",
            f"Use 1 to {MAX_NAME_CHARS} printable characters, without spaces at its ends.",
        )
    return CollectionName(name)


def checked_dimension(given: int) -> int:
    """Return the dimension of vectors; UsageError if there are too many numbers."""
    if not 1 <= given <= MAX_DIMENSION:
        raise UsageError(f"vectors of {given:,} numbers cannot be stored", f"Use 1 to {MAX_DIMENSION:,} numbers.")
    return given


def checked_vector(given: Sequence[float], dimension: int) -> list[float]:
    """Return a vector of this dimension, of a size that half-precision numbers can have; UsageError for any other."""
    if len(given) != dimension:
        raise UsageError(
            f"the vector has {len(given):,} numbers, those of the index have {dimension:,}",
            "Give a vector of the same model, or create another index.",
        )
    numbers: list[float] = []
    largest = math.inf
    with contextlib.suppress(OverflowError):  # an integer that no float can hold
        numbers = [float(each) for each in given]
        largest = max(map(abs, numbers))
    if not math.isfinite(largest) or largest == 0:
        raise UsageError("the vector is zero, or has infinite or NaN values", "Give finite numbers.")
    # Scaled, because half-precision numbers would overflow.
    return [each / largest for each in numbers]


def checked_metadata(given: Mapping[str, Any], redactor: Redactor) -> dict[str, str]:
    """Return metadata as texts; UsageError if there is too much of it, or a secret in it."""
    found: dict[str, str] = {}
    for name, value in given.items():
        plain = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
        found[utf8_safe(name).replace("\0", " ")] = utf8_safe(plain).replace("\0", " ")
    if len(found) > MAX_FIELDS or any(len(name) > MAX_FIELD_CHARS for name in found):
        raise UsageError(
            "the metadata has too many fields, or too long names",
            f"Give at most {MAX_FIELDS} fields with names of up to {MAX_FIELD_CHARS} characters.",
        )
    if any(len(value) > MAX_VALUE_CHARS for value in found.values()):
        raise UsageError(
            f"a value of the metadata has more than {MAX_VALUE_CHARS:,} characters", "Put long texts into `text`."
        )
    _refuse_secrets(json.dumps(found, ensure_ascii=False), redactor)
    return found


def checked_text(given: str, redactor: Redactor, most: int, too_long: str) -> str:
    """Return a text as it is stored; UsageError if it has a secret, no words or too many characters."""
    if len(given) > most:
        raise UsageError(f"the text has {len(given):,} characters, at most {most:,} are stored", too_long)
    # In scripts whose letters can be composed in several ways, words are found by one of them.
    plain = unicodedata.normalize("NFC", utf8_safe(given).replace("\0", " ").replace("\r\n", "\n"))
    text = printable(plain)
    if not any(each.isalnum() for each in text):
        raise UsageError("the text has no words", "Give a text that can be searched for.")
    _refuse_secrets(text, redactor)
    return text


def checked_time(name: str, given: str) -> datetime:
    """Return a time in UTC, which is also the default zone; UsageError if it cannot be parsed."""
    try:
        found = datetime.fromisoformat(given.strip())
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise UsageError(f"`{name}` is not a time: {quoted(given)}", "Write e.g. 2026-01-31T18:00:00Z.") from error


def item_hash(text: str, metadata: Mapping[str, str], vector: bytes = b"") -> str:
    """Return the hash that is equal for equal items: stored again, one is still there once."""
    return hashlib.sha256(json.dumps([text, sorted(metadata.items())]).encode() + vector).hexdigest()


def _refuse_secrets(text: str, redactor: Redactor) -> None:
    if redactor.clean(text) != text:
        raise UsageError(
            "there is a secret in it, which is not stored", "Say where the secret is kept, not what it is."
        )
