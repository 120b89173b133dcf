"""Run a supervisor as a process or task, with its own wake-up FIFO and an exit code."""

from pathlib import Path

from scaffold.core.errors import BudgetExceeded, GitError, ModelUnavailable, StaleFence, StoreUnavailable
from scaffold.core.ids import GoalId, RunId
from scaffold.core.model import Run
from scaffold.host.wake_fifo import WakeFifo, wake_up
from scaffold.orchestrator.supervisor.goal_loop import PlanningAgent, Supervisor
from scaffold.orchestrator.wakeup import Wakeup
from scaffold.run.context import RunContext
from scaffold.run.machine_faults import FAULT_EXIT_CODE

DONE_EXIT_CODE, BUDGET_EXIT_CODE, UNAVAILABLE_EXIT_CODE = 0, 2, 3
"""Exit codes: nothing to do now | the budget is spent | the model accepts no requests."""
OWNER_FIFO = "owner"


def wake_fifo_path(context: RunContext, run_id: RunId, whose: str = OWNER_FIFO) -> Path:
    """Return the wake-up FIFO of the run's owner, or of the supervisor of the goal with id `whose`."""
    return context.run_folder(run_id) / "bells" / whose


async def supervise_goal(context: RunContext, run: Run, goal_id: GoalId, planner: PlanningAgent) -> int:
    """Supervise a goal until it ends, is paused, the budget is spent, or the model away; return the exit code."""
    wakeup = Wakeup()

    def notify_owner() -> None:
        wake_up(wake_fifo_path(context, run.id))

    fifo = WakeFifo(wake_fifo_path(context, run.id, goal_id), wakeup.notify_all)
    try:
        await Supervisor(context, run, goal_id, wakeup, planner=planner, tell=notify_owner).run()
    # Another process owns the run, so this end is no failure; its owner starts supervisors of its own.
    except StaleFence:
        return DONE_EXIT_CODE
    except BudgetExceeded:
        return BUDGET_EXIT_CODE
    except ModelUnavailable:
        return UNAVAILABLE_EXIT_CODE
    except (GitError, StoreUnavailable):
        return FAULT_EXIT_CODE
    finally:
        fifo.close()
        notify_owner()
    return DONE_EXIT_CODE
