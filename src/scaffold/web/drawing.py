"""What only the browser shows: the list of runs, who works now, what waits with forms that decide it, commands."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

import msgspec

from scaffold.core.model import Action
from scaffold.core.printable_text import count_of
from scaffold.core.proof.contract import open_doubts
from scaffold.core.states import Blocked, Completed, Failed, Pending, Running, status_of
from scaffold.pages.attention import waiting_card
from scaffold.pages.components import MAX_ROWS, Element, Node, TableRow, badge, block, element, moment, section, table
from scaffold.views.changes.waiting_change import WaitingChange
from scaffold.views.lookalikes import mark_lookalikes
from scaffold.views.run_view import RunView
from scaffold.views.text_format import ago, clip, format_cost, format_duration
from scaffold.views.waiting import ANY_TEXT, UnreadRepository, WaitingEntry
from scaffold.web.browser_access import Session
from scaffold.web.page_frame import button, form, labelled
from scaffold.web.user_runs import AskedEntry, RepositoryRuns

REQUEST_CELLS = 90
MAX_OFFERS = 20
RUN_COMMANDS: Mapping[str, tuple[str, ...]] = {
    "live": ("pause", "stop", "cancel"),
    "paused": ("resume", "cancel"),
    "interrupted": ("resume", "cancel"),
    "saved": ("resume", "cancel"),
    "failed": ("retry", "cancel"),
    "completed": ("land",),
}
"""What a page offers for a run of a status; `live` is one that a process executes."""
PURPOSES: Mapping[str, str] = {
    "pause": "start nothing new; what runs finishes",
    "stop": "end what runs now, and keep it; resume continues",
    "cancel": "end it for good; landed work stays",
    "resume": "continue",
    "retry": "open again what failed; resume continues",
    "land": "take the work to its base branch",
}


def run_list(listed: Sequence[RepositoryRuns], unread: Sequence[UnreadRepository], now: datetime) -> Iterator[Node]:
    """Yield the runs of each repository as a table, and the repositories that cannot be read."""
    if not listed:
        yield element("p", "There is no run yet. Start one in a repository: ", element("code", 'scaffold run "TASK"'))
    for number, each in enumerate(listed, 1):
        rows = [
            TableRow(
                (
                    element("a", clip(run.request, REQUEST_CELLS) or run.id, href=f"/runs/{run.id}"),
                    badge(run.status),
                    f"{run.landed} of {run.actions}",
                    ago(max(now - run.updated_at, now - now)),
                    f"{run.tokens:,}",
                    format_cost(run.cost_usd),
                )
            )
            for run in each.runs[:MAX_ROWS]
        ]
        heads = ("Run", "Status", "Landed", "Last change", "Tokens", "Cost")
        shown = table(heads, rows, label=f"Runs of {each.root.name}", numbers=4)
        yield section(f"repository-{number}", each.root.name, shown, note=str(each.root))
    for problem in unread:
        where = element("code", str(problem.repository))
        yield element("div", element("p", where, " cannot be read: ", problem.why), class_="card bad")


def agents_section(view: RunView) -> Node:
    """Return who works now; None if nobody does."""
    rows = [
        TableRow(
            (
                element("code", row.name),
                badge(row.state),
                row.activity.work.label if row.activity else row.waits_on or row.phase,
                format_duration(view.summary.at - row.since) if row.since else "-",
                f"{row.usage.tokens:,}",
                format_cost(row.usage.cost_usd),
            )
        )
        for row in view.summary.agents[:MAX_ROWS]
    ]
    if not rows:
        return None
    heads = ("Agent", "State", "What it does", "Since", "Tokens", "Cost")
    return section("agents", "Agents", table(heads, rows, label="Agents", numbers=3))


def waiting_cards(asked: Sequence[AskedEntry], session: Session, now: datetime) -> Iterator[Element]:
    """Yield a card for each thing that waits, with the forms that decide it if the session may."""
    for each in asked[:MAX_ROWS]:
        entry = each.entry
        link = element("a", element("code", entry.id), href=_entry_link(entry))
        title: list[Node] = [" ", link, f" of {entry.who}, {entry.age(now)}"]
        if entry.repository is not None:
            title.append(f", in {entry.repository.name}")
        held = element("p", f"Holds up: {entry.holds_up}.", class_="note")
        more = [
            *_detail_nodes(entry),
            *(_change_nodes(each.change) if each.change else ()),
            held,
            *_decision_nodes(entry, session),
        ]
        yield waiting_card(entry.kind, title, entry.text, *more, anchor=f"waits-{entry.id}")


def _entry_link(entry: WaitingEntry) -> str:
    if entry.item is not None:
        return f"/inbox/{entry.id}"
    return f"/runs/{entry.run}" if entry.run else "#main"


def _detail_nodes(entry: WaitingEntry) -> Iterator[Node]:
    detail = entry.item.detail if entry.item else {}
    rows = [(name, value) for name, value in detail.items() if value not in (None, "", (), [])]
    if rows:
        # The exact subject of the decision: what looks like something else is marked here, too.
        terms = []
        for name, value in rows:
            text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
            terms.append(element("div", element("dt", name), element("dd", block(mark_lookalikes(text)))))
        yield element("details", element("summary", "What exactly is decided"), element("dl", *terms), open="")


def _change_nodes(change: WaitingChange) -> Iterator[Node]:
    checks = [element("li", badge(each.verdict), " ", element("code", each.name)) for each in change.checks[:MAX_ROWS]]
    yield element("details", element("summary", count_of(len(change.checks), "check")), element("ul", *checks))
    doubts = [element("li", mark_lookalikes(each.text), class_="doubt") for each in open_doubts(change.doubts)]
    if doubts:
        yield element("p", "What no check could decide:")
        yield element("ul", *doubts)
    if change.diff:
        yield element("details", element("summary", "The change"), block(mark_lookalikes(change.diff)))


def _decision_nodes(entry: WaitingEntry, session: Session) -> Iterator[Node]:
    if not session.may_act or entry.memory is not None or (entry.item is not None and entry.item.state != "open"):
        if entry.item is not None and entry.item.decided_at is not None:
            yield element("p", f"{entry.item.state}, ", moment(entry.item.decided_at))
            yield block(entry.item.answer) if entry.item.answer else None
        else:
            commands = [element("li", element("code", command)) for command in entry.commands]
            yield element("ul", *commands, class_="commands")
        return
    if entry.item is None:
        yield from (command_form(verb, str(entry.run), session) for verb in entry.choices if verb in PURPOSES)
        return
    name, hidden = f"{entry.kind} {entry.id}", {"hash": entry.binds}
    reason = labelled(element("input", id=f"reason-{entry.id}", name="reason", type="text"), "Reason (optional)")
    if set(entry.choices) == {ANY_TEXT}:
        if options := _offered_answers(entry):
            offers = [button(mark_lookalikes(each), name="answer", value=each) for each in options]
            yield form(f"/inbox/{entry.id}", session, *offers, label=f"Answers to {name}", hidden=hidden)
        words = labelled(element("textarea", id=f"answer-{entry.id}", name="answer", rows=3, required=""), "Answer")
        yield form(f"/inbox/{entry.id}", session, words, button("Answer"), label=f"Answer {name}", hidden=hidden)
        return
    choices = [
        button(word, name="answer", value=word, kind="bad" if word == "reject" else "") for word in entry.choices
    ]
    yield form(f"/inbox/{entry.id}", session, reason, *choices, label=f"Decide {name}", hidden=hidden)


def _offered_answers(entry: WaitingEntry) -> Sequence[str]:
    # What an agent offers is no limit: any other words answer it, too.
    offered = entry.item.detail.get("options") if entry.item else None
    return (
        [each for each in offered if isinstance(each, str) and each.strip()][:MAX_OFFERS]
        if isinstance(offered, list | tuple)
        else []
    )


def command_form(verb: str, run_id: str, session: Session) -> Element:
    """Return a button for a command about a run, with what it does."""
    told = element("span", f" {PURPOSES[verb]}", class_="note")
    kind = "bad" if verb in {"stop", "cancel"} else ""
    return form(f"/runs/{run_id}/{verb}", session, button(verb, kind=kind), told, label=f"{verb} run {run_id}")


def commands_section(view: RunView, session: Session) -> Node:
    """Return the forms that steer the run and its actions; None for a session that may not."""
    if not session.may_act:
        return None
    run, status = view.run, "live" if view.summary.is_live else view.status
    verbs = [verb for verb in RUN_COMMANDS.get(status, ()) if verb != "land" or (run.base_branch and not view.is_taken)]
    forms = [command_form(verb, run.id, session) for verb in verbs]
    primitives = [each for each in view.actions if each.kind == "primitive"]
    readers = [each for each in primitives if isinstance(each.state, Running | Pending | Blocked)]
    groups = [
        ("send", "Send a message to the agent of", readers),
        ("stop-action", "Stop for good", [each for each in view.actions if isinstance(each.state, Running | Pending)]),
        ("retry-action", "Try again", [each for each in view.actions if isinstance(each.state, Failed)]),
        ("revert", "Undo the commit of", [each for each in view.actions if _can_revert(view, each)]),
    ]
    forms += [_action_form(verb, title, found, view, session) for verb, title, found in groups if found]
    return section("commands", "Commands", *forms) if forms else None


def _can_revert(view: RunView, action: Action) -> bool:
    landed = any(each.outcome == "landed" for each in view.attempts_of(action))
    return landed and isinstance(action.state, Completed) and not view.summary.is_live


def _action_form(verb: str, title: str, found: Sequence[Action], view: RunView, session: Session) -> Element:
    options = [element("option", f"{each.key} ({status_of(each.state)})", value=each.id) for each in found[:MAX_ROWS]]
    chosen = labelled(element("select", *options, id=f"{verb}-action", name="action"), title)
    text = labelled(element("textarea", id="send-text", name="text", rows=2, required=""), "Message")
    words = "Send" if verb == "send" else title.partition(" ")[0]
    content = [chosen, *([text] if verb == "send" else []), button(words)]
    return form(f"/runs/{view.run.id}/{verb}", session, *content, label=title)
