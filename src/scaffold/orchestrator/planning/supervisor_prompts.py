"""Prompts for a supervisor's agent, built from stored values; their length does not grow with the project.

Each part has a limit in characters; the rest is counted, and the prompt names the tool that shows it.
"""

import re
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from scaffold.core.ids import Assertion
from scaffold.core.model import Action, Attempt, Goal, PlanningTurn
from scaffold.core.plan import full_text
from scaffold.core.printable_text import count_of
from scaffold.core.states import reason_of, status_of

GOAL_CHARS = 400
SUMMARY_CHARS = 300
TASK_CHARS = 900
RESULT_CHARS = 350
"""Limit for one result; `RESULTS_CHARS` for all of them."""
RESULTS_CHARS = 1_100
ERROR_CHARS = 260
FAILURES_CHARS = 1_300
NAMES_CHARS = 500
"""Limit for each row of assertion names."""
ACTIONS_CHARS = 450
"""Limit for each list of actions."""
EARLIER_CHARS = 500
OPEN_STATUSES = ("pending", "running", "verifying", "landing", "blocked")


class FailedAction(Struct, frozen=True, kw_only=True):
    """A primitive that failed permanently, with its attempts."""

    action: Action
    attempts: tuple[Attempt, ...]
    """Oldest first."""

    @property
    def error(self) -> str:
        """Return the last error of its attempts, else the reason of its state; empty if there is neither."""
        return _last_error(self.attempts) or reason_of(self.action.state) or ""


class GoalContext(Struct, frozen=True, kw_only=True):
    """The state of a goal, as far as a prompt needs it."""

    goal: Goal
    holding: frozenset[Assertion]
    """Assertions that hold in the goal."""
    status_counts: Mapping[str, int]
    """How many actions have each status."""
    actions: tuple[Action, ...]
    """All actions of the goal, in plan order."""
    ready: tuple[Action, ...]
    """The first actions that may start."""
    failures: tuple[FailedAction, ...]
    """Actions that failed permanently, latest first."""
    turns: tuple[PlanningTurn, ...]
    """Earlier turns of the same kind about the same compound or goal, oldest first."""
    compound: Action | None = None
    """The compound to decompose or replan; None for the goal itself."""


def decompose_prompt(context: GoalContext, compound: Action) -> str:
    """Return the prompt for decomposing a compound that became ready."""
    needs = set(compound.preconditions)
    shown = [action for action in context.actions if action.result and needs.intersection(action.effects)]
    lines = (f"- {action.key}: {_one_line(action.result or '', RESULT_CHARS)}" for action in reversed(shown))
    return _join_sections(
        _goal_section(context),
        _compound_section(context, compound, "Compound to decompose"),
        _fit_list("# What it builds on", lines, RESULTS_CHARS, "goap_get_action_results"),
        _status_section(context),
        _earlier_turns(context.turns),
        f"# Your task\nDecompose `{compound.key}`: create 2 to 7 children with goap_create_actions "
        f"{{goal: {context.goal.name}, parent: {compound.key}, actions: [...]}}, in one call if possible.\n"
        + _rule_lines(_name_row("Together, their effects must cover", _not_holding(compound.effects, context.holding))),
    )


def replan_prompt(context: GoalContext, unmet: Sequence[Assertion], why: str, *, still: bool) -> str:
    """Return the prompt for finding another way to `unmet`; `still`: nothing has changed since the last replan."""
    compound = context.compound
    scope = f"goal: {context.goal.name}" + ("" if compound is None else f", parent: {compound.key}")
    return _join_sections(
        _goal_section(context),
        "" if compound is None else _compound_section(context, compound, "Stuck compound"),
        f"# What happened\n{_one_line(why, TASK_CHARS)}.\n{_failure_list(context.failures)}".rstrip(),
        _status_section(context),
        _earlier_turns(context.turns),
        _NO_PROGRESS_NOTE if still else "",
        f"# Your task\nFind another way to make true: {_fit_names(unmet, NAMES_CHARS) or 'the goal'}. "
        f"Create actions with goap_create_actions {{{scope}, actions: [...]}}.\n"
        f"{_REPLAN_OPTIONS}\n" + _rule_lines(""),
    )


def judge_prompt(context: GoalContext, why: str) -> str:
    """Return the prompt for an agent that takes every step itself."""
    return _join_sections(
        _goal_section(context),
        f"# Reason for this turn\n{_one_line(why, TASK_CHARS)}.",
        _failure_list(context.failures),
        _status_section(context),
        _earlier_turns([turn for turn in context.turns if turn.outcome != "done"]),
        f"# Your task\nAdvance the goal as far as possible now. {_STEPS}\n" + _rule_lines(""),
    )


