"""A question for the user's consent, as it is put."""

import json

from scaffold.cli.repl.line_diff import MAX_LINES, LineDiff, line_diff
from scaffold.cli.repl.renderer import Renderer
from scaffold.cli.repl.running_tools import RunningCall, proposed_text
from scaffold.policy.permission.approval_gate import ApprovalQuestion

MAX_CHARACTERS = 20_000
"""Characters of a subject that are shown."""


def format_question(question: ApprovalQuestion, change: LineDiff | str, pen: Renderer) -> str:
    """Return the question, drawn: who asks, for which tool, exactly what for, why, and what "always" would allow.

    `change` is what it would make of a file, or where that is no diff, words about it; empty for what changes none.
    """
    who = question.agent or "the agent"
    lines = [pen.words(f"? {who} asks to use {question.tool} ({question.category})", "bold yellow")]
    lines.append(pen.words("\n".join(f"  │ {line}" for line in _bounded(question.subject).split("\n"))))
    if question.why:
        lines.append(pen.words(f"  {_bounded(question.why)}", "dim"))
    lines.append(pen.words(f"  always would allow: {_bounded(question.always or 'exactly this')}", "dim"))
    if isinstance(change, LineDiff):
        lines.append(pen.patch(change, most=MAX_LINES))
    elif change:
        lines.append(pen.words(_bounded(change)))
    return "\n".join(lines)


def proposed_change(question: ApprovalQuestion, call: RunningCall) -> LineDiff | str:
    """Return what a call would make of a file: the diff, or else all there is to know of it."""
    if question.category != "file_write":
        return ""
    after = proposed_text(call)
    if after is None or call.before is None:
        return f"  no diff can be shown; the call is {json.dumps(dict(call.args), ensure_ascii=False)}"
    return line_diff(call.before, after) or "  the file would stay as it is"


def _bounded(text: str) -> str:
    if len(text) <= MAX_CHARACTERS:
        return text
    return f"{text[:MAX_CHARACTERS]}\n... {len(text) - MAX_CHARACTERS:,} more characters that are not shown"


def answer_choices(*, alike: int, more: int, armed: bool) -> str:
    """Return which answers there are, and what they mean."""
    count = f" to all {alike}" if alike > 1 else ""
    behind = f"   ({more} more)" if more else ""
    told = f"y yes{count}   n no   a always{behind}"
    return told if armed else f"{told} …"
