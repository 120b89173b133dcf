"""What became of a human's comments on a change: where their lines are now, and what the agent did about them."""

import re
from collections.abc import Sequence

from msgspec import Struct

from scaffold.core.change_approval import ReviewComment
from scaffold.core.ids import ActionKey, Commit
from scaffold.core.model import Action, Attempt
from scaffold.core.printable_text import one_line
from scaffold.git.client.command_line import Git
from scaffold.git.commits import batch_contents, renames
from scaffold.git.refs import resolve
from scaffold.store.database import Store
from scaffold.views.changes.reviewed_change import moved_numbers
from scaffold.views.changes.shown_range import ShownRange
from scaffold.views.text_format import clip

MAX_SAID_CELLS = 300


class CommentStanding(Struct, frozen=True, kw_only=True):
    """A comment, as seen from the change that is shown."""

    comment: ReviewComment
    action: ActionKey
    attempt: int
    """The number of the attempt whose lines it is about."""
    line: int | None
    """Where its first line is now, on its side of the shown change; None if its lines were changed since."""
    path: str
    """Where its file is in the shown change."""
    said: str = ""
    """What the agent of a later attempt said about it, in its last message: its own words, which nothing confirms."""

    @property
    def state(self) -> str:
        """The comment's standing in words."""
        comment = self.comment
        if comment.sent_as == "discarded":
            return "discarded"
        if not comment.sent_as:
            return "draft, not sent" if self.line else "draft, not sent; its lines have changed since"
        if comment.sent_as.startswith("item "):
            return f"sent as {comment.sent_as}"
        return "sent; its lines are unchanged" if self.line else "sent; outdated: its lines have changed since"


async def read_comments(git: Git, store: Store, action: Action, shown: ShownRange) -> tuple[CommentStanding, ...]:
    """Return the comments on an action's changes by number, as seen from the change that is shown.

    A comment whose commit the repository no longer has is outdated; its quoted lines stay.
    """
    attempts = {each.id: each for each in store.attempts.for_action(action.id)}
    comments = store.review_comments.for_action(action.id)
    if not comments or shown.base is None or shown.commit is None:
        lines: Sequence[tuple[str, int | None]] = [(each.path, None) for each in comments]
    else:
        lines = await _present_lines(git, comments, shown.base, shown.commit)
    return tuple(
        CommentStanding(
            comment=each,
            action=action.key,
            attempt=attempts[each.attempt_id].number if each.attempt_id in attempts else 0,
            line=line,
            path=path,
            said=_said_about(each, tuple(attempts.values())),
        )
        for each, (path, line) in zip(comments, lines, strict=True)
    )


async def _present_lines(
    git: Git, comments: Sequence[ReviewComment], base: Commit, commit: Commit
) -> Sequence[tuple[str, int | None]]:
    ends = {(_commented_commit(each), base if each.before else commit) for each in comments}
    known = {commit: await resolve(git, commit) for commit in {side for side, _ in ends}}
    renamed = {end: await renames(git, *end) for end in ends if end[0] != end[1] and known[end[0]]}
    places = []
    for each in comments:
        now = base if each.before else commit
        path = renamed.get((_commented_commit(each), now), {}).get(each.path, each.path)
        places.append((path, f"{_commented_commit(each)}:{each.path}", f"{now}:{path}"))
    contents = await batch_contents(git, [name for _, *names in places for name in names])
    found = list[tuple[str, int | None]]()
    for each, (path, _, _), before, after in zip(comments, places, contents[::2], contents[1::2], strict=True):
        wanted = range(each.first_line, each.last_line + 1)
        numbers = moved_numbers(wanted, before, after) if after is not None else frozenset()
        found.append((path, min(numbers) if len(numbers) == len(wanted) else None))
    return found


def _commented_commit(comment: ReviewComment) -> Commit:
    return comment.base_sha if comment.before else comment.commit_sha


def _said_about(comment: ReviewComment, attempts: Sequence[Attempt]) -> str:
    if comment.sent_at is None:
        return ""
    pattern = re.compile(rf"\bcomment {comment.number}\b\W*(.+)$", re.IGNORECASE | re.MULTILINE)
    later = [each.result or "" for each in attempts if each.ended_at is None or each.ended_at > comment.sent_at]
    found = filter(None, map(pattern.search, reversed(later)))
    return next((clip(one_line(match[1]), MAX_SAID_CELLS) for match in found), "")
