"""The keys: what each does, on which tabs, and why it does nothing now."""

from collections.abc import Callable, Sequence

from msgspec import Struct

from scaffold.core.change_approval import subject_of
from scaffold.core.model import Action, Goal
from scaffold.core.states import INTERRUPTED, Cancelled, Completed, Failed, Skipped, status_of
from scaffold.tui.run_feed import Shown
from scaffold.tui.tab_rows import entries_about
from scaffold.views.agent_list import AgentRow
from scaffold.views.waiting import WaitingEntry

TABS = ("Agents", "Output", "Plan", "Landing", "Inbox", "Stats")
AGENTS, OUTPUT, PLAN, LANDING, INBOX, STATS = TABS


class Selection(Struct, frozen=True):
    """What a key is about: what is shown, and what stands under the cursor."""

    shown: Shown
    about: object
    is_page: bool = False
    """Whether a text covers the tab."""

    @property
    def action_key(self) -> str | None:
        """The action under the cursor: itself, that of an agent, or the one that asks."""
        match self.about:
            case Action(key=key):
                return key
            case AgentRow(action=key):
                return key
            case WaitingEntry(asks=asks):
                return asks[0] if asks else None
            case _:
                return None

    @property
    def action(self) -> Action | None:
        """That action, if it is of the run that is shown."""
        view = self.shown.view
        return next((each for each in view.actions if each.key == self.action_key), None) if view else None

    @property
    def entry(self) -> WaitingEntry | None:
        """What the user has to decide about what is under the cursor; None if nothing waits for it."""
        if isinstance(self.about, WaitingEntry):
            return next((each for each in self.shown.waiting if each.id == self.about.id), None)
        return next(iter(entries_about(self.shown, self.action)), None) if self.action else None

    @property
    def change(self) -> WaitingEntry | None:
        """The change under the cursor that lands once the user approves it; None for any other request."""
        entry = self.entry
        return entry if entry and entry.item and subject_of(entry.item) else None


Refusal = Callable[[Selection], str]


class KeyRow(Struct, frozen=True):
    """A key."""

    key: str
    """As Textual names it."""
    label: str
    act: str
    """The name of what it does, in `live_app.py`."""
    tabs: Sequence[str] = TABS
    refusal: Refusal = lambda _: ""
    """Returns why it does nothing now; empty if it does something."""
    shown_as: str = ""

    @property
    def name(self) -> str:
        """Return the key as it is shown."""
        return self.shown_as or self.key


def _no_run(selection: Selection) -> str:
    return "" if selection.shown.view else "there is no run yet: r starts one"


def _cannot_pause(selection: Selection) -> str:
    if selection.shown.view is None:
        return _no_run(selection)
    if isinstance(selection.about, Goal) and isinstance(selection.about.state, Completed | Cancelled):
        return f"the goal is {status_of(selection.about.state)}"
    state = selection.shown.view.run.state
    if isinstance(state, Failed):
        return "the run has failed: R tries again"
    return f"the run is {status_of(state)}" if isinstance(state, Completed | Cancelled) else ""


def _cannot_kill(selection: Selection) -> str:
    if selection.action is None:
        return "put the cursor on an agent of an action"
    if isinstance(selection.action.state, Completed | Cancelled | Skipped):
        return f"{selection.action.key} is {status_of(selection.action.state)}"
    return ""


def _cannot_stop(selection: Selection) -> str:
    view = selection.shown.view
    return _no_run(selection) or ("" if view and view.summary.is_live else "no process executes the run")


def _no_action(selection: Selection) -> str:
    return "" if selection.action else "put the cursor on an action, or an agent of one"


def _cannot_send(selection: Selection) -> str:
    return _no_action(selection) or _cannot_kill(selection)


def _cannot_approve(selection: Selection) -> str:
    entry = selection.entry
    if entry is None:
        return "nothing here waits for you: n goes to what does"
    return "" if "approve" in entry.choices else f"it is a {entry.kind}: enter answers it"


def _cannot_answer(selection: Selection) -> str:
    return "" if selection.entry else "nothing here waits for you: n goes to what does"


def _cannot_merge(selection: Selection) -> str:
    view = selection.shown.view
    if view is None or selection.change is not None:
        return _no_run(selection)
    if view.summary.is_live:
        return "candidates land by themselves, and the run may land more: stop it (S) to take its work"
    if view.status == INTERRUPTED:
        return "the run is interrupted: space resumes it"
    if view.is_taken:
        return f"{view.run.base_branch} has everything"
    return "" if any(status_of(action.state) == "completed" for action in view.actions) else "nothing has landed"


def _cannot_revert(selection: Selection) -> str:
    if selection.action is None:
        return _no_action(selection)
    if not isinstance(selection.action.state, Completed):
        return f"{selection.action.key} is {status_of(selection.action.state)}, so it has landed nothing"
    view = selection.shown.view
    return "a process executes the run: stop it first (S)" if view and view.summary.is_live else ""


