"""What a step of a story costs beside its model and its tools, and how much faster stories are side by side."""

import json
import statistics
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from row import Row, row
from scaffold.plan.story.step_type import DEFAULT_WORKFLOW
from scratch_run import ScratchRun

STEP_LIMIT_MS, SIX_GOAL = 150.0, 2.2
ROUNDS, AGENTS = 3, 3
SLEEP_S = 2.0
"""How long each step of the stories that are worked side by side takes its agent."""
DONE = "done\n\nSUMMARY\nlooked\nat\nit"


def rows(*, quick: bool) -> Iterator[Row]:
    """Yield a step's own time, and six stories on three agents against two."""
    taken = [story_seconds(1, agents=1, sleep_s=0.0) / len(DEFAULT_WORKFLOW) for _ in range(1 if quick else ROUNDS)]
    yield row("story-step", statistics.median(taken) * 1000, STEP_LIMIT_MS, unit="ms", goal=20.0 if quick else 1.0)
    few, many, sleep_s = (1, 2, 0.1) if quick else (2, 6, SLEEP_S)
    two_s, six_s = (story_seconds(count, agents=AGENTS, sleep_s=sleep_s) for count in (few, many))
    yield row(
        f"{many}-stories-on-{AGENTS}-agents-against-{few}", six_s, two_s, unit="s", goal=20.0 if quick else SIX_GOAL
    )


def story_seconds(stories: int, *, agents: int, sleep_s: float) -> float:
    """Return the time from the start of the first step of so many independent stories to the end of the last one."""
    ids = [f"US-{number}" for number in range(stories)]
    replies: list[object] = [
        {"when": {"action": f"{each}/step-005", "turn": 1}, "tool_calls": [_write(each), *_sleep(sleep_s)]}
        for each in ids
    ]
    if sleep_s:
        replies += [{"when": {"role": each, "turn": 1}, "tool_calls": _sleep(sleep_s)} for each in DEFAULT_WORKFLOW]
    replies += [{"when": {"role": each}, "text": DONE} for each in DEFAULT_WORKFLOW]
    given = [{"id": each, "title": each} for each in ids]
    with TemporaryDirectory(prefix="scaffold-bench-") as folder:
        run = ScratchRun(Path(folder), stories=given, replies=replies, agents=agents, files={"README.md": "# Sample\n"})
        if code := run.start().wait():
            raise RuntimeError(f"the run ended with {code}")
        state = json.loads((run.repo / ".scaffold" / "workflow_state.json").read_text())["stories"]
    times = [(story["claimed_at"], story["completed_at"]) for story in state.values()]
    begun, ended = (list(map(datetime.fromisoformat, column)) for column in zip(*times, strict=True))
    return (max(ended) - min(begun)).total_seconds()


def _write(name: str) -> dict[str, object]:
    return {"name": "write_file", "args": {"path": f"{name}.txt", "content": "done\n"}}


def _sleep(seconds: float) -> list[dict[str, object]]:
    return [{"name": "shell", "args": {"command": f"sleep {seconds}"}}] if seconds else []
