"""Comment on lines of a change, and send the comments to the agent that made it. For every interface.

`read_comments` in `views/changes/comment_standing.py` says what became of each.
"""

import getpass
import re
from typing import Literal

from msgspec import Struct

from scaffold.core.change_approval import ReviewComment, subject_of
from scaffold.core.errors import UsageError
from scaffold.core.ids import Commit
from scaffold.core.model import Action, InboxItem, Run
from scaffold.core.printable_text import count_of, printable, short_line, truncate_text, utf8_safe
from scaffold.core.states import Completed
from scaffold.core.work_item import WorkItem
from scaffold.git.commits import changed_paths, file_contents
from scaffold.git.patch import change_fingerprint
from scaffold.host.random_ids import new_id
from scaffold.orchestrator.user_control.inbox_decisions import InboxDecision, decide_items, require_deliverable
from scaffold.plan.items import MAX_TITLE_CHARS
from scaffold.run.context import RunContext
from scaffold.run.item_changes import add_item
from scaffold.run.returned_comments import MAX_COMMENTS, attempt_numbers, comment_text, send_drafts
from scaffold.views.changes.shown_range import ShownRange

_PLACE = re.compile(r"(?P<path>.+):(?P<before>-?)(?P<first>[1-9]\d{0,8})(?:-(?P<last>[1-9]\d{0,8}))?", re.DOTALL)
MAX_TEXT_CHARS = 4_000
MAX_QUOTED_CHARS = 1_500
MAX_ALL_CHARS = 30_000
"""Of all drafts of an action with their quoted lines, so that its agent gets them in one message."""
FOLLOW_UP = "review"
"""The label of an item that was made of a comment on a change that had landed."""


class LineRange(Struct, frozen=True):
    """Lines of a file after the change, or `before` it."""

    path: str
    first: int
    last: int
    before: bool = False


class SentComments(Struct, frozen=True, kw_only=True):
    """What was sent, and how."""

    comments: tuple[ReviewComment, ...]
    how: Literal["rejection", "message", "items"]
    """The waiting change was rejected | its current and later attempts read them | it has landed: each is an item."""
    items: tuple[str, ...] = ()
    """The items, by id."""


def parse_lines(text: str) -> LineRange:
    """Return the lines that `FILE:LINE`, `FILE:FIRST-LAST` or `FILE:-LINE` (before the change) names; or UsageError."""
    found = _PLACE.fullmatch(text)
    if found is None:
        fix = "Write it as app.py:3, app.py:3-5, or app.py:-3 for line 3 as it was before the change."
        raise UsageError(f"`{printable(text)}` names no line of a file", fix)
    first = int(found["first"])
    last = int(found["last"] or first)
    if last < first:
        raise UsageError(f"`{printable(text)}` ends before it begins", f"Write {found['path']}:{last}-{first}.")
    return LineRange(found["path"].removeprefix("./"), first, last, before=bool(found["before"]))


async def add_comment(context: RunContext, run: Run, shown: ShownRange, at: LineRange, text: str) -> ReviewComment:
    """Store a comment on lines of the shown change of an action, as a draft, and return it.

    It is bound to the attempt, the two commits, the hash of the change, and the quoted lines. Raises UsageError if
    there is no such line, if the text is empty or too long, or if too many drafts wait.
    """
    attempt, base, commit = shown.attempt, shown.base, shown.commit
    if attempt is None or base is None or commit is None:
        raise UsageError(
            "there is no change to comment on", "`scaffold tasks` shows the actions that changed something."
        )
    words = context.redactor.clean(utf8_safe(text).strip())
    if not words or len(words) > MAX_TEXT_CHARS:
        raise UsageError(
            f"a comment has 1 to {MAX_TEXT_CHARS:,} characters, not {len(words):,}",
            "Say in it what is to be changed; `scaffold send` takes longer messages.",
        )
    quoted = await _quoted_lines(context, at, base, commit)
    comment = ReviewComment(
        id=new_id(),
        run_id=run.id,
        action_id=attempt.action_id,
        attempt_id=attempt.id,
        number=0,
        base_sha=base,
        commit_sha=commit,
        fingerprint=await change_fingerprint(context.git, base, commit),
        path=at.path,
        first_line=at.first,
        last_line=at.last,
        before=at.before,
        quoted=truncate_text(context.redactor.clean(utf8_safe(quoted)), MAX_QUOTED_CHARS),
        text=words,
        author=_user_name(),
        created_at=context.clock.now(),
    )
    with context.store.transaction(durable=True):
        drafts = context.store.review_comments.drafts(attempt.action_id)
        size = sum(len(each.text) + len(each.quoted) + len(each.path) for each in (*drafts, comment))
        if len(drafts) >= MAX_COMMENTS or size > MAX_ALL_CHARS:
            raise UsageError(
                f"{count_of(len(drafts), 'comment')} on this change wait to be sent; one message holds no more",
                "Send them first, with `scaffold review ACTION --send`.",
            )
        return context.store.review_comments.add(comment)


