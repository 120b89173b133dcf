"""What carrying a plan out would look like: a virtual clock, seeded luck, and the same `decide` as in a real run."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from heapq import heappop, heappush

from msgspec import Struct

from scaffold.core.ids import ActionId, Key
from scaffold.core.plan import Plan
from scaffold.plan.decide import Command, Dispatch
from scaffold.plan.levels import makespan_bound
from scaffold.plan.luck import Pace, Trial, trials
from scaffold.plan.rehearsal import WORKER_CAP, Rehearsal
from scaffold.plan.standing import Standing


class SimulatedAttempt(Struct, frozen=True, kw_only=True):
    """One attempt: a worker's time; times are whole seconds since the start."""

    start_s: int
    end_s: int
    succeeded: bool


class SimulatedAction(Struct, frozen=True, kw_only=True):
    """What became of an action."""

    key: Key
    goal: str
    status: str
    """The word users see; `pending` for what was never begun when its goal failed."""
    attempts: tuple[SimulatedAttempt, ...]
    landed_s: int | None
    """When its work was on the branch; None if that never happened, or before the start."""


class SimulatedGoal(Struct, frozen=True, kw_only=True):
    """How a goal ended."""

    name: str
    status: str
    """`completed` or `failed`."""
    reason: str | None
    ended_s: int


class Simulation(Struct, frozen=True, kw_only=True):
    """What happened; depends on the plan, where it stood, and the arguments alone."""

    agents: int
    seed: int
    failure_rate: float
    makespan_s: int
    """When the last attempt ended or landed."""
    bound_s: float
    """No schedule of the attempts that were made is faster."""
    utilisation: float
    """The part of the agents' time that was spent in attempts, from 0 to 1."""
    goals: tuple[SimulatedGoal, ...]
    actions: tuple[SimulatedAction, ...]
    """In plan order."""
    landings: tuple[Key, ...]
    """In order of time."""

    @property
    def completed(self) -> bool:
        """Whether all goals were reached."""
        return all(goal.status == "completed" for goal in self.goals)


def simulate(
    plan: Plan,
    *,
    agents: int = 3,
    seed: int = 0,
    failure_rate: float = 0.0,
    pace: Pace | None = None,
    standing: Standing | None = None,
) -> Simulation:
    """Carry `plan` out in no time, from where it stands (unbegun without `standing`), and return what happened.

    `agents` workers (at least 1) serve all goals, at most 3 of them the same goal. An attempt fails with the
    probability `failure_rate`, from 0 to 1; the third failure of an action is final. What was begun and not completed
    begins anew. There is no planner: a compound without children is one piece of work, a dead end fails its goal. Keys
    of actions must be unique, as `lint` proves.
    """
    luck = trials(plan, seed=seed, failure_rate=failure_rate, pace=pace or Pace())
    world = _World(plan, agents, luck, (pace or Pace()).landing_s, standing or Standing())
    world.run()
    worked = {key: sum(each.end_s - each.start_s for each in made) for key, made in world.attempts.items()}
    makespan_s = world.now
    return Simulation(
        agents=agents,
        seed=seed,
        failure_rate=failure_rate,
        makespan_s=makespan_s,
        bound_s=makespan_bound(plan, min(agents, WORKER_CAP * max(1, len(plan.goals))), worked),
        utilisation=round(sum(worked.values()) / (agents * makespan_s), 4) if makespan_s else 0.0,
        goals=tuple(world.ends),
        actions=world.actions(),
        landings=tuple(world.landed_s),
    )


class _World:
    """All goals of a plan on one clock, with one crew of agents and one queue for landing."""

    def __init__(
        self, plan: Plan, agents: int, luck: Mapping[Key, Sequence[Trial]], landing_s: int, standing: Standing
    ) -> None:
        self.now = 0
        self.attempts: dict[Key, list[SimulatedAttempt]] = {}
        self.landed_s: dict[Key, int] = {}
        self._plan = plan
        self._rehearsals = [Rehearsal(goal, standing) for goal in plan.goals]
        self._free = agents
        self._luck = luck
        self._landing_s = landing_s
        self._landing_free_at = 0
        self._happenings: list[tuple[int, int, Callable[[], None]]] = []
        self._happened = 0

    def run(self) -> None:
        """Let time pass until every goal has ended."""
        self._settle()
        while self._happenings:
            self.now, _, happen = heappop(self._happenings)
            happen()
            self._settle()

    @property
    def ends(self) -> list[SimulatedGoal]:
        """How the goals ended, in plan order."""
        return [
            SimulatedGoal(
                name=rehearsal.goal.name, status=rehearsal.status, reason=rehearsal.reason, ended_s=rehearsal.ended_at
            )
            for rehearsal in self._rehearsals
        ]

    def actions(self) -> tuple[SimulatedAction, ...]:
        """Return what became of the actions, in plan order."""
        return tuple(
            SimulatedAction(
                key=action.key,
                goal=rehearsal.goal.name,
                status=rehearsal.agenda.action(ActionId(action.key)).status,
                attempts=tuple(self.attempts.get(action.key, ())),
                landed_s=self.landed_s.get(action.key),
            )
            for rehearsal in self._rehearsals
            for action in rehearsal.goal.actions
        )

    def _settle(self) -> None:
        """Let each goal decide in turn until none has anything more to do now."""
        busy = True
        while busy:
            busy = False
            for rehearsal in self._rehearsals:
                for command in rehearsal.decide(self._free):
                    self._carry_out(rehearsal, command)
                    busy = True

    def _carry_out(self, rehearsal: Rehearsal, command: Command) -> None:
        if isinstance(command, Dispatch):
            self._dispatch(rehearsal, command.action)
        else:
            rehearsal.carry_out(command, self.now)

    def _dispatch(self, rehearsal: Rehearsal, action: ActionId) -> None:
        self._free -= 1
        rehearsal.dispatched(action)
        key = Key(action)
        made = self.attempts.setdefault(key, [])
        trial = self._luck[key][len(made)]
        end = self.now + trial.duration_s
        made.append(SimulatedAttempt(start_s=self.now, end_s=end, succeeded=trial.succeeds))
        self._at(end, partial(self._handed_in if trial.succeeds else self._failed, rehearsal, action))

    def _failed(self, rehearsal: Rehearsal, action: ActionId) -> None:
        self._free += 1
        rehearsal.failed(action, final=len(self.attempts[Key(action)]) == len(self._luck[Key(action)]))

    def _handed_in(self, rehearsal: Rehearsal, action: ActionId) -> None:
        self._free += 1
        rehearsal.handed_in(action)
        self._landing_free_at = max(self._landing_free_at, self.now) + self._landing_s
        self._at(self._landing_free_at, partial(self._landed, rehearsal, action))

    def _landed(self, rehearsal: Rehearsal, action: ActionId) -> None:
        self.landed_s[Key(action)] = self.now
        rehearsal.landed(action)

    def _at(self, time: int, happen: Callable[[], None]) -> None:
        self._happened += 1
        heappush(self._happenings, (time, self._happened, happen))
