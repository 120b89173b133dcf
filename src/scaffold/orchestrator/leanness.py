"""What a supervisor's agent is told: rebuilt each time from the store's values, and as long in old projects as in new.

Pure text. Each part has its share of characters; what does not fit is counted, and a tool shows it.
"""

import re
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from scaffold.core.ids import Assertion
from scaffold.core.model import Action, Attempt, Goal, Turn
from scaffold.core.states import reason_of, status_of

GOAL_CHARS = 400
SUMMARY_CHARS = 300
TASK_CHARS = 900
RESULT_CHARS = 350
"""Of each result, and of all of them `RESULTS_CHARS`."""
RESULTS_CHARS = 1_100
ERROR_CHARS = 260
FAILURES_CHARS = 1_300
NAMES_CHARS = 500
"""Of each row of names: what holds, what is wanted, what is to be covered."""
ACTIONS_CHARS = 450
"""Of each list of actions."""
EARLIER_CHARS = 500

OPEN = ("pending", "running", "verifying", "landing", "blocked")


class Failure(Struct, frozen=True, kw_only=True):
    """A primitive that failed for good, with what its attempts came to."""

    action: Action
    attempts: tuple[Attempt, ...]
    """Oldest first."""

    @property
    def error(self) -> str:
        """Why the last of them ended."""
        return _last_error(self.attempts) or reason_of(self.action.state) or ""


class Situation(Struct, frozen=True, kw_only=True):
    """Where a goal stands, as far as it bears on what is asked."""

    goal: Goal
    held: frozenset[Assertion]
    """What holds in the goal."""
    tally: Mapping[str, int]
    """How many actions have each status."""
    actions: tuple[Action, ...]
    """All actions of the goal, in plan order."""
    ready: tuple[Action, ...]
    """The first of those that may start."""
    failures: tuple[Failure, ...]
    """What failed for good, latest first."""
    turns: tuple[Turn, ...]
    """What was asked about the same before, oldest first."""
    compound: Action | None = None
    """What is to be broken down, or whose children are to be others."""


def decompose_prompt(now: Situation, compound: Action) -> str:
    """Return what is asked when a compound became ready."""
    return _text(
        _opening(now),
        _compound(now, compound, "To be broken down"),
        _basis(now, compound),
        _standing(now),
        _earlier(now.turns),
        f"# What is asked\nBreak `{compound.key}` down: create 2 to 7 children with goap_create_actions "
        f"{{goal: {now.goal.name}, parent: {compound.key}, actions: [...]}}, in one call if you can.\n"
        + _rules(_row("Their effects together must cover", _lacking(compound.effects, now.held))),
    )


def replan_prompt(now: Situation, unmet: Sequence[Assertion], why: str, *, still: bool) -> str:
    """Return what is asked when a way is closed; `still` tells that nothing has changed since it was last asked."""
    compound = now.compound
    return _text(
        _opening(now),
        "" if compound is None else _compound(now, compound, "The part that is stuck"),
        f"# What happened\n{_line(why, TASK_CHARS)}.\n{_failures(now.failures)}".rstrip(),
        _standing(now),
        _earlier(now.turns),
        _STILL if still else "",
        f"# What is asked\nFind another way to make true: {_named(unmet, NAMES_CHARS)}. {_where(now, compound)}\n"
        f"{_OTHER_WAYS}\n" + _rules(""),
    )


def judge_prompt(now: Situation, why: str) -> str:
    """Return what is asked when the agent itself takes every step."""
    return _text(
        _opening(now),
        f"# Why you are asked now\n{_line(why, TASK_CHARS)}.",
        _failures(now.failures),
        _standing(now),
        _earlier([turn for turn in now.turns if turn.outcome != "done"]),
        f"# What is asked\nTake the goal as far as it goes now. {_STEPS}\n" + _rules(""),
    )


def stands_still(failures: Sequence[Failure], before: Turn | None, facts: int) -> bool:
    """Tell whether a replan finds what the one `before` it found: no fact more, every failure with the same error.

    `facts` is how many assertions the goal ever had shown. What was proposed then, and written, did not help.
    """
    if before is None or before.outcome != "done" or before.facts != facts:
        return False
    return all(_same(each.error, _last_error(_until(each.attempts, before))) for each in failures)


def _until(attempts: Sequence[Attempt], turn: Turn) -> Sequence[Attempt]:
    return [each for each in attempts if each.ended_at is not None and each.ended_at <= turn.started_at]


