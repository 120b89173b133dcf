"""A run on one screen: what needs a human, what failed, each goal, and the next commands."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from shlex import quote

from rich.cells import cell_len

from scaffold.cli.render.audit_text import compliance_section
from scaffold.cli.render.inbox_text import brief_lines
from scaffold.cli.render.run_list_text import queue_text
from scaffold.cli.render.terminal.style import heading, status_mark, titled
from scaffold.cli.render.terminal.text_layout import Layout
from scaffold.cli.render.terminal.text_table import table_lines
from scaffold.core.landing.branch_move import BranchMove
from scaffold.core.model import Action, Attempt, Fact, Goal
from scaffold.core.printable_text import count_of, join_limited, printable
from scaffold.core.states import PRIMITIVE_TRANSITIONS, Running, reason_of, status_of
from scaffold.plan.budget import BudgetUse
from scaffold.verify.output_excerpt import deciding_line
from scaffold.views.action_notes import action_note, failed_actions, status_reason, step_name
from scaffold.views.next_commands import next_commands
from scaffold.views.run_view import RunView
from scaffold.views.state_labels import goal_reason
from scaffold.views.text_format import format_cost, format_duration

MAX_ACTIONS = 40
"""Actions shown of a goal; running, failed and blocked ones come first."""
MAX_NAMES = 12
MAX_ITEMS = 10
"""Inbox items that are shown."""
REASON_LINES = 4
"""Lines shown of the output of a failed check."""
STATUS_CELLS = max(map(len, PRIMITIVE_TRANSITIONS))


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
    waiting = tuple(brief_lines(view.summary.waiting, view.summary.at, layout, most=MAX_ITEMS))
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


def _assertion_lines(status: str, names: Sequence[str], layout: Layout) -> Iterator[str]:
    if names:
        yield from layout.wrap(_status_head(status), join_limited(names, MAX_NAMES))


def _status_head(status: str) -> str:
    return f"  {status_mark(status)} {status:<{STATUS_CELLS}} "


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
