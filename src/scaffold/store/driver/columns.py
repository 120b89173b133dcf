"""Conversion between values and columns: times as text, structured values as JSON."""

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from scaffold.core.errors import StoreError
from scaffold.core.events import Event
from scaffold.core.ids import Assertion
from scaffold.core.landing.branch_move import TakenCommit
from scaffold.core.model import CriticScore, Evidence, ProcessIdentity, Usage
from scaffold.core.proof.contract import Contract, Doubt, Verification
from scaffold.core.run_settings import RunSettings
from scaffold.host.startup import importing
from scaffold.store.driver.connection import ColumnValue, Row

USAGE = ("input_tokens", "cached_input_tokens", "output_tokens", "cost_usd", "requests")
T = TypeVar("T")
StructType = TypeVar("StructType", bound=msgspec.Struct)


class TimeSource(Protocol):
    """The current time; implemented by every `core.ports.Clock`."""

    def now(self) -> datetime:
        """Return the current time, aware, UTC."""


def format_time(at: datetime | None) -> str | None:
    """Return `at` (aware) as ISO-8601 UTC text with microseconds; text order is time order. None stays None."""
    return None if at is None else at.astimezone(UTC).isoformat(timespec="microseconds")


def parse_time(text: str) -> datetime:
    """Return the time written by `format_time`, aware, UTC."""
    return datetime.fromisoformat(text)


def parse_optional_time(text: str | None) -> datetime | None:
    """Return the time written by `format_time`; None stays None."""
    return None if text is None else parse_time(text)


def usage_columns(usage: Usage) -> dict[str, ColumnValue]:
    """Return the columns that store `usage`."""
    return {name: getattr(usage, name) for name in USAGE}


def usage_of(row: Row) -> Usage:
    """Return the usage stored in the columns of `usage_columns`."""
    return Usage(**{name: row[name] for name in USAGE})


def read_struct(kind: type[StructType], row: Row, **given: Any) -> StructType:
    """Return a value whose fields are columns of the same name, but for those `given`: stored otherwise or elsewhere.

    Where a plan has thousands of rows, their fields are written out instead, which is faster.
    """
    plain, converted = _columns_of(kind, tuple(given))
    values = {name: row[name] for name in plain}
    for name, read in converted:
        values[name] = read(row[name])
    return kind(**values, **given)


@functools.cache
def _columns_of(
    kind: type[msgspec.Struct], given: tuple[str, ...]
) -> tuple[Sequence[str], Sequence[tuple[str, Callable[[Any], Any]]]]:
    # Both databases have times as text and flags as numbers; all else comes as it was stored.
    readers: Mapping[Any, Callable[[Any], Any]] = {
        datetime: parse_time,
        datetime | None: parse_optional_time,
        bool: bool,
    }
    fields = [field for field in msgspec.structs.fields(kind) if field.name not in given]
    plain = tuple(field.name for field in fields if field.type not in readers)
    return plain, tuple((field.name, readers[field.type]) for field in fields if field.type in readers)


def struct_columns(value: msgspec.Struct, **given: ColumnValue) -> dict[str, ColumnValue]:
    """Return the fields of a value as columns of the same name, and those `given`; a statement takes what it names."""
    columns: dict[str, ColumnValue] = {}
    for name in value.__struct_fields__:
        # What is given is stored in another form, or in another table.
        if name not in given:
            field = getattr(value, name)
            if isinstance(field, datetime):
                field = format_time(field)
            columns[name] = int(field) if isinstance(field, bool) else field
    return columns | given


LONE_SURROGATE = re.compile("[\ud800-\udfff]")


class JsonColumn(Generic[T]):
    """A column of JSON text for values of one type; None is stored as NULL."""

    def __init__(self, kind: Any) -> None:
        self._decoder: msgspec.json.Decoder[T] = msgspec.json.Decoder(kind)

    def write(self, value: T) -> str | None:
        r"""Return the column's text for `value`; surrogates, which UTF-8 cannot encode, are written as `\udcNN`."""
        try:
            return None if value is None else msgspec.json.encode(value).decode()
        except UnicodeEncodeError:
            with importing():
                import json
            text = json.dumps(msgspec.to_builtins(value), ensure_ascii=False)
            return LONE_SURROGATE.sub(lambda lone: rf"\\u{ord(lone[0]):04x}", text)

    def read(self, text: str | None) -> T:
        """Return the value; raise StoreError if the text is not valid for the type, e.g. after a manual edit."""
        try:
            return self._decoder.decode("null" if text is None else text)
        except msgspec.MsgspecError as error:
            what = f"the database holds a value that cannot be read: {error}"
            raise StoreError(
                what, "Use the version of scaffold that wrote it, or restore a backup of the file."
            ) from error


ASSERTIONS = JsonColumn[tuple[Assertion, ...]](tuple[Assertion, ...])
NAMES = JsonColumn[tuple[str, ...]](tuple[str, ...])
SETTINGS = JsonColumn[RunSettings](RunSettings)
PROCESS = JsonColumn[ProcessIdentity | None](ProcessIdentity | None)
OWNER = JsonColumn[ProcessIdentity](ProcessIdentity)
CONTRACT = JsonColumn[Contract | None](Contract | None)
VERIFICATION = JsonColumn[Verification | None](Verification | None)
SCORE = JsonColumn[CriticScore | None](CriticScore | None)
EVIDENCE = JsonColumn[tuple[Evidence, ...]](tuple[Evidence, ...])
DOUBTS = JsonColumn[tuple[Doubt, ...]](tuple[Doubt, ...])
TAKEN_COMMITS = JsonColumn[tuple[TakenCommit, ...]](tuple[TakenCommit, ...])
EVENT = JsonColumn[Event](Event)
OBJECT = JsonColumn[Mapping[str, Any]](dict[str, Any])
