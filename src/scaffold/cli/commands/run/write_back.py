"""`run --write-back`: in which file tasks are marked as done that land, and what is said about it."""

import asyncio
from collections.abc import Callable
from pathlib import Path

from msgspec.structs import replace

from scaffold.core.errors import PlanInvalid, UsageError
from scaffold.core.ids import ActionKey
from scaffold.core.printable_text import join_limited
from scaffold.core.run_settings import RunSettings, WriteBack
from scaffold.git.refs import resolve
from scaffold.orchestrator.user_control.open_run import RunInput
from scaffold.plan.source.formats import marked_tasks
from scaffold.run.context import RunContext
from scaffold.run.task_list import read_list

MAX_NAMES = 8


def require_list(work: RunInput, *, write_back: bool) -> None:
    """Raise UsageError if tasks are to be marked as done, and the input is not a list that has marks."""
    if write_back and work.task_format is None:
        raise UsageError(
            "--write-back needs a list of tasks in which something can be marked as done",
            "Pass a list of task-master, spec-kit, Kiro or beads, or a PRD; or leave it out.",
        )


async def with_write_back(
    context: RunContext, settings: RunSettings, work: RunInput, tell: Callable[[str], None]
) -> RunSettings:
    """Return the settings with the file in which tasks are marked, about which `tell` receives a note."""
    if work.task_format is None:
        return settings
    path = Path(settings.planning.plan_path)
    try:
        str(path).encode()
    except UnicodeEncodeError as error:
        raise UsageError(
            "the name of the list of tasks is not UTF-8", "Rename it, or leave out --write-back."
        ) from error
    place = _place_below(context.repository.root, path)
    tracked = WriteBack(path=place, format=work.task_format, tracked=True)
    head = await resolve(context.git, "HEAD") if place else None
    version = await read_list(context.git, tracked, head) if head is not None else None
    known = None if version is None else await asyncio.to_thread(_committed_tasks, tracked, version.text)
    if known is None:
        tell(f"{work.request} is not a list of tasks in the checked out commit: it stays as it is and a copy is marked")
        listed = replace(tracked, path=str(path), tracked=False)
    else:
        tell(f"tasks that land are marked as done in {work.request}, each in the commit that lands it")
        listed = tracked
        if missing := [each for each in work.listed if each not in known]:
            names = join_limited(missing, MAX_NAMES)
            tell(f"not in the list as it was committed, so that no mark follows: {names}")
    return replace(settings, landing=replace(settings.landing, write_back=listed))


def _committed_tasks(listed: WriteBack, committed: str) -> frozenset[ActionKey] | None:
    """Return the tasks of the committed list; None if it cannot be read."""
    try:
        return frozenset(task.id for task in marked_tasks(listed.format, committed, name=listed.path))
    except PlanInvalid:
        return None


def _place_below(root: Path, path: Path) -> str:
    """Return the path of a file below the top of the repository; empty if it is elsewhere."""
    place, top = path.parent.resolve() / path.name, root.resolve()
    return place.relative_to(top).as_posix() if place.is_relative_to(top) else ""