def _cannot_retry(selection: Selection) -> str:
    view = selection.shown.view
    if view is None:
        return _no_run(selection)
    states = (view.run.state, *([selection.action.state] if selection.action else []))
    return "" if any(isinstance(state, Failed) for state in states) else "nothing here has failed"


def _nothing_waits(selection: Selection) -> str:
    return "" if selection.shown.waiting else "nothing waits for you"


def _not_listed(selection: Selection) -> str:
    return "" if selection.about is not None or selection.is_page else "there is nothing to look at"


def _off_pages(refusal: Refusal) -> Refusal:
    """Return a refusal also where a text covers the tab: its reader presses space and k to scroll."""
    return lambda selection: "esc closes this text first" if selection.is_page else refusal(selection)


OF_ACTIONS = (AGENTS, OUTPUT, PLAN, LANDING, INBOX)
KEYS: Sequence[KeyRow] = (
    KeyRow("space", "pause/resume", "pause", refusal=_off_pages(_cannot_pause)),
    KeyRow("k", "kill", "kill", (AGENTS,), _off_pages(_cannot_kill)),
    KeyRow("enter", "look", "look", (AGENTS, PLAN, LANDING), _not_listed),
    KeyRow("enter", "answer", "answer", (INBOX,), _cannot_answer),
    KeyRow("a", "approve", "approve", OF_ACTIONS, _cannot_approve),
    KeyRow("y", "approve", "approve", (INBOX,), _cannot_approve),
    KeyRow("x", "reject", "reject", OF_ACTIONS, _cannot_approve),
    KeyRow("n", "next waiting", "next_waiting", refusal=_nothing_waits),
    KeyRow("m", "merge now", "merge", (LANDING, INBOX, PLAN, STATS), _cannot_merge),
    KeyRow("s", "send", "send", (AGENTS, OUTPUT, PLAN, LANDING), _cannot_send),
    KeyRow("d", "diff", "diff", refusal=_no_run),
    KeyRow("e", "evidence", "evidence", OF_ACTIONS, _no_action),
    KeyRow("l", "log", "log", (AGENTS, PLAN, LANDING, INBOX), _no_action),
    KeyRow("u", "revert", "revert", (PLAN, LANDING), _cannot_revert),
    KeyRow("R", "retry", "retry", (PLAN, LANDING, STATS), _cannot_retry),
    KeyRow("r", "run a task", "run"),
    KeyRow("S", "stop", "stop", refusal=_cannot_stop),
    KeyRow("f", "follow", "follow", (OUTPUT,)),
    KeyRow("p", "pause updates", "freeze"),
    KeyRow("slash", "search", "search", shown_as="/"),
    KeyRow("colon", "command", "command", shown_as=":"),
    KeyRow("tab", "next tab", "next_tab"),
    KeyRow("shift+tab", "previous tab", "previous_tab"),
    KeyRow("question_mark", "help", "help", shown_as="?"),
    KeyRow("escape", "back", "back", shown_as="esc"),
    KeyRow("q", "quit", "quit_live"),
)
"""In the order in which they are shown; the arrows, j, k (not on Agents), g, G move the cursor on every tab."""


def keys_of(tab: str) -> Sequence[KeyRow]:
    """Return the keys of a tab."""
    return [row for row in KEYS if tab in row.tabs]


def key_line(selection: Selection, tab: str, width: int, *, lines: int = 2) -> str:
    """Return the keys of a tab in at most so many lines; one that does nothing now stands in parentheses."""
    rows = [row for row in keys_of(tab) if row.act not in {"help", "previous_tab", "back"} and row.key != "y"]
    # Where not all fit, those that do something now are shown.
    parts = ["? help", *(f"{row.name} {row.label}" for row in rows if not row.refusal(selection))]
    parts += [f"({row.name} {row.label})" for row in rows if row.refusal(selection)]
    shown, current = list[str](), ""
    for part in parts:
        joined = f"{current}  {part}" if current else part
        if len(joined) <= width:
            current = joined
        elif len(shown) + 1 < lines:
            shown.append(current)
            current = part
    return "\n".join([*shown, current])


def help_lines(selection: Selection, tab: str) -> Sequence[str]:
    """Return every key of a tab with what it does, and for a disabled one the reason."""
    rows = [f"Keys of {tab}", ""]
    for row in keys_of(tab):
        why = row.refusal(selection)
        rows.append(f"  {row.name:<10} {row.label}{f' (not now: {why})' if why else ''}")
    moves = "j, down, up" if tab == AGENTS else "j/k, down/up"
    return [
        *rows,
        f"  {moves:<10} move",
        "  g/G        first, last",
        *(["  1-9        switch agent; 0: all of them"] if tab in {AGENTS, OUTPUT} else []),
        "",
        "What a key does to a run is a command of scaffold, which `:` takes in full, e.g. `:land --squash`.",
    ]
