"""Advice on how many agents to use for a plan, predicted by simulation, with the reason."""

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct, structs

from scaffold.core.ids import ActionKey
from scaffold.core.plan import ActionSpec, Plan
from scaffold.core.printable_text import count_of
from scaffold.plan.graph.dependency_graph import DependencyGraph, critical_path, width
from scaffold.plan.message_text import quoted
from scaffold.plan.progress import PlanProgress
from scaffold.plan.simulation.simulated_goal import WORKER_CAP
from scaffold.plan.simulation.simulator import AttemptTiming, simulate

WILDCARDS = frozenset("*?[")


class SharedPath(Struct, frozen=True):
    """The path on which the most work has to be done one after the other."""

    path: str
    actions: tuple[ActionKey, ...]
    """Those that name it, or a folder around it, in plan order."""
    seconds: float
    """Of all of them together."""


TIMING = AttemptTiming()
ENDED_STATUSES = frozenset({"completed", "failed", "skipped", "cancelled"})
MAX_AGENTS = 16
"""The largest number of agents that is predicted."""
SEEDS = (0, 1, 2)
"""Random seeds of the simulations that a prediction averages."""
ACCEPTABLE_LOSS = 0.10
"""How much more time fewer agents may take, as a fraction."""
MAX_SIMULATED = 3_500
"""About how many attempts are simulated for one advice; of a larger plan, fewer numbers of agents are compared."""


class MakespanPrediction(Struct, frozen=True):
    """A plan's predicted duration in seconds: the mean of several simulations without failures."""

    agents: int
    makespan_s: float


class AgentCountAdvice(Struct, frozen=True, kw_only=True):
    """The smallest number of agents that takes at most a tenth more time than any larger number, and why."""

    agents: int
    why: str
    predictions: tuple[MakespanPrediction, ...]
    """For 1, 2, ... agents, up to the number above which more could not run in parallel, or to the limit; of a large
    plan, only some of them."""


def advise_agent_count(
    plan: Plan, *, limit: int = MAX_AGENTS, goal_agents: int = WORKER_CAP, progress: PlanProgress | None = None
) -> AgentCountAdvice:
    """Return the number of agents, at most `limit`, to use for the rest of `plan`.

    At most `goal_agents` of them may work on one goal.

    The plan must be valid according to lint. The advice depends on the arguments only.
    """
    work = _Work(plan, progress or PlanProgress(), goal_agents)
    most = max(1, min(work.count, goal_agents * work.goals, limit, MAX_AGENTS)) if work.width > 1 else 1
    predictions = _predict_makespans(work, most)
    # There is always one: the largest number has no larger one to compare with.
    best = next(
        each
        for each in predictions
        if each.makespan_s
        <= (1 + ACCEPTABLE_LOSS)
        * min((more.makespan_s for more in predictions if more.agents > each.agents), default=each.makespan_s)
    )
    return AgentCountAdvice(
        agents=best.agents, why=_explain_choice(best, predictions, work, limit), predictions=predictions
    )


