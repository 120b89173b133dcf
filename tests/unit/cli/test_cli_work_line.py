"""The line of a command that waits: on a terminal with its time, elsewhere said once."""

import asyncio
import io
from contextlib import redirect_stderr

import click
from rich.cells import cell_len

from scaffold.cli.render.live.work_line import SHOWN_AFTER_S, WorkLine, work_row
from scaffold.cli.render.terminal.text_layout import Layout
from scaffold.core.model import Activity
from support.fake_clock import FakeClock

WORK = Activity(label="set-up", command="npm ci --no-audit --no-fund --prefer-offline")


def test_the_row_fits_and_keeps_its_times():
    """AL-26."""
    for columns in (40, 60, 200):
        row = click.unstyle(work_row(WORK, 125.0, 70.0, Layout(columns)))
        assert cell_len(row) <= columns
        assert row.startswith("  ▶ set-up: np")
        assert row.endswith("  2 m 05 s, last 1 m 10 s")


async def test_in_a_pipe_it_is_said_once_what_is_waited_for():
    """AL-26: only if it lasts, and not if other lines say it already."""
    rows = [
        ({}, SHOWN_AFTER_S, "looks for leftovers ...\n"),
        ({}, 0.0, ""),
        ({"told": True}, SHOWN_AFTER_S, ""),
        ({"quiet": True}, SHOWN_AFTER_S, ""),
    ]
    for options, lasts_s, told in rows:
        clock, printed = FakeClock(), io.StringIO()
        with redirect_stderr(printed):
            async with WorkLine(clock, **options).during(Activity(label="looks for leftovers")):
                await asyncio.sleep(0)
                clock.advance(lasts_s)
                for _ in range(5):
                    await asyncio.sleep(0)
        assert printed.getvalue() == told, options
