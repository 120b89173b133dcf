"""The summary at the end of a step's answer, which becomes the step's notes."""

import re

from msgspec import Struct

from scaffold.core.printable_text import count_of, printable, truncate_text

MAX_LINES = 5
MAX_LINE_CHARS = 500

ASK_FOR_SUMMARY = (
    "Your answer does not end with a SUMMARY section. Reply with nothing but this section: a line that says SUMMARY, "
    "then 3 to 5 lines with what the next steps need to know."
)
"""The prompt that is sent once if an answer has no summary."""
NO_SUMMARY = "(The step wrote no summary; this is the end of its answer.)"
NO_ANSWER = "(The step wrote neither a summary nor an answer.)"
_HEADING = re.compile(r"[\s#*_>`=-]*summary[\s*_`]*(?P<rest>.*)", re.IGNORECASE)
_MARKUP = " \t*_`"
_NEXT_HEADING = re.compile(r"#{1,6}\s")
_RULE = re.compile(r"[`~*_=-]{3,}")


class Summary(Struct, frozen=True):
    """The notes of a step; `is_whole` is False if lines or characters were left out."""

    notes: str
    is_whole: bool


def find_summary(answer: str) -> Summary | None:
    """Return the last SUMMARY section of an answer; None if there is none, or an empty one.

    It has at most MAX_LINES lines of MAX_LINE_CHARS characters; more is left out, and marked.
    """
    lines = answer.splitlines()
    # From the end: an answer may quote the summaries of earlier steps.
    for index in range(len(lines) - 1, -1, -1):
        first = _first_line(lines[index])
        if first is not None:
            section = _section_lines((first, *lines[index + 1 :]))
            return _bounded_summary(section) if section else None
    return None


def last_words(answer: str) -> Summary:
    """Return the last lines of an answer without a summary, marked as such: for agents that gave none when asked."""
    # Agents are told that this is not a summary, as it may end in the middle of a thought.
    lines = [line for line in answer.splitlines() if line.strip()]
    if not lines:
        return Summary(NO_ANSWER, is_whole=True)
    bounded = _bounded_summary(lines[-MAX_LINES:])
    return Summary(f"{NO_SUMMARY}\n{bounded.notes}", is_whole=False)


def _first_line(line: str) -> str | None:
    """Return the text beside the heading of a summary, usually none; None if the line is not such a heading."""
    heading = _HEADING.match(line)
    if heading is None:
        return None
    rest = heading["rest"]
    if rest.startswith(":"):
        return rest[1:].strip(_MARKUP)
    # `Summary of the changes` is a heading of its own kind, not this one.
    return None if rest.strip("=- ") else ""


def _section_lines(lines: tuple[str, ...]) -> list[str]:
    kept = []
    for line in lines:
        if _NEXT_HEADING.match(line):
            break
        # Rules and fences are decoration of Markdown.
        if line.strip() and not _RULE.fullmatch(line.strip()):
            kept.append(line)
    return kept


def _bounded_summary(lines: list[str]) -> Summary:
    shown = [truncate_text(printable(line.strip()), MAX_LINE_CHARS) for line in lines[:MAX_LINES]]
    is_whole = len(lines) <= MAX_LINES and all(len(line.strip()) <= MAX_LINE_CHARS for line in lines)
    if len(lines) > MAX_LINES:
        shown.append(f"({count_of(len(lines) - MAX_LINES, 'more line')} left out.)")
    return Summary("\n".join(shown), is_whole)
