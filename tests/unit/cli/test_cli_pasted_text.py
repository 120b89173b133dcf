"""Long pasted texts in the input line."""

from scaffold.cli.repl.user_input import PastedTexts

LONG = "\n".join(str(number) for number in range(120)) + "\n"


def test_a_long_paste_is_a_mark_in_the_line_and_sent_whole():
    """RA-18."""
    pasted = PastedTexts()
    line = f"why? {pasted.collapse(LONG)} and {pasted.collapse('x' * 2_000)}"
    assert line == "why? [pasted 120 lines] and [pasted 2,000 characters #2]"
    assert pasted.expand(line) == f"why? {LONG} and {'x' * 2_000}"
    assert pasted.fold(pasted.expand(line)) == line, "what waits is edited as it was typed"


def test_a_short_paste_stays_as_it_is_but_for_line_ends_of_terminals():
    for text in ("short", "two\nlines", "[pasted 9 lines]"):
        pasted = PastedTexts()
        assert pasted.collapse(text) == text
        assert pasted.expand(text) == text
    assert PastedTexts().collapse("a\rb\r\nc") == "a\nb\nc"


def test_a_mark_is_deleted_at_once_and_a_pasted_one_means_nothing():
    """RA-18: half a mark would send half a text."""
    pasted = PastedTexts()
    mark = pasted.collapse(LONG)
    assert pasted.mark_before(f"a {mark}") == mark
    assert pasted.mark_before(f"{mark} b") == ""
    assert pasted.collapse(LONG) == mark
    inner = pasted.collapse(mark + LONG)
    assert pasted.expand(inner) == mark + LONG


def test_a_pasted_exclamation_mark_is_no_command():
    """RA-18: only what the user types runs."""
    for text in ("!rm -r x", "!\n" + LONG):
        pasted = PastedTexts()
        assert pasted.expand(pasted.collapse(text, at_start=True)) == f" {text}"
        assert pasted.expand(pasted.collapse(text)) == text
