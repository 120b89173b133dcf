"""Each tab as text at three sizes, with names that are hard to draw; the snapshots are to be read."""

import pytest

from scaffold.orchestrator.user_control.own_program import OwnProgram
from scaffold.tui.key_table import TABS
from support.live_screen import a_shown, live_app, screen_text

SIZES = ((40, 15), (80, 24), (200, 50))


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
async def test_each_tab_fits_its_size(size, snapshot, tmp_path):
    """AL-25: agents, output, plan, landing, inbox, stats, with the keys that work on each."""
    async with OwnProgram(tmp_path, ["false"]) as program:
        app = live_app(a_shown(), program)
        async with app.run_test(size=size) as pilot:
            await pilot.pause(0.3)
            for tab in TABS:
                assert app.tab == tab
                text = screen_text(app)
                assert "\x1b" not in text
                assert "\u202e" not in text
                assert text == snapshot(name=tab)
                await pilot.press("tab")


async def test_without_colors_everything_is_drawn(monkeypatch, tmp_path):
    """AL-25: `NO_COLOR` takes colors away, from empty lines, too, and nothing else."""
    monkeypatch.setenv("NO_COLOR", "1")
    async with OwnProgram(tmp_path, ["false"]) as program:
        app = live_app(a_shown(), program)
        async with app.run_test(size=(80, 24)) as pilot:
            await pilot.pause(0.3)
            assert "[Agents]" in screen_text(app)
