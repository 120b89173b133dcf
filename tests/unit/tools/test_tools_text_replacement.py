from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

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
    assert list(found.diff) == ["@@ -1,4 +1,4 @@", " def first(a):", "-    return a + 1", "+    return a + 3", " ", " "]


def test_text_that_occurs_more_than_once_is_refused_with_each_place_and_lines_around_it():
    """RA-4: never a guess; a model that has not read the file can say which one it means."""
    where, *places = refused(CODE, "return a").splitlines()
    assert where.startswith("`old` occurs 2 times, at lines 2, 6; nothing was changed.")
    assert places == snapshot(
        ["1\tdef first(a):", "2\t    return a + 1", "3\t", "--", "4\t", "5\tdef second(a):", "6\t\treturn a + 2"]
    )
    where, *places = refused("b" * 9, "b").splitlines()
    assert where.startswith("`old` occurs 9 times, at lines 1, 1, 1, 1, 1 and more;")
    assert places == ["1\tbbbbbbbbb"]
    assert replaced(CODE, "return a", "return 2 * a", everywhere=True).count == 2


def test_text_with_less_indentation_than_its_line_is_refused_if_that_would_change_it():
    """RA-4: the rest of the indentation would stay before the new text."""
    for new in ("    return a + 3", "", "\treturn a + 3"):
        assert refused(CODE, "  return a + 1", new) == snapshot(
            "`old` begins within the indentation of line 2, so `new` would be indented wrongly; nothing was changed. "
            "Include the whole line:\n2\t    return a + 1"
        )


def test_text_that_keeps_its_indentation_may_begin_within_it():
    assert replaced(CODE, "  return a + 1", "  return a").text == CODE.replace("a + 1", "a")
    assert replaced(CODE, "return a + 1", "  return a").text == CODE.replace("return a + 1", "  return a")
    assert replaced(CODE, "a + 1", "  2").text == CODE.replace("a + 1", "  2")
    assert replaced("  a\n    a\n", " a", "\ta", everywhere=True).text == " \ta\n   \ta\n"


def test_line_numbers_of_a_tool_are_named_as_the_mistake():
    """RA-4: a model that copies them once would do so again."""
    for old in ("1\tdef first(a):\n2\t    return a + 1", "1: def first(a):\n2:     return a + 1"):
        assert refused(CODE, old).endswith(
            "Leave out the line numbers, in the new text too. The lines are:\n1\tdef first(a):\n2\t    return a + 1"
        )
    assert "line numbers" not in refused(CODE, "1\tdef other(a):\n    return a + 1")


def test_of_a_long_text_the_lines_are_shown_where_it_differs():
    """RA-4: its first lines would not tell what is wrong."""
    lines = [f"line {number} of the text" for number in range(1, 41)]
    text = "\n".join(lines)
    for wrong in ("line 30 of a text", "line  30 of the text"):
        _, *shown = refused(text, text.replace(lines[29], wrong)).splitlines()
        assert shown == [f"{number}\t{lines[number - 1]}" for number in range(28, 40)]


def test_text_that_differs_in_white_space_is_refused_and_shown():
    """RA-4: a line at another indentation would change what the program does."""
    olds = ["    return a + 2", "def first(a):\n  return a + 1\n"]
    assert [refused(CODE, old).partition("changed. ")[2].splitlines() for old in olds] == snapshot(
        [
            ["These lines differ from it only in white space:", "6\t\treturn a + 2"],
            ["These lines differ from it only in white space:", "1\tdef first(a):", "2\t    return a + 1"],
        ]
    )


def test_a_newline_that_the_end_of_the_file_lacks_is_named_as_the_mistake():
    """RA-4: no line looks different."""
    texts, olds = ("a\nb", "a\r\nb"), ("b\n", "a\nb\n", "a\r\nb\r\n")
    said = {refused(text, old).partition(". ")[2] for text in texts for old in olds}
    assert said == snapshot({"The file ends without a newline: leave it out of `old`, and of `new`."})


def test_similar_lines_are_shown_and_equal_ones_say_more_about_the_place():
    assert refused(CODE, "def second(a, b):\n    return a + 2").endswith(
        "The lines most like it:\n5\tdef second(a):\n6\t\treturn a + 2"
    )
    assert refused(CODE, "class Other:").endswith("nothing was changed. Read the file to see what it contains.")
    assert refused("x\n" * 30_000, "y").endswith("Read the file to see what it contains.")
    code = "def save(self, path):\n    pass\n\n\ndef write(self, path, timeout):\n    retries = 3\n"
    assert refused(code, "def write(self, path):\n    retries = 3").endswith(
        "The lines most like it:\n5\tdef write(self, path, timeout):\n6\t    retries = 3"
    )
    assert refused("}\n" * 60 + "one\n", "}\ntwo\n").endswith("Read the file to see what it contains.")


def test_a_replacement_that_changes_nothing_is_refused():
    assert [refused("a", "", "x"), refused("a", "a", "a")] == snapshot(
        [
            "`old` is empty; to create a file use write_file, to add to one append_file or apply_delta.",
            "`old` and `new` are equal; there is nothing to change.",
        ]
    )


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
