"""What keeps changed code from those who use or check it."""

import pytest

from scaffold.verify.paths.exclusions import misleading_encoding, new_exclusions


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("exclude calc/division.py", True),
        ("exclude calc/*.py setup.py", True),
        ("exclude *.py", False),
        ("global-exclude *.py", True),
        ("global-exclude *.py[cod] __pycache__", False),
        ("recursive-exclude calc *.py", True),
        ("recursive-exclude calc *.txt", False),
        ("recursive-exclude docs *", False),
        ("prune calc", True),
        ("prune c*/", True),
        ("prune tests", False),
        ("include calc/division.py", False),
        ("prune", False),
        ("", False),
    ],
)
def test_lines_of_a_packager_that_leave_out_code_are_found(line, found):
    paths = ["calc/division.py", "other/a.py"]
    assert [*new_exclusions("", f"include x\n{line}\n", "", paths)] == ([line] if found else [])
    assert [*new_exclusions(f"  {line}", line, "", paths)] == []
    assert [*new_exclusions("", line, "sub", [f"sub/{path}" for path in paths])] == ([line] if found else [])
    assert [*new_exclusions("", line, "elsewhere", paths)] == []


def test_an_encoding_in_which_ascii_stays_what_it_is_misleads_nobody():
    names = ["utf-8", "latin-1", "cp1252", "gbk", "shift_jis", "euc-jp", "koi8-r", "utf-8-sig", "big5"]
    assert [
        name for name in names if misleading_encoding(f"#!python\n# -*- coding: {name} -*-\n".encode()) is not None
    ] == []


@pytest.mark.parametrize(
    "name", ["unicode_escape", "raw_unicode_escape", "utf-7", "hz", "iso2022_jp", "punycode", "rot13", "no-such"]
)
def test_an_encoding_that_reads_ascii_as_something_else_misleads(name):
    """BX-5: what looks like a comment may be code."""
    source = f"# coding: {name}\n".encode()
    assert misleading_encoding(source) == name
    assert misleading_encoding(b"x = 1\ny = 2\n" + source) is None
