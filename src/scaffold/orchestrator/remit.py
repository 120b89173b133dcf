"""What a supervisor's agent may change: the plan of its own goal, and no other's."""

from scaffold.core.ids import Key
from scaffold.core.model import Run
from scaffold.orchestrator.desks import Desk
from scaffold.plan.draft import Change, CreateActions, CreateGoal, Draft, DraftRefused, Propose, UpdateAction
from scaffold.plan.wording import shown
from scaffold.store.database import Store


class Remit:
    """A desk that refuses what concerns another goal. Implements `desks.Desk`."""

    def __init__(self, desk: Desk, goal: str) -> None:
        """Hand on to `desk` what concerns the goal of that name."""
        self._desk = desk
        self._goal = goal

    @property
    def store(self) -> Store:
        """The store, to read results from."""
        return self._desk.store

    @property
    def run(self) -> Run:
        """The run that is planned."""
        return self._desk.run

    @property
    def draft(self) -> Draft:
        """What the run has, with everything that was proposed."""
        return self._desk.draft

    def change(self, change: Change) -> bool:
        """Take a change of the own goal; DraftRefused for others."""
        match change:
            case CreateGoal(spec=spec):
                what = f"goal {shown(spec.name)} is not created: a supervisor has the one goal it was given"
                raise DraftRefused(
                    what, f"Add actions to `{self._goal}`, and name what is beyond it in your last words."
                )
            case CreateActions(goal=goal) | Propose(goal=goal):
                self._require_own(goal)
            case UpdateAction(key=key):
                self._require_own(self._home(key))
        return self._desk.change(change)

    async def dispatch(self, key: Key) -> int | None:
        """Start an attempt of an action of the own goal; DraftRefused for others."""
        self._require_own(self._home(key))
        return await self._desk.dispatch(key)

    def _home(self, key: Key) -> str | None:
        goal = self.draft.goal_of(key)
        return None if goal is None else goal.name

    def _require_own(self, goal: str | None) -> None:
        """Return for the own goal; for one that nobody knows, too: the desk says more about it."""
        if goal is not None and goal != self._goal and self.draft.goal(goal) is not None:
            fix = f"Leave it to its own supervisor; yours is `{self._goal}`."
            raise DraftRefused(f"goal `{goal}` is not yours to change", fix)
