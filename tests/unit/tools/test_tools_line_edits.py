from inline_snapshot import snapshot

from scaffold.policy.path.containment import Refusal
from scaffold.tools.content.line_edits import EditResult, apply_edits, parse_edits

TEXT = "one\ntwo\nthree\nfour\n"


def insert(at, content, **more):
    return {"operation": "insert", "start_line": at, "content": content, **more}


def replace(start, content, **more):
    return {"operation": "replace", "start_line": start, "content": content, **more}


def delete(start, **more):
    return {"operation": "delete", "start_line": start, **more}


def outcome(text, *operations):
    changes = parse_edits(operations)
    return changes if isinstance(changes, Refusal) else apply_edits(text, changes)


def changed(text, *operations):
    result = outcome(text, *operations)
    assert isinstance(result, EditResult), result
    return result.text


def test_operations_use_line_numbers_from_before_the_edit():
    """RA-4."""
    rows = [
        ([insert(1, "zero")], "zero\none\ntwo\nthree\nfour\n"),
        ([insert(5, "five\nsix\n")], "one\ntwo\nthree\nfour\nfive\nsix\n"),
        ([insert(2, "\n")], "one\n\ntwo\nthree\nfour\n"),
        ([replace(2, "zwei")], "one\nzwei\nthree\nfour\n"),
        ([replace(2, "zwei\ndrei", end_line=3)], "one\nzwei\ndrei\nfour\n"),
        ([replace(2, "both", expected="two\nthree")], "one\nboth\nfour\n"),
        ([replace(2, "", end_line=3)], "one\nfour\n"),
        ([delete(1, end_line=4)], ""),
        ([delete(4, expected="four\n")], "one\ntwo\nthree\n"),
        ([delete(4), insert(1, "zero"), replace(2, "a\nb")], "zero\none\na\nb\nthree\n"),
        ([replace(2, "b"), insert(2, "a"), insert(3, "c")], "one\na\nb\nc\nthree\nfour\n"),
        ([insert(2, "a"), insert(2, "b")], "one\na\nb\ntwo\nthree\nfour\n"),
        ([insert(3, "x", expected="three"), delete(1, expected="one")], "two\nx\nthree\nfour\n"),
        ([insert(3, "x", expected="three")], "one\ntwo\nx\nthree\nfour\n"),
    ]
    assert [(operations, changed(TEXT, *operations)) for operations, _ in rows] == rows


def test_line_endings_are_kept():
    """RA-4."""
    rows = [
        ("a\r\nb\r\n", replace(2, "c\nd"), "a\r\nc\r\nd\r\n"),
        ("a\nb", replace(2, "c\n"), "a\nc"),
        ("a\nb", insert(3, "c"), "a\nb\nc"),
        ("a\r\nb", insert(3, "c\n"), "a\r\nb\r\nc"),
        ("a\nb", delete(2), "a"),
        ("a\r\nb\nc\r\n", replace(1, "x"), "x\r\nb\nc\r\n"),
        ("", insert(1, "a"), "a\n"),
        ("a\n\nb", delete(3), "a\n\n"),
        ("a\n\nb\n", delete(2, expected=""), "a\nb\n"),
        ("a\rb\n", replace(1, "c"), "c\n"),
    ]
    assert [(text, operation, changed(text, operation)) for text, operation, _ in rows] == rows


def test_an_operation_that_does_not_apply_refuses_the_whole_edit():
    """RA-4."""
    rows = [
        ([], "is empty"),
        ([replace(5, "x")], "Cannot change line 5: the file has 4 lines"),
        ([insert(6, "x")], "Cannot change line 6"),
        ([delete(3, end_line=5)], "Cannot change lines 3-5"),
        ([replace(1, "x", end_line=2), delete(2)], "overlap"),
        ([delete(2), delete(2)], "overlap"),
        ([delete(2, end_line=4), insert(3, "x")], "overlap"),
        ([delete(3, end_line=2)], "`end_line` 2 is before"),
        ([insert(1, "x"), insert(1, "")], "Operation 2: `insert` needs"),
        ([insert(1, "x", end_line=1)], "no `end_line`"),
        ([{"operation": "replace", "start_line": 1}], "needs `content`"),
        ([delete(1, content="x")], "has no `content`"),
        ([replace(2, "x", expected="zwei")], "`expected` does not match line 2"),
        ([replace(2, "x", end_line=3, expected="two")], "`expected` does not match"),
        ([insert(5, "x", expected="four")], "(no lines)"),
        ([replace(1, "x"), replace(4, "x", expected="for")], "`expected` does not match"),
    ]
    refused = [outcome(TEXT, *operations) for operations, _ in rows]
    assert [each for each in refused if not isinstance(each, Refusal)] == []
    assert [each for each, (_, reason) in zip(refused, rows, strict=True) if reason not in each.reason] == []


def test_an_unexpected_line_is_shown_with_the_lines_where_the_text_occurs():
    """RA-4: never a guess."""
    refused = outcome("a\nb\nc\nb\n", replace(1, "x", expected="b"))
    assert isinstance(refused, Refusal)
    assert refused.reason.splitlines() == snapshot(
        ["`expected` does not match line 1; nothing was changed. It is at line 2, 4. Current lines:", "1\ta"]
    )


def test_different_white_space_is_refused_and_the_line_is_shown():
    """RA-4: a line applied at another indentation would change what the program does."""
    for expected in ("        y = 1", "\t\ty  = 1", "\t\ty = 1 ", "\t\ty = 1\r"):
        refused = outcome("\tif x:\n\t\ty = 1\n", replace(2, "y = 2", expected=expected))
        assert isinstance(refused, Refusal)
        assert refused.reason == snapshot(
            "`expected` differs in white space from line 2; nothing was changed. Current lines:\n2\t\t\ty = 1"
        )
    assert isinstance(outcome("a b\n", replace(1, "x", expected="ab")), Refusal)


def test_line_numbers_in_the_expected_lines_are_named_as_the_mistake():
    """RA-4."""
    refused = outcome("a\n  b\nc\n", replace(2, "2\tx", expected="2\t  b"))
    assert isinstance(refused, Refusal)
    assert refused.reason == snapshot(
        "`expected` has line numbers before the lines; nothing was changed. Leave out the numbers, in `content` too:\n"
        "2\t  b"
    )


def test_the_change_is_returned_as_a_unified_diff():
    text = "".join(f"{n}\n" for n in range(1, 21))
    result = outcome(text, replace(3, "drei"), delete(5), insert(15, "x\ny"))
    assert isinstance(result, EditResult)
    assert list(result.diff) == [
        "@@ -1,7 +1,6 @@",
        " 1",
        " 2",
        "-3",
        "+drei",
        " 4",
        "-5",
        " 6",
        " 7",
        "@@ -13,4 +12,6 @@",
        " 13",
        " 14",
        "+x",
        "+y",
        " 15",
        " 16",
    ]
