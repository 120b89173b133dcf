"""Send a user's message to the agent of an action."""

from scaffold.core.errors import UsageError
from scaffold.core.model import Action, Attempt, Run
from scaffold.core.printable_text import utf8_safe
from scaffold.core.states import WORKER_PHASES, Cancelled, Completed, Skipped, status_of
from scaffold.run.context import RunContext
from scaffold.run.notices import HUMAN
from scaffold.worker.agent.incoming_messages import MAX_MESSAGE_CHARS

SEE_TASKS = "`scaffold tasks` shows every action."


def send_message(context: RunContext, run: Run, action: Action, text: str) -> Attempt | None:
    """Send the text, without secrets, to the agent of an action: its current attempt and each later one read it.

    Returns the current attempt; None if no agent is working on the action. Raises UsageError if the text is empty or
    too long, or if no agent will ever read it.
    """
    message = _require_message(text)
    _require_deliverable(context, run, action)
    with context.store.transaction(durable=True):
        context.store.messages.send(
            run.id, sender=HUMAN, recipient=action.id, body={"text": context.redactor.clean(message)}
        )
    attempts = context.store.attempts.of_action(action.id)
    is_read = attempts and attempts[-1].status != "ended" and attempts[-1].phase in WORKER_PHASES
    return attempts[-1] if is_read else None


def _require_message(text: str) -> str:
    message = utf8_safe(text).strip()
    if not message:
        raise UsageError("the message is empty", "Add the text after the action, or pipe it in: `... | send ACTION -`.")
    if len(message) > MAX_MESSAGE_CHARS:
        what = f"the message is longer than {MAX_MESSAGE_CHARS:,} characters"
        raise UsageError(what, "Put it into a file that the agent can read, and send the name of the file.")
    return message


def _require_deliverable(context: RunContext, run: Run, action: Action) -> None:
    if isinstance(run.state, Completed | Cancelled):
        raise UsageError(f"run {run.id} is {status_of(run.state)} and reads no more messages", "Start a new run.")
    if isinstance(action.state, Completed | Cancelled | Skipped):
        raise UsageError(f"`{action.key}` is {status_of(action.state)}; no agent is working on it any more", SEE_TASKS)
    if action.kind == "compound":
        keys = ", ".join(f"`{child.key}`" for child in context.store.actions.children(action.id)[:5])
        fix = f"Send the message to one of its actions: {keys}." if keys else SEE_TASKS
        raise UsageError(f"`{action.key}` is a compound; agents work on its actions only", fix)
