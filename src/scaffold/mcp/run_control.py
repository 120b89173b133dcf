"""What a client may do, given consent: the commands and functions that a user has."""

import os
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import msgspec

from scaffold.core.errors import UsageError
from scaffold.core.ids import RunId
from scaffold.core.printable_text import utf8_safe
from scaffold.git.repository import open_repository
from scaffold.host.clock import SystemClock
from scaffold.host.user_dirs import user_dirs
from scaffold.mcp.run_queries import opened_store
from scaffold.orchestrator.user_control.inbox_decisions import InboxDecision, decide_items, send_message
from scaffold.orchestrator.user_control.own_program import STOP_TIMEOUT_S, OwnProgram, ProgramFailed
from scaffold.run.context import RunContext
from scaffold.store.database import Store
from scaffold.store.driver.location import existing_state_location
from scaffold.views.name_lookup import find_action
from scaffold.views.run_json import Json
from scaffold.views.store_reader import find_run, is_executed, no_run_error

START_TIMEOUT_S = 300.0  # for a command that returns once the run is in the background


async def start_run(program: OwnProgram, request: str, flags: Sequence[str]) -> RunId:
    """Start a run in the background, as `scaffold run --yes --detach` does, and return its id."""
    if not request.strip():
        raise UsageError("the request is empty", "Say what is to be done.")
    # On standard input: a request may be longer than a command line can be.
    words = ("run", "--yes", "--detach", "--json", "--quiet", *flags, "--spec", "-")
    return await _started_run(program, words, utf8_safe(request).encode())


async def resume_run(program: OwnProgram, run_id: RunId, flags: Sequence[str]) -> RunId:
    """Continue a run in the background, as `scaffold resume --detach` does."""
    words = ("resume", "--yes", "--detach", "--json", "--quiet", *flags, run_id)
    return await _started_run(program, words, b"")


async def halt(program: OwnProgram, command: str, run_id: RunId) -> str:
    """Pause or stop a run, as the command of that name does, and return what it says."""
    return (await program.output([command, run_id], b"", STOP_TIMEOUT_S)).strip()


def answer_question(cwd: Path, item: str, words: str) -> Json:
    """Answer a question of the inbox in the words of a human."""
    if not words.strip():
        raise UsageError("the answer is empty", "Write what the agent should know.")
    with opened_store(cwd) as reader:
        [decided] = decide_items(reader.store, [item], InboxDecision(to="answered", words=utf8_safe(words)))
        run = reader.store.runs.get(decided.item.run_id)
        continues = run is not None and is_executed(run)
    return {"item": decided.item.id, "run": decided.item.run_id, "state": decided.item.state, "continues": continues}


async def tell_agent(cwd: Path, run_name: str | None, action: str, text: str) -> Json:
    """Send a message to the agent of an action."""
    repository = await open_repository(cwd, environ=os.environ)
    place = existing_state_location(repository.common_dir, os.environ)
    if place is None:
        raise no_run_error()
    clock = SystemClock()
    store = Store.open(place, clock=clock, create=False)
    with closing(store):
        context = RunContext(
            repository=repository, store=store, clock=clock, cache=user_dirs().cache, environ=os.environ
        )
        run = find_run(context, run_name)
        found = find_action(context, run, action)
        attempt = send_message(context, run, found, text)
    return {"run": run.id, "action": found.key, "attempt": None if attempt is None else attempt.number}


async def _started_run(program: OwnProgram, words: Sequence[str], stdin: bytes) -> RunId:
    lines = (await program.output(words, stdin, START_TIMEOUT_S)).splitlines()
    for line in reversed(lines):  # the result comes last, after the events
        try:
            told = msgspec.json.decode(line, type=dict[str, msgspec.Raw])
            if msgspec.json.decode(told.get("type", msgspec.Raw(b'""'))) == "result":
                return RunId(msgspec.json.decode(told["run"])["id"])
        except (msgspec.DecodeError, KeyError, TypeError):
            continue  # a line of another kind
    raise ProgramFailed("the run was not started, and the command gave no reason", "Try `scaffold run` in a terminal.")
