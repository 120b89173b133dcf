"""How values become columns and come back: times as text, everything with parts as JSON."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from scaffold.core.contract import Contract, Verification
from scaffold.core.errors import StoreTrouble
from scaffold.core.events import Event
from scaffold.core.ids import Assertion
from scaffold.core.model import Evidence, ProcessIdentity, RunSettings, Score, Usage
from scaffold.core.ports import NOTHING
from scaffold.store.connection import Row, Value

T = TypeVar("T")


class Calendar(Protocol):
    """The time of day; every `core.ports.Clock` is one."""

    def now(self) -> datetime:
        """Return the time of day, aware, UTC."""
        ...


def stamp(at: datetime | None) -> str | None:
    """Return `at` (aware) as ISO-8601 UTC text with microseconds, so that text order is time order; None stays None."""
    return None if at is None else at.astimezone(UTC).isoformat(timespec="microseconds")


def moment(text: str) -> datetime:
    """Return the time that `stamp` wrote, aware, UTC."""
    return datetime.fromisoformat(text)


def moment_if_any(text: str | None) -> datetime | None:
    """Return the time that `stamp` wrote; None stays None."""
    return None if text is None else moment(text)


def usage_columns(usage: Usage) -> dict[str, Value]:
    """Return the columns that count what was used."""
    return {
        "input_tokens": usage.input_tokens,
        "cached_input_tokens": usage.cached_input_tokens,
        "output_tokens": usage.output_tokens,
        "cost_usd": usage.cost_usd,
        "requests": usage.requests,
    }


def usage_of(row: Row) -> Usage:
    """Return what the columns of `usage_columns` say."""
    return Usage(**{column: row[column] for column in usage_columns(NOTHING)})


class Json(Generic[T]):
    """A column that holds values of one type as JSON text; None is stored as NULL."""

    def __init__(self, kind: Any) -> None:
        self._decoder: msgspec.json.Decoder[T] = msgspec.json.Decoder(kind)

    def write(self, value: T) -> str | None:
        """Return the column's content for `value`."""
        return None if value is None else msgspec.json.encode(value).decode()

    def read(self, text: str | None) -> T:
        """Return the value; StoreTrouble if the column holds something else, as after a change by hand."""
        try:
            return self._decoder.decode("null" if text is None else text)
        except msgspec.MsgspecError as error:
            what = f"the database holds a value that does not read back: {error}"
            raise StoreTrouble(
                what, "Use the version of scaffold that wrote it, or put back a copy of the file."
            ) from error


ASSERTIONS = Json[tuple[Assertion, ...]](tuple[Assertion, ...])
NAMES = Json[tuple[str, ...]](tuple[str, ...])
SETTINGS = Json[RunSettings](RunSettings)
PROCESS = Json[ProcessIdentity | None](ProcessIdentity | None)
OWNER = Json[ProcessIdentity](ProcessIdentity)
CONTRACT = Json[Contract | None](Contract | None)
VERIFICATION = Json[Verification | None](Verification | None)
SCORE = Json[Score | None](Score | None)
EVIDENCE = Json[tuple[Evidence, ...]](tuple[Evidence, ...])
EVENT = Json[Event](Event)
OBJECT = Json[Mapping[str, Any]](dict[str, Any])
