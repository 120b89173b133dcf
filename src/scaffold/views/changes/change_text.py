"""A change by intent as plain lines, the same for every terminal, the inbox and programs.

A line of a file begins with its sign, or with its number before that; only our own lines begin with `#` or `@@`.
"""

from collections.abc import Iterator

from msgspec import Struct

from scaffold.core.printable_text import count_of, one_line
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


def change_text_lines(change: ReviewedChange, limits: TextLimits) -> Iterator[str]:
    """Yield the groups with their parts; each omission says how much is left out, and which command shows it."""
    left = limits.lines
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
                yield (
                    _numbered(hunk, line.new or line.old, line.sign + line.text)
                    if limits.numbers
                    else line.sign + line.text
                )
                if not line.ended:
                    yield "\\ no newline at the end of the file"
            if shown < len(hunk.lines):
                yield f"… and {count_of(len(hunk.lines) - shown, 'more line')}: `{limits.rest}`"


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


def _numbered(hunk: ReviewedHunk, number: int, text: str) -> str:
    is_known = text.startswith("+") and bool(hunk.executed)
    mark = NOT_RUN if is_known and number in hunk.can_run - hunk.executed else " "
    return f"{number:>6}{mark}{text}"
