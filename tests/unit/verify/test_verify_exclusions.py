"""What keeps changed code from those who use or check it."""

from scaffold.verify.paths.attributes import misleading_encoding, new_exclusions


def test_lines_of_a_packager_that_leave_out_code_are_found():
    rows = [
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
    ]
    paths = ["calc/division.py", "other/a.py"]
    for line, found in rows:
        lines = [line] if found else []
        assert [*new_exclusions("", f"include x\n{line}\n", "", paths)] == lines, line
        assert [*new_exclusions("", line, "sub", [f"sub/{path}" for path in paths])] == lines, line
        assert [*new_exclusions(f"  {line}", line, "", paths)] == [], line
        assert [*new_exclusions("", line, "elsewhere", paths)] == [], line


def test_an_encoding_in_which_ascii_stays_what_it_is_misleads_nobody():
    names = ["utf-8", "latin-1", "cp1252", "gbk", "shift_jis", "euc-jp", "koi8-r", "utf-8-sig", "big5"]
    assert [
        name for name in names if misleading_encoding(f"#!python\n# -*- coding: {name} -*-\n".encode()) is not None
    ] == []


def test_an_encoding_that_reads_ascii_as_something_else_misleads():
    """BX-5: what looks like a comment may be code."""
    names = ["unicode_escape", "raw_unicode_escape", "utf-7", "hz", "iso2022_jp", "punycode", "rot13", "no-such"]
    assert [misleading_encoding(f"# coding: {name}\n".encode()) for name in names] == names
    assert misleading_encoding(b"x = 1\ny = 2\n# coding: utf-7\n") is None
