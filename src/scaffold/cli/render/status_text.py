"""A run on one screen: what needs a human, what failed, each goal, and the next commands."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from shlex import quote

from rich.cells import cell_len

from scaffold.cli.render.audit_text import compliance_section
from scaffold.cli.render.inbox_text import brief_lines
from scaffold.cli.render.run_list_text import queue_text
from scaffold.cli.render.terminal.style import heading, status_mark, titled
from scaffold.cli.render.terminal.text_layout import Layout
from scaffold.cli.render.terminal.text_table import table_lines
from scaffold.core.ids import ActionId, Assertion
from scaffold.core.landing.branch_move import BranchMove
from scaffold.core.model import Action, Attempt, Fact, Goal
from scaffold.core.printable_text import count_of, join_limited, printable
from scaffold.core.states import (
    INTERRUPTED,
    PRIMITIVE_TRANSITIONS,
    WAITS_FOR_PREFIX,
    Cancelled,
    Completed,
    Failed,
    Paused,
    Running,
    awaited_inbox_id,
    reason_of,
    status_of,
)
from scaffold.plan.budget import BudgetUse
from scaffold.plan.failures.recurrence import first_same
from scaffold.verify.output_excerpt import deciding_line
from scaffold.views.run_view import RunView
from scaffold.views.state_labels import goal_reason, where_landed
from scaffold.views.text_format import format_cost, format_duration

MAX_ACTIONS = 40
"""Actions shown of a goal; running, failed and blocked ones come first."""
MAX_NAMES = 12
MAX_ITEMS = 10
"""Inbox items that are shown."""
REASON_LINES = 4
"""Lines shown of the output of a failed check."""
STATUS_CELLS = max(map(len, PRIMITIVE_TRANSITIONS))
DEPENDENCY_FAILED = "dependency_failed:"
ActionsById = Mapping[ActionId, Action]


def no_run_text() -> str:
    """Return the screen of a repository without runs."""
    commands = {
        "scaffold init": "examine this repository and get a first plan",
        'scaffold run "TASK"': "plan a task and execute it",
        "scaffold demo": "watch a complete run on a sample project",
    }
    return "\n".join(["There is no run in this repository yet.", *_command_lines(commands, Layout())])


def status_text(view: RunView, layout: Layout, page: Path | None = None, *, latest: bool = True) -> str:
    """Return the screen of a run; `page` is its report as an HTML page, if it was written.

    `latest` is whether commands without a name are about this run.
    """
    failed = failed_actions(view)
    of = "" if latest else f" --run {view.run.id}"
    waiting = tuple(brief_lines(view.summary.inbox, view.requesters, layout, most=MAX_ITEMS))
    parts = [
        _header_lines(view, layout, named=bool(failed)),
        *(["\n".join([heading("Needs you"), *waiting])] if waiting else []),
        *([_failed_actions(view, failed, layout, of=of)] if failed else []),
        *([compliance_section(view.compliance, layout)] if view.compliance else []),
        *(_goal_section(view, goal, layout) for goal in view.goals),
        *([f"{heading('Waits to land')}\n{queue_text(view, layout)}"] if view.queue else []),
        "\n".join(next_lines(view, layout, page, lasting=not latest)),
    ]
    return "\n\n".join(parts)


def _header_lines(view: RunView, layout: Layout, *, named: bool) -> str:
    # The reason of a run that failed by its actions would be told twice.
    run, settings = view.run, view.run.settings
    title = f"run {run.id} {view.status}"
    until = view.summary.at if view.summary.is_live else view.last_change
    cost = format_cost(view.summary.spent.cost_usd)
    took = f"{format_duration(until - run.created_at)}, {cost}, {view.summary.spent.tokens:,} tokens"
    lines = [
        f"lands on {run.session_branch}, from {run.base_branch or 'a detached head'} at {run.base_sha[:8]}",
        f"{took}; tier {settings.tier.name}, {run.agents} at once",
    ]
    # Fewer agents may work than the tier allows: the plan has no work for more.
    if run.agents < (most := settings.tier.agents):
        lines.append(f"{run.agents} of {count_of(most, 'agent')}: {run.advice}")
    if (reason := view.summary.reason) is not None and not (named and view.status == "failed"):
        lines.insert(0, reason)
    elif ending := view.summary.ending:
        lines.insert(0, ending)
    elif waits_for := view.summary.waits_for:
        lines.insert(0, f"waits for {waits_for}")
    if backlog := view.landing_backlog:
        lines.append(
            f"landing holds the run back: {count_of(backlog, 'candidate')} {'waits' if backlog == 1 else 'wait'}"
        )
    if view.held_back:
        number = len(view.held_back)
        what = f"{count_of(number, 'ready action')} {'is' if number == 1 else 'are'} held back"
        lines.append(f"{what}: others change the same files")
    lines += budget_lines(view.summary.budget)
    lines += [view.unreliable_reviewer] if view.unreliable_reviewer else []
    lines += taken_lines(view)
    first = titled(f"{status_mark(view.status)} ", title, layout.shorten(run.request), layout)
    return "\n".join([*first, *(shown for line in lines for shown in layout.prose("  ", line))])


def next_lines(view: RunView, layout: Layout, page: Path | None, *, lasting: bool = False) -> Sequence[str]:
    """Return the commands that fit the run's state, below a title; with `lasting`, all of them name the run.

    `page` is the report as an HTML page, if it was written; a path is never cut, however long it is.
    """
    commands = dict(next_commands(view, lasting=lasting))
    if page is not None:
        place = page.relative_to(Path.cwd()) if page.is_relative_to(Path.cwd()) else page
        commands[f"scaffold open {view.run.id}"] = f"the report as a page: {place}"
    return [heading("Next"), *_command_lines(commands, layout)]


def taken_lines(view: RunView) -> Sequence[str]:
    """Return where work of a run was taken, and what was ordered for its end but not done."""
    taken = view.summary.taken
    left = [f"--{taken.order} was asked for, and is not done: `scaffold resume {view.run.id}` does it"]
    return [*map(_taken_text, taken.moves), *(left if taken.order else [])]


def _taken_text(move: BranchMove) -> str:
    what = "work" if move.action_id is None else "a part of the work"
    if move.purpose == "pr":
        return f"{what} is in the pull request {move.url}"
    return f"{what} was taken to {move.branch} as {move.new[:8]}"


def _failed_actions(view: RunView, failed: Sequence[Action], layout: Layout, *, of: str) -> str:
    lines, by_id = [heading("Needs attention")], {action.id: action for action in view.actions}
    for action in failed[:MAX_ACTIONS]:
        lines += layout.wrap(f"  {status_mark('failed')} ", f"{action.key} failed", hang=4)
        command = f"scaffold contract {quote(action.key)}{of}"
        lines += failure_lines(status_reason(action, by_id), view.attempts_of(action), command, layout)
    if len(failed) > MAX_ACTIONS:
        lines.append(f"  and {len(failed) - MAX_ACTIONS} more")
    return "\n".join(lines)


def failure_lines(
    reason: str | None, attempts: Sequence[Attempt], command: str, layout: Layout, *, most: int = REASON_LINES
) -> Iterator[str]:
    """Yield why an action failed: in full; for checks, the first `most` lines, the deciding one, and where the rest is.

    `attempts` are those that the reason is about; `command` shows the rest.
    """
    lines = [line for line in (reason or "").splitlines() if line.strip()]
    if not any(attempt.verification for attempt in attempts):
        most = len(lines)
    further = lines[most:]
    decided = deciding_line("\n".join(further))
    yield from (
        layout.prose(" " * 6, "\n".join([*lines[:most], *([decided] if decided else [])]), hang=8) if lines else ()
    )
    if further:
        more = count_of(len(further) - bool(decided), "more line")
        yield from layout.prose(" " * 6, f"{more}: `{command}`")


def strength_suffix(fact: Fact) -> str:
    """Return the strength of a fact that is not proven in brackets; empty for one that is."""
    return "" if fact.strength == "proven" else f" ({fact.strength})"


def _goal_section(view: RunView, goal: Goal, layout: Layout) -> str:
    holding = view.holding(goal)
    held = [name for name in goal.desired if name in holding]
    missing = [name for name in goal.desired if name not in holding]
    score = f"{status_of(goal.state)}, {len(held)} of {len(goal.desired)} hold"
    *names, last = layout.wrap("", goal.name)
    lines = [*map(heading, names), *layout.wrap(f"{heading(last)}: ", score, hang=2)]
    reason = goal_reason(goal, view.summary.at)
    if reason is not None and reason != reason_of(view.run.state):
        lines += layout.prose("  ", reason)
    suffixes = {fact.assertion: strength_suffix(fact) for fact in view.facts[goal.id]}
    shown_held = [f"{name}{suffixes.get(name, '')}" for name in held]
    lines += [*_assertion_lines("holds", shown_held, layout), *_assertion_lines("missing", missing, layout)]
    actions = view.actions_of(goal)
    by_id = {action.id: action for action in actions}
    running = {action.id for action in actions if isinstance(action.state, Running)}
    # A compound that is not running stands for its steps.
    unfolded = [each for each in actions if each.workspace != "parent" or (each.parent_id or each.id) in running]
    quiet = {"completed", "skipped", "cancelled", "pending"}
    first = sorted(unfolded, key=lambda action: status_of(action.state) in quiet)[:MAX_ACTIONS]
    shown = sorted(first, key=lambda action: action.position)
    rows = []
    for action in shown:
        notes = (step_name(action), action_note(view, action, holding, by_id))
        rows.append((_status_head(status_of(action.state)), action.key, ", ".join(filter(None, notes))))
    lines += table_lines(rows, layout)
    if len(shown) < len(unfolded):
        lines.append(f"    and {len(unfolded) - len(shown)} more: `scaffold tasks`")
    return "\n".join(lines)


def step_name(action: Action) -> str:
    """Return the title of a story, or the type of a step of it; empty for other actions."""
    if action.method != "story":
        return ""
    return action.title if action.kind == "compound" else action.role


def _assertion_lines(status: str, names: Sequence[str], layout: Layout) -> Iterator[str]:
    if names:
        yield from layout.wrap(_status_head(status), join_limited(names, MAX_NAMES))


def _status_head(status: str) -> str:
    return f"  {status_mark(status)} {status:<{STATUS_CELLS}} "


def action_note(view: RunView, action: Action, holding: frozenset[Assertion], actions: ActionsById) -> str:
    """Return a short reason for an action's status; `holding` and `actions` are its goal's."""
    match status_of(action.state):
        case "pending":
            return _waits_for(view, action, holding, actions)
        case "completed" if action.method == "story" and action.kind == "compound":
            steps = [each for each in actions.values() if each.parent_id == action.id]
            return _landed_note(view.attempts_of(steps[-1])) if steps else ""
        case "running" | "verifying" | "landing" | "completed" if action.kind == "compound":
            return _compound_progress(view, action)
        case "running" | "verifying" | "landing":
            return f"{attempt_label(view, action)}, {_running_note(view, action)}"
        case "completed":
            return _landed_note(view.attempts_of(action))
        case _:
            return _end_note(view, action, actions)


def _landed_note(attempts: Sequence[Attempt]) -> str:
    if not attempts:
        return ""
    tries = f" in attempt {attempts[-1].number}" if len(attempts) > 1 else ""
    return f"{where_landed(attempts[-1])}{tries}"


def _end_note(view: RunView, action: Action, actions: ActionsById) -> str:
    attempts = len(view.attempts_of(action))
    if status_of(action.state) == "failed" and attempts:
        last = view.attempts_of(action)[-1]
        same = first_same(view.attempts_of(action), last)
        again = f", the last with the same failure as attempt {same.number}" if same else ""
        return f"after {count_of(attempts, 'attempt')}{again}"
    # The run notices an expired item as soon as it is resumed.
    item = awaited_inbox_id(action.state)
    if item is not None and all(item != each.id for each in view.summary.inbox):
        return "its inbox item expired: resume it"
    return status_reason(action, actions)


def attempt_label(view: RunView, action: Action, *, upcoming: bool = False) -> str:
    """Return e.g. `attempt 2 of 3`, counting failures only; followed by the attempt's number where that differs."""
    most = view.attempts_allowed(action)
    counted = view.failures.get(action.id, 0) + 1
    number = len(view.attempts_of(action)) + upcoming
    named = f"attempt {min(counted, most)} of {most}" + (f" (#{number})" if number != counted else "")
    return f"{named}{_approach_note(view.attempts_of(action), upcoming=upcoming)}"


