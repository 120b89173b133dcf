"""Patches as GPT models write them: what they name, and what is no patch."""

from inline_snapshot import snapshot

from scaffold.policy.path.containment import Refusal
from scaffold.policy.path.patch_text import FilePatch, PatchSection, parse_patch


def parsed(*lines):
    return parse_patch("\n".join(("*** Begin Patch", *lines, "*** End Patch")))


def reason(*lines):
    result = parsed(*lines)
    assert isinstance(result, Refusal), result
    return result.reason


def test_a_patch_adds_updates_moves_and_deletes_files():
    """RA-4."""
    assert parsed(
        "*** Add File: a/new.py",
        "+one",
        "+",
        "++two",
        "*** Update File: b.py",
        "*** Move to: c.py",
        "@@ class A:",
        "@@     def f(self):",
        "     pass",
        "-    x = 1",
        "+    x = 2",
        "",
        "@@",
        "-last",
        "*** End of File",
        "*** Delete File: d e.py",
    ) == (
        FilePatch(kind="add", path="a/new.py", content="one\n\n+two\n"),
        FilePatch(
            kind="update",
            path="b.py",
            move_to="c.py",
            sections=(
                PatchSection(
                    anchors=("class A:", "def f(self):"),
                    lines=((" ", "    pass"), ("-", "    x = 1"), ("+", "    x = 2")),
                ),
                PatchSection(lines=(("-", "last"),), at_end=True),
            ),
        ),
        FilePatch(kind="delete", path="d e.py"),
    )


def test_the_paths_of_a_patch_include_where_files_are_moved():
    """RA-13: each of them must be allowed."""
    (file,) = parsed("*** Update File: a", "*** Move to: b")
    assert file.paths == ("a", "b")


def test_white_space_around_its_markers_and_a_here_document_are_ignored():
    """RA-4."""
    texts = [
        "*** Begin Patch\n*** Delete File: a\n*** End Patch",
        "\n*** Begin Patch  \r\n *** Delete File:  a \r\n  *** End Patch\r\n",
        "<<'EOF'\n*** Begin Patch\n*** Delete File: a\n*** End Patch\nEOF\n",
        'apply_patch <<"PATCH"\n*** Begin Patch\n\n*** Delete File: a\n\n*** End Patch\nPATCH',
    ]
    assert [text for text in texts if parse_patch(text) != (FilePatch(kind="delete", path="a"),)] == []


def test_line_numbers_behind_the_at_signs_name_no_line():
    """RA-4: models mix in the form of unified diffs."""
    (file,) = parsed("*** Update File: a", "@@ -1,2 +1 @@ def f():", "-x", "@@ -9 +8 @@", "+y", " z")
    assert [section.anchors for section in file.sections] == [(), ()]


def test_an_empty_line_is_one_that_stays_unless_it_only_ends_a_section():
    (file,) = parsed("*** Update File: a", " x", "", "-y", "", "", "@@ b", "-z", "", "*** Delete File: c")[:1]
    assert [section.lines for section in file.sections] == [((" ", "x"), (" ", ""), ("-", "y")), (("-", "z"),)]


def test_a_line_of_a_file_that_looks_like_a_marker_is_a_line():
    """RA-4: a file may be about patches."""
    added, updated = parsed(
        "*** Add File: a", "+*** End Patch", "+*** Delete File: x", "", "*** Update File: b", " *** End Patch", "-@@ x"
    )
    assert added.content == "*** End Patch\n*** Delete File: x\n"
    assert updated.sections[0].lines == ((" ", "*** End Patch"), ("-", "@@ x"))


def test_a_text_without_beginning_or_end_is_no_patch():
    """RA-4: a patch that was cut off is not applied in part."""
    texts = ["", "--- a/x\n+++ b/x", "*** Begin Patch", "*** Begin Patch\n*** Add File: a\n+x", "<<EOF\nEOF"]
    assert [parse_patch(text).reason for text in texts] == snapshot(
        [
            "The first line of a patch is `*** Begin Patch`, not an empty line.",
            "The first line of a patch is `*** Begin Patch`, not `--- a/x`.",
            "The last line of a patch is `*** End Patch`, not `*** Begin Patch`.",
            "The last line of a patch is `*** End Patch`, not `+x`.",
            "The first line of a patch is `*** Begin Patch`, not `<<EOF`.",
        ]
    )


def test_what_cannot_be_understood_is_named_with_its_line():
    """RA-4."""
    assert [
        reason(),
        reason("*** Rename File: a"),
        reason("*** Delete File: a", "x"),
        reason("*** Delete File:"),
        reason("*** Update File: a", "*** Move to: ", "-x"),
        reason("*** Add File: a", "+y", "x"),
        reason("*** Add File: a", "+y", "", "+z"),
        reason("*** Update File: a", "x"),
        reason("*** Update File: a", "@@", " x"),
    ] == snapshot(
        [
            "The patch names no file.",
            (
                "Line 2 of the patch: `*** Rename File: a` is not `*** Add File: PATH`, `*** Update File: PATH` or "
                "`*** Delete File: PATH`."
            ),
            "Line 3 of the patch: `x` is not `*** Add File: PATH`, `*** Update File: PATH` or `*** Delete File: PATH`.",
            "Line 2 of the patch: `*** Delete File:` names no path.",
            "Line 3 of the patch: `*** Move to:` names no path.",
            "Line 4 of the patch: every line of the added file a begins with `+`; `x` does not.",
            "Line 4 of the patch: every line of the added file a begins with `+`; an empty line does not.",
            "Line 3 of the patch: a line begins with ` `, `+`, `-` or `@@`, not as `x` does in a.",
            "Line 4 of the patch: the patch changes nothing in a.",
        ]
    )
