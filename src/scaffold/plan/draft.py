"""What an agent proposes for a run's plan, change by change: what is sound is applied, all else refused with a reason.

Nothing here is a fact or is stored: whoever holds a draft writes its changes, all of them or none.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Literal, NoReturn, assert_never

from msgspec import Struct, field
from msgspec.structs import replace

from scaffold.core.errors import ScaffoldError
from scaffold.core.ids import Assertion, Key
from scaffold.core.plan import ActionSpec, Finding, GoalSpec, Plan
from scaffold.plan.form import Problem, bad_text, unfit_action, unfit_batch, unfit_goal, unfit_proposal
from scaffold.plan.lint import lint
from scaffold.plan.planfile import parent_ring
from scaffold.plan.repair import living, settled
from scaffold.plan.standing import Standing
from scaffold.plan.wording import Spelling, in_one, listed, shown

WAITING = "waiting"
"""The status, in a draft, of an action that goes on once a human has decided."""
BUSY = frozenset({"running", "verifying", "landing", WAITING})
"""Statuses of actions that somebody works on, or decides about."""
OVER = frozenset({"completed", "skipped", "cancelled"})
"""Statuses that nothing leads out of, as far as an agent can do."""
BARREN = frozenset({"failed", *OVER})
"""Statuses of compounds that take no further children."""
DEAD_COMPOUND = BARREN - {"completed"}
LOST = frozenset({"pending", "blocked"})
"""Statuses in which an action never begins, once its compound is dead."""


class CreateGoal(Struct, frozen=True, tag="create_goal"):
    """Add a goal; its actions come by changes of their own."""

    spec: GoalSpec


class CreateActions(Struct, frozen=True, tag="create_actions"):
    """Add actions to a goal, all of them or none; a parent is a compound that is there, or of the same change."""

    goal: str
    specs: tuple[ActionSpec, ...]
    method: Literal["single", "dag"] = "single"
    """How primitives among them came about."""


class UpdateAction(Struct, frozen=True, tag="update_action"):
    """Drop an action with what is below it, or give a failed one another try."""

    key: Key
    status: Literal["pending", "skipped"]
    note: str
    """The other approach to take, or why the action is not needed."""


class Propose(Struct, frozen=True, tag="propose"):
    """Claim that assertions hold, or do not; whether they do is for the evidence to say."""

    goal: str
    assertions: Mapping[Assertion, bool]
    evidence: str = ""
    summary: str | None = None
    """The goal's rolling summary from now on; None keeps the one there is."""


Change = CreateGoal | CreateActions | UpdateAction | Propose


class DraftRefused(ScaffoldError):
    """A change does not fit the plan; the words are for the agent that proposed it."""


class Approach(Struct, frozen=True):
    """Another approach that was taken to an action."""

    text: str
    spent: bool
    """Whether the attempt that was granted for it counts: only a human grants more."""


class History(Struct, frozen=True, kw_only=True):
    """What the plan and its standing do not tell."""

    approaches: Mapping[Key, Approach] = field(default_factory=lambda: MappingProxyType({}))
    """The latest to each action; actions to which there was none are left out."""
    ended: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """The status of each goal that has ended, by name."""


NO_HISTORY = History()


