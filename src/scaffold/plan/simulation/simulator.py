"""Simulates running a plan, with a virtual clock, seeded randomness and the same `decide` as a real run."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from heapq import heappop, heappush
from random import Random  # noqa: TID251 - seeded by the caller; no other randomness in the simulation

from msgspec import Struct

from scaffold.core.ids import ActionId, ActionKey
from scaffold.core.plan import Plan
from scaffold.plan.decide import Dispatch
from scaffold.plan.graph.dependency_graph import makespan_bound
from scaffold.plan.progress import PlanProgress
from scaffold.plan.simulation.simulated_goal import WORKER_CAP, GoalSimulator, RunningActions

MAX_ATTEMPTS = 3
"""How many times an action may fail, as in a real run."""


class AttemptTiming(Struct, frozen=True, kw_only=True):
    """Assumed durations in seconds; good enough to compare plans and numbers of agents."""

    mean_s: int = 300
    """Mean duration of an attempt, checks included."""
    spread: float = 0.5
    """In [0, 1]; durations are uniform between `mean_s * (1 - spread)` and `mean_s * (1 + spread)`."""
    landing_s: int = 10
    """Duration of a landing; candidates land one at a time."""


class DrawnAttempt(Struct, frozen=True):
    """The predetermined result of an attempt, should it be made."""

    duration_s: int
    succeeds: bool


class SimulatedAttempt(Struct, frozen=True, kw_only=True):
    """One attempt; times are whole seconds since the start."""

    start_s: int
    end_s: int
    succeeded: bool


class SimulatedAction(Struct, frozen=True, kw_only=True):
    """The result of one action."""

    key: ActionKey
    goal: str
    status: str
    """The status word users see; `pending` if it never started before its goal failed."""
    attempts: tuple[SimulatedAttempt, ...]
    landed_s: int | None
    """When it landed; None if it never did, or before the simulation started."""


class SimulatedGoal(Struct, frozen=True, kw_only=True):
    """The result of one goal."""

    name: str
    status: str
    """`completed` or `failed`."""
    reason: str | None
    ended_s: int


class Simulation(Struct, frozen=True, kw_only=True):
    """The result; depends only on the plan, its progress and the arguments."""

    agents: int
    seed: int
    failure_rate: float
    makespan_s: int
    """When the last attempt ended or landed."""
    bound_s: float
    """Lower bound on the makespan of any schedule of the attempts that were made."""
    utilization: float
    """Share of the agents' time spent in attempts, from 0 to 1."""
    goals: tuple[SimulatedGoal, ...]
    actions: tuple[SimulatedAction, ...]
    """In plan order."""
    landings: tuple[ActionKey, ...]
    """In time order."""


def simulate(
    plan: Plan,
    *,
    agents: int = 3,
    seed: int = 0,
    failure_rate: float = 0.0,
    pace: AttemptTiming | None = None,
    progress: PlanProgress | None = None,
    goal_agents: int = WORKER_CAP,
) -> Simulation:
    """Simulate `plan` from its current `progress` (None: not started) and return the result.

    `agents` workers (at least 1) serve all goals, at most `goal_agents` of them the same goal. An attempt fails with
    probability `failure_rate`; an action's third failure is final. Actions in progress start again. There is no
    planner: a compound without children runs like a primitive, a dead end fails the goal. Actions that may change the
    same files do not run at the same time. Action keys must be unique, as `lint` checks.
    """
    drawn = draw_attempts(plan, seed=seed, failure_rate=failure_rate, pace=pace or AttemptTiming())
    running, before = RunningActions(), progress or PlanProgress()
    goals = [GoalSimulator(goal, before, running, goal_agents) for goal in plan.goals]
    simulator = _Simulator(agents, drawn, (pace or AttemptTiming()).landing_s, goals)
    simulator.run()
    worked_s = {key: sum(each.end_s - each.start_s for each in made) for key, made in simulator.attempts.items()}
    makespan_s = simulator.now
    return Simulation(
        agents=agents,
        seed=seed,
        failure_rate=failure_rate,
        makespan_s=makespan_s,
        # No plan uses more agents than its goals may have together.
        bound_s=makespan_bound(plan, min(agents, goal_agents * max(1, len(plan.goals))), worked_s),
        utilization=round(sum(worked_s.values()) / (agents * makespan_s), 4) if makespan_s else 0.0,
        goals=tuple(simulator.ends),
        actions=simulator.actions(),
        landings=tuple(simulator.landed_s),
    )