async def _quoted_lines(context: RunContext, at: LineRange, base: Commit, commit: Commit) -> str:
    side = base if at.before else commit
    if at.path not in await changed_paths(context.git, base, commit):
        raise UsageError(
            f"the change does not touch `{printable(at.path)}`", "`scaffold review ACTION` shows its files."
        )
    content = await file_contents(context.git, side, at.path)
    if content is None:
        other = "after" if at.before else "before"
        raise UsageError(
            f"`{printable(at.path)}` exists only {other} the change",
            f"Name the line as {printable(at.path)}:{'' if at.before else '-'}{at.first}.",
        )
    lines = content.decode(errors="replace").split("\n")
    count = len(lines) - (not lines[-1])
    if at.last > count:
        raise UsageError(f"`{printable(at.path)}` has {count_of(count, 'line')}", "Name one of these.")
    return "\n".join(line.removesuffix("\r") for line in lines[at.first - 1 : at.last])


def discard_comment(context: RunContext, action: Action, number: int) -> ReviewComment:
    """Take a draft back, and return it; it stays stored. Raises UsageError if there is none of that number."""
    store = context.store
    with store.transaction(durable=True):
        found = next((each for each in store.review_comments.drafts(action.id) if each.number == number), None)
        if found is None:
            raise UsageError(
                f"`{action.key}` has no draft of a comment {number}",
                f"`scaffold review {action.key}` shows the comments.",
            )
        store.review_comments.mark_sent(found, "discarded")
    return found


def send_comments(context: RunContext, run: Run, action: Action, words: str | None = None) -> SentComments:
    """Send the drafts on an action's change to its agent.

    A change that waits for approval is rejected, with `words` as the reason. Otherwise the current and all later
    attempts read them; of a change that has landed, each becomes an item. Safe to repeat after a crash. Raises
    UsageError without drafts, or if no agent will ever read them.
    """
    store = context.store
    drafts = store.review_comments.drafts(action.id)
    if not drafts:
        fix = f'`scaffold review {action.key} --comment FILE:LINE "TEXT"` writes one.'
        raise UsageError(f"no comment on the change of `{action.key}` waits to be sent", fix)
    if (item := waiting_item(context, action)) is not None:
        decide_items(store, [item.id], InboxDecision(to="rejected", words=words or "see my comments on its lines"))
        return SentComments(comments=drafts, how="rejection")
    if isinstance(action.state, Completed):
        return _file_items(context, run, action)
    require_deliverable(context, run, action)
    with store.transaction(durable=True):
        return SentComments(comments=send_drafts(store, action, "message"), how="message")


def waiting_item(context: RunContext, action: Action) -> InboxItem | None:
    """Return the open question whether an action's change may land; None without one."""
    items = context.store.inbox.for_action(action.id)
    return next((each for each in items if each.state == "open" and subject_of(each) is not None), None)


def _file_items(context: RunContext, run: Run, action: Action) -> SentComments:
    store, now = context.store, context.clock.now()
    numbers = attempt_numbers(store, action.id)
    filed = list[str]()
    drafts = store.review_comments.drafts(action.id)
    for each in drafts:
        # The comment's id: after a crash in between it is the same item.
        item = WorkItem(
            id=each.id,
            title=short_line(f"{each.path}: {each.text}", MAX_TITLE_CHARS),
            description=comment_text(each, numbers.get(each.attempt_id, 0)),
            labels=(FOLLOW_UP,),
            run=run.id,
            action=action.key,
            created_at=now,
            updated_at=now,
        )
        if isinstance(problem := add_item(store, item), str):
            raise UsageError(
                f"comment {each.number} cannot become an item: {problem}", "Shorten it, and send it again."
            )
        filed.append(item.id)
        with store.transaction(durable=True):
            store.review_comments.mark_sent(each, f"item {item.id}")
    return SentComments(comments=drafts, how="items", items=tuple(filed))


def _user_name() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a user without a name
        return "user"
