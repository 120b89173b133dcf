"""A run on one screen: what needs a human first, then each goal, and what to do next at the end."""

from collections.abc import Iterator, Mapping, Sequence
from shlex import quote

from rich.cells import cell_len

from scaffold.cli.render.inbox import brief_lines
from scaffold.cli.render.style import heading, status_mark
from scaffold.core.ids import ActionId, Assertion
from scaffold.core.model import Action, Attempt, Goal
from scaffold.core.printable_text import join_limited, printable
from scaffold.core.states import (
    INTERRUPTED,
    PRIMITIVE_TRANSITIONS,
    Completed,
    Paused,
    awaited_inbox_id,
    reason_of,
    status_of,
)
from scaffold.views.inbox import requesters_by_item
from scaffold.views.run_view import LIVE_STATUSES, RunView
from scaffold.views.text_format import WIDTH, clip, clock_time, format_cost, format_duration, pad, wrap_text

MAX_ACTIONS = 40
"""Actions of a goal that are drawn; of more, those that are under way or in trouble come first."""
MAX_NAMES = 12
MAX_ITEMS = 10
"""Items of the inbox that are drawn."""
REASON_LINES = 4

STATUS_CELLS = max(map(len, PRIMITIVE_TRANSITIONS))
KEY_CELLS = 26
NOTE_CELLS = WIDTH - STATUS_CELLS - KEY_CELLS - 8
DEPENDENCY_FAILED = "dependency_failed:"

ActionsById = Mapping[ActionId, Action]


def no_run_text() -> str:
    """Return what is shown where nothing was ever run."""
    commands = {
        "scaffold init": "look at this repository, and get a first plan",
        'scaffold run "TASK"': "plan a task and carry it out",
        "scaffold demo": "watch a whole run on a sample project",
    }
    return "\n".join(["There is no run in this repository yet.", *_commands(commands)])


def status_text(picture: RunView) -> str:
    """Return the screen as text, at most 80 columns wide."""
    failed = [action for action in picture.actions if status_of(action.state) == "failed"]
    parts = [
        _head(picture, named=bool(failed)),
        *([_needs_you(picture)] if picture.inbox else []),
        *([_failed_actions(failed)] if failed else []),
        *(_goal(picture, goal) for goal in picture.goals),
        *([_queue(picture)] if picture.queue else []),
        "\n".join([heading("Next"), *_commands(_next(picture, failed))]),
    ]
    return "\n\n".join(parts)


def _head(picture: RunView, *, named: bool) -> str:
    """Return what the run is; why it failed, too, unless the actions are `named` by which it did."""
    run, settings = picture.run, picture.run.settings
    title = f"run {run.id} {picture.status}"
    until = picture.at if picture.status in LIVE_STATUSES else picture.last_change
    cost = format_cost(picture.spent.cost_usd)
    if settings.limits.budget_usd is not None:
        cost = f"{cost} of {format_cost(settings.limits.budget_usd)}"
    took = f"{format_duration(until - run.created_at)}, {cost}, {picture.spent.tokens:,} tokens"
    lines = [
        f"lands on {run.session_branch}, from {run.base_branch or 'a detached head'} at {run.base_sha[:8]}",
        f"{took}; tier {settings.tier.name}, {settings.tier.agents} at once",
    ]
    if (reason := reason_of(run.state)) is not None and not (named and picture.status == "failed"):
        why = wrap_text(reason, WIDTH - 2, break_words=True)
        lines[:0] = [*why[:REASON_LINES], *(["…"] if len(why) > REASON_LINES else [])]
    first = f"{status_mark(picture.status)} {heading(title)}: {clip(run.request, WIDTH - len(title) - 4)}"
    return "\n".join([first, *(f"  {clip(line, WIDTH - 2)}" for line in lines)])


def _needs_you(picture: RunView) -> str:
    who = requesters_by_item(picture.inbox, picture.actions)
    return "\n".join([heading("Needs you"), *brief_lines(picture.inbox, who, most=MAX_ITEMS)])


def _failed_actions(failed: Sequence[Action]) -> str:
    lines = [heading("Needs attention")]
    for action in failed[:MAX_ACTIONS]:
        lines.append(f"  {status_mark('failed')} {clip(action.key, WIDTH - 12)} failed")
        reason = [line for line in (reason_of(action.state) or "").splitlines() if line.strip()]
        lines += [f"      {clip(line, WIDTH - 6)}" for line in reason[:REASON_LINES]]
    if len(failed) > MAX_ACTIONS:
        lines.append(f"  and {len(failed) - MAX_ACTIONS} more")
    return "\n".join(lines)