class _Simulator:
    """All goals of a plan on one clock, with shared agents and one landing queue."""

    def __init__(
        self,
        agents: int,
        drawn: Mapping[ActionKey, Sequence[DrawnAttempt]],
        landing_s: int,
        goals: Sequence[GoalSimulator],
    ) -> None:
        self.now = 0
        self.attempts: dict[ActionKey, list[SimulatedAttempt]] = {}
        self.landed_s: dict[ActionKey, int] = {}
        self._goals = goals
        self._free = agents
        self._drawn = drawn
        self._landing_s = landing_s
        self._landing_free_at = 0
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._event_count = 0

    def run(self) -> None:
        """Process events until every goal has ended."""
        self._settle_goals()
        while self._events:
            self.now, _, handle = heappop(self._events)
            handle()
            self._settle_goals()

    @property
    def ends(self) -> list[SimulatedGoal]:
        """The results of the goals, in plan order."""
        return [
            SimulatedGoal(
                name=simulator.goal.name, status=simulator.status, reason=simulator.reason, ended_s=simulator.ended_at
            )
            for simulator in self._goals
        ]

    def actions(self) -> tuple[SimulatedAction, ...]:
        """Return the results of the actions, in plan order."""
        return tuple(
            SimulatedAction(
                key=action.key,
                goal=simulator.goal.name,
                status=simulator.queue.action(ActionId(action.key)).status,
                attempts=tuple(self.attempts.get(action.key, ())),
                landed_s=self.landed_s.get(action.key),
            )
            for simulator in self._goals
            for action in simulator.goal.actions
        )

    def _settle_goals(self) -> None:
        busy = True
        while busy:
            busy = False
            for simulator in self._goals:
                # One goal after the other: what it dispatches is not free for the next one.
                for command in simulator.decide(self._free):
                    busy = True
                    if not isinstance(command, Dispatch):
                        simulator.execute(command, self.now)
                        continue
                    self._free -= 1
                    simulator.dispatched(command.action)
                    key = ActionKey(command.action)
                    made = self.attempts.setdefault(key, [])
                    attempt = self._drawn[key][len(made)]
                    end = self.now + attempt.duration_s
                    made.append(SimulatedAttempt(start_s=self.now, end_s=end, succeeded=attempt.succeeds))
                    ended = self._handed_in if attempt.succeeds else self._fail_action
                    self._schedule_event(end, partial(ended, simulator, command.action))

    def _fail_action(self, simulator: GoalSimulator, action: ActionId) -> None:
        self._free += 1
        simulator.failed(action, final=len(self.attempts[ActionKey(action)]) == len(self._drawn[ActionKey(action)]))

    def _handed_in(self, simulator: GoalSimulator, action: ActionId) -> None:
        self._free += 1
        simulator.handed_in(action)
        # Candidates land one at a time, as in the merge queue of a real run.
        self._landing_free_at = max(self._landing_free_at, self.now) + self._landing_s
        self._schedule_event(self._landing_free_at, partial(self._land_action, simulator, action))

    def _land_action(self, simulator: GoalSimulator, action: ActionId) -> None:
        self.landed_s[ActionKey(action)] = self.now
        simulator.landed(action)

    def _schedule_event(self, time: int, handle: Callable[[], None]) -> None:
        self._event_count += 1
        # The counter keeps events of the same second in the order they were scheduled; functions cannot be compared.
        heappush(self._events, (time, self._event_count, handle))


def draw_attempts(
    plan: Plan, *, seed: int, failure_rate: float, pace: AttemptTiming
) -> Mapping[ActionKey, tuple[DrawnAttempt, ...]]:
    """Return all attempts each action may need, drawn before the simulation starts.

    So an action's results do not depend on the number of agents or the order of events. Uses only `Random.random()`,
    which gives the same numbers in all Python versions, and whole seconds.
    """
    random = Random(seed)  # noqa: S311 - not used for secrets
    drawn: dict[ActionKey, tuple[DrawnAttempt, ...]] = {}
    for action in plan.actions:
        # Both numbers are drawn in each case, so that another failure rate does not change the durations.
        pairs = [(random.random(), random.random()) for _ in range(MAX_ATTEMPTS)]
        drawn[action.key] = tuple(
            DrawnAttempt(max(1, round(pace.mean_s * (1 + pace.spread * (2 * length - 1)))), luck >= failure_rate)
            for length, luck in pairs
        )
    return drawn