class Draft:
    """A plan under way, where it stands, and the changes proposed so far, which both of them contain."""

    def __init__(self, plan: Plan, standing: Standing, history: History = NO_HISTORY) -> None:
        """Take what the run has: keys and names of goals unique, parents in the goals of their children."""
        self.plan = plan
        self.standing = standing
        self.history = history
        self.changes: tuple[Change, ...] = ()

    def goal(self, name: str) -> GoalSpec | None:
        """Return the goal of that name, None if there is none."""
        return next((goal for goal in self.plan.goals if goal.name == name), None)

    def action(self, key: str) -> ActionSpec | None:
        """Return the action of that key, None if there is none."""
        return next((action for action in self.plan.actions if action.key == key), None)

    def known_goal(self, name: str) -> GoalSpec:
        """Return the goal of that name; DraftRefused, with those there are, if there is none."""
        goal = self.goal(name)
        if goal is None:
            hint = Spelling(each.name for each in self.plan.goals).hint(name)
            there = listed([each.name for each in self.plan.goals]) or "none yet: create it first"
            _refused(f"there is no goal {shown(name)}", f"{hint}Goals of this run: {there}.")
        return goal

    def known_action(self, key: str) -> ActionSpec:
        """Return the action of that key; DraftRefused, with what may have been meant, if there is none."""
        action = self.action(key)
        if action is None:
            hint = Spelling(each.key for each in self.plan.actions).hint(key)
            _refused(f"there is no action {shown(key)}", f"{hint}goap_list_actions names those there are.")
        return action

    def goal_of(self, key: str) -> GoalSpec | None:
        """Return the goal that has the action of that key, None if none has."""
        return next((goal for goal in self.plan.goals if any(action.key == key for action in goal.actions)), None)

    def apply(self, change: Change) -> bool:
        """Take a change in and return True; False if there is nothing new in it.

        Raises DraftRefused for one that does not fit, and takes nothing of it in.
        """
        match change:
            case CreateGoal():
                new = self._create_goal(change)
            case CreateActions():
                new = self._create_actions(change)
            case UpdateAction():
                new = self._update(change)
            case Propose():
                new = self._propose(change)
            case _:
                assert_never(change)
        self.changes += () if new is None else (new,)
        return new is not None

    def findings(self, goal: str | None = None) -> tuple[Finding, ...]:
        """Return what lint says of what is left to do in goals that have not ended, given the facts that hold.

        With `goal` it is what concerns the goal of that name alone. None of it may be an error for a plan to be sound.
        """
        plan = Plan(goals=tuple(each for each in self.plan.goals if each.name not in self.history.ended))
        standing = settled(plan, self.standing)
        standing = replace(standing, statuses={**standing.statuses, **dict.fromkeys(_lost(plan, standing), "skipped")})
        found = lint(living(plan, standing), standing.facts).findings
        return tuple(finding for finding in found if goal in {None, finding.goal})

    def _create_goal(self, change: CreateGoal) -> Change | None:
        spec = replace(change.spec, goal_state=_once(change.spec.goal_state))
        _refuse(f"goal {shown(spec.name)}", unfit_goal(spec))
        known = self.goal(spec.name)
        if known is not None:
            if _content(known) == _content(spec):
                return None
            _refused(
                f"there is a goal `{spec.name}` already, with another description or goal state",
                "Leave it as it is and add actions to it, or give the new goal another name.",
            )
        self.plan = Plan(goals=(*self.plan.goals, spec))
        return CreateGoal(spec)

    def _create_actions(self, change: CreateActions) -> Change | None:
        goal = self._open_goal(change.goal)
        _refuse(f"goal `{goal.name}`", unfit_batch(change.specs))
        specs = tuple(map(_tidy, change.specs))
        _refuse("", (problem for place, spec in enumerate(specs) for problem in unfit_action(place, spec)))
        _refuse("", self._misplaced(goal, specs))
        new = tuple(spec for spec in specs if self.action(spec.key) is None)
        if not new:
            return None
        grown = replace(goal, actions=(*goal.actions, *new))
        self.plan = Plan(goals=tuple(grown if each is goal else each for each in self.plan.goals))
        return CreateActions(goal.name, new, change.method)

    def _misplaced(self, goal: GoalSpec, specs: Sequence[ActionSpec]) -> Iterator[Problem]:
        """Yield what keeps well-formed actions from being added to the goal."""
        batch = {spec.key: spec for spec in reversed(specs)}
        seen: set[Key] = set()
        for place, spec in enumerate(specs):
            name = f"actions[{place}] `{spec.key}`"
            if batch[spec.key] is not spec:
                yield Problem(f"{name} has the key of another one in the list", "Give each action a key of its own.")
            elif (known := self.action(spec.key)) is not None:
                yield from self._already_there(name, known, spec, goal)
            elif spec.parent is not None:
                yield from self._wrong_parent(name, spec.parent, goal, batch)
                if ring := parent_ring(spec, batch, seen):
                    yield Problem(f"{name}: the parents go round: {ring}", "Take one of the parents out.")

    def _already_there(self, name: str, known: ActionSpec, spec: ActionSpec, goal: GoalSpec) -> Iterator[Problem]:
        home = self.goal_of(known.key)
        if home is not goal:
            what = f"{name}: the key is taken by an action of another goal"
            yield Problem(what, "Keys are unique in the whole run: give it another key.")
        elif known != spec:
            fields = [each for each in spec.__struct_fields__ if getattr(known, each) != getattr(spec, each)]
            what = f"{name} exists already, with another {', '.join(fields)}"
            yield Problem(what, "Leave it as it is; give new work a key of its own, and skip what it replaces.")

    def _wrong_parent(
        self, name: str, parent: Key, goal: GoalSpec, batch: Mapping[Key, ActionSpec]
    ) -> Iterator[Problem]:
        above = next((action for action in goal.actions if action.key == parent), batch.get(parent))
        if above is None:
            compounds = [action.key for action in (*goal.actions, *batch.values()) if action.kind == "compound"]
            fix = f"{Spelling(compounds).hint(parent)}Name a compound of goal `{goal.name}`, or none."
            yield Problem(f"{name}: there is no action {shown(parent)} in goal `{goal.name}` to be its parent", fix)
        elif above.kind != "compound":
            what = f"{name}: its parent `{parent}` is primitive"
            yield Problem(what, "Only compounds have children: name one, or none.")
        elif (status := self.standing.status(parent)) in BARREN:
            what = f"{name}: its parent `{parent}` is {status} and takes no further children"
            yield Problem(what, "Add the action at the top of the goal, or to a compound that is not over.")

    def _update(self, change: UpdateAction) -> Change | None:
        action = self.known_action(change.key)
        status = self.standing.status(action.key)
        if status in BUSY:
            _refused(f"`{action.key}` is {status}: somebody is at it", "Leave it alone until that has ended.")
        if wrong := bad_text(change.note):
            _refused(f"the words about `{action.key}`: the text {wrong}", "Write plain, shorter text.")
        note = change.note.strip()
        new = self._skip(action, status, note) if change.status == "skipped" else self._retry(action, status, note)
        return UpdateAction(action.key, change.status, note) if new else None

    def _skip(self, action: ActionSpec, status: str, reason: str) -> bool:
        if status == "skipped":
            return False
        if status in OVER:
            _refused(f"`{action.key}` is {status}: it is past being skipped", "Leave it as it is.")
        if not reason:
            _refused(f"`{action.key}` cannot be skipped without a reason", "Say in `result` why nobody needs it.")
        left = [key for key in self.below(action.key) if self.standing.status(key) not in OVER]
        busy = [key for key in left if self.standing.status(key) in BUSY]
        if busy:
            _refused(
                f"`{action.key}` cannot be skipped: {listed(busy)} below it is at work", "Wait until it has ended."
            )
        self._stand(dict.fromkeys((action.key, *left), "skipped"))
        return True

    def below(self, key: Key) -> tuple[Key, ...]:
        """Return the actions below a compound, children before theirs."""
        goal = self.goal_of(key)
        found = [key]
        for each in found:
            found += [action.key for action in (goal.actions if goal else ()) if action.parent == each]
        return tuple(found[1:])

    def _retry(self, action: ActionSpec, status: str, approach: str) -> bool:
        before = self.history.approaches.get(action.key, Approach("", spent=False))
        if status == "pending" and approach in {"", before.text}:
            return False
        if status != "failed":
            _refused(f"`{action.key}` is {status}, and only what failed is tried again", _way_on(status))
        if before.spent:
            _refused(
                f"`{action.key}` has had its other approach: {shown(before.text)}",
                "Create another action that makes the same true in another way; more tries are for a human to grant.",
            )
        if _plain(approach) in {"", _plain(before.text), _plain(action.description)}:
            _refused(
                f"`{action.key}` is not tried again in the same way: a retry needs something new",
                "Say in `result` what is to be done differently, given why it failed (goap_get_action_results).",
            )
        parent = self.standing.status(action.parent) if action.parent else "pending"
        if parent in BARREN:
            fix = "Put that back first, or create an action elsewhere that makes the same true."
            _refused(f"`{action.key}` cannot be tried again: its parent `{action.parent}` is {parent}", fix)
        self._stand({action.key: "pending"})
        taken = {**self.history.approaches, action.key: Approach(approach, spent=True)}
        self.history = replace(self.history, approaches=taken)
        return True

    def _propose(self, change: Propose) -> Change | None:
        goal = self._open_goal(change.goal)
        _refuse(f"goal `{goal.name}`", unfit_proposal(change.assertions, change.evidence, change.summary))
        known = Spelling(_assertions(goal))
        for name in change.assertions:
            if name not in _assertions(goal):
                fix = f"{known.hint(name)}Name one of its goal state, or of its actions' effects."
                _refused(f"nobody in goal `{goal.name}` speaks of {shown(name)}", fix)
        return None if change in self.changes else change

    def _open_goal(self, name: str) -> GoalSpec:
        goal = self.known_goal(name)
        if goal.name in self.history.ended:
            _refused(f"goal `{goal.name}` is {self.history.ended[goal.name]}: it has ended", "Leave it as it is.")
        return goal

    def _stand(self, statuses: Mapping[Key, str]) -> None:
        self.standing = replace(self.standing, statuses={**self.standing.statuses, **statuses})