def is_replan_stuck(failures: Sequence[FailedAction], before: PlanningTurn | None, facts: int) -> bool:
    """Return whether the written replan `before` did not help: no new fact, and every failure has the same error.

    `facts` is the number of assertions ever shown in the goal. False if `before` is None.
    """
    if before is None or before.outcome != "done" or before.facts != facts:
        return False
    for each in failures:
        earlier = [it for it in each.attempts if it.ended_at is not None and it.ended_at <= before.started_at]
        error = _last_error(earlier)
        # Errors count as equal if they differ only in numbers and hashes.
        if error is None or _VARYING_TEXT.sub("#", each.error) != _VARYING_TEXT.sub("#", error):
            return False
    return True


def _last_error(attempts: Sequence[Attempt]) -> str | None:
    return next((each.error for each in reversed(attempts) if each.error), None)


_VARYING_TEXT = re.compile(r"\b[0-9a-f]{7,64}\b|\d+(\.\d+)?")
_NO_PROGRESS_NOTE = (
    "# Stop\nNothing has changed since the last time you were asked this: no further assertion holds, and the failed "
    "actions fail with the same errors. What was tried then does not work. Choose a fundamentally different way - "
    "another approach, smaller steps, or a separate action that fixes the cause - not the same one under another key."
)
_REPLAN_OPTIONS = (
    "- Retry a failed action once with goap_update_action {action, status: pending, result: the other approach}, but "
    "only with a new approach that follows from why it failed.\n"
    "- Or replace it: goap_update_action {action, status: skipped, result: why}, and create actions that make the same "
    "assertions true in another way. Dependent actions wait for the assertion, not for the action."
)
_NAMING = (
    "- Preconditions: assertions that already hold, or effects of actions of this goal. Effects: use the names of the "
    "goal and its compounds; use a new name only for an intermediate state."
)
_VERIFYING = "- Add verification actions (testing, code_review, ...) where a mistake would be costly."
_STEPS = (
    "You take every step: decompose ready compounds (goap_create_actions with `parent`), start ready primitives "
    "(goap_dispatch_action, as many as the cap allows), read the results (goap_get_action_results), and find another "
    "way where something failed. Each step takes effect at once. Then end without tool calls: you are woken when an "
    "agent has ended. If nothing is running, a turn must change something."
)


def _rule_lines(must: str) -> str:
    return "\n".join(line for line in (must, _NAMING, _VERIFYING) if line)


def _goal_section(context: GoalContext) -> str:
    goal = context.goal
    # Two sentences of the description are enough for a reminder.
    sentences = " ".join(re.split(r"(?<=[.!?])\s+", goal.description.strip())[:2])
    described = f"# Goal: {goal.name}\n{_clip_text(sentences, GOAL_CHARS)}".rstrip()
    summary = f"So far: {_one_line(goal.summary, SUMMARY_CHARS)}" if goal.summary else ""
    unmet = _name_row("Desired, not proven yet", _not_holding(goal.desired, context.holding))
    shown = _name_row("Desired and shown", [name for name in goal.desired if name in context.holding])
    return "\n".join(part for part in (described, summary, unmet, shown) if part)


def _compound_section(context: GoalContext, compound: Action, title: str) -> str:
    children = [action for action in context.actions if action.parent_id == compound.id]
    parts = (
        f"# {title}: {compound.key}\n{_clip_text(full_text(compound), TASK_CHARS)}",
        _name_row("Its effects, not proven yet", _not_holding(compound.effects, context.holding)),
        _name_row("Its effects that hold", [name for name in compound.effects if name in context.holding]),
        _name_row("Its preconditions", compound.preconditions),
        _fit_list(
            "Its children",
            (
                f"- {each.key} ({status_of(each.state)}) -> {_fit_names(each.effects, 160)}"
                for each in _open_first(children)
            ),
            ACTIONS_CHARS,
        ),
    )
    return "\n".join(part for part in parts if part)


