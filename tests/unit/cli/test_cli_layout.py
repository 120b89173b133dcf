"""Text fits the terminal that it goes to, and is whole in a pipe or a file."""

import fcntl
import io
import os
import pty
import struct
import termios

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot
from rich.cells import cell_len

from scaffold.cli.render.terminal.text_layout import MIN_COLUMNS, PROSE_COLUMNS, UNLIMITED, Layout, layout_for

REASON = "g: the supervisor's model cannot be used: the cassette /home/you/work/cassettes/planner.yaml is not there"
TEXTS = st.text(st.sampled_from("ab \t\n`漢🚀"), max_size=120)


@pytest.fixture
def terminal():
    """A terminal of any width, as a stream."""
    leader, follower = pty.openpty()
    with open(follower, "w") as stream:  # noqa: PTH123 - a descriptor
        yield stream
    os.close(leader)


def resize(stream, columns):
    fcntl.ioctl(stream.fileno(), termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))


def test_the_width_is_that_of_the_terminal_whenever_it_is_asked_for_or_the_users(terminal):
    """SC-19: also after it was resized."""
    for columns, used in ((80, 80), (200, 200), (20, MIN_COLUMNS), (0, 80)):
        resize(terminal, columns)
        assert layout_for(terminal, {}).columns == used
    resize(terminal, 80)
    assert layout_for(terminal, {"COLUMNS": "120"}).columns == 120
    assert layout_for(terminal, {"COLUMNS": "wide"}).columns == 80


def test_a_pipe_or_a_closed_stream_has_no_limit():
    assert layout_for(io.StringIO(), {"COLUMNS": "60"}).columns == UNLIMITED
    assert layout_for(None, {}).columns == UNLIMITED


def test_a_reason_is_wrapped_on_a_terminal_and_whole_in_a_pipe():
    head = click.style("run x failed", bold=True) + ": "
    assert [click.unstyle(line) for line in Layout(60).prose(head, REASON, hang=2)] == snapshot(
        [
            "run x failed: g: the supervisor's model cannot be used: the",
            "  cassette /home/you/work/cassettes/planner.yaml is not",
            "  there",
        ]
    )
    assert Layout().prose(head, REASON, hang=2) == [f"{head}{REASON}"]


def test_sentences_have_shorter_lines_than_a_wide_terminal_and_data_have_not():
    words = "word " * 60
    assert max(map(len, Layout(200).prose("", words))) <= PROSE_COLUMNS
    assert max(map(len, Layout(200).wrap("", words))) > 190


def test_text_that_only_introduces_something_is_cut():
    text = "a request of many words that goes on\nand on"
    assert Layout(40).cut(text, 10) == snapshot("a request of many w… (+1 line)")
    assert Layout().cut(text) == snapshot("a request of many words that goes on (+1 line)")


def test_lines_keep_their_indentation_and_a_wide_head_stands_alone():
    assert Layout(40).wrap("  ", "def f():\n\n    return 1\n") == ["  def f():", "", "      return 1"]
    assert Layout(40).wrap(f"  ! {'key' * 11}  ", "after 3 attempts") == [f"  ! {'key' * 11}", "      after 3 attempts"]


@given(TEXTS, st.integers(MIN_COLUMNS, 90), st.integers(0, 60), st.none() | st.integers(0, 12))
def test_no_line_is_too_wide_and_no_character_is_lost(text, columns, indent, hang):
    """SC-19: whatever the text."""
    head = f"{' ' * indent}x "
    lines = Layout(columns).wrap(head, text, hang=hang)
    assert "".join("".join(lines).split()) == "".join(f"x{text}".split())
    assert all(line == line.rstrip() for line in lines)
    if indent <= columns - 20:
        assert max(map(cell_len, lines)) <= columns
    assert ["".join(line.split()) for line in Layout().wrap(head, text, hang=hang)] == [
        "".join(line.split()) for line in f"x{text.strip(chr(10))}".split("\n")
    ]