def _last_error(attempts: Sequence[Attempt]) -> str | None:
    return next((each.error for each in reversed(attempts) if each.error), None)


def _same(error: str, before: str | None) -> bool:
    """Tell whether two errors differ in nothing but numbers and hashes."""
    return before is not None and _VARIABLE.sub("#", error) == _VARIABLE.sub("#", before)


_VARIABLE = re.compile(r"\b[0-9a-f]{7,64}\b|\d+(\.\d+)?")

_STILL = (
    "# Stop\nNothing has changed since you were last asked this: no assertion more holds, and what failed fails in the "
    "same way. What was tried then does not work. Take a way that differs in kind - another approach, smaller steps, "
    "or the missing cause itself as an action of its own - not the same under another key."
)
_OTHER_WAYS = (
    "- A failed action can be tried once more with goap_update_action {action, status: pending, result: the other "
    "approach}: only with something new, drawn from why it failed.\n"
    "- Or replace it: goap_update_action {action, status: skipped, result: why}, and create actions that make the same "
    "true in another way. What depended on it waits for the assertion, not for the action."
)
_NAMING = (
    "- Preconditions: names that hold already, or effects of actions of this goal. Effects: as the goal and its "
    "compounds name them; a new name only for an intermediate state."
)
_VERIFYING = "- Add verification actions (testing, code_review, ...) where a mistake would be costly."
_STEPS = (
    "You take every step: break ready compounds down (goap_create_actions with `parent`), start ready primitives "
    "(goap_dispatch_action, as many as the cap allows), read what came of work (goap_get_action_results), and find "
    "another way where something failed. What you do is done at once. Then end without tool calls: you are woken "
    "when an agent has ended. A turn that changes nothing while nothing runs helps nobody."
)


def _rules(must: str) -> str:
    return "\n".join(line for line in (must, _NAMING, _VERIFYING) if line)


def _opening(now: Situation) -> str:
    goal = now.goal
    described = f"# Goal: {goal.name}\n{_sentences(goal.description)}".rstrip()
    summary = f"So far: {_line(goal.summary, SUMMARY_CHARS)}" if goal.summary else ""
    wanted = _row("Wanted, not shown yet", _lacking(goal.desired, now.held))
    shown = _row("Wanted and shown", [name for name in goal.desired if name in now.held])
    return "\n".join(part for part in (described, summary, wanted, shown) if part)


def _compound(now: Situation, compound: Action, title: str) -> str:
    children = [action for action in now.actions if action.parent_id == compound.id]
    parts = (
        f"# {title}: {compound.key}\n{_clip(compound.description, TASK_CHARS)}",
        _row("Its effects, not shown yet", _lacking(compound.effects, now.held)),
        _row("Its effects that hold", [name for name in compound.effects if name in now.held]),
        _row("It needed", compound.preconditions),
        _listed("Its children", map(_with_state, _open_first(children)), ACTIONS_CHARS),
    )
    return "\n".join(part for part in parts if part)


def _basis(now: Situation, compound: Action) -> str:
    """Return what those said whose work the compound builds on."""
    needs = set(compound.preconditions)
    told = [action for action in now.actions if action.result and needs.intersection(action.effects)]
    lines = (f"- {action.key}: {_line(action.result or '', RESULT_CHARS)}" for action in reversed(told))
    return _listed("# What it builds on", lines, RESULTS_CHARS, "goap_get_action_results")


def _standing(now: Situation) -> str:
    running = [action for action in now.actions if status_of(action.state) in {"running", "verifying", "landing"}]
    busy = [action for action in running if action.kind == "primitive"]
    blocked = [action for action in now.actions if status_of(action.state) == "blocked"]
    counts = ", ".join(f"{count} {status}" for status, count in now.tally.items() if count) or "no actions yet"
    parts = (
        f"# Where the goal stands\nActions: {counts}.",
        _row("What holds", sorted(now.held)),
        _listed("Running", map(_with_effects, busy), ACTIONS_CHARS),
        _listed("Ready next", map(_with_effects, _ready(now)), ACTIONS_CHARS),
        _listed("Blocked", (_why_blocked(action, now.actions) for action in blocked), ACTIONS_CHARS),
        _listed("Keys that are taken", map(_with_effects, _neighbours(now)), ACTIONS_CHARS),
    )
    return "\n".join(part for part in parts if part)


def _ready(now: Situation) -> list[Action]:
    return [action for action in now.ready if action != now.compound]