def _approach_note(attempts: Sequence[Attempt], *, upcoming: bool) -> str:
    """Return a note if the attempt takes another approach, with the reason; else an empty text."""
    if not attempts:
        return ""
    *earlier, last = attempts
    if not upcoming:
        return ", another approach" if last.alternative else ""
    same = first_same(earlier, last)
    if same is None:
        return ""
    return f", after the same failure as in attempt {same.number}"


def _waits_for(view: RunView, action: Action, holding: frozenset[Assertion], actions: ActionsById) -> str:
    lacking = [name for name in action.preconditions if name not in holding]
    if lacking:
        return f"waits for {', '.join(lacking)}"
    parent = actions[action.parent_id] if action.parent_id else None
    if parent is not None and status_of(parent.state) != "running":
        return f"waits for {parent.key} to start"
    again = f", {attempt_label(view, action, upcoming=True)}" if view.attempts_of(action) else ""
    if not view.summary.is_live or action.kind == "compound":
        return f"ready{again}"
    if (why := view.held_back.get(action.id)) is not None:
        return f"ready{again}, but held back: {why.text}"
    goal = next(goal for goal in view.goals if goal.id == action.goal_id)
    return f"ready{again}{', but its goal is paused' if isinstance(goal.state, Paused) else _slot_blocker(view, goal)}"


