"""What waits for a human: one list for every interface, oldest first, with the same words and ages.

Read from the store alone. Whether finished work was taken is known to git: `views/changes/taken_work.py` drops from
the list what the user has.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path
from shlex import quote
from typing import Literal

from msgspec import Struct

from scaffold.core.change_approval import subject_of
from scaffold.core.errors import ScaffoldError, StoreEmpty
from scaffold.core.ids import ActionKey, RunId
from scaffold.core.knowledge import MEMORIES, NOTED_IN, Chunk, ChunkFilter
from scaffold.core.model import InboxItem, Run
from scaffold.core.printable_text import join_limited, one_line
from scaffold.core.states import INTERRUPTED, WAITS_FOR_HUMAN, Completed, Failed, Paused, Saved, reason_of
from scaffold.plan.failures.answers import CHOICES
from scaffold.run.failures.soft_timeouts import is_about_soft_timeout
from scaffold.store.database import Store
from scaffold.store.driver.columns import TimeSource
from scaffold.store.run.inbox_items import item_hash
from scaffold.store.spending.run_budget import budget_use
from scaffold.store.user_store import UserStore
from scaffold.views.store_reader import StoreAccess, display_status, is_executed, store_reader_if_any
from scaffold.views.text_format import ago

WaitingKind = Literal[
    "approval", "question", "notice", "saved", "paused", "interrupted", "failed", "finished", "memory"
]
"""An item of the inbox | a run that nobody agreed to | that only `resume` continues | whose process died | that has
failed | whose work is not taken | what an agent noted about the user."""
ANY_TEXT = "TEXT"
"""The choice of a question that takes any answer."""
MOST_MEMORIES = 20
UNCONFIRMED = ChunkFilter(states=("unconfirmed",))


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
    binds: str = ""
    """For an item of the inbox: the SHA-256 of all that a decision is about; a change of any of it is another item."""
    item: InboxItem | None = None
    memory: Chunk | None = None

    @property
    def who(self) -> str:
        """The one who asks: the first of the actions, `the run`, or for a memory whoever noted it."""
        return join_limited(self.asks, 1) or (self.memory.source if self.memory else "the run")

    @property
    def line(self) -> str:
        """The entry in one line: who asks, and what; not yet safe to print."""
        return f"{self.who}: {one_line(self.text)}"

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
        asked = tuple(item_entry(store, item, reader.root) for item in items)
        runs = store.runs.unsettled() if run is None else (store.runs.get(run.id) or run,)
        asking = {item.run_id for item in items}
        entries = [*asked, *(_run_entries(reader, runs, asking))]
    return tuple(sorted(entries, key=lambda entry: entry.since))


def read_waiting_of_user(
    repositories: Iterable[Path], environ: Mapping[str, str]
) -> tuple[tuple[WaitingEntry, ...], tuple[UnreadRepository, ...]]:
    """Return what waits in all these repositories, oldest first, and those that could not be read.

    One whose folder is gone has nothing that could be decided.
    """
    entries, unread = list[WaitingEntry](), list[UnreadRepository]()
    for repository in repositories:
        try:
            with store_reader_if_any(repository, environ) as reader:
                entries += read_waiting(reader) if reader else ()
        except ScaffoldError as error:
            if repository.is_dir():
                unread.append(UnreadRepository(repository, error.what))
    return tuple(sorted(entries, key=lambda entry: entry.since)), tuple(unread)


def item_entry(store: Store, item: InboxItem, repository: Path | None) -> WaitingEntry:
    """Return the entry of an inbox item, in any state."""
    asks = store.inbox.requesters(item)
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
        binds=item_hash(item),
        item=item,
    )


def item_choices(item: InboxItem) -> Mapping[str, str]:
    """Return the words that decide an item, each with its command."""
    if item.kind == "approval":
        return {word: f"scaffold {word} {item.id}" for word in ("approve", "reject")}
    words = item.detail.get(CHOICES) or (ANY_TEXT,)
    return {word: f"scaffold answer {item.id} {word}" for word in words}


def _held_up(item: InboxItem, asks: Sequence[ActionKey]) -> str:
    if is_about_soft_timeout(item):
        return "nothing: the attempt goes on until its time is over"
    if subject_of(item) is not None:
        return f"{', '.join(asks)} does not land; other work does"
    return ", ".join(asks) or "nothing: agents work without it"


def _run_entries(reader: StoreAccess, runs: Iterable[Run], asking: set[RunId]) -> Iterator[WaitingEntry]:
    for run in runs:
        # Whoever decides the items of such a run has decided about the run.
        stands_for_items = isinstance(run.state, Paused) and run.state.reason.startswith(WAITS_FOR_HUMAN)
        if is_executed(run) or (stands_for_items and run.id in asking):
            continue
        found = _run_state(reader, run)
        if found is not None:
            kind, text, holds_up, choices = found
            yield WaitingEntry(
                kind=kind,
                id=run.id,
                run=run.id,
                repository=reader.root,
                text=text,
                since=run.updated_at,
                holds_up=holds_up,
                choices=choices,
            )


def _run_state(reader: StoreAccess, run: Run) -> tuple[WaitingKind, str, str, Mapping[str, str]] | None:
    """Return (kind, words, what it holds up, choices) of a run that nobody executes; None if it needs no one."""
    store, name = reader.store, f"run {run.id}"
    resume, cancel = {"resume": f"scaffold resume {run.id}"}, {"cancel": f"scaffold cancel {run.id}"}
    match run.state:
        case Saved():
            return "saved", f"{name} is saved, and nobody agreed to it: {run.request}", "all of it", resume | cancel
        case Failed(reason=reason):
            retry = {"retry": f"scaffold retry {run.id}"}
            return "failed", f"{name} failed: {reason}", "what it did not reach", retry | cancel
        case Completed():
            return _finished_run(store, run)
        case Paused(reason=reason) if display_status(run) != INTERRUPTED:
            use = budget_use(store, run)
            more = {"resume": f"scaffold resume {run.id} {use.more}"} if use.reached else {}
            return "paused", f"{name} is paused: {reason}", "all of it", resume | more | cancel
        case _ if display_status(run) == INTERRUPTED:
            why = reason_of(run.state)
            text = f"{name} is interrupted: the process that executed it is gone{f' ({why})' if why else ''}"
            return "interrupted", text, "all of it", resume | cancel
        case _:
            return None


def _finished_run(store: Store, run: Run) -> tuple[WaitingKind, str, str, Mapping[str, str]] | None:
    landed = store.intents.last_done(run.id)
    moves = store.branch_moves.done_of_run(run.id)
    if landed is None or any(move.takes_work and move.action_id is None and move.head == landed.new for move in moves):
        return None
    take = f"scaffold land {run.id}" if run.base_branch else f"git merge --ff-only {quote(run.session_branch)}"
    where = run.base_branch or "your checkout"
    text = f"run {run.id} is completed, and its work is not taken: {run.request}"
    return "finished", text, f"{where} does not have it", {"review": f"scaffold review {run.id}", "land": take}


def read_memories(path: Path, clock: TimeSource) -> tuple[WaitingEntry, ...]:
    """Return what agents have noted about the user, and nobody has confirmed; `path` is the user's database."""
    if not path.exists():
        return ()
    try:
        with closing(UserStore.open(path, clock=clock, create=False)) as user:
            noted = user.knowledge.chunks.newest(MEMORIES, UNCONFIRMED, most=MOST_MEMORIES)
    except StoreEmpty:
        return ()
    return tuple(sorted(map(_memory_entry, noted), key=lambda entry: entry.since))


def _memory_entry(chunk: Chunk) -> WaitingEntry:
    folder = chunk.meta.get(NOTED_IN, "another folder")
    return WaitingEntry(
        kind="memory",
        id=chunk.id,
        run=None,
        repository=None,
        text=chunk.text,
        since=chunk.created_at,
        holds_up=f"its use outside of {folder}",
        choices={word: f"scaffold memory {word} {chunk.id}" for word in ("confirm", "forget")},
        memory=chunk,
    )