def _refused(what: str, fix: str) -> NoReturn:
    raise DraftRefused(what, fix)


def _refuse(where: str, problems: Iterable[Problem]) -> None:
    """Raise DraftRefused with the first few `problems`, if there are any."""
    found = list(problems)
    if found:
        what, fix = in_one((problem.what, problem.fix) for problem in found)
        _refused(f"{where}: {what}" if where else what, fix)


def _once(names: Iterable[Assertion]) -> tuple[Assertion, ...]:
    return tuple(dict.fromkeys(names))


def _tidy(spec: ActionSpec) -> ActionSpec:
    """Return the action as it reads once it is stored."""
    return replace(
        spec,
        description=spec.description or spec.key,
        preconditions=_once(spec.preconditions),
        effects=_once(spec.effects),
        files=tuple(dict.fromkeys(spec.files)),
    )


def _content(goal: GoalSpec) -> tuple[object, ...]:
    return (goal.description, frozenset(goal.goal_state), goal.persistent)


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())


def _assertions(goal: GoalSpec) -> dict[Assertion, None]:
    """Return all that the goal and its actions speak of, in order."""
    spoken = (name for action in goal.actions for name in (*action.effects, *action.preconditions))
    return dict.fromkeys((*goal.goal_state, *spoken))


def _way_on(status: str) -> str:
    match status:
        case "blocked":
            return "Deal with the failure it depends on; it is freed by itself then."
        case "pending":
            return "It will be dispatched once its preconditions hold."
        case _:
            return "Create another action, with a key of its own."


def _lost(plan: Plan, standing: Standing) -> tuple[Key, ...]:
    """Return what never begins because a compound above it is dead."""
    above = {action.key: action.parent for action in plan.actions}
    lost: list[Key] = []
    for key, parent in above.items():
        compound = parent
        while compound is not None and standing.status(compound) not in DEAD_COMPOUND:
            compound = above[compound]
        if compound is not None and standing.status(key) in LOST:
            lost.append(key)
    return tuple(lost)