def _slot_blocker(view: RunView, goal: Goal) -> str:
    """Return why no slot is free for a ready action of the goal; empty if one is."""
    taken, slots = sum(view.slots_taken.values()), view.run.agents
    if taken >= slots:
        return f": waits for a slot, {taken} of {slots} are in use"
    if (of_goal := view.slots_taken.get(goal.id, 0)) >= goal.worker_cap:
        return f": waits for a slot, {of_goal} of its goal's {goal.worker_cap} are in use"
    if view.landing_backlog:
        return ": waits until candidates have landed"
    return ""


def _compound_progress(view: RunView, compound: Action) -> str:
    """Return what the agent of its supervisor is doing, else the number of completed children."""
    if (turn := next((turn for turn in view.summary.turns if turn.action_id == compound.id), None)) is not None:
        return f"{turn.event} for {format_duration(view.summary.at - turn.started_at)}"
    progress = view.progress.get(compound.id)
    return f"{progress.done}/{progress.children} done" if progress else ""


def _running_note(view: RunView, action: Action) -> str:
    attempts = view.attempts_of(action)
    if not attempts:
        return "has no attempt"
    last = attempts[-1]
    again = f" again ({last.iteration + 1})" if last.iteration and last.phase == "executing" else ""
    if view.status == INTERRUPTED:
        return f"was {last.phase}{again}"
    return f"{last.phase}{again}, {format_duration(view.summary.at - (last.started_at or last.queued_at))}"