def _neighbours(now: Situation) -> list[Action]:
    """Return those whose keys one might choose again and that stand nowhere else: siblings first, then the open."""
    near = now.compound
    told = {action.id for action in now.ready}
    if near is not None:
        told |= {near.id, *(action.id for action in now.actions if action.parent_id == near.id)}
    others = _open_first(action for action in now.actions if action.id not in told)
    return others if near is None else sorted(others, key=lambda action: action.parent_id != near.parent_id)


def _open_first(actions: Iterable[Action]) -> list[Action]:
    return sorted(actions, key=lambda action: status_of(action.state) not in OPEN)


def _failures(failures: Sequence[Failure]) -> str:
    return _listed("Failed", map(_failure, failures), FAILURES_CHARS, "goap_get_action_results")


def _failure(failure: Failure) -> str:
    action = failure.action
    tried = f" Other approach taken: {_line(action.guidance, 120)}." if action.guidance else ""
    times = f"{len(failure.attempts)} attempts" if len(failure.attempts) != 1 else "1 attempt"
    return (
        f"- {action.key} [{action.role}] -> {_names(action.effects, 120)}; {times}; last error: "
        f"{_line(failure.error, ERROR_CHARS)}{tried}"
    )


def _earlier(turns: Sequence[Turn]) -> str:
    lines = [
        f"- {turn.event}: {turn.outcome}{f' - {_line(turn.error, 160)}' if turn.error else ''}"
        for turn in reversed(turns)
        if turn.outcome is not None
    ]
    return _listed("# Asked before about this, latest first", lines, EARLIER_CHARS)


def _where(now: Situation, compound: Action | None) -> str:
    place = f"goal: {now.goal.name}" + ("" if compound is None else f", parent: {compound.key}")
    return f"Create actions with goap_create_actions {{{place}, actions: [...]}}."


def _why_blocked(action: Action, actions: Sequence[Action]) -> str:
    reason = reason_of(action.state) or ""
    root = next((each.key for each in actions if reason == f"dependency_failed:{each.id}"), None)
    waits = "a human has to decide" if root is None else f"`{root}` failed"
    return f"- {action.key}: {waits}"


def _with_state(action: Action) -> str:
    return f"- {action.key} ({status_of(action.state)}) -> {_names(action.effects, 160)}"


def _with_effects(action: Action) -> str:
    return f"- {action.key} -> {_names(action.effects, 160)}"


def _lacking(names: Iterable[Assertion], held: frozenset[Assertion]) -> list[Assertion]:
    return [name for name in names if name not in held]


def _row(title: str, names: Sequence[Assertion]) -> str:
    return f"{title}: {_names(names, NAMES_CHARS)}." if names else ""


def _named(names: Sequence[Assertion], limit: int) -> str:
    return _names(names, limit) or "the goal"


def _names(names: Sequence[str], limit: int) -> str:
    """Return names within `limit` characters, whole ones only; of the others how many there are."""
    kept, left = _fitting(names, limit, len(", "))
    return ", ".join((*kept, f"{left} more (goap_get_goal)") if left else kept)


def _listed(title: str, lines: Iterable[str], limit: int, tool: str = "goap_list_actions") -> str:
    """Return a title above as many whole lines as fit; of the others how many there are, and what shows them."""
    kept, left = _fitting(tuple(lines), limit, len("\n"))
    if not kept and not left:
        return ""
    head = title if title.startswith("#") else f"{title}:"
    return "\n".join((head, *kept, f"- and {left} more: {tool} shows them") if left else (head, *kept))


def _fitting(texts: Sequence[str], limit: int, gap: int) -> tuple[Sequence[str], int]:
    """Return the first of `texts` that fit into `limit` characters with `gap` after each, and how many do not."""
    size = 0
    for at, text in enumerate(texts):
        size += len(text) + gap
        if size > limit:
            return texts[:at], len(texts) - at
    return texts, 0


def _sentences(text: str) -> str:
    """Return the first two sentences, clipped."""
    return _clip(" ".join(re.split(r"(?<=[.!?])\s+", text.strip())[:2]), GOAL_CHARS)


def _line(text: str, limit: int) -> str:
    """Return `text` on one line, its end cut off where it is long."""
    return _clip(" ".join(text.split()), limit).rstrip(".")


def _clip(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[:limit].rstrip()} [... {len(text) - limit} characters left out]"


def _text(*parts: str) -> str:
    return "\n\n".join(part for part in parts if part)
