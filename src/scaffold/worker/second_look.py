"""A second look: what touches a protected area lands when a human has agreed to exactly this change of it."""

import hashlib

from scaffold.core.ids import Commit
from scaffold.core.legible import few, legible
from scaffold.git import commit
from scaffold.policy.areas import Areas
from scaffold.verify.guard import protected
from scaffold.worker.outcome import GaveUp
from scaffold.worker.station import Station

SHOWN = 5


async def second_look(station: Station, head: Commit) -> GaveUp | None:
    """Return None if the work may be handed in, and how the attempt ends if a human rejects it.

    Nobody is asked with `--yolo`, nor about a file that the user's own plan names: that was the human's word.
    Raises WaitsForHuman where nobody decides in time; the decision is for the same change of the same base.
    """
    git, base = station.workspace.git, station.workspace.base
    if not station.task.action.files:  # what was not declared has been refused
        return None
    touched = _to_be_seen(station, await commit.changed_paths(git, base, head))
    if not touched:
        return None
    key = station.task.action.key
    detail = {
        "action": key,
        "protected": [legible(path) for path in touched],
        "base": base,
        "change": hashlib.sha256(await commit.fingerprint(git, base, head)).hexdigest(),
    }
    decided = await station.human.approval(f"{key} changes what is protected: {_named(touched)}", detail)
    if decided.state == "approved":
        return None
    why = f": {decided.answer}" if decided.answer else ""
    return GaveUp("gate_failed", f"a human rejected the change of {_named(touched)}{why}", for_good=True)


def _to_be_seen(station: Station, changed: tuple[str, ...]) -> tuple[str, ...]:
    settings, files = station.task.run.settings, station.task.action.files
    if settings.yolo:
        return ()
    touched = protected(changed, files, Areas.with_added(settings.areas))
    return touched if settings.planner else tuple(path for path in touched if path not in files)


def _named(paths: tuple[str, ...]) -> str:
    return legible(few(paths, SHOWN))
