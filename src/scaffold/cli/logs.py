"""`logs`: what the agents of an action, or of a whole run, said and did."""

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import click
import msgspec
from msgspec import Struct

from scaffold.cli.desk import shown_status
from scaffold.cli.lookup import find_action, run_option, site_with_run
from scaffold.cli.picture import GOING_ON
from scaffold.cli.safe import printable
from scaffold.cli.screen import clip, clock_time, json_option, money, paint
from scaffold.core.model import Action, Run
from scaffold.worker.site import Site

POLL_S = 0.3
LINE_CELLS = 200

Fields = Mapping[str, Any]


class Entry(Struct, frozen=True):
    """One line of a journal."""

    at: datetime
    line: bytes
    fields: Fields


class Tail:
    """Reads what is added to a file; a line counts once it has ended, so that a torn one is never shown."""

    def __init__(self, path: Path) -> None:
        """Start at the beginning; the file need not exist yet."""
        self._path = path
        self._offset = 0

    def lines(self) -> Sequence[bytes]:
        """Return the lines that were completed since the last call."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                whole, newline, _ = file.read().rpartition(b"\n")
        except FileNotFoundError:
            return ()
        self._offset += len(whole) + len(newline)
        return whole.split(b"\n") if newline else ()


@click.command()
@click.argument("action_name", metavar="[ACTION]", required=False)
@click.option("-f", "--follow", is_flag=True, help="Go on until the run has ended.")
@run_option
@json_option
def logs(action_name: str | None, run_name: str | None, *, follow: bool, as_json: bool) -> None:
    """Show what the agents of ACTION, or of all actions by time, said and did.

    With `--json` the entries come as they were written down, one JSON object a line.
    """
    try:
        asyncio.run(_logs(action_name, run_name, follow=follow, as_json=as_json))
    except KeyboardInterrupt:
        if not follow:
            raise


async def _logs(action_name: str | None, run_name: str | None, *, follow: bool, as_json: bool) -> None:
    async with site_with_run(run_name) as (site, run):
        only = find_action(site, run, action_name) if action_name else None
        tails: dict[Path, Tail] = {}
        seen = 0
        while True:
            going_on = _goes_on(site, run)
            entries = _news(site, run, only, tails)
            for entry in entries:
                click.echo(entry.line if as_json else told(entry))
            seen += len(entries)
            if not (follow and going_on):
                break
            await site.clock.sleep(POLL_S)
        if not seen:
            about = f"`{only.key}`" if only else f"run {run.id}"
            click.echo(f"no agent of {about} has said anything yet: nothing is in its log", err=True)


def _goes_on(site: Site, run: Run) -> bool:
    now = site.store.runs.get(run.id)
    return now is not None and shown_status(now) in GOING_ON


def _news(site: Site, run: Run, only: Action | None, tails: dict[Path, Tail]) -> Sequence[Entry]:
    """Return what was written since the last call, by time; `tails` remembers how far each file was read."""
    entries: list[Entry] = []
    for path in _journals(site, run, only):
        tail = tails.setdefault(path, Tail(path))
        entries += _entries(tail.lines(), run, only)
    return sorted(entries, key=lambda entry: entry.at)


def _journals(site: Site, run: Run, only: Action | None) -> Iterable[Path]:
    """Return the files to read, each once: those of the run's goals, and where attempts say they write."""
    attempts = site.store.attempts.of_action(only.id) if only else site.store.attempts.of_run(run.id)
    named = [Path(attempt.log_file) for attempt in attempts if attempt.log_file]
    goals = {goal.id: goal.name for goal in site.store.goals.of_run(run.id)}
    if only is not None:
        return dict.fromkeys([site.journal(goals[only.goal_id], only.key), *named])
    folders = [site.journal(name, run.id).parent for name in goals.values()]
    return dict.fromkeys([*(path for folder in folders for path in sorted(folder.glob("*.jsonl"))), *named])


def _entries(lines: Iterable[bytes], run: Run, only: Action | None) -> Iterator[Entry]:
    """Yield the entries that belong to the run, and to the action if there is one; what is no entry is passed over."""
    for line in lines:
        try:
            fields = msgspec.json.decode(line, type=dict[str, Any])
            at = msgspec.convert(fields.get("ts"), datetime)
        except msgspec.MsgspecError:
            continue
        if at.tzinfo and fields.get("run", run.id) == run.id and (only is None or fields.get("action") == only.key):
            yield Entry(at, line, fields)


def told(entry: Entry) -> str:
    """Return an entry for people, e.g. `12:03:04 store#1 shell: python -m pytest -q`."""
    fields = entry.fields
    who = f"{fields.get('action', '?')}#{fields.get('attempt', '?')}"
    head = f"{clock_time(entry.at)} {paint(printable(who), 'cyan')}"
    first, *rest = _words(fields) or [""]
    return "\n".join([f"{head} {first}", *(f"    {line}" for line in rest)])


def _words(fields: Fields) -> Sequence[str]:
    """Return what happened, safe to print; the model's own words whole, long outputs by their first line."""
    text = str(fields.get("text", ""))
    match fields.get("type"):
        case "text" | "notice":
            return printable(text).splitlines()
        case "prompt":
            words = _brief("is told: ", text)
        case "tool_call":
            words = f"{clip(str(fields.get('name')), 40)}: {_arguments(fields.get('args'))}"
        case "tool_result":
            words = _brief("failed: " if fields.get("failed") else "  -> ", str(fields.get("content", "")))
        case "usage":
            words = _usage(fields)
        case kind:
            words = _brief(f"{clip(str(kind), 40)}: ", text)
    return [words]


def _usage(fields: Fields) -> str:
    cost = fields.get("cost_usd")
    tokens = f"used {fields.get('input_tokens', 0)} tokens in, {fields.get('output_tokens', 0)} out"
    return f"{printable(tokens)}, {money(cost if isinstance(cost, int | float) else None)}"


def _brief(head: str, text: str) -> str:
    more = text.strip().count("\n")
    return f"{head}{clip(text, LINE_CELLS)}" + (f" (+{more} lines)" if more else "")


def _arguments(args: object) -> str:
    """Return the argument that tells most of a tool call: the only one, the command, or the path."""
    if not isinstance(args, dict) or not args:
        return ""
    telling = next((args[name] for name in ("command", "path", "pattern", "query") if name in args), None)
    if telling is None:
        telling = next(iter(args.values())) if len(args) == 1 else msgspec.json.encode(args).decode()
    return clip(str(telling), LINE_CELLS)
