"""Do the task of a subagent, and record the result for its parent session."""

import os

from scaffold.agent.subagents.approval_relay import ApprovalRelay
from scaffold.core.conversation import Text
from scaffold.core.errors import ScaffoldError
from scaffold.core.ids import ConversationId
from scaffold.host.clock import SystemClock
from scaffold.host.process_identity import own_identity
from scaffold.policy.secret.sources import redactor_for
from scaffold.session.agent_session import Session, open_session
from scaffold.session.open_conversation import OpenConversation, open_conversation
from scaffold.session.options import read_subagent_options
from scaffold.session.redacted_output import RedactingReporter
from scaffold.session.reporter import Reporter
from scaffold.session.subagent_launcher import ParentLink
from scaffold.store.user.subagents import StoredSubagent, SubagentOutcome
from scaffold.store.user_store import UserStore

TASK_PROMPT = """\
You are {name}, a subagent: another agent gave you the task below. It reads only your last message, in full, so put
everything it needs into that message. Do this task and nothing else."""


async def do_subagent_task(store: UserStore, subagent_id: ConversationId, reporter: Reporter) -> bool:
    """Do a subagent's task and record the result; False if it no longer runs. `reporter` gets no secrets."""
    subagent, stored = store.subagents.get(subagent_id), store.conversations.get(subagent_id)
    if subagent.status != "running":
        return False
    with open_conversation(store, stored, cwd="", model=subagent.model, title="", me=own_identity()) as conversation:
        await _run_session(store, subagent, conversation, reporter)
    return True


async def _run_session(
    store: UserStore, subagent: StoredSubagent, conversation: OpenConversation, reporter: Reporter
) -> None:
    session: Session | None = None
    options = read_subagent_options(subagent.spec)
    approvals = ApprovalRelay(store, SystemClock(), me=subagent.id, parent=subagent.parent)
    link = ParentLink(name=subagent.name, account=options.account, ask_parent=approvals)
    redacted = RedactingReporter(reporter, redactor_for(os.environ, options.session.cwd))
    try:
        async with open_session(options.session, conversation, redacted, parent=link) as session:
            finish = await session.turn((Text(task_prompt(subagent)),))
    except ScaffoldError as error:
        # A failed subagent may have said something useful before its error.
        text = session.usage_counter.text if session else ""
        _report_end(store, subagent, "failure", result=text or None, error=error.in_full)
        return
    if finish.stop == "refused":
        _report_end(store, subagent, "failure", result=finish.text or None, error="the model declined to answer")
    else:
        _report_end(store, subagent, "success", result=finish.text, error=None)


def task_prompt(subagent: StoredSubagent) -> str:
    """Return the first message of a subagent's conversation."""
    parts = [TASK_PROMPT.format(name=subagent.name), f"# Task\n\n{subagent.task}"]
    if subagent.context.strip():
        parts.append(f"# Context\n\n{subagent.context}")
    return "\n\n".join(parts)


def _report_end(
    store: UserStore, subagent: StoredSubagent, outcome: SubagentOutcome, *, result: str | None, error: str | None
) -> None:
    with store.transaction(durable=True):
        store.subagents.report(subagent.id, outcome, result=result, error=error)
