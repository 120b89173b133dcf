"""An attempt under way, with nobody at work in it."""

from collections.abc import Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fakes import GHOST, House
from scaffold.core.model import Run
from scaffold.llm.cassette import Cassette, CassetteModel, Entry, When, WrittenUsage
from scaffold.worker.assignment import read_assignment
from scaffold.worker.attempt import Worker
from scaffold.worker.enclosure import enclosure
from scaffold.worker.station import Station
from scaffold.worker.workspace import open_workspace


@asynccontextmanager
async def standing(house: House, run: Run, key: str):
    """Yield the station of a new attempt of an action, claimed, at its base."""
    attempt = await house.queue(run, key)
    task = read_assignment(house.store, attempt.id)
    with house.store.transaction():
        house.store.attempts.claim(attempt.id, fence=attempt.fence, worker=GHOST, worktree="", log_file="")
    workspace = await open_workspace(house.site, attempt)
    async with enclosure(house.site, run, workspace.path, name=attempt.id) as walls:
        yield Worker(house.site, task, drafter([]))._station(workspace, walls)


def drafter(replies: Sequence[str | dict[str, Any]], *, event: str = "draft") -> CassetteModel:
    """Return a model whose drafter gives these answers one after another, each for a cent, and then none."""
    entries = [
        Entry(when=When(role="drafter", event=event, turn=turn), text=text, usage=WrittenUsage(input_tokens=100))
        for turn, text in enumerate(replies, 1)
    ]
    return CassetteModel(Cassette(path=Path("script"), digest="", entries=tuple(entries)))


def base_of(station: Station) -> str:
    return station.workspace.base
