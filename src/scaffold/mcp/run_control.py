"""What a client tells a run, given consent: answers and messages. The rest are this program's own commands."""

import os
from contextlib import closing
from pathlib import Path

from scaffold.core.errors import UsageError
from scaffold.core.printable_text import utf8_safe
from scaffold.git.repository import open_repository
from scaffold.host.clock import SystemClock
from scaffold.host.user_dirs import user_dirs
from scaffold.mcp.run_queries import opened_store
from scaffold.orchestrator.user_control.inbox_decisions import InboxDecision, decide_items, send_message
from scaffold.run.context import RunContext
from scaffold.store.database import Store
from scaffold.store.driver.location import existing_state_location
from scaffold.views.name_lookup import find_action
from scaffold.views.run_json import Json
from scaffold.views.store_reader import find_run, is_executed, no_run_error


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