def status_reason(action: Action, actions: ActionsById) -> str:
    """Return the reason for an action's state, with other actions by their keys; empty if there is none."""
    reason = reason_of(action.state) or ""
    if isinstance(action.state, Failed) and (step := failed_step(action, actions.values())) is not None:
        return (
            f"its step {step.key} {status_of(step.state)}"
            if isinstance(step.state, Failed)
            else f"its step {step.key} was stopped"
        )
    if (item := awaited_inbox_id(action.state)) is not None:
        return f"waits for you: {item} in the inbox"
    if reason.startswith(DEPENDENCY_FAILED):
        root = ActionId(reason.removeprefix(DEPENDENCY_FAILED))
        return f"needs {actions[root].key if root in actions else root}, which failed"
    return reason.replace(WAITS_FOR_PREFIX, "waits for ")


def failed_step(story: Action, actions: Iterable[Action]) -> Action | None:
    """Return the step that failed a story, or that the user stopped; None if none did, and for other actions."""
    if story.method != "story" or story.kind != "compound":
        return None
    steps = (each for each in actions if each.parent_id == story.id)
    return next((each for each in steps if isinstance(each.state, Failed | Cancelled)), None)


def failed_actions(view: RunView) -> Sequence[Action]:
    """Return the actions that failed; a step stands for its story."""
    failed = [action for action in view.actions if isinstance(action.state, Failed)]
    by_step = {action.parent_id for action in failed if action.method == "story"}
    return [action for action in failed if action.id not in by_step]


