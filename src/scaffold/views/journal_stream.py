"""What the agents of a run write to their journals, as it is written."""

import os
from collections.abc import Iterable, Iterator, Sequence
from heapq import merge
from itertools import repeat

from scaffold.core.model import Action, Run
from scaffold.host.contained_path import ContainedPath
from scaffold.run.attempts.assignment import journal_names
from scaffold.run.context import journal_name
from scaffold.run.projections import recorded_journal
from scaffold.store.database import Store
from scaffold.views.journal_entries import Fields, JournalEntry, read_entry

Places = Sequence[ContainedPath]
BLOCK = 65_536  # bytes read from a file at once, unless a line is longer
PLANNING_ROLES = frozenset({"planner", "supervisor"})  # an action in their entries is their subject
REVIEWER_ROLES = frozenset({"critic", "drafter"})  # they judge or prepare an attempt, and do none of its work


class FileTail:
    """Reads the lines that are appended to a file, each once it is complete.

    A file that was replaced or truncated is read from its beginning again.
    """

    def __init__(self, path: ContainedPath) -> None:
        """Start at the beginning of a file, which need not exist yet."""
        self._path = path
        self._offset = 0
        self._inode = 0

    def lines(self) -> Iterator[bytes]:
        """Yield the lines completed since the last call; reads block by block and keeps no file open."""
        block = BLOCK
        while found := self._read_block(block):
            whole, newline, _ = found.rpartition(b"\n")
            if newline:
                self._offset += len(whole) + 1
                yield from whole.split(b"\n")
            elif len(found) < block:
                return  # incomplete: it is being written
            else:
                block *= 2

    def _read_block(self, most: int) -> bytes:
        try:
            with self._path.reading() as file:
                found = os.fstat(file.fileno())
                if found.st_ino != self._inode or found.st_size < self._offset:
                    self._inode, self._offset = found.st_ino, 0
                file.seek(self._offset)
                return file.read(most)
        except OSError:  # it is missing, or a link and the like
            return b""


def new_entries(
    store: Store, places: Places, run: Run, only: Action | None, tails: dict[ContainedPath, FileTail]
) -> Iterator[JournalEntry]:
    """Yield what agents have written since the last call with the same `tails`, in order of time.

    `places` are the projections of the repository; with `only`, the entries about that action, a compound's steps too.
    """
    read = [tails.setdefault(path, FileTail(path)).lines() for path in _journal_files(store, places, run, only)]
    numbered = [zip(_matching_entries(lines, run, only), repeat(number)) for number, lines in enumerate(read)]
    # The store of a copied repository names the journals of the first one, too, which have the same entries. Within a
    # file, equal entries are two events.
    at, files = None, dict[bytes, int]()
    for entry, number in merge(*numbered, key=lambda found: found[0].at):
        if entry.at != at:
            at, files = entry.at, {}
        if files.setdefault(entry.line, number) == number:
            yield entry


def _journal_files(store: Store, places: Places, run: Run, only: Action | None) -> Iterable[ContainedPath]:
    # Each once: the journals of goals, and the log files of attempts and turns.
    if only is None:
        attempts = store.attempts.for_run(run.id)
    else:  # the steps of a compound may share a worktree
        of = store.attempts
        attempts = of.for_workspace(only.id) if only.kind == "compound" else of.for_action(only.id)
    turns = [turn for turn in store.turns.for_run(run.id) if only is None or turn.action_id == only.id]
    written = [*(attempt.log_file for attempt in attempts), *(turn.log_file for turn in turns)]
    named = [recorded_journal(name) for name in written if name]
    goals = {goal.id: goal for goal in store.goals.for_run(run.id)}
    if only is not None:
        parent = store.actions.get(only.parent_id) if only.parent_id else None
        journal = journal_name(*journal_names(goals[only.goal_id], only, parent))
        return dict.fromkeys([*(top / journal for top in places), *named])
    journals = [journal_name(goal.name, run.id) for goal in goals.values()]
    folders = [(top / journal).parent for top in places for journal in journals]
    found = (path for folder in folders for path, _ in folder.entries())
    return dict.fromkeys([*(path for path in found if path.name.endswith(".jsonl")), *named])


def _matching_entries(lines: Iterable[bytes], run: Run, only: Action | None) -> Iterator[JournalEntry]:
    for line in lines:
        entry = read_entry(line)
        if entry is None or entry.fields.get("run", run.id) != run.id:
            continue
        about = str(entry.fields.get("action"))
        if only is None or about == only.key or (only.kind == "compound" and about.startswith(f"{only.key}/")):
            yield entry


def agent_label(fields: Fields) -> str:
    """Return who wrote an entry."""
    # `store#1` for a worker, `critic store#1` for its critic, `supervisor shop: store` for a supervisor.
    role, action = str(fields.get("role", "")), fields.get("action")
    if role in PLANNING_ROLES:
        about = ": ".join(str(each) for each in (fields.get("goal"), action) if each)
        return f"{role} {about}".strip()
    judge = f"{role} " if role in REVIEWER_ROLES else ""
    return f"{judge}{action or role or '?'}#{fields.get('attempt', '?')}"