def _goal(picture: RunView, goal: Goal) -> str:
    holding = picture.holding(goal)
    held = [name for name in goal.desired if name in holding]
    missing = [name for name in goal.desired if name not in holding]
    score = f"{status_of(goal.state)}, {len(held)} of {len(goal.desired)} hold"
    lines = [f"{heading(clip(goal.name, WIDTH - len(score) - 2))}: {score}"]
    reason = reason_of(goal.state)
    if reason is not None and reason != reason_of(picture.run.state):
        lines.append(f"  {clip(reason, WIDTH - 2)}")
    weak = {fact.assertion for fact in picture.facts[goal.id] if fact.weak}
    told = [f"{name} (weak)" if name in weak else name for name in held]
    lines += [*_assertion_lines("holds", told), *_assertion_lines("missing", missing)]
    actions = picture.actions_of(goal)
    shown = _most_relevant(actions)
    by_id = {action.id: action for action in actions}
    lines += [_action(picture, action, holding, by_id) for action in shown]
    if len(shown) < len(actions):
        lines.append(f"    and {len(actions) - len(shown)} more: `scaffold tasks`")
    return "\n".join(lines)


def _assertion_lines(status: str, names: Sequence[str]) -> Iterator[str]:
    if not names:
        return
    indent = STATUS_CELLS + 5
    first, *rest = wrap_text(join_limited(names, MAX_NAMES), WIDTH - indent, break_words=True)
    yield f"  {status_mark(status)} {pad(status, STATUS_CELLS)} {first}"
    yield from (" " * indent + line for line in rest)


def _most_relevant(actions: Sequence[Action]) -> Sequence[Action]:
    quiet = {"completed", "skipped", "cancelled", "pending"}
    first = sorted(actions, key=lambda action: status_of(action.state) in quiet)[:MAX_ACTIONS]
    return sorted(first, key=lambda action: action.position)


def _action(picture: RunView, action: Action, holding: frozenset[Assertion], actions: ActionsById) -> str:
    status = status_of(action.state)
    note = clip(action_note(picture, action, holding, actions), NOTE_CELLS)
    return f"  {status_mark(status)} {pad(status, STATUS_CELLS)} {pad(action.key, KEY_CELLS)}  {note}".rstrip()


def action_note(picture: RunView, action: Action, holding: frozenset[Assertion], actions: ActionsById) -> str:
    """Return in a few words why an action is where it is; `holding` and `actions` are those of its goal."""
    match status_of(action.state):
        case "pending":
            return _waits_for(picture, action, holding, actions)
        case "running" | "verifying" | "landing" | "completed" if action.kind == "compound":
            return _progress(picture, action)
        case "running" | "verifying" | "landing":
            return f"{attempt_label(picture, action)}, {_running_note(picture, action)}"
        case "completed":
            return _landed(picture.attempts_of(action))
        case _:
            return _ended(picture, action, actions)


def _landed(attempts: Sequence[Attempt]) -> str:
    if not attempts:
        return ""
    tries = f" in attempt {attempts[-1].number}" if len(attempts) > 1 else ""
    return f"{attempts[-1].outcome or 'done'} as {(attempts[-1].head_sha or '')[:8]}{tries}"


def _ended(picture: RunView, action: Action, actions: ActionsById) -> str:
    attempts = len(picture.attempts_of(action))
    if status_of(action.state) == "failed" and attempts:
        return f"after {attempts} attempt{'s' * (attempts != 1)}"
    return (
        "nobody decided in time: resume it"
        if _waits_for_expired_item(picture, action)
        else status_reason(action, actions)
    )


def attempt_label(picture: RunView, action: Action, *, upcoming: bool = False) -> str:
    """Return which attempt it is of how many: only its own failures count; with the log's number where that differs."""
    most = picture.run.settings.limits.attempts + action.extra_attempts
    counted = picture.failures.get(action.id, 0) + 1
    number = len(picture.attempts_of(action)) + upcoming
    return f"attempt {min(counted, most)} of {most}" + (f" (#{number})" if number != counted else "")


def _waits_for_expired_item(picture: RunView, action: Action) -> bool:
    """Tell whether what it waits for has expired; its run notices as soon as it is carried out."""
    item = awaited_inbox_id(action.state)
    return item is not None and all(item != each.id for each in picture.inbox)


def _waits_for(picture: RunView, action: Action, holding: frozenset[Assertion], actions: ActionsById) -> str:
    lacking = [name for name in action.preconditions if name not in holding]
    if lacking:
        return f"waits for {', '.join(lacking)}"
    parent = actions[action.parent_id] if action.parent_id else None
    if parent is not None and status_of(parent.state) != "running":
        return f"waits for {parent.key} to begin"
    again = f", {attempt_label(picture, action, upcoming=True)}" if picture.attempts_of(action) else ""
    return f"ready{again}{_dispatch_blocker(picture, action)}"


