"""What a step of a story costs beside its model and its tools, and how much faster stories are side by side."""

import json
import statistics
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from msgspec import Struct

from row import Row, row
from scaffold.plan.story.step_type import DEFAULT_WORKFLOW
from scratch_run import ScratchRun

STEP_LIMIT_MS, SIX_GOAL = 150.0, 2.2
ROUNDS, AGENTS, MORE = 3, 3, 3
STEPS = len(DEFAULT_WORKFLOW)
SLEEP_S = 2.0
"""How long each step of the stories that are worked side by side takes its agent."""
DONE = "done\n\nSUMMARY\nlooked\nat\nit"


class StoriesTime(Struct, frozen=True, kw_only=True):
    """What a run of stories took."""

    seconds: float
    """From the start of the first step to the end of the last one."""
    cpu_s: float
    """Of the whole run and all its processes."""


def rows(*, quick: bool) -> Iterator[Row]:
    """Yield a step's own time, the CPU of one more step, and six stories on three agents against two."""
    runs = [_worked(1, agents=1, sleep_s=0.0) for _ in range(1 if quick else ROUNDS)]
    step_ms = statistics.median(each.seconds for each in runs) / STEPS * 1000
    yield row("story-step", step_ms, STEP_LIMIT_MS, unit="ms", goal=20.0 if quick else 1.0)
    more = _worked(MORE, agents=1, sleep_s=0.0).cpu_s - statistics.median(each.cpu_s for each in runs)
    cpu_ms = more / (STEPS * (MORE - 1)) * 1000
    yield row("story-step-cpu", cpu_ms, STEP_LIMIT_MS, unit="ms CPU", goal=20.0 if quick else 1.0)
    few, many, sleep_s = (1, 2, 0.1) if quick else (2, 6, SLEEP_S)
    two_s, six_s = (_worked(count, agents=AGENTS, sleep_s=sleep_s).seconds for count in (few, many))
    goal = 20.0 if quick else SIX_GOAL
    yield row(f"{many}-stories-on-{AGENTS}-agents-against-{few}", six_s, two_s, unit="s", goal=goal)


def _worked(stories: int, *, agents: int, sleep_s: float) -> StoriesTime:
    """Work so many independent stories; each step takes its agent `sleep_s`."""
    with TemporaryDirectory(prefix="scaffold-bench-") as folder:
        run = run_of_stories(Path(folder), stories, agents=agents, sleep_s=sleep_s)
        used = run.finished()
        state = json.loads((run.repo / ".scaffold" / "workflow_state.json").read_text())["stories"]
    times = [(story["claimed_at"], story["completed_at"]) for story in state.values()]
    begun, ended = (list(map(datetime.fromisoformat, column)) for column in zip(*times, strict=True))
    return StoriesTime(seconds=(max(ended) - min(begun)).total_seconds(), cpu_s=used.ru_utime + used.ru_stime)


def run_of_stories(folder: Path, stories: int, *, agents: int, sleep_s: float) -> ScratchRun:
    """Return a run of so many independent stories; each step takes its agent `sleep_s`."""
    ids = [f"US-{number}" for number in range(stories)]
    replies: list[object] = [
        {"when": {"action": f"{each}/step-005", "turn": 1}, "tool_calls": [_write(each), *_sleep(sleep_s)]}
        for each in ids
    ]
    if sleep_s:
        replies += [{"when": {"role": each, "turn": 1}, "tool_calls": _sleep(sleep_s)} for each in DEFAULT_WORKFLOW]
    replies += [{"when": {"role": each}, "text": DONE} for each in DEFAULT_WORKFLOW]
    given = [{"id": each, "title": each} for each in ids]
    return ScratchRun(folder, stories=given, replies=replies, agents=agents, files={"README.md": "# Sample\n"})


def _write(name: str) -> dict[str, object]:
    return {"name": "write_file", "args": {"path": f"{name}.txt", "content": "done\n"}}


def _sleep(seconds: float) -> list[dict[str, object]]:
    return [{"name": "shell", "args": {"command": f"sleep {seconds}"}}] if seconds else []