def _status_section(context: GoalContext) -> str:
    running = [action for action in context.actions if status_of(action.state) in {"running", "verifying", "landing"}]
    busy = [action for action in running if action.kind == "primitive"]
    blocked = [action for action in context.actions if status_of(action.state) == "blocked"]
    ready = [action for action in context.ready if action != context.compound]
    counts = (
        ", ".join(f"{count} {status}" for status, count in context.status_counts.items() if count) or "no actions yet"
    )
    parts = (
        f"# State of the goal\nActions: {counts}.",
        _name_row("Assertions that hold", sorted(context.holding)),
        _fit_list("Running", map(_with_effects, busy), ACTIONS_CHARS),
        _fit_list("Ready next", map(_with_effects, ready), ACTIONS_CHARS),
        _fit_list("Blocked", (_why_blocked(action, context.actions) for action in blocked), ACTIONS_CHARS),
        _fit_list("Other keys in use", map(_with_effects, _actions_with_taken_keys(context)), ACTIONS_CHARS),
    )
    return "\n".join(part for part in parts if part)


def _actions_with_taken_keys(context: GoalContext) -> list[Action]:
    # The actions that the prompt shows nowhere else: siblings first, then open ones.
    compound = context.compound
    shown = {action.id for action in context.ready}
    if compound is not None:
        shown |= {compound.id, *(action.id for action in context.actions if action.parent_id == compound.id)}
    # The agent must not reuse a key; the list may be cut, so the likeliest collisions come first.
    others = _open_first(action for action in context.actions if action.id not in shown)
    return others if compound is None else sorted(others, key=lambda action: action.parent_id != compound.parent_id)


def _open_first(actions: Iterable[Action]) -> list[Action]:
    return sorted(actions, key=lambda action: status_of(action.state) not in OPEN_STATUSES)


def _failure_list(failures: Sequence[FailedAction]) -> str:
    return _fit_list("Failed", map(_failure_line, failures), FAILURES_CHARS, "goap_get_action_results")


def _failure_line(failure: FailedAction) -> str:
    action = failure.action
    tried = f" Other approach tried: {_one_line(action.guidance, 120)}." if action.guidance else ""
    times = count_of(len(failure.attempts), "attempt")
    return (
        f"- {action.key} [{action.role}] -> {_fit_names(action.effects, 120)}; {times}; last error: "
        f"{_one_line(failure.error, ERROR_CHARS)}{tried}"
    )


def _earlier_turns(turns: Sequence[PlanningTurn]) -> str:
    lines = [
        f"- {turn.event}: {turn.outcome}{f' - {_one_line(turn.error, 160)}' if turn.error else ''}"
        for turn in reversed(turns)
        if turn.outcome is not None
    ]
    return _fit_list("# Earlier turns about this, latest first", lines, EARLIER_CHARS)


def _why_blocked(action: Action, actions: Sequence[Action]) -> str:
    reason = reason_of(action.state) or ""
    root = next((each.key for each in actions if reason == f"dependency_failed:{each.id}"), None)
    cause = "a human has to decide" if root is None else f"`{root}` failed"
    return f"- {action.key}: {cause}"


def _with_effects(action: Action) -> str:
    return f"- {action.key} -> {_fit_names(action.effects, 160)}"


def _not_holding(names: Iterable[Assertion], held: frozenset[Assertion]) -> list[Assertion]:
    return [name for name in names if name not in held]


def _name_row(title: str, names: Sequence[Assertion]) -> str:
    return f"{title}: {_fit_names(names, NAMES_CHARS)}." if names else ""


def _fit_names(names: Sequence[str], limit: int) -> str:
    kept, left = _fit_texts(names, limit, len(", "))
    return ", ".join((*kept, f"{left} more (goap_get_goal)") if left else kept)


def _fit_list(title: str, lines: Iterable[str], limit: int, tool: str = "goap_list_actions") -> str:
    kept, left = _fit_texts(tuple(lines), limit, len("\n"))
    if not kept and not left:
        return ""
    head = title if title.startswith("#") else f"{title}:"
    return "\n".join((head, *kept, f"- and {left} more: {tool} shows them") if left else (head, *kept))


def _fit_texts(texts: Sequence[str], limit: int, gap: int) -> tuple[Sequence[str], int]:
    """Return the first `texts` that fit into `limit` characters with a `gap` after each, and the number left out."""
    size = 0
    for at, text in enumerate(texts):
        size += len(text) + gap
        if size > limit:
            return texts[:at], len(texts) - at
    return texts, 0


def _one_line(text: str, limit: int) -> str:
    return _clip_text(" ".join(text.split()), limit).rstrip(".")


def _clip_text(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[:limit].rstrip()} [... {len(text) - limit} characters omitted]"


def _join_sections(*parts: str) -> str:
    return "\n\n".join(part for part in parts if part)
