"""`logs`: the replies and tool calls of agents."""

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from heapq import merge
from itertools import repeat

import click

from scaffold.cli.commands.options import json_option, pageable, run_option
from scaffold.cli.render.terminal.style import paint
from scaffold.cli.render.terminal.text_layout import layout_for, print_text
from scaffold.cli.wiring import context_with_run
from scaffold.core.errors import UsageError
from scaffold.core.model import Action, Run
from scaffold.core.printable_text import printable
from scaffold.host.contained_path import ContainedPath
from scaffold.host.process.async_runner import run_async
from scaffold.run.attempts.assignment import journal_names
from scaffold.run.context import RunContext, journal_name
from scaffold.run.projections import recorded_journal
from scaffold.views.journal_entries import Fields, JournalEntry, entry_lines, read_entry, whole_entry_lines
from scaffold.views.name_lookup import find_action
from scaffold.views.store_reader import is_executed
from scaffold.views.text_format import local_time

POLL_S = 0.3  # with --follow
INDENT = "    "
BLOCK = 65_536  # bytes read from a file at once, unless a line is longer


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


@click.command()
@click.argument("action_name", metavar="[ACTION]", required=False)
@click.option("-f", "--follow", is_flag=True, help="Continue until the run has ended.")
@click.option("--full", is_flag=True, help="Show the arguments and results of tools whole.")
@run_option
@json_option
@pageable
def logs(action_name: str | None, run_name: str | None, *, follow: bool, full: bool, as_json: bool) -> None:
    """Show the replies and tool calls of the agents of ACTION, or of all actions in order of time.

    Arguments and results of tools are shortened, unless `--full`; of a command that failed the line that decided is
    shown. With `--json`, print the journal entries as they are, one JSON object a line.
    """
    if full and as_json:
        raise UsageError("`--full` is about text", "Leave it out: the JSON has everything.")
    lines_of = whole_entry_lines if full else entry_lines

    def show(entry: JournalEntry, now: datetime) -> None:
        if as_json:
            click.echo(entry.line)
            return
        # For example `12:03:04 store#1 shell: python -m pytest -q`.
        head = f"{local_time(entry.at, now)} {paint(printable(_agent_label(entry.fields)), 'cyan')} "
        text = "\n".join(lines_of(entry.fields))
        click.echo("\n".join(layout_for(sys.stdout).wrap(head, text, hang=len(INDENT))))

    try:
        run_async(_print_logs(action_name, run_name, show, follow=follow))
    except KeyboardInterrupt:
        if not follow:
            raise


async def _print_logs(
    action_name: str | None, run_name: str | None, show: Callable[[JournalEntry, datetime], None], *, follow: bool
) -> None:
    async with context_with_run(run_name, "worked", part=action_name) as (context, run):
        only = find_action(context, run, action_name) if action_name else None
        tails: dict[ContainedPath, FileTail] = {}
        seen = False
        while True:
            # Asked before reading, so that the last round still shows what was written up to the end.
            now = context.store.runs.get(run.id)
            going_on = now is not None and is_executed(now)
            for entry in _new_entries(context, run, only, tails):
                show(entry, context.clock.now())
                seen = True
            if not (follow and going_on):
                break
            await context.clock.sleep(POLL_S)
        if not seen:
            about = f"`{only.key}`" if only else f"run {run.id}"
            print_text(f"no agent of {about} has written to its log yet", err=True)


def _new_entries(
    context: RunContext, run: Run, only: Action | None, tails: dict[ContainedPath, FileTail]
) -> Iterator[JournalEntry]:
    read = [tails.setdefault(path, FileTail(path)).lines() for path in _journal_files(context, run, only)]
    numbered = [zip(_matching_entries(lines, run, only), repeat(number)) for number, lines in enumerate(read)]
    # The store of a copied repository names the journals of the first one, too, which have the same entries. Within a
    # file, equal entries are two events.
    at, files = None, dict[bytes, int]()
    for entry, number in merge(*numbered, key=lambda found: found[0].at):
        if entry.at != at:
            at, files = entry.at, {}
        if files.setdefault(entry.line, number) == number:
            yield entry


def _journal_files(context: RunContext, run: Run, only: Action | None) -> Iterable[ContainedPath]:
    # Each once: the journals of goals, and the log files of attempts and turns.
    store = context.store.attempts
    if only is None:
        attempts = store.for_run(run.id)
    else:  # the steps of a compound may share a worktree
        attempts = store.for_workspace(only.id) if only.kind == "compound" else store.for_action(only.id)
    turns = [turn for turn in context.store.turns.for_run(run.id) if only is None or turn.action_id == only.id]
    written = [*(attempt.log_file for attempt in attempts), *(turn.log_file for turn in turns)]
    named = [recorded_journal(name) for name in written if name]
    goals = {goal.id: goal for goal in context.store.goals.for_run(run.id)}
    if only is not None:
        parent = context.store.actions.get(only.parent_id) if only.parent_id else None
        journal = journal_name(*journal_names(goals[only.goal_id], only, parent))
        return dict.fromkeys([*(top / journal for top in context.projection_places), *named])
    journals = [journal_name(goal.name, run.id) for goal in goals.values()]
    folders = [(top / journal).parent for top in context.projection_places for journal in journals]
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


PLANNING_ROLES = frozenset({"planner", "supervisor"})  # an action in their entries is their subject


REVIEWER_ROLES = frozenset({"critic", "drafter"})  # they judge or prepare an attempt, and do none of its work


def _agent_label(fields: Fields) -> str:
    # `store#1` for a worker, `critic store#1` for its critic, `supervisor shop: store` for a supervisor.
    role, action = str(fields.get("role", "")), fields.get("action")
    if role in PLANNING_ROLES:
        about = ": ".join(str(each) for each in (fields.get("goal"), action) if each)
        return f"{role} {about}".strip()
    judge = f"{role} " if role in REVIEWER_ROLES else ""
    return f"{judge}{action or role or '?'}#{fields.get('attempt', '?')}"