def next_commands(view: RunView, *, lasting: bool = False) -> Mapping[str, str]:
    """Return commands that fit the run's state, each with its purpose.

    `lasting` ones always name the run: they may be read when it is not the latest any more.
    """
    named, of = (f" {view.run.id}", f" --run {view.run.id}") if lasting else ("", "")
    run, failed = view.run, failed_actions(view)
    hints = {f"scaffold logs {quote(action.key)}{of}": "what its agents said and did" for action in failed[:2]}
    if view.summary.inbox:
        hints = {"scaffold inbox": "what is waiting for you, in full"} | hints
    hints |= {f"scaffold contract {quote(action.key)}{of}": "its checks and their results" for action in failed[:1]}
    aside = [goal for goal in view.goals if isinstance(goal.state, Paused) and goal.state != run.state]
    hints |= {f"scaffold resume {quote(goal.name)}": "resume this goal" for goal in aside[:2]}
    match view.status:
        case _ if view.summary.is_live:
            return hints | {
                f"scaffold status{named} --watch": "watch it",
                f"scaffold stop {run.id}": "stop it; `resume` continues",
            }
        case "completed":
            return {
                f"scaffold review{named}": "its commits, their evidence, the diff by risk",
                f"scaffold tasks{of}": "every action with its evidence",
                f"scaffold diff {run.id}": "everything that landed",
                **_taking_command(view, named),
            }
        case "failed":
            again = {f"scaffold retry{named}": f"try again, then `scaffold resume{named}`"}
            has_landed = any(isinstance(action.state, Completed) for action in view.actions)
            return hints | again | ({f"scaffold diff {run.id}": "what landed before it failed"} if has_landed else {})
        case "saved":
            return {f"scaffold resume {run.id}": "start it", f"scaffold cancel {run.id}": "give it up"}
        case "cancelled":
            return {f"scaffold diff {run.id}": "what landed before", 'scaffold run "TASK"': "start a new run"}
        case _:
            use = view.summary.budget
            more = {f"scaffold cost {run.id}": "what it was spent on"} if use.reached else {}
            go_on = f"scaffold resume {run.id} {use.more}" if use.reached else f"scaffold resume {run.id}"
            return hints | {go_on: "continue", **more, f"scaffold diff {run.id}": "what has landed so far"}


def _taking_command(view: RunView, named: str) -> Mapping[str, str]:
    """Return the command that takes the work; none if the base branch has it."""
    run, order = view.run, view.summary.taken.order
    if view.is_taken:
        return {}
    again = {f"scaffold resume {run.id}": f"do what --{order} asks for"} if order else {}
    if run.base_branch is None:
        return again | {f"git merge --ff-only {run.session_branch}": "take it"}
    return again | {f"scaffold land{named}": f"take it to {run.base_branch}"}


def _command_lines(commands: Mapping[str, str], layout: Layout) -> Iterator[str]:
    # Commands are copied, so none is broken: a purpose that does not fit goes below.
    wide = min(44, max(map(cell_len, commands)))
    for command, purpose in commands.items():
        shown, says = printable(command), printable(purpose)
        line = f"  {shown}{' ' * (wide - cell_len(shown))}  {says}"
        fits = cell_len(line) <= layout.columns
        yield from [line] if fits else [f"  {shown}", *layout.prose(" " * 6, says)]


def budget_lines(use: BudgetUse) -> Sequence[str]:
    """Return the used share of the budget, if there is one, with the confidence in it."""
    if use.share is None:
        return []
    warning = f"; {use.consequence}" if use.is_low else ""
    sure = f" (confidence {use.confidence:.0%}: not every reply reported its usage)" if use.confidence < 1 else ""
    return [f"{use.in_words}{sure}{warning}"]
