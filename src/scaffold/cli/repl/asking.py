"""A question for the user's consent, as it is put."""

import json

from scaffold.cli.repl.patch import MOST_LINES, Patch, patch
from scaffold.cli.repl.pen import Pen
from scaffold.cli.repl.work import Call, proposed
from scaffold.policy.consent import Question

MOST_CHARACTERS = 20_000
"""Characters of a subject that are shown."""


def put(question: Question, change: Patch | str, pen: Pen) -> str:
    """Return the question, drawn: who asks, for which tool, exactly what for, why, and what "always" would allow.

    `change` is what it would make of a file, or where that is no diff, words about it; empty for what changes none.
    """
    who = question.agent or "the agent"
    lines = [pen.words(f"? {who} asks to use {question.tool} ({question.category})", "bold yellow")]
    lines.append(pen.words("\n".join(f"  │ {line}" for line in _bounded(question.subject).split("\n"))))
    if question.why:
        lines.append(pen.words(f"  {_bounded(question.why)}", "dim"))
    lines.append(pen.words(f"  always would allow: {_bounded(question.always or 'exactly this')}", "dim"))
    if isinstance(change, Patch):
        lines.append(pen.patch(change, most=MOST_LINES))
    elif change:
        lines.append(pen.words(_bounded(change)))
    return "\n".join(lines)


def change_of(question: Question, call: Call) -> Patch | str:
    """Return what a call would make of a file: the diff, or else all there is to know of it."""
    if question.category != "file_write":
        return ""
    after = proposed(call)
    if after is None or call.before is None:
        return f"  no diff can be shown; the call is {json.dumps(dict(call.args), ensure_ascii=False)}"
    return patch(call.before, after) or "  the file would stay as it is"


def _bounded(text: str) -> str:
    if len(text) <= MOST_CHARACTERS:
        return text
    return f"{text[:MOST_CHARACTERS]}\n... {len(text) - MOST_CHARACTERS:,} more characters that are not shown"


def choices(*, alike: int, more: int, armed: bool) -> str:
    """Return which answers there are, and what they mean."""
    count = f" to all {alike}" if alike > 1 else ""
    behind = f"   ({more} more)" if more else ""
    told = f"y yes{count}   n no   a always{behind}"
    return told if armed else f"{told} …"
