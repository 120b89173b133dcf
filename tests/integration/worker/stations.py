"""An attempt under way, with nobody at work in it."""

from collections.abc import Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fakes import GHOST, House
from scaffold.core.model import Run
from scaffold.llm.cassette.model import Cassette, CassetteEntry, CassetteModel, CassetteUsage, RequestMatcher
from scaffold.run.assignment import read_assignment
from scaffold.run.sandbox import open_sandbox
from scaffold.worker.attempt import Worker
from scaffold.worker.attempt_context import AttemptContext
from scaffold.worker.workspace import open_workspace


@asynccontextmanager
async def standing(house: House, run: Run, key: str):
    """Yield the station of a new attempt of an action, claimed, at its base."""
    attempt = await house.queue(run, key)
    task = read_assignment(house.store, attempt.id)
    with house.store.transaction():
        house.store.attempts.claim(attempt.id, fence=attempt.fence, worker=GHOST, worktree="", log_file="")
    workspace = await open_workspace(house.site, attempt)
    async with open_sandbox(house.site, run, workspace.path, name=attempt.id) as walls:
        yield Worker(house.site, task, drafter([]))._context(workspace, walls)


def drafter(replies: Sequence[str | dict[str, Any]], *, event: str = "draft") -> CassetteModel:
    """Return a model whose drafter gives these answers one after another, each for a cent, and then none."""
    entries = [
        CassetteEntry(
            when=RequestMatcher(role="drafter", event=event, turn=turn),
            text=text,
            usage=CassetteUsage(input_tokens=100),
        )
        for turn, text in enumerate(replies, 1)
    ]
    return CassetteModel(Cassette(path=Path("script"), digest="", entries=tuple(entries)))


def base_of(station: AttemptContext) -> str:
    return station.workspace.base
