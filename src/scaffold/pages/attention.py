"""What a reader may have to act on: items that wait for a human, failures with their reasons, the next commands."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from scaffold.core.model import Action, Attempt, PlanningTurn
from scaffold.core.plan import headline
from scaffold.core.printable_text import count_of
from scaffold.core.states import Completed, Failed, reason_of
from scaffold.pages.components import (
    MAX_ROWS,
    Element,
    LongTexts,
    Node,
    References,
    badge,
    block,
    element,
    moment,
    section,
)
from scaffold.views.lookalikes import mark_lookalikes
from scaffold.views.next_commands import next_commands
from scaffold.views.run_history import RunHistory
from scaffold.views.run_view import RunView
from scaffold.views.state_labels import STATE_BY_OUTCOME
from scaffold.views.text_format import clip

MAX_FAILED = 200
"""Failed actions, attempts and turns that are listed."""


def inbox_section(view: RunView) -> Node:
    """Return the items that wait for a human, with the commands that decide them; None without any."""
    if not view.summary.waiting:
        return None
    cards = []
    for entry in view.summary.waiting[:MAX_ROWS]:
        title = (" ", element("code", entry.id), f" of {entry.who}, ", moment(entry.since))
        commands = [element("li", element("code", command)) for command in entry.commands]
        cards.append(waiting_card(entry.kind, title, entry.text, element("ul", *commands, class_="commands")))
    return section("inbox", "Waits for you", *cards, note="Work that does not depend on these continues.")


def waiting_card(kind: str, title: Sequence[Node], text: str, *more: Node, anchor: str | None = None) -> Element:
    """Return a card of what waits for a human: its kind with a title, what is asked, and how to decide."""
    head = element("p", element("span", kind, class_="badge wait"), *title)
    return element("div", head, block(mark_lookalikes(text)), *more, class_="card wait", id=anchor)


def failures_section(view: RunView, history: RunHistory, refs: References, texts: LongTexts) -> Node:
    """Return why the run is incomplete: its reason, failed actions and planning turns; None if nothing failed."""
    failed = [action for action in view.actions if _failed_for_good(view, action)]
    more = f"and {count_of(len(failed) - MAX_FAILED, 'more action')}: see `{refs.command('tasks')}`"
    # The reason of a run is made of those of its goals: it is told only if no goal failed.
    causes = [("goal", goal.name, goal.state.reason) for goal in view.goals if isinstance(goal.state, Failed)]
    if not causes and isinstance(view.run.state, Failed):
        causes = [("run", view.run.id, view.run.state.reason)]
    titles = [element("p", badge("failed"), f" {kind} ", element("code", name)) for kind, name, _ in causes]
    parts: list[Node] = [
        *(
            element("div", title, block(why), class_="card bad")
            for title, (_, _, why) in zip(titles, causes, strict=True)
        ),
        *(_failed_action_card(view, action, refs, texts) for action in failed[:MAX_FAILED]),
        *([element("p", more)] if len(failed) > MAX_FAILED else []),
        *(_turn_card(view, turn) for turn in history.turns if turn.error and _target_failed(view, turn)),
    ]
    return section("failures", "What failed, and why", *parts) if parts else None


def setbacks_section(view: RunView, history: RunHistory, refs: References, texts: LongTexts) -> Node:
    """Return setbacks that made nothing fail, and warnings; None without any."""
    turns = [turn for turn in history.turns if turn.error and not _target_failed(view, turn)]
    parts = [*_recovered_attempts(view, refs, texts), *(_turn_card(view, turn) for turn in turns[-MAX_FAILED:])]
    if history.warnings:
        entries = [element("li", moment(at), " ", clip(text, 600)) for at, text in history.warnings]
        parts.append(element("div", element("p", "Warnings of the run"), element("ul", *entries), class_="card"))
    return section("setbacks", "What went wrong on the way", *parts) if parts else None


def _failed_for_good(view: RunView, action: Action) -> bool:
    # A failed action does not matter once its goal was reached another way.
    reached = {goal.id for goal in view.goals if isinstance(goal.state, Completed)}
    return isinstance(action.state, Failed) and action.goal_id not in reached


def _failed_action_card(view: RunView, action: Action, refs: References, texts: LongTexts) -> Element:
    return element(
        "div",
        element("p", badge("failed"), " ", refs.link(action), f": {clip(headline(action), 160)}"),
        texts.shown(reason_of(action.state) or "", refs.command("logs", action)),
        element(
            "ul", *(element("li", *_attempt_nodes(action, each, refs, texts)) for each in view.attempts_of(action))
        ),
        element("p", "Read on: ", element("code", refs.command("logs", action)), class_="note"),
        class_="card bad",
    )


def _attempt_nodes(action: Action, attempt: Attempt, refs: References, texts: LongTexts) -> Iterator[Node]:
    yield f"attempt {attempt.number}: {attempt.outcome or attempt.phase}"
    if attempt.error:
        first, _, rest = attempt.error.partition("\n")
        yield f": {clip(first, 400)}"
        yield texts.folded(rest, f"{count_of(rest.count(chr(10)) + 1, 'more line')}", refs.command("logs", action))


def _target_failed(view: RunView, turn: PlanningTurn) -> bool:
    # The error of a turn may be why its goal, or the run, failed.
    states = {goal.id: goal.state for goal in view.goals}
    return isinstance(states.get(turn.goal_id) if turn.goal_id else view.run.state, Failed)


def _turn_card(view: RunView, turn: PlanningTurn) -> Element:
    names = {goal.id: goal.name for goal in view.goals}
    who = "planner" if turn.goal_id is None else f"supervisor of {names.get(turn.goal_id, turn.goal_id)}"
    title = element("p", badge("failed"), f" {who}, {turn.event}: {turn.outcome}, ", moment(turn.started_at))
    return element("div", title, block(turn.error or ""), class_="card")


def _recovered_attempts(view: RunView, refs: References, texts: LongTexts) -> Iterator[Element]:
    # Nothing failed because of these attempts, but they took time and money.
    entries = [
        element("li", refs.link(action), " ", *_attempt_nodes(action, attempt, refs, texts))
        for action in view.actions
        if not _failed_for_good(view, action)
        for attempt in view.attempts_of(action)
        if attempt.outcome and STATE_BY_OUTCOME.get(attempt.outcome) is None
    ]
    if entries:
        shown = entries[:MAX_FAILED]
        more = f" The first {MAX_FAILED} are listed." if len(entries) > len(shown) else ""
        title = f"{count_of(len(entries), 'attempt')} failed; their actions went on, or another way was found.{more}"
        yield element("div", element("p", title), element("ul", *shown), class_="card")


def next_section(view: RunView, root: Path) -> Element:
    """Return the commands that fit the run's state."""
    rows = [
        element("div", element("dt", element("code", command)), element("dd", purpose))
        for command, purpose in next_commands(view, lasting=True).items()
    ]
    place = element("p", "In ", element("code", str(root)), ":", class_="note")
    return section("next", "What to do next", place, element("dl", *rows, class_="next"))
