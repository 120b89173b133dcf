"""The collision board of a run: its running and ready work, read from the store for the collision rules."""

import functools
from collections.abc import Iterator, Mapping

from msgspec.structs import replace

from scaffold.core.ids import ActionId, GoalId
from scaffold.core.model import Run
from scaffold.core.plan import is_review_role
from scaffold.core.states import Active
from scaffold.plan.collisions.boundary import compared
from scaffold.plan.collisions.rules import MOST_OVERTAKEN, Board, CollisionLimits, HeldBack, WorkUnit, overtakes
from scaffold.store.database import Store
from scaffold.store.run.plan.scheduling import StartableAction, WaitingWork, WorkPlace, WorkUnderWay


class RunBoard:
    """The running and the ready work of a run at one moment."""

    def __init__(self, store: Store, run: Run) -> None:
        """Read the running work. All reads should be in one snapshot or transaction."""
        self._store = store
        self._run = run
        scheduling = store.scheduling
        self.limits = CollisionLimits(
            layout=scheduling.layout(run.id),
            hotspots=frozenset(map(compared, scheduling.hotspots(run.id))),
            directory_agents=run.settings.scheduling.directory_agents,
        )
        under_way = scheduling.open_work(run.id)
        # A held candidate waits for others to land, so it must not keep them from starting.
        if any(each.is_candidate for each in under_way):
            held = {place.attempt_id for place in store.merge_queues.for_run(run.id) if place.state == "held"}
            under_way = tuple(each for each in under_way if each.attempt_id not in held)
        self._conflicts: dict[str, dict[str, tuple[str, ...]]] = {}
        """By ready action: the units with whose work its last work conflicts, and in which paths."""
        units = {each.attempt_id: _work_unit(each).id for each in under_way}
        for each in scheduling.forecasts(run.id) if units else ():
            if each.paths and each.attempt_id in units:
                self._conflicts.setdefault(f"{each.action_id} {each.head}", {})[units[each.attempt_id]] = each.paths
        self._running = tuple(map(_running_unit, under_way))
        # Stories between two steps go first, then overdue actions: ready work must not overtake them for ever.
        open_ids = {each.id for each in self._running}
        begun = (
            WorkUnit(id=each.id, key=each.key, files=each.files, touched=each.touched, has_begun=True)
            for each in scheduling.begun(run.id)
            if each.id not in open_ids
        )
        overdue = scheduling.held_back(run.id, overtaken=MOST_OVERTAKEN)
        self._reserved = (*begun, *map(self.placed_unit, overdue))

    def board(self) -> Board:
        """Return the board with the running work placed."""
        return Board(self.limits, self._running, self._reserved)

    def why_held_back(self, action_id: ActionId) -> HeldBack | None:
        """Return why a ready action may not start; None if it may."""
        return self.board().why_held_back(self.placed_unit(self._store.scheduling.placed(action_id)))

    def unit(self, action: StartableAction) -> WorkUnit:
        """Return a ready action as the rules see it; only what its files do not decide is read besides."""
        if action.workspace == "own" and (action.files or _reads_only(action)):
            return WorkUnit(id=action.id, key=action.key, files=action.files, reads_only=_reads_only(action))
        return self.placed_unit(self._store.scheduling.placed(action.id))

    def placed_unit(self, action: WaitingWork) -> WorkUnit:
        """Return an action that does not run as the rules see it."""
        unit = _work_unit(action)
        if action.workspace == "parent":
            return replace(unit, has_begun=action.has_begun)
        conflicts = self._conflicts.get(f"{action.id} {action.touched_sha}", {})
        return replace(unit, reads_only=_reads_only(action), conflicts=conflicts)

    def overtaken_by(self, action_id: ActionId) -> Iterator[ActionId]:
        """Yield the actions that are held back, and wait for longer if this one starts."""
        unit = self.placed_unit(self._store.scheduling.placed(action_id))
        if unit.reads_only or unit.has_begun:
            return
        for each in self._store.scheduling.held_back(self._run.id):
            waiting = self.placed_unit(each)
            if waiting.id != unit.id and overtakes(unit, waiting, self.limits):
                yield each.id