def _dispatch_blocker(picture: RunView, action: Action) -> str:
    """Return what keeps a ready action from starting, `""` where nothing does."""
    if picture.status not in LIVE_STATUSES or action.kind == "compound":
        return ""
    goal = next(goal for goal in picture.goals if goal.id == action.goal_id)
    if isinstance(goal.state, Paused):
        return ", but its goal is paused"
    at_work, slots = sum(picture.at_work.values()), picture.run.settings.tier.agents
    if at_work >= slots:
        return f": waits for a slot, {at_work} of {slots} are taken"
    if (of_goal := picture.at_work.get(goal.id, 0)) >= goal.worker_cap:
        return f": waits for a slot, {of_goal} of its goal's {goal.worker_cap} are taken"
    return ""


def _progress(picture: RunView, compound: Action) -> str:
    """Return what its supervisor's agent is asked about it just now, else how many of its children are done."""
    if (turn := next((turn for turn in picture.turns if turn.action_id == compound.id), None)) is not None:
        return f"{turn.event} for {format_duration(picture.at - turn.started_at)}"
    progress = picture.progress.get(compound.id)
    return f"{progress.done}/{progress.children} done" if progress else ""


def _running_note(picture: RunView, action: Action) -> str:
    attempts = picture.attempts_of(action)
    if not attempts:
        return "nobody works on it"
    last = attempts[-1]
    again = f" again ({last.iteration + 1})" if last.iteration and last.phase == "executing" else ""
    if picture.status == INTERRUPTED:
        return f"was {last.phase}{again}"
    return f"{last.phase}{again}, {format_duration(picture.at - (last.started_at or last.queued_at))}"


def status_reason(action: Action, actions: ActionsById) -> str:
    """Return why an action stands where it stands, `""` where nothing is to be said; others are told by their keys."""
    reason = reason_of(action.state) or ""
    if (item := awaited_inbox_id(action.state)) is not None:
        return f"waits for you: {item} in the inbox"
    if reason.startswith(DEPENDENCY_FAILED):
        root = ActionId(reason.removeprefix(DEPENDENCY_FAILED))
        return f"needs {actions[root].key if root in actions else root}, which failed"
    return reason


def _queue(picture: RunView) -> str:
    actions = {action.id: action for action in picture.actions}
    lines = [heading("Waits to land")]
    for attempt in picture.queue:
        action = actions[attempt.action_id]
        note = f"attempt {attempt.number}, {attempt.phase} since {clock_time(action.updated_at)}"
        lines.append(f"  {status_mark('landing')} {clip(action.key, WIDTH - len(note) - 6)}  {note}")
    return "\n".join(lines)


def _next(picture: RunView, failed: Sequence[Action]) -> Mapping[str, str]:
    """Return commands that fit where the run stands, each with what it is for."""
    run = picture.run
    look = {f"scaffold logs {quote(action.key)}": "what its agents said and did" for action in failed[:2]}
    if picture.inbox:
        look = {"scaffold inbox": "what waits for you, in full"} | look
    look |= {f"scaffold contract {quote(action.key)}": "what it must show, and what it showed" for action in failed[:1]}
    aside = [goal for goal in picture.goals if isinstance(goal.state, Paused) and goal.state != run.state]
    look |= {f"scaffold resume {quote(goal.name)}": "let this goal go on again" for goal in aside[:2]}
    match picture.status:
        case "planning" | "active":
            return look | {
                "scaffold status --watch": "follow it",
                f"scaffold stop {run.id}": "put it down in good order",
            }
        case "completed":
            return {
                "scaffold tasks": "every action with its evidence",
                f"scaffold diff {run.id}": "all that landed",
                f"git merge --ff-only {run.session_branch}": "take it",
            }
        case "failed":
            again = {"scaffold retry": "give it another chance, then `scaffold resume`"}
            has_landed = any(isinstance(action.state, Completed) for action in picture.actions)
            return look | again | ({f"scaffold diff {run.id}": "what landed all the same"} if has_landed else {})
        case "cancelled":
            return {f"scaffold diff {run.id}": "what landed before", 'scaffold run "TASK"': "start anew"}
        case _:
            return look | {f"scaffold resume {run.id}": "go on", f"scaffold diff {run.id}": "what has landed so far"}


def _commands(commands: Mapping[str, str]) -> Iterator[str]:
    wide = min(44, max(map(cell_len, commands)))
    for command, purpose in commands.items():
        shown = printable(command)
        line = f"  {shown}{' ' * (wide - cell_len(shown))}  {purpose}"
        yield line if cell_len(line) <= WIDTH else f"  {shown}"
