"""A command's current work: a line on standard error while it lasts, with its time."""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import TextIO

from scaffold.cli.render.terminal.screen_redraw import ScreenRedraw, lines_above, screen_size
from scaffold.cli.render.terminal.style import can_draw_on, status_mark
from scaffold.cli.render.terminal.text_layout import Layout, layout_for
from scaffold.core.model import Activity
from scaffold.core.ports import Clock
from scaffold.views.text_format import format_duration, format_seconds

SHOWN_AFTER_S = 1.0
REDRAW_S = 0.5


def unknown(_work: Activity) -> float | None:
    """Return None: the last duration is unknown."""
    return None


class WorkLine:
    """Shows work that lasts longer than a second on a terminal; elsewhere prints one plain line about it.

    Other output appears above the line.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        last_s: Callable[[Activity], float | None] = unknown,
        told: bool = False,
        quiet: bool = False,
    ) -> None:
        """`last_s` returns how many seconds the same work took before.

        If all work is `told` in other lines, the plain one is left out; with `quiet`, nothing is shown.
        """
        self._clock = clock
        self._last_s = last_s
        self._told = told
        self._quiet = quiet

    @asynccontextmanager
    async def during(self, work: Activity) -> AsyncIterator[None]:
        """Show `work` while the block runs."""
        if self._quiet or sys.stderr is None:
            yield
            return
        out = sys.stderr
        showing = asyncio.create_task(
            self._redraw_while_busy(work, out) if can_draw_on(out) else self._print_once(work, out)
        )
        try:
            yield
        finally:
            # Waited for: it erases its line before the next output.
            showing.cancel()
            await asyncio.wait([showing])

    async def _redraw_while_busy(self, work: Activity, out: TextIO) -> None:
        began_s = self._clock.monotonic()
        screen, last_s = ScreenRedraw(out), self._last_s(work)
        await self._clock.sleep(SHOWN_AFTER_S)
        with lines_above(lambda text: screen.print_above(text, screen_size(out))):
            try:
                while True:
                    size = screen_size(out)
                    row = work_row(work, self._clock.monotonic() - began_s, last_s, Layout(size.columns))
                    screen.draw([row], size)
                    await self._clock.sleep(REDRAW_S)
            finally:
                screen.erase(screen_size(out))

    async def _print_once(self, work: Activity, out: TextIO) -> None:
        if not self._told:
            await self._clock.sleep(SHOWN_AFTER_S)
            out.write("\n".join([*layout_for(out).prose("", f"{work.text} ..."), ""]))
            out.flush()


def work_row(work: Activity, took_s: float, last_s: float | None, layout: Layout) -> str:
    """Return one line that fits: the work, its duration so far, and its last duration."""
    last = "" if last_s is None else f", last {format_seconds(last_s)}"
    time = f"  {format_duration(timedelta(seconds=took_s))}{last}"
    mark = f"  {status_mark('running')} "
    return f"{mark}{layout.cut(work.text, 4 + len(time))}{time}"
