"""Return a human's comments on a change to the agent that made it: as a message, which each of its attempts gets."""

from collections.abc import Sequence
from typing import Literal

from scaffold.core.change_approval import ReviewComment
from scaffold.core.events import NoticeRaised
from scaffold.core.ids import ActionId
from scaffold.core.model import Action
from scaffold.core.printable_text import count_of
from scaffold.run.notices import HUMAN
from scaffold.store.database import Store

MAX_COMMENTS = 100
"""How many comments of an action wait to be sent at once."""
HEAD = """\
I read the change of your task and commented on lines of it. Do what each comment asks. In your last message, say for
each by its number what you did or why not, in a line such as "Comment 1: ..."."""


def send_drafts(store: Store, action: Action, sent_as: Literal["rejection", "message"]) -> tuple[ReviewComment, ...]:
    """Send the drafts on an action's change to its current and all later attempts; return them."""
    drafts = store.review_comments.drafts(action.id)
    if drafts:
        numbers = attempt_numbers(store, action.id)
        store.messages.send(
            action.run_id, sender=HUMAN, recipient=action.id, body={"text": comments_text(drafts, numbers)}
        )
        for each in drafts:
            store.review_comments.mark_sent(each, sent_as)
        told = f"{count_of(len(drafts), 'comment')} on the change of {action.key} returned to its agent"
        store.events.append(action.run_id, NoticeRaised("info", told))
    return drafts


def attempt_numbers(store: Store, action_id: ActionId) -> dict[str, int]:
    """Return {attempt: its number} of an action."""
    return {each.id: each.number for each in store.attempts.for_action(action_id)}


def comments_text(comments: Sequence[ReviewComment], numbers: dict[str, int]) -> str:
    """Return the comments as their agent reads them, each with its place, the quoted lines and the words."""
    return "\n\n".join([HEAD, *(comment_text(each, numbers.get(each.attempt_id, 0)) for each in comments)])


def comment_text(comment: ReviewComment, attempt: int) -> str:
    """Return one comment; `attempt` is the number of the attempt whose lines it is about."""
    when = "before the change" if comment.before else f"in attempt {attempt}"
    quoted = "\n".join(f"> {line}".rstrip() for line in comment.quoted.split("\n"))
    head = f"Comment {comment.number}, {comment.place} {when} (commit {comment.commit_sha[:12]}):"
    return f"{head}\n{quoted}\n{comment.text}"
