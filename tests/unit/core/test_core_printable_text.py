import json

from scaffold.core.printable_text import (
    count_of,
    format_usd,
    join_limited,
    json_escaped,
    printable,
    short_line,
    truncate_text,
    utf8_safe,
    without_colors,
)


def test_text_that_utf_8_cannot_encode_is_escaped_and_the_rest_is_kept():
    carried = {"plain, Grüße 🦊": "plain, Grüße 🦊", "caf\udce9": "caf\\udce9", "": ""}
    assert {text: utf8_safe(text) for text in carried} == carried


def test_a_long_list_of_names_shows_a_few_and_counts_the_rest():
    shown = {(): "", ("a",): "a", ("a", "b"): "a, b", ("a", "b", "c", "d"): "a, b and 2 more"}
    assert {names: join_limited(names, 2) for names in shown} == shown


def test_control_reordering_and_invisible_characters_are_shown_as_escapes():
    shown = {
        "plain\tGrüße 🦊\n": "plain\tGrüße 🦊\n",
        "\x1b[31mred\x00": "\\x1b[31mred\\x00",
        "ab\u202ecd\u200b": "ab\\x202ecd\\x200b",
        "\udce9": "?",
        "a\u200db, \u200c, ا\u200c": "a\\x200db, \\x200c, ا\\x200c",
    }
    assert {text: printable(text) for text in shown} == shown


def test_joiners_of_scripts_and_emoji_stay():
    texts = ("می\u200cخواهم", "क्\u200dष", "👩\u200d👩\u200d👧", "❤️\u200d🔥", "🏴\u200d☠️")
    assert [text for text in texts if printable(text) != text] == []


def test_a_noun_agrees_with_its_number():
    shown = {0: "0 actions", 1: "1 action", 1200: "1,200 actions"}
    assert {number: count_of(number, "action") for number in shown} == shown
    assert [count_of(number, "entry", "entries") for number in (0, 1, 2)] == ["0 entries", "1 entry", "2 entries"]


def test_a_small_amount_has_enough_digits_to_be_visible():
    shown = {
        0.0: "$0.00",
        0.0015: "$0.0015",
        0.0000001: "$0.00000010",
        0.05: "$0.050",
        0.25: "$0.25",
        5.994: "$5.99",
        1234.5: "$1,234.50",
    }
    assert {usd: format_usd(usd) for usd in shown} == shown


def test_escaped_json_means_the_same_and_shows_no_control_or_reordering():
    """RA-13: a terminal would obey C1 controls, and show reordered text as something else."""
    value = ["a\x9b31m", "x\u202ey", "\u200b", "\U000e0041", "\x7f", "é 漢 🙂"]
    line = json.dumps(value, ensure_ascii=False)
    escaped = json_escaped(line)
    assert json.loads(escaped) == value
    assert escaped == '["a\\u009b31m", "x\\u202ey", "\\u200b", "\\udb40\\udc41", "\\u007f", "é 漢 🙂"]'


def test_short_text_is_not_shortened():
    assert truncate_text("x" * 30, 30) == "x" * 30


def test_an_excerpt_keeps_head_and_tail_and_says_what_is_missing():
    text = "head" + "x" * 1_000 + "tail"
    shown = truncate_text(text, 90)
    assert shown == text[:60] + "\n... 918 characters omitted ...\n" + text[-30:]


def test_an_excerpt_without_room_for_a_tail_has_none():
    assert truncate_text("secret", 0) == "\n... 6 characters omitted ...\n"
    assert truncate_text("secret", 2) == "s\n... 5 characters omitted ...\n"


def test_a_short_line_is_one_line_that_is_cut():
    shown = {"a\nb": "a b", "abcdef": "abcdef", "abcdefg": "abc...", "\x1b[2J": "\\x1..."}
    assert {text: short_line(text, 6) for text in shown} == shown


def test_what_a_program_prints_is_read_without_codes_for_terminals():
    """BX-4: colors, movements of the cursor and links, also one that was cut off; other text stays."""
    rows = {
        "\x1b[1m\x1b[92m     Running\x1b[0m unittests": "     Running unittests",
        "test it ... \x1b[38;5;9mFAILED\x1b[m": "test it ... FAILED",
        "\x1b[2K\x1b[1Gdone": "done",
        "\x1b]8;;file:///a.rs\x1b\\a.rs\x1b]8;;\x1b\\:3": "a.rs:3",
        "\x1b]0;title\x07text": "text",
        "an [0m in words": "an [0m in words",
    }
    assert {text: without_colors(text) for text in rows} == rows
