"""Where the sections of a patch belong in a file."""

import pytest
from inline_snapshot import snapshot

from scaffold.policy.path.containment import Refusal
from scaffold.policy.path.patch_text import parse_patch
from scaffold.tools.content.patch_sections import apply_sections

TWO_CLASSES = """\
class A:
    def f(self):
        x = 1
        return x

    def g(self):
        return 1


class B:
    def f(self):
        x = 1
        return x
"""


def applied(text, *lines):
    (file,) = parse_patch("\n".join(("*** Begin Patch", "*** Update File: a", *lines, "*** End Patch")))
    result = apply_sections(text, file.sections)
    return result if isinstance(result, Refusal) else (result.text, list(result.inexact))


def refusal(text, *lines):
    result = applied(text, *lines)
    assert isinstance(result, Refusal), result
    return result.reason


def test_sections_are_applied_where_their_lines_occur_in_any_order():
    """RA-4."""
    text = "one\ntwo\nthree\nfour\nfive\n"
    assert applied(text, " four", "-five", "+5", "@@", "-one", "+1", "+1.5", " two") == (
        "1\n1.5\ntwo\nthree\nfour\n5\n",
        [],
    )


def test_only_changed_lines_are_written():
    """RA-4: white space at the end of a line that stays is not lost, and the answer says so."""
    assert applied("a  \nb\t\n\nc\n", " a", "-b", "+B", " ", " c") == ("a  \nB\n\nc\n", [1])
    assert applied("a\n    \nb\n", " a", "", "-b", "+B") == ("a\n    \nB\n", [1])


def test_an_exact_place_is_preferred_to_one_with_other_white_space():
    assert applied("a \nx\na\n", "-a", "+b") == ("a \nx\nb\n", [])


def test_other_indentation_is_refused_with_the_lines():
    """RA-4: what is added would be wrong, too."""
    assert refusal("if x:\n    a = 1\n", "-  a = 1", "+  a = 2") == snapshot(
        "These lines do not occur:\n  a = 1\nThese lines differ from it only in white space:\n2\t    a = 1"
    )


def test_lines_that_occur_more_than_once_are_refused_unless_an_anchor_decides():
    """RA-4: the first of several places would be a guess."""
    ambiguous = refusal(TWO_CLASSES, "-        x = 1", "+        x = 2")
    assert "at lines 3, 12" in ambiguous
    assert ambiguous.splitlines()[1:] == snapshot(
        [
            "        x = 1",
            "The places are these; read the file if they do not tell which is meant:",
            "1\tclass A:",
            "2\t    def f(self):",
            "3\t        x = 1",
            "4\t        return x",
            "--",
            "10\tclass B:",
            "11\t    def f(self):",
            "12\t        x = 1",
            "13\t        return x",
        ]
    )
    changed, _ = applied(TWO_CLASSES, "@@ class B:", "-        x = 1", "+        x = 2")
    assert changed == TWO_CLASSES[:-27] + TWO_CLASSES[-27:].replace("x = 1", "x = 2")
    nested, _ = applied(TWO_CLASSES, "@@ class A:", "@@ def f(self):", "-        x = 1", "+        x = 2")
    assert nested == TWO_CLASSES.replace("x = 1", "x = 2", 1)
    assert "lines 3, 12" in refusal(TWO_CLASSES, "@@ def f(self):", "-        x = 1", "+        y")


def test_an_anchor_may_be_repeated_as_the_first_line():
    changed, _ = applied(TWO_CLASSES, "@@ def g(self):", "     def g(self):", "-        return 1", "+        return 2")
    assert changed == TWO_CLASSES.replace("return 1", "return 2")


def test_lines_before_their_anchor_and_missing_anchors_are_refused():
    """RA-4."""
    assert refusal(TWO_CLASSES, "@@ class B:", "-        return 1").startswith(
        "These lines do not occur behind `class B:`"
    )
    missing = refusal(TWO_CLASSES, "@@ class C:", "-        return 1")
    assert missing.startswith("No line is `class C:`, as `@@` says.")
    assert "behind `class A:`" in refusal(TWO_CLASSES, "@@ class B:", "@@ class A:", "-        return 1")


def test_the_end_of_a_file_is_a_place_and_keeps_its_newline():
    for text, end in (("a\nb", ""), ("a\nb\n", "\n")):
        assert applied("x\n" + text, "-b", "+c", "*** End of File") == (f"x\na\nc{end}", [])
        assert applied(text, "+c", "*** End of File") == (f"a\nb\nc{end}", [])
        assert applied(f"a\nb\n{text}", " a", "-b", "*** End of File") == (f"a\nb\na{end}", [])
        assert "at the end" in refusal(text, "-a", "*** End of File")


@pytest.mark.parametrize("anchor", [(), ("@@ def f():",)])
def test_added_lines_need_a_line_beside_them_or_the_end_of_the_file(anchor):
    """RA-4: some readers put them at the end, others behind the anchor."""
    text = "def f():\n    pass\n"
    assert refusal(text, *anchor, "+    x = 1") == snapshot(
        "Where do these lines belong? Include a line before or after them, with a space before it, or put "
        "`*** End of File` after them:\n    x = 1"
    )
    assert applied(text, *anchor, "+    x = 1", "*** End of File") == (f"{text}    x = 1\n", [])
    assert applied("", "+x = 1") == ("x = 1\n", [])


def test_lines_keep_their_ends_and_new_ones_get_the_usual_one():
    assert applied("a\r\nb\r\nc\n", " a", "-b", "+x", "+y") == ("a\r\nx\r\ny\r\nc\n", [])


def test_sections_that_change_the_same_line_are_refused():
    assert "overlap" in refusal("a\nb\n", "-a", "+x", "@@", "-a", "+y")
