"""Values and columns: they round-trip, and times sort as text."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from scaffold.core.errors import StoreError
from scaffold.core.model import ProcessIdentity
from scaffold.core.proof.contract import Contract
from scaffold.store.driver import columns

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


def test_a_time_is_stored_in_utc_sorts_as_text_and_reads_back_aware() -> None:
    at = NOON + timedelta(microseconds=1)
    assert columns.parse_time(columns.format_time(at)) == at
    assert columns.parse_time(columns.format_time(at)).utcoffset() == timedelta(0)
    east = NOON.astimezone(timezone(timedelta(hours=5, minutes=30)))
    assert columns.format_time(east) == "2030-01-01T12:00:00.000000+00:00"
    times = [NOON, NOON + timedelta(microseconds=1), NOON + timedelta(seconds=1), NOON + timedelta(days=400)]
    assert sorted(map(columns.format_time, times)) == list(map(columns.format_time, times))
    assert columns.format_time(None) is None
    assert columns.parse_optional_time(None) is None


def test_an_owner_round_trips_and_none_is_stored_as_null() -> None:
    for owner in (None, ProcessIdentity(7, "12345", "boot")):
        assert columns.PROCESS.read(columns.PROCESS.write(owner)) == owner
    assert columns.CONTRACT.write(None) is None
    assert columns.CONTRACT.write(Contract()) is not None


def test_a_column_changed_by_hand_is_an_error_and_not_a_wrong_value() -> None:
    for text in ("", "[1]", "{", None):
        with pytest.raises(StoreError) as caught:
            columns.NAMES.read(text)
        assert "backup" in caught.value.fix
