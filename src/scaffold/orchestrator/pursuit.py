"""A supervisor as a process, or a task: with a doorbell of its own, and an exit code that says why it ended."""

from pathlib import Path

from scaffold.core.errors import BudgetSpent, StaleFence
from scaffold.core.ids import GoalId, RunId
from scaffold.core.model import Run
from scaffold.host.doorbell import Doorbell, ring
from scaffold.orchestrator.bell import Bell
from scaffold.orchestrator.supervisor import Supervisor, Thinks
from scaffold.worker.site import Site

DONE, SPENT = 0, 2
"""Exit codes: there is nothing to pursue now | the budget is used up."""
OWNER = "owner"


def doorbell(site: Site, run_id: RunId, whose: str = OWNER) -> Path:
    """Return where the owner of a run is woken, or the supervisor of the goal of that id."""
    return site.run_folder(run_id) / "bells" / whose


async def pursue(site: Site, run: Run, goal_id: GoalId, thinks: Thinks) -> int:
    """Pursue a goal of a run until it has ended, is paused, or costs more than there is; return the exit code."""
    bell = Bell()

    def tell() -> None:
        ring(doorbell(site, run.id))

    woken = Doorbell(doorbell(site, run.id, goal_id), bell.ring)
    try:
        await Supervisor(site, run, goal_id, bell, thinks=thinks, tell=tell).pursue()
    except StaleFence:
        return DONE
    except BudgetSpent:
        return SPENT
    finally:
        woken.close()
        tell()
    return DONE
