"""What waits for a human: one list for every interface, oldest first, with the same words and ages.

Here is what a repository's store says; `waiting_of_user.py` adds what only git and the user's own database know.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from shlex import quote
from typing import Any, Literal, assert_never

from msgspec import Struct, structs

from scaffold.core.change_approval import subject_of
from scaffold.core.errors import ScaffoldError
from scaffold.core.ids import ActionKey, Commit, RunId
from scaffold.core.knowledge import Chunk
from scaffold.core.model import InboxItem, Run
from scaffold.core.printable_text import join_limited, one_line, printable
from scaffold.core.states import WAITS_FOR_HUMAN, Active, Cancelled, Completed, Failed, Paused, Planning, Saved
from scaffold.plan.failures.answers import CHOICES, SOFT_TIMEOUT
from scaffold.store.database import Store
from scaffold.store.run.inbox_items import item_hash
from scaffold.store.spending.run_budget import budget_use
from scaffold.views.lookalikes import mark_lookalikes
from scaffold.views.store_reader import StoreAccess, is_executed, is_interrupted, store_reader_if_any
from scaffold.views.text_format import ago

WaitingKind = Literal[
    "approval", "question", "notice", "saved", "paused", "interrupted", "failed", "finished", "memory"
]
"""An item of the inbox | a run that nobody agreed to | that only `resume` continues | whose process died | that has
failed | whose work is not taken | what an agent noted about the user."""
ANY_TEXT = "TEXT"
"""The choice of a question that takes any answer."""


class FinishedWork(Struct, frozen=True, kw_only=True):
    """What a completed run landed: git knows whether it was taken."""

    session_ref: str
    base_branch: str | None
    landed: Commit
    """The last commit that landed."""


class WaitingEntry(Struct, frozen=True, kw_only=True):
    """One thing that waits for a human."""

    kind: WaitingKind
    id: str
    """Of the inbox item, the run, or the memory."""
    run: RunId | None
    """None for a memory."""
    repository: Path | None
    """The top folder of the checkout; None for a memory."""
    asks: tuple[ActionKey, ...] = ()
    """The actions that need the decision, the one that asked first; empty if the run itself waits."""
    text: str
    """What is asked, or what is the matter: in the words of whoever asks, which may have several lines."""
    since: datetime
    """Aware, in UTC."""
    holds_up: str
    """What does not go on without the decision, as the end of a sentence: `store, parser`."""
    choices: Mapping[str, str]
    """The words that decide, each with its command; `TEXT` stands for any answer."""
    item: InboxItem | None = None
    memory: Chunk | None = None
    work: FinishedWork | None = None

    @property
    def who(self) -> str:
        """The one who asks: the first of the actions, `the run`, or for a memory whoever noted it."""
        return join_limited(self.asks, 1) or (self.memory.source if self.memory else "the run")

    @property
    def line(self) -> str:
        """The entry in one line: who asks, and what; not yet safe to print."""
        return f"{self.who}: {one_line(self.text)}"

    @property
    def binds(self) -> str:
        """The SHA-256 of all that a decision about an inbox item is about; another item if any of it changes."""
        return item_hash(self.item) if self.item else ""

    @property
    def commands(self) -> tuple[str, ...]:
        """The commands that decide it."""
        return tuple(self.choices.values())

    def age(self, now: datetime) -> str:
        """Return since when it waits, as every interface says it: `3 m ago`."""
        return ago(max(timedelta(), now - self.since))


class UnreadRepository(Struct, frozen=True):
    """A repository of the user whose state could not be read, with the reason."""

    repository: Path
    why: str


def read_waiting(reader: StoreAccess, run: Run | None = None) -> tuple[WaitingEntry, ...]:
    """Return what waits in the repository, or in one run, oldest first.

    Finished runs are listed as far as the store knows that nobody took their work. Costs a query for the items, one
    for the runs, and one for each entry.
    """
    store = reader.store
    with store.snapshot():
        items = store.inbox.open() if run is None else store.inbox.open_of_run(run.id)
        runs = store.runs.unsettled() if run is None else (store.runs.get(run.id) or run,)
        asking = {item.run_id for item in items}
        entries = [*read_items(reader, items), *(_run_entries(reader, runs, asking))]
    return tuple(sorted(entries, key=lambda entry: entry.since))


def read_waiting_of_user(
    repositories: Iterable[Path], environ: Mapping[str, str]
) -> tuple[tuple[WaitingEntry, ...], tuple[UnreadRepository, ...]]:
    """Return what waits in all these repositories, oldest first, and those that could not be read.

    One whose folder is gone has nothing that could be decided.
    """
    entries, unread = list[WaitingEntry](), list[UnreadRepository]()
    for root in repositories:
        try:
            with store_reader_if_any(root, environ) as reader:
                entries += read_waiting(reader) if reader else ()
        except ScaffoldError as error:
            if root.is_dir():
                unread.append(UnreadRepository(root, error.what))
    return tuple(sorted(entries, key=lambda entry: entry.since)), tuple(unread)


def read_items(reader: StoreAccess, items: Iterable[InboxItem]) -> tuple[WaitingEntry, ...]:
    """Return the entries of these inbox items, in any state, in their order."""
    return tuple(item_entry(reader.store, item, reader.root) for item in items)


def item_entry(store: Store, item: InboxItem, repository: Path) -> WaitingEntry:
    """Return the entry of an inbox item, in any state."""
    return entry_of_item(item, store.inbox.requesters(item), repository)


def entry_of_item(item: InboxItem, asks: tuple[ActionKey, ...], repository: Path) -> WaitingEntry:
    """Return the entry of an inbox item; `asks` are the actions that need the decision."""
    return WaitingEntry(
        kind=item.kind,
        id=item.id,
        run=item.run_id,
        repository=repository,
        asks=asks,
        text=item.text,
        since=item.created_at,
        holds_up=_held_up(item, asks),
        choices=item_choices(item),
        item=item,
    )


def item_choices(item: InboxItem) -> Mapping[str, str]:
    """Return the words that decide an item, each with its command."""
    if item.kind == "approval":
        return {word: f"scaffold {word} {item.id}" for word in ("approve", "reject")}
    words = item.detail.get(CHOICES) or (ANY_TEXT,)
    return {word: f"scaffold answer {item.id} {word}" for word in words}


def entry_json(entry: WaitingEntry, now: datetime) -> dict[str, Any]:
    """Return an entry as every interface for programs shows it."""
    return {
        **{name: getattr(entry, name) for name in ("kind", "id", "run")},
        "repository": entry.repository and str(entry.repository),
        "who": entry.who,
        "actions": [*entry.asks],
        "text": entry.text,
        "since": entry.since,
        "age": entry.age(now),
        "holds_up": entry.holds_up,
        "choices": dict(entry.choices),
        "binds": entry.binds or None,
    }


def waiting_lines(entries: Iterable[WaitingEntry], now: datetime) -> Iterator[str]:
    """Yield two lines of plain text an entry: what waits, and the commands that decide it; safe to print."""
    for entry in entries:
        yield mark_lookalikes(printable(f"{entry.kind} {entry.id}, {entry.age(now)}: {entry.line}"))
        yield f"    {' | '.join(entry.commands)}"


def _held_up(item: InboxItem, asks: Sequence[ActionKey]) -> str:
    if SOFT_TIMEOUT in item.detail:
        return "nothing: the attempt goes on until its time is over"
    if subject_of(item) is not None:
        return f"{', '.join(asks)} does not land; other work does"
    return ", ".join(asks) or "nothing: agents work without it"


def _run_entries(reader: StoreAccess, runs: Iterable[Run], asking: set[RunId]) -> Iterator[WaitingEntry]:
    for run in runs:
        # Whoever decides the items of such a run has decided about the run.
        stands_for_items = isinstance(run.state, Paused) and run.state.reason.startswith(WAITS_FOR_HUMAN)
        if not is_executed(run) and not (stands_for_items and run.id in asking) and (found := _run_entry(reader, run)):
            yield found


def _run_entry(reader: StoreAccess, run: Run) -> WaitingEntry | None:
    """Return the entry of a run that no process executes; None if it needs no one."""
    resume, cancel = {"resume": f"scaffold resume {run.id}"}, {"cancel": f"scaffold cancel {run.id}"}
    match run.state:
        case Saved():
            text = f"run {run.id} is saved, and nobody agreed to it: {run.request}"
            return _about_run(reader, run, "saved", text, resume | cancel)
        case Failed(reason=reason):
            retry = {"retry": f"scaffold retry {run.id}"}
            return _about_run(reader, run, "failed", f"run {run.id} failed: {reason}", retry | cancel)
        case Completed():
            return _finished_run(reader, run)
        case Cancelled():
            return None
        case Paused(reason=reason) if not is_interrupted(run):
            if reason.startswith(WAITS_FOR_HUMAN):  # a run whose items are open is not listed
                reason = "nothing that it waited for is open any more"
            use = budget_use(reader.store, run)
            more = {"resume": f"scaffold resume {run.id} {use.more}"} if use.reached else resume
            return _about_run(reader, run, "paused", f"run {run.id} is paused: {reason}", more | cancel)
        case Planning() | Active() | Paused():
            text = f"run {run.id} is interrupted: the process that executed it is gone"
            return _about_run(reader, run, "interrupted", text, resume | cancel)
        case _:
            assert_never(run.state)


def _about_run(reader: StoreAccess, run: Run, kind: WaitingKind, text: str, choices: Mapping[str, str]) -> WaitingEntry:
    return WaitingEntry(
        kind=kind,
        id=run.id,
        run=run.id,
        repository=reader.root,
        text=text,
        since=run.updated_at,
        holds_up="what it has not reached",
        choices=choices,
    )


def _finished_run(reader: StoreAccess, run: Run) -> WaitingEntry | None:
    landed = reader.store.intents.last_done(run.id)
    moves = reader.store.branch_moves.done_of_run(run.id)
    if landed is None or any(move.takes_work and move.action_id is None and move.head == landed.new for move in moves):
        return None
    take = f"scaffold land {run.id}" if run.base_branch else f"git merge --ff-only {quote(run.session_branch)}"
    text = f"run {run.id} is completed, and its work is not taken: {run.request}"
    entry = _about_run(reader, run, "finished", text, {"review": f"scaffold review {run.id}", "land": take})
    work = FinishedWork(session_ref=run.session_ref, base_branch=run.base_branch, landed=landed.new)
    return structs.replace(entry, holds_up=f"nothing: {run.base_branch or 'your branch'} lacks it", work=work)
