"""Which changed lines of Python code can be executed, and which statements share a mark."""

from scaffold.verify.observation.changed_code import ExecutableLines, MarkedLines, executable_lines

CODE = '''\
"""Docstring."""
import os
from re import (
    compile,
)

LIMIT = 3
TEXTS = {
    # a comment
    "a": 1,

}


@property
def first(
    a=LIMIT,
):
    """Docstring
    of two lines."""
    import re
    b = 1
    c = [
        b,
    ]
    if a:
        return b
    elif b:
        pass
    else:
        c = 2
    # a comment
    try:
        return c
    except ValueError:
        raise


class Second:
    """Docstring."""

    field: int
    other: int = 1

    def method(self):
        value: int
        with first() as value:
            value += 1; value += 2
        return (
            value
        )
'''
ALL = range(1, CODE.count("\n") + 1)


def test_lines_in_functions_and_lines_that_run_at_import_are_told_apart():
    """BX-5: definitions, imports, docstrings, comments and blank lines are neither."""
    found = executable_lines(CODE.encode(), ALL)
    assert found.at_import == (MarkedLines(7, (7, 8, 10, 12)), MarkedLines(42, (42, 43)))
    assert found.in_functions == (
        MarkedLines(22, (22, 23, 24, 25, 26)),
        MarkedLines(27, (27,)),
        MarkedLines(28, (28,)),
        MarkedLines(31, (31,)),
        MarkedLines(33, (33,)),
        MarkedLines(34, (34,)),
        MarkedLines(36, (36,)),
        MarkedLines(47, (47, 49, 50, 51)),
        MarkedLines(48, (48,)),
    )


def test_only_changed_lines_count_and_those_that_run_together_share_a_mark():
    rows = [
        ([24], [MarkedLines(23, (24,))]),
        ([22, 24], [MarkedLines(22, (22, 24))]),
        ([22, 26], [MarkedLines(22, (22, 26))]),
        ([26, 33], [MarkedLines(26, (26,)), MarkedLines(33, (33,))]),
        ([14, 16, 19, 21, 30, 32, 35, 46, 1000], []),
    ]
    assert [
        (changed, groups)
        for changed, groups in rows
        if executable_lines(CODE.encode(), changed) != ExecutableLines(tuple(groups))
    ] == []


def test_both_parts_of_a_line_get_the_same_mark():
    assert executable_lines(b"def f(a):\n    if a: return 1\n", [2]).in_functions == (MarkedLines(2, (2,)),)


def test_a_file_that_is_no_python_of_ours_tells_nothing():
    sources = [b"def f(:\n", b"\0", b"\xff = 1\n"]
    assert [source for source in sources if executable_lines(source, [1]) is not None] == []