def _predict_makespans(work: "_Work", most: int) -> tuple[MakespanPrediction, ...]:
    """Return predictions for 1 to `most` agents; of a large plan, only those that a bisection needs."""
    if work.load * most * len(SEEDS) <= MAX_SIMULATED:
        return tuple(MakespanPrediction(agents, work.makespan_s(agents, len(SEEDS))) for agents in range(1, most + 1))
    # Too large to simulate every number of agents. What the bisection finds was compared with `most`, so it never takes
    # much longer; it may be more than needed.
    left = MAX_SIMULATED // max(1, work.load)
    if not left:
        return (MakespanPrediction(most, work.bound_s(most)),)
    seeds = max(1, min(len(SEEDS), left // (most.bit_length() + 1)))
    times = {most: work.makespan_s(most, seeds)}
    # Fewer agents than the lower bound allows need no simulation.
    enough_s = (1 + ACCEPTABLE_LOSS) * times[most]
    below, enough = max((n for n in range(most) if n == 0 or work.bound_s(n) > enough_s), default=0), most
    for _ in range(left // seeds - 1):
        if enough - below <= 1:
            break
        agents = (below + enough) // 2
        times[agents] = work.makespan_s(agents, seeds)
        below, enough = (below, agents) if times[agents] <= enough_s else (agents, enough)
    return tuple(MakespanPrediction(agents, times[agents]) for agents in sorted(times))


class _Work:
    """What is left to do of a plan, and how it can be spread."""

    def __init__(self, plan: Plan, progress: PlanProgress, goal_agents: int) -> None:
        self.goal_agents = goal_agents
        left = (
            structs.replace(
                goal, actions=tuple(each for each in goal.actions if progress.status(each.key) not in ENDED_STATUSES)
            )
            for goal in plan.goals
        )
        self._plan = Plan(goals=tuple(goal for goal in left if goal.actions))
        self._progress = PlanProgress(facts=progress.facts)
        graphs = [DependencyGraph(goal, progress.held(goal.name)) for goal in self._plan.goals]
        # Compounds with children take no time, and what never starts needs no agent.
        leaves = [[graph.actions[index] for index, _ in graph.leaf_starts] for graph in graphs]
        self._seconds = {each.key: float(TIMING.mean_s) for actions in leaves for each in actions}
        self._by_goal = [len(actions) for actions in leaves]
        self._chain = len(critical_path(graphs))
        self._shared = busiest_path((each for actions in leaves for each in actions), self._seconds)
        self.count = sum(self._by_goal)
        self.goals = sum(count > 0 for count in self._by_goal)
        self.width = width(graphs)
        # Each event of a simulation looks at each goal.
        self.load = self.count * (1 + self.goals // 25)

    @property
    def shape(self) -> str:
        """Say what limits how much runs in parallel: the width, the critical path, and the paths that overlap."""
        parts = [f"at most {self.width} in parallel, longest chain {count_of(self._chain, 'action')}"]
        if self._shared is not None:
            parts.append(f"{len(self._shared.actions)} actions change {quoted(self._shared.path)} one after the other")
        return ", ".join(parts)

    def makespan_s(self, agents: int, seeds: int) -> float:
        """Return the predicted makespan in seconds, the mean of simulations with different random seeds."""
        total_s = 0
        for seed in SEEDS[:seeds]:
            run = simulate(self._plan, agents=agents, seed=seed, progress=self._progress, goal_agents=self.goal_agents)
            total_s += run.makespan_s
        return round(total_s / seeds, 1)

    def bound_s(self, agents: int) -> float:
        """Return about how long it takes at least: by the critical path, the work of each agent, and shared files."""
        workers = min(agents, self.goal_agents * max(1, self.goals))
        shares = [self.count / workers, *(count / min(agents, self.goal_agents) for count in self._by_goal)]
        # Each term is a lower bound of its own: the longest chain, the busiest agent, one landing at a time, shared
        # files.
        alone_s = self._shared.seconds if self._shared else 0.0
        return max(self._chain * TIMING.mean_s, TIMING.mean_s * max(shares), TIMING.landing_s * self.count, alone_s)


def _explain_choice(
    best: MakespanPrediction, predictions: Sequence[MakespanPrediction], work: _Work, limit: int
) -> str:
    if work.width <= 1:
        return "no two actions can run in parallel"
    # The reasons go from what always limits the plan to what limited this advice.
    fewer = [each for each in predictions if each.agents == best.agents - 1]
    larger = [each for each in predictions if each.agents > best.agents]
    reasons = [work.shape]
    for each in fewer:
        longer = round(100 * (each.makespan_s / best.makespan_s - 1))
        reasons.append(f"one fewer would take {longer}% longer")
    if larger:
        least = min(larger, key=lambda each: each.makespan_s)
        saved = max(0, round(100 * (1 - least.makespan_s / best.makespan_s)))
        reasons.append(f"more would save at most {saved}% of the time" if saved else "more would save no time")
    elif len(predictions) == 1 and best.agents > 1:
        tried = work.load <= MAX_SIMULATED
        reasons.append(
            f"fewer would take more than {ACCEPTABLE_LOSS:.0%} longer" if tried else "too large to try fewer"
        )
    elif work.count <= best.agents:
        reasons.append(f"never more than {count_of(work.count, 'action')} can run")
    elif best.agents == limit < MAX_AGENTS:
        reasons.append(f"no more than {limit} may work at once")
    else:
        most = f"no more than {work.goal_agents} may work on one goal"
        reasons.append(f"{most}, and no more than {MAX_AGENTS} were tried")
    return "; ".join(reasons)


def busiest_path(actions: Iterable[ActionSpec], seconds: Mapping[ActionKey, float]) -> SharedPath | None:
    """Return the path that several actions name with the most work; None if no two actions share one.

    Actions missing from `seconds` take no time and are left out. A glob counts as the folder before its first wildcard;
    without one it says nothing about its files, and neither does an action without files.
    """
    users: dict[str, dict[ActionKey, None]] = {}
    for action in actions:
        if action.key in seconds:
            for path in filter(None, map(_literal_path, action.files)):
                users.setdefault(path, {})[action.key] = None
    found: list[SharedPath] = []
    for path in users:
        # A path overlaps with each folder around it, so the actions that name those count too.
        parts = path.split("/")
        around = ("/".join(parts[: depth + 1]) for depth in range(len(parts)))
        keys = tuple(dict.fromkeys(key for folder in around for key in users.get(folder, ())))
        if len(keys) > 1:
            found.append(SharedPath(path, keys, sum(seconds[key] for key in keys)))
    return max(found, key=lambda each: each.seconds, default=None)


def _literal_path(path: str) -> str:
    """Return the path without its wildcards, `./` and a slash at its end; empty if nothing is left."""
    parts: list[str] = []
    for part in path.split("/"):
        if WILDCARDS & set(part):
            break
        if part not in {"", "."}:
            parts.append(part)
    return "/".join(parts)
