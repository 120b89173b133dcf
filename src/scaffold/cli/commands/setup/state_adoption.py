"""`trust --state`: show what a repository's database brings along, and make it the user's."""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from msgspec import to_builtins
from msgspec.json import encode

from scaffold.cli.exit_codes import FAILED, OK
from scaffold.cli.render.terminal.style import is_terminal, print_json
from scaffold.cli.render.terminal.text_layout import confirm, print_text
from scaffold.core.errors import UsageError
from scaffold.core.model import Run
from scaffold.core.printable_text import count_of, one_line, printable, short_line
from scaffold.core.run_settings import ModelSettings, RunSettings
from scaffold.core.states import status_of
from scaffold.git.common_dir import find_common_dir
from scaffold.host.wall_clock import WallClock
from scaffold.store.database import Store
from scaffold.store.driver.location import existing_state_location

LONGEST_REQUEST = 200


def adopt_state(folder: Path, *, show: bool, agreed: bool, as_json: bool) -> int:
    """Print what the state of the repository has that would count, and sign it unless it is only to be shown."""
    place = existing_state_location(find_common_dir(folder), os.environ)
    if place is None:
        raise UsageError("there is no state in this repository yet", "Start a run with `scaffold run`.")
    with closing(Store.open(place, clock=WallClock(), create=False, foreign="show")) as store:
        found = _read_state(store)
    if not as_json:
        print_text("\n".join(_state_lines(found)))
    if not show and not found["own"]:
        if not agreed and not confirmed("adopting this state", "Make it yours?", as_json=as_json):
            return FAILED
        Store.open(place, clock=WallClock(), foreign="adopt").close()
        found["own"] = True
        if not as_json:
            print_text("it is yours now: its runs can be resumed, and agents are told its memories and learnings")
    if as_json:
        print_json(found)
    return OK


def confirmed(what: str, question: str, *, as_json: bool) -> bool:
    """Return whether the user says yes; UsageError where nobody can be asked."""
    if as_json or not is_terminal(sys.stdin, sys.stderr):
        raise UsageError(f"{what} needs your confirmation or --yes", "Review it with --show, then pass --yes.")
    if confirm(question):
        return True
    print_text("nothing changed", err=True)
    return False


def _read_state(store: Store) -> dict[str, Any]:
    chunks, runs = store.knowledge.chunks, store.runs.all()
    return {
        "state": printable(store.name),
        "own": store.foreign is None,
        "runs": [
            {"id": run.id, "request": run.request, "status": status_of(run.state), "settings": _unusual_settings(run)}
            for run in runs
        ],
        "texts": {
            each.name: [chunk.text for chunk in chunks.newest(each.name, most=each.capacity)]
            for each in store.knowledge.collections.all()
        }
        | {"items": [each.title for each in store.work_items.all().values()]},
        "answers": sum(item.state != "open" for item in store.inbox.all()),
    }


def _unusual_settings(run: Run) -> dict[str, Any]:
    usual = RunSettings(identity=run.settings.identity, model=ModelSettings(name=""))
    return dict(_differences(to_builtins(run.settings), to_builtins(usual)))


def _differences(given: Mapping[str, Any], usual: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in given.items():
        other = usual.get(name)
        if isinstance(value, dict) and isinstance(other, dict):
            yield from _differences(value, other, f"{before}{name}.")
        elif value != other:
            yield f"{before}{name}", value


def _state_lines(found: Mapping[str, Any]) -> Iterator[str]:
    yield f"{found['state']} {'is yours' if found['own'] else 'was not made by you'}"
    yield f"It has {count_of(len(found['runs']), 'run')} and {count_of(found['answers'], 'decision')} of an inbox."
    for run in found["runs"]:
        yield f"\nrun {run['id']}, {run['status']}: {short_line(run['request'], LONGEST_REQUEST)}"
        yield from (f"  {name}: {printable(encode(value).decode())}" for name, value in run["settings"].items())
    for name, texts in found["texts"].items():
        yield f"\n{printable(name)}: {count_of(len(texts), 'text')}"
        # All of them: agents are told any that fits.
        yield from (f"  {one_line(text)}" for text in texts)
