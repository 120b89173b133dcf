"""Tables: cells below each other, at any width."""

import re

from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot
from rich.cells import cell_len

from scaffold.cli.render.terminal.text_layout import UNLIMITED, Layout
from scaffold.cli.render.terminal.text_table import table_lines

COLUMNS = 4
CELLS = [st.text(alphabet=letters, max_size=60) for letters in ("aA", "b漢", "c🎉", "d")]
ROWS = [
    ("* ", "active", "s2rozwko", "1/3 landed", "cost unknown", "build the shop"),
    ("* ", "interrupted", "abcdefgh", "1000/1000 landed", "$1234.50", ""),
]


@given(st.lists(st.tuples(*CELLS), min_size=1, max_size=4), st.integers(20, 120) | st.just(UNLIMITED))
def test_no_cell_is_cut_or_touches_another_and_no_line_is_too_wide(rows, columns):
    """AL-28, SC-19: whatever the cells and the terminal."""
    lines = list(table_lines([("  ", *row) for row in rows], Layout(columns), right={1}))
    assert [line for line in lines if cell_len(line) > columns] == []
    assert "".join("".join(lines).split()) == "".join("".join(row) for row in rows)
    assert re.search("[aA][b漢c🎉d]|[b漢][c🎉d]|[c🎉]d", "\n".join(lines)) is None


def test_columns_are_aligned_where_there_is_room_and_follow_each_other_where_there_is_not():
    """SC-19."""
    shown = {columns: list(table_lines(ROWS, Layout(columns), right={3})) for columns in (100, 40)}
    assert shown == snapshot(
        {
            100: [
                "* active       s2rozwko  1/3 landed        cost unknown  build the shop",
                "* interrupted  abcdefgh  1000/1000 landed      $1234.50",
            ],
            40: [
                "* active  s2rozwko  1/3 landed",
                "    cost unknown  build the shop",
                "* interrupted  abcdefgh",
                "    1000/1000 landed  $1234.50",
            ],
        }
    )


def test_a_table_without_rows_is_empty():
    assert list(table_lines([], Layout(40))) == []
