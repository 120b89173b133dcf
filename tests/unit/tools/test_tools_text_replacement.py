import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaffold.policy.path.containment import Refusal
from scaffold.tools.content.line_edits import apply_edits
from scaffold.tools.content.text_encoding import split_lines
from scaffold.tools.content.text_replacement import TextReplacement, replace_text

CODE = """def first(a):
    return a + 1


def second(a):
\treturn a + 2
"""


def replaced(text, old, new, *, everywhere=False):
    found = replace_text(text, old, new, everywhere=everywhere)
    assert isinstance(found, TextReplacement), found
    return found


def refused(text, old, new="x", *, everywhere=False):
    found = replace_text(text, old, new, everywhere=everywhere)
    assert isinstance(found, Refusal)
    return found.reason


def test_the_exact_text_is_replaced_and_the_change_is_shown():
    """RA-4."""
    found = replaced(CODE, "a + 1", "a + 3")
    assert found.text == CODE.replace("a + 1", "a + 3")
    assert list(found.diff) == [
        "@@ -1,4 +1,4 @@",
        " def first(a):",
        "-    return a + 1",
        "+    return a + 3",
        " ",
        " ",
    ]


def test_text_that_occurs_more_than_once_is_refused_with_its_lines():
    """RA-4: never a guess."""
    assert refused(CODE, "return a").startswith("`old` occurs 2 times, at lines 2, 6; nothing was changed.")
    assert refused("b" * 9, "b").startswith("`old` occurs 9 times, at lines 1, 1, 1, 1, 1 and more;")
    assert replaced(CODE, "return a", "return 2 * a", everywhere=True).count == 2


def test_text_that_differs_in_white_space_is_refused_and_shown():
    """RA-4: a line at another indentation would change what the program does."""
    assert refused(CODE, "    return a + 2").endswith(
        "nothing was changed. These lines differ from it only in white space:\n6\t\treturn a + 2"
    )
    assert "These lines differ from it only in white space:\n1\tdef first(a):\n2\t    return" in refused(
        CODE, "def first(a):\n  return a + 1\n"
    )


def test_similar_lines_are_shown():
    assert refused(CODE, "def second(a, b):\n    return a + 2").endswith(
        "The lines most like it:\n5\tdef second(a):\n6\t\treturn a + 2"
    )
    assert refused(CODE, "class Other:").endswith("nothing was changed. Read the file to see what it contains.")
    assert refused("x\n" * 30_000, "y").endswith("Read the file to see what it contains.")


@pytest.mark.parametrize(("old", "new", "reason"), [("", "x", "`old` is empty"), ("a", "a", "are equal")])
def test_a_replacement_that_changes_nothing_is_refused(old, new, reason):
    assert reason in refused("a", old, new)


def test_line_endings_are_those_of_the_file():
    """RA-4: models write newlines, whatever a file has."""
    assert replaced("one\r\ntwo\r\nthree\r\n", "one\ntwo", "1\n2").text == "1\r\n2\r\nthree\r\n"
    assert replaced("one\ntwo\n", "one\r\n", "1\r\n").text == "1\ntwo\n"
    assert replaced("a\\nb", "a\\nb", "c").text == "c"


@given(st.text("ab\n", max_size=30), st.text("ab\n", min_size=1, max_size=4), st.text("abc\n", max_size=4))
def test_every_occurrence_is_replaced_and_the_edits_of_lines_say_the_same(text, old, new):
    """RA-4."""
    found = replace_text(text, old, new, everywhere=True)
    if isinstance(found, Refusal):
        assert old not in text or old == new
        return
    assert found.text == text.replace(old, new)
    assert found.count == text.count(old)
    applied = apply_edits(text, found.edits)
    assert not isinstance(applied, Refusal)
    assert split_lines(applied.text) == split_lines(found.text)
