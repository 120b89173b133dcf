"""Text formats for a terminal."""

from datetime import datetime, timedelta

import click

from scaffold.cli.render.terminal.style import heading, paint, status_mark
from scaffold.core.states import COMPOUND_TRANSITIONS, PRIMITIVE_TRANSITIONS
from scaffold.views.state_labels import STATUS_MARKS
from scaffold.views.text_format import (
    ago,
    brief,
    clip,
    clip_middle,
    fill,
    format_cost,
    format_duration,
    local_time,
    pad,
    short_duration,
    wrap_text,
)


def test_text_is_clipped_to_columns_and_control_characters_are_escaped():
    table = {
        ("abc", 3): "abc",
        ("abcd", 3): "ab…",
        ("漢字漢字", 8): "漢字漢字",
        ("漢字漢字", 7): "漢字漢…",
        ("漢字漢字", 6): "漢字…",
        ("e\u0301e\u0301", 2): "e\u0301e\u0301",
        ("\n  first\nsecond", 20): "first",
        ("a\tb", 20): "a b",
        ("\x1b[31mred", 20): r"\x1b[31mred",
        ("", 5): "",
        ("ab", 1): "…",
        ("漢字", 2): "…",
        ("👩‍🚀 to the moon", 40): "👩‍🚀 to the moon",
        ("👩‍🚀👩‍🚀", 3): "👩‍🚀…",
        ("❤️❤️❤️", 5): "❤️❤️…",
    }
    assert {(text, width): clip(text, width) for text, width in table} == table


def test_long_text_is_shortened_in_the_middle():
    table = {("store#1", 7): "store#1", ("rate-limits#12", 10): "rate…ts#12", ("日本語の鍵#1", 9): "日本…鍵#1"}
    assert {(text, width): clip_middle(text, width) for text, width in table} == table


def test_lines_break_between_words_but_not_inside_a_command():
    lines = ["finish it with", "`git merge --continue` now"]
    assert wrap_text(" ".join(lines), 30) == lines
    assert wrap_text("\x07", 30) == [r"\x07"]
    assert wrap_text("", 30) == []
    words = ["a_long_word", "or", "`two words`"]
    assert wrap_text(" ".join(words), 6) == words


def test_lines_are_measured_in_columns_and_long_words_may_be_broken():
    assert wrap_text("漢字 漢字 漢字", 9) == ["漢字 漢字", "漢字"]
    assert wrap_text("漢字漢字漢字 ab", 5, break_words=True) == ["漢字", "漢字", "漢字", "ab"]


def test_a_command_that_is_too_wide_is_broken_at_its_spaces_and_spaces_inside_a_line_stay():
    assert wrap_text("run `git  log -p --stat` now", 12, break_words=True) == ["run `git", "log -p", "--stat` now"]
    assert wrap_text("a  b\nc", 20) == ["a  b c"]


def test_the_first_line_may_have_less_room():
    assert wrap_text("one two three", 9, first=4) == ["one", "two three"]
    assert wrap_text("three two", 9, first=4) == ["", "three two"]


def test_the_first_line_stands_for_a_text_with_the_number_of_the_others():
    assert brief("one\ntwo\nthree\n", 40) == "one (+2 lines)"
    assert brief("a long line\ntwo", 15) == "a lo… (+1 line)"
    assert brief("one", 2) == "o…"


def test_text_is_filled_to_columns_and_cut_only_if_it_is_padded():
    assert (fill("漢", 4), fill("abcdef", 4), fill("\x07", 6)) == ("漢  ", "abcdef", r"\x07  ")
    assert pad("漢", 4) == "漢  "
    assert pad("abcdef", 4) == "abc…"


def test_durations_are_formatted_in_common_units():
    table = {
        -3: "0 s",
        0: "0 s",
        59.9: "59 s",
        60: "1 m 00 s",
        3599: "59 m 59 s",
        3600: "1 h 00 m",
        90_000: "25 h 00 m",
        172_799: "47 h 59 m",
        172_800: "2 d 0 h",
        604_799: "6 d 23 h",
    }
    assert {seconds: format_duration(timedelta(seconds=seconds)) for seconds in table} == table


def test_a_moment_is_told_in_local_time_with_its_date_if_that_is_another_day():
    """BX-12."""
    now = datetime(2026, 11, 26, 8, 0, 5).astimezone()
    assert local_time(now.replace(hour=7), now) == "07:00:05"
    assert local_time(now - timedelta(days=2), now) == "Nov 24 08:00:05"
    assert local_time(now.replace(year=2025), now) == "2025-11-26 08:00:05"
    assert (ago(timedelta(minutes=3, seconds=50)), ago(timedelta(0))) == ("3 m ago", "0 s ago")


def test_an_unknown_cost_is_shown_as_such():
    assert (format_cost(0.256), format_cost(None)) == ("$0.26", "cost unknown")


def test_no_color_turns_colours_off(monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")  # a terminal that is not known has none either
    assert paint("x", "red") == click.style("x", fg="red")
    assert heading("x") != "x"
    monkeypatch.setenv("NO_COLOR", "1")
    assert (paint("x", "red"), heading("x"), status_mark("failed")) == ("x", "x", "✗")


def test_every_status_but_pending_has_a_mark():
    assert ({*PRIMITIVE_TRANSITIONS} | {*COMPOUND_TRANSITIONS}) - STATUS_MARKS.keys() == {"pending"}
    assert status_mark("whatever") == status_mark("pending")


def test_a_short_duration_uses_the_largest_unit():
    table = {-1: "0 s", 59.9: "59 s", 60: "1 m", 3599: "59 m", 3600: "1 h", 86_399: "23 h", 864_000: "10 d"}
    assert {seconds: short_duration(timedelta(seconds=seconds)) for seconds in table} == table