def is_all_held_back(store: Store, run: Run, goal_id: GoalId) -> bool:
    """Return whether ready primitives of the goal are held back, and no other one may start."""
    if not run.settings.scheduling.collisions:
        return False
    of_run, has_ready = RunBoard(store, run), False
    board = of_run.board()
    for action in store.scheduling.ready(goal_id):
        if action.kind == "compound" or board.may_start(of_run.unit(action)):
            return False
        has_ready = True
    return has_ready


def held_back_actions(store: Store, run: Run) -> Mapping[ActionId, HeldBack]:
    """Return why ready actions of active goals may not start beside what runs; those that may are left out."""
    if not run.settings.scheduling.collisions:
        return {}
    of_run = RunBoard(store, run)
    board, found = of_run.board(), dict[ActionId, HeldBack]()
    known = dict[tuple[str, ...], HeldBack]()
    for goal in store.goals.for_run(run.id):
        for action in store.scheduling.ready(goal.id) if isinstance(goal.state, Active) else ():
            unit = of_run.unit(action)
            if action.kind == "compound" or board.may_start(unit):
                continue
            # Thousands may wait for the same work.
            why = known.get(unit.files) or board.why_held_back(unit)
            if why is not None:
                found[action.id] = why
                if unit.files and why.rule != "turn":
                    known[unit.files] = why
    return found


class StartPicker:
    """Picks ready actions that may start together, goal by goal, each of them once."""

    def __init__(self, store: Store, run: Run) -> None:
        """Read nothing yet: most goals are never asked about."""
        self._store = store
        self._run = run
        self._rest: dict[GoalId, Iterator[StartableAction]] = {}
        self._passed: dict[GoalId, PassedActions] = {}
        self._board: Board | None = None

    @functools.cached_property
    def for_run(self) -> RunBoard:
        """What runs."""
        return RunBoard(self._store, self._run)

    def pick(self, goal_id: GoalId) -> bool:
        """Return whether another primitive of the goal may start beside what runs and what was picked, and pick it."""
        return any(each.kind == "primitive" for each in self._startable_actions(goal_id))

    def look(self, goal_id: GoalId, most: int) -> "PassedActions":
        """Return the first ready actions of the goal: those picked, and further ones until `most` may start."""
        passed = self._of_goal(goal_id)
        while len(passed.free) < most and next(self._startable_actions(goal_id), None) is not None:
            pass
        return passed

    def _startable_actions(self, goal_id: GoalId) -> Iterator[StartableAction]:
        passed = self._of_goal(goal_id)
        if self._board is None:
            self._board = self.for_run.board()
        # What was passed over stays held back: picking others cannot free it.
        for action in self._rest[goal_id]:
            if action.kind == "primitive":
                unit = self.for_run.unit(action)
                if not self._board.may_start(unit):
                    passed.held_back.append(action.id)
                    continue
                self._board.occupy(unit)
            passed.free.append(action)
            yield action

    def _of_goal(self, goal_id: GoalId) -> "PassedActions":
        if goal_id not in self._rest:
            self._rest[goal_id] = self._store.scheduling.ready(goal_id)
            self._passed[goal_id] = PassedActions()
        return self._passed[goal_id]


class PassedActions:
    """The ready actions of a goal that were looked at, in plan order."""

    def __init__(self) -> None:
        self.free: list[StartableAction] = []
        """Those that may start together beside what runs, and the compounds among them."""
        self.held_back: list[ActionId] = []


def _reads_only(action: StartableAction | WaitingWork) -> bool:
    return action.method == "audit" or is_review_role(action.role)


def _running_unit(work: WorkUnderWay) -> WorkUnit:
    unit = _work_unit(work)
    # Without declared files the work may touch anything, so grants narrow nothing.
    known = (*unit.files, *work.granted) if unit.files else ()
    return replace(unit, files=known, at_work=work.is_at_work)


def _work_unit(placed: WorkPlace) -> WorkUnit:
    # Steps in one worktree are one unit: they follow each other, and collide with others as a whole.
    if placed.parent_id is None or placed.parent_key is None:
        return WorkUnit(id=placed.id, key=placed.key, files=placed.files, touched=placed.touched)
    files = placed.parent_files or placed.files
    return WorkUnit(id=placed.parent_id, key=placed.parent_key, files=files, touched=placed.touched)
