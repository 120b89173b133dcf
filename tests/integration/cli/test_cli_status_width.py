"""`status` fits the terminal, and is whole in a pipe."""

import unicodedata

import click

from builders import begin, fail, make_run
from scaffold.cli.render.status_text import status_text
from scaffold.cli.render.terminal.text_layout import Layout
from scaffold.views.run_view import read_run_view

LONG = "a_very_long_name_" * 12
WIDE = f"""\
version: 1
goals:
  - name: {LONG}
    goal_state: [{", ".join(f"{LONG}{n}" for n in range(30))}]
    actions:
      - {{key: {LONG[:120]}, effects: [{", ".join(f"{LONG}{n}" for n in range(30))}]}}
      - {{key: {"漢字" * 20}, preconditions: ["{LONG}1"], effects: [{"漢字" * 60}]}}
"""


def test_no_line_of_the_screen_is_wider_than_the_terminal_and_nothing_is_lost(context):
    """SC-19."""
    run = begin(context, make_run(context, WIDE))
    fail(context, run, LONG[:120], {}, error="long " * 100)
    view = read_run_view(context, run)
    for columns in (40, 60, 80, 200):
        text = status_text(view, Layout(columns))
        for line in text.splitlines():
            if "scaffold logs" not in line and "scaffold contract" not in line:  # commands are to be copied whole
                assert cells(click.unstyle(line)) <= columns, line
        assert text.count("long") >= 100
        assert "".join(text.split()).count("漢字" * 20) >= 1


def test_in_a_pipe_each_thing_is_one_whole_line(context, scaffold):
    """SC-19: without trailing spaces, and not padded to the longest name."""
    run = begin(context, make_run(context, WIDE))
    fail(context, run, LONG[:120], {}, error="long " * 100)
    lines = scaffold("status").out.splitlines()
    assert all(line == line.rstrip() for line in lines)
    assert any(line.endswith(("long " * 100).rstrip()) for line in lines)
    assert any(line.startswith(f"  ✗ failed    {LONG[:120]}  after ") for line in lines)
    assert any(line.startswith(f"  ■ blocked   {'漢字' * 20}  needs {LONG[:120]}") for line in lines)


def cells(text):
    return sum(2 if unicodedata.east_asian_width(each) in "WF" else 1 for each in text)
