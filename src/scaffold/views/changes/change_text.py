"""A change by intent as plain lines, the same for every terminal, the inbox and programs.

A line of a file begins with its sign, or with its number before that; only our own lines begin with `#` or `@@`.
"""

from collections.abc import Iterator, Sequence

from msgspec import Struct

from scaffold.core.printable_text import count_of, one_line
from scaffold.git.patch import PatchLine
from scaffold.views.changes.comment_standing import CommentStanding
from scaffold.views.changes.intents import IntentGroup, ReviewedHunk
from scaffold.views.changes.reviewed_change import ReviewedChange

MAX_HUNK_LINES = 400
MAX_LINES = 5_000
NOT_RUN = "!"
"""Before a changed line that can run and that no check executed, where it is known which did."""
STATUS_WORDS = {"A": "new", "D": "deleted", "M": "", "R": "moved", "T": "another type"}


class TextLimits(Struct, frozen=True, kw_only=True):
    """How much of a change is written, and where the rest is."""

    hunk_lines: int = MAX_HUNK_LINES
    lines: int = MAX_LINES
    numbers: bool = False
    """Whether lines have their numbers."""
    rest: str = "scaffold diff"
    """The command that shows all of it."""


def change_text_lines(
    change: ReviewedChange, limits: TextLimits, comments: Sequence[CommentStanding] = ()
) -> Iterator[str]:
    """Yield the groups with their parts; each omission says how much is left out, and which command shows it.

    Comments follow the line that they are about; those whose lines are not shown, or have changed, come last.
    """
    left, told = limits.lines, set[str]()
    for group in change.groups:
        yield from ("", f"# {group_title(group)}")
        if group.line.kind == "generated":
            yield from (hunk_head(hunk) for hunk in group.hunks)
            yield f"… their lines are left out: `{limits.rest}`"
            continue
        for hunk in group.hunks:
            yield hunk_head(hunk)
            shown = min(len(hunk.lines), limits.hunk_lines, left)
            left -= shown
            for line in hunk.lines[:shown]:
                yield from _line_texts(hunk, line, numbers=limits.numbers)
                said = [each for each in comments if comment_is_at(each, hunk, line) and each.comment.id not in told]
                told |= {each.comment.id for each in said}
                yield from (text for each in said for text in comment_lines(each))
            if shown < len(hunk.lines):
                yield f"… and {count_of(len(hunk.lines) - shown, 'more line')}: `{limits.rest}`"
    rest = [each for each in comments if each.comment.id not in told]
    if rest:
        yield from ("", "# Comments on other lines")
    for each in rest:
        yield from (f"> {line}" for line in each.comment.quoted.split("\n"))
        yield from comment_lines(each)


def _line_texts(hunk: ReviewedHunk, line: PatchLine, *, numbers: bool) -> Iterator[str]:
    text, number = line.sign + line.text, line.new or line.old
    if numbers:
        missed = line.sign == "+" and bool(hunk.executed) and number in hunk.can_run - hunk.executed
        text = f"{number:>6}{NOT_RUN if missed else ' '}{text}"
    yield text
    if not line.ended:
        yield "\\ no newline at the end of the file"


def comment_is_at(standing: CommentStanding, hunk: ReviewedHunk, line: PatchLine) -> bool:
    """Return whether the comment follows this line: the last one that it is about."""
    comment = standing.comment
    if standing.line is None or standing.path != (hunk.file.former if comment.before else hunk.file.path):
        return False
    return standing.line + comment.last_line - comment.first_line == (line.old if comment.before else line.new)


def comment_lines(standing: CommentStanding) -> Iterator[str]:
    """Yield a comment with its standing, and what the agent said about it."""
    comment = standing.comment
    head = f"# comment {comment.number} by {comment.author} on {comment.place}, attempt {standing.attempt}"
    yield one_line(f"{head}: {standing.state}")
    yield from (f"#   {line}" for line in comment.text.split("\n"))
    if standing.said:
        yield f"#   its agent says: {standing.said}"


def group_title(group: IntentGroup) -> str:
    """Return the line that a group serves, and its size."""
    files, added, deleted = group.counts
    return f"{one_line(group.line.title)}: {count_of(files, 'file')}, +{added} -{deleted}"


def hunk_head(hunk: ReviewedHunk) -> str:
    """Return the place of a part, and why it serves its line, in one line."""
    file = hunk.file
    place = f"{file.former} -> {file.path}" if file.status == "R" else file.path
    words = [STATUS_WORDS[file.status], *_whole_file_words(hunk), hunk.moved, hunk.reason]
    words += [f"also serves {'; '.join(hunk.also)}"] if hunk.also else []
    words += [f"this file {hunk.attention}"] if hunk.attention else []
    said = "; ".join(filter(None, words))
    return one_line(f"@@ {place}{f':{hunk.first}' if hunk.first else ''} @@ {said}")


def _whole_file_words(hunk: ReviewedHunk) -> Iterator[str]:
    file = hunk.file
    if file.is_submodule:
        yield "a submodule"
    elif file.binary:
        yield "binary"
    elif file.unread:
        yield f"+{file.added:,} -{file.deleted:,}, too large to be shown by its lines"
    if file.status in {"M", "R", "T"} and file.mode != file.former_mode:
        yield f"mode {file.former_mode} is {file.mode} now"
