"""No figure of `make bench` gets worse without a reason, and none in the documents is old or written by hand."""

import subprocess  # noqa: TID251 - what git knows is asked of git itself
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path

import pytest
from msgspec import structs
from msgspec.json import encode

import baseline as recorded
import record
from check import lost_rows
from row import Row, row

ROOT = Path(__file__).parents[2]
KEPT_DAYS = 30
EMPTY = recorded.Baseline(rows={}, causes={})


def history(*args: str) -> str:
    done = subprocess.run(["git", *args], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout


def measured(ratio: float, before: recorded.Baseline = EMPTY, reason: str = "") -> recorded.Baseline:
    line = encode(row("start", ratio * 100, 100, unit="ms", goal=1.0)).decode()
    return record.with_results(before, [line], reason=reason, date="2030-01-01")


def test_no_recorded_row_is_worse_than_before_without_a_new_reason() -> None:
    """It compares with the version before the last change, which may not be committed yet."""
    versions = history("log", "-2", "--format=%H", "HEAD", "--", "bench/baseline.json").split()
    texts = [recorded.FILE.read_text(), *(history("show", f"{each}:bench/baseline.json") for each in versions)]
    before = next((text for text in texts if text and text != texts[0]), None)
    if before is None:
        pytest.skip("there is no history")
    assert recorded.losses(recorded.parse_baseline(before.encode()), recorded.read_baseline()) == []


def test_the_tables_of_the_documents_are_those_of_the_record_and_not_old() -> None:
    """BX-23: each figure of `docs/speed.md` is on record, from at most 30 days before the newest commit."""
    now = recorded.read_baseline()
    text = record.SPEED.read_text()
    assert record.with_tables(text, now) == text
    assert all(name in text for name in [*now.rows, *now.causes])
    newest = history("log", "-1", "--format=%cs").strip()
    if not newest:
        pytest.skip("there is no history")
    oldest = (date.fromisoformat(newest) - timedelta(days=KEPT_DAYS)).isoformat()
    dates = {name: each.date for name, each in now.rows.items()} | {
        name: each.last_date for name, each in now.causes.items()
    }
    assert {name: each for name, each in dates.items() if each < oldest} == {}


def test_many_small_losses_are_one_and_only_a_reason_lowers_the_bar() -> None:
    slow = measured(0.54, measured(0.5))
    assert slow.rows["start"].ratio == 0.54
    assert slow.rows["start"].bar == 0.5
    with pytest.raises(SystemExit, match=r"start: 0\.58, recorded as 0\.5"):
        measured(0.58, slow)
    wanted = measured(0.58, slow, reason="It checks signatures.")
    assert wanted.rows["start"].bar == 0.58
    assert recorded.losses(slow, wanted) == []
    assert measured(0.6, wanted).rows["start"].reason == "It checks signatures."


def test_a_bar_that_was_lowered_by_hand_is_found() -> None:
    before = measured(0.5)
    for change in ({"bar": 0.6}, {"ratio": 0.6}):
        changed = structs.replace(before, rows={"start": structs.replace(before.rows["start"], **change)})
        assert recorded.losses(before, changed) == ["start"]


def test_noise_far_below_a_goal_is_no_loss() -> None:
    assert measured(0.02, measured(0.01)).rows["start"].bar == 0.01


def test_a_row_is_lost_only_if_it_is_worse_each_of_three_times() -> None:
    before, taken = measured(0.5), list[float]()

    def moody(*ratios: float) -> Iterator[Row]:
        """Return a row that is slower or faster each time."""
        taken.append(ratios[len(taken)])
        yield row("start", taken[-1], 1, unit="ms", goal=1.0)

    assert lost_rows(lambda: moody(0.7, 0.6, 0.54), before) == []
    taken.clear()
    assert lost_rows(lambda: moody(0.7, 0.6, 0.8), before) == ["start"]
    taken.clear()
    assert lost_rows(lambda: moody(0.55), before) == []  # the first good one ends them
    assert taken == [0.55]
    taken.clear()
    assert lost_rows(lambda: moody(9), EMPTY) == []
