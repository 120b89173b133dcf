"""The picture of the live screen in README and guide is what the screen shows; `--snapshot-update` draws it again."""

import re
from pathlib import Path

from scaffold.orchestrator.user_control.own_program import OwnProgram
from support.live_screen import a_shown, live_app

PICTURE = Path(__file__).parents[3] / "docs/img/live.svg"


async def test_the_picture_shows_the_screen(tmp_path, request):
    """AL-25: without fonts of a server, and the same on every machine."""
    async with OwnProgram(tmp_path, ["false"]) as program:
        app = live_app(a_shown("docs", "search", "limits"), program)
        async with app.run_test(size=(100, 10)) as pilot:
            await pilot.pause(0.3)
            drawn = re.sub(r"@font-face \{.*?\}", "", app.export_screenshot(title="scaffold live"), flags=re.DOTALL)
            drawn = re.sub(r"terminal-\d+", "terminal", drawn)
    drawn = "\n".join(line.rstrip() for line in drawn.splitlines() if line.strip()) + "\n"
    drawn = re.sub(r"<!-- .*? -->", "", drawn)
    assert "http" not in drawn.replace("http://www.w3.org/2000/svg", "")
    if request.config.option.update_snapshots:
        PICTURE.write_text(drawn)
    assert drawn == PICTURE.read_text()
