"""A review as text and as JSON: weak facts first, then the commits with their evidence, then the change by intent."""

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from scaffold.cli.render.goals_tasks_agents import evidence_source
from scaffold.cli.render.status_text import taken_lines
from scaffold.cli.render.terminal.style import PATCH_COLORS, heading, paint, status_mark, titled
from scaffold.cli.render.terminal.text_layout import Layout
from scaffold.core.model import Fact
from scaffold.core.printable_text import count_of, join_limited, printable
from scaffold.core.proof.contract import STRENGTHS, Strength, reasons_of
from scaffold.views.changes.change_text import TextLimits, change_text_lines
from scaffold.views.changes.comment_standing import CommentStanding
from scaffold.views.changes.intents import ReviewedHunk
from scaffold.views.changes.review_view import RunReview
from scaffold.views.changes.reviewed_change import ReviewedChange
from scaffold.views.lookalikes import mark_lookalikes
from scaffold.views.run_json import fact_json, taken_json
from scaffold.views.run_view import RunView
from scaffold.views.text_format import TAB_CELLS

MARKS: Mapping[Strength, str] = {each: "warn" if each == "weak" else "holds" for each in STRENGTHS}
MAX_EVIDENCE = 8
NUMBER_CELLS = 7
"""The cells before the sign of a line with a number."""


def summary_lines(view: RunView, review: RunReview, layout: Layout) -> Iterator[str]:
    """Yield the size of the work and the strength of its evidence; then weak facts, each with the reasons."""
    run, facts = view.run, review.facts
    files, added, deleted = review.change.counts
    yield from titled("", f"run {run.id} {view.status}", run.request, layout)
    size = f"{count_of(len(review.commits), 'commit')}, {count_of(files, 'file')}, +{added} -{deleted}"
    yield from layout.prose(
        "  ", f"{run.session_branch} at {review.change.head[:8]}, from {review.change.base[:8]}: {size}"
    )
    for line in taken_lines(view):
        yield from layout.prose("  ", line)
    counts = [(name, sum(fact.state == "holds" and fact.strength == name for fact in facts)) for name in MARKS]
    fallen = [fact for fact in facts if fact.state != "holds"]
    shown = [f"{count} {name}" for name, count in counts if count]
    shown += [f"{len(fallen)} that {'does' if len(fallen) == 1 else 'do'} not hold"] if fallen else []
    if shown:
        yield from layout.prose("  ", f"facts: {', '.join(shown)}")
    # Behaviour that is unchanged needs no look; what a reviewer agreed to may.
    doubtful = [fact for fact in facts if fact.strength in {"weak", "reviewed"} or fact.state != "holds"]
    if doubtful:
        yield from ("", heading("Look at these first"))
    for fact in doubtful:
        strength = fact.strength if fact.state == "holds" else fact.state
        yield from layout.prose(f"  {status_mark('warn')} ", f"{fact.assertion} ({strength})")
        for reason in reasons_of(fact.doubts):
            yield from layout.prose("      ", reason)


def commit_lines(review: RunReview, layout: Layout) -> Iterator[str]:
    """Yield each commit with the facts that it made true, and their evidence."""
    yield from ("", heading("Commits"))
    for each in review.commits:
        yield from layout.prose(f"  {each.commit.commit[:8]}  ", each.commit.subject)
        if each.executed is not None:
            lines = f"checks executed {each.executed.executed} of {count_of(each.executed.total, 'changed line')}"
            yield from layout.prose("      ", lines)
        yield from _evidence_lines(each.facts, layout)
    for key, facts in review.in_base.items():
        yield from layout.prose("  in base   ", f"{key}: the base has its change already, so it has no commit")
        yield from _evidence_lines(facts, layout)


def _evidence_lines(facts: Sequence[Fact], layout: Layout) -> Iterator[str]:
    for fact in facts:
        mark = status_mark(MARKS[fact.strength] if fact.state == "holds" else fact.state)
        strength = fact.strength if fact.state == "holds" else fact.state
        yield from layout.prose(f"    {mark} ", f"{fact.assertion} ({strength})")
        for each in fact.evidence[:MAX_EVIDENCE]:
            code = f"exit {each.exit_code}  " if each.exit_code is not None else ""
            yield from layout.prose("        ", f"{code}{evidence_source(each)}")
        if len(fact.evidence) > MAX_EVIDENCE:
            yield f"        and {len(fact.evidence) - MAX_EVIDENCE} more"


def file_lines(change: ReviewedChange, layout: Layout) -> Iterator[str]:
    """Yield the changed files with their sizes and actions, those that deserve attention first."""
    yield from ("", *map(heading, layout.wrap("", f"Changed: {count_of(len(change.files), 'file')}")))
    for each in change.files:
        file = each.file
        by = f" [{join_limited(each.actions, 3)}]" if each.actions else ""
        why = f": {each.attention}" if each.attention else ""
        name = f"{file.former} -> {file.path}" if file.status == "R" else file.path
        yield from layout.prose(f"  {file.status} ", f"{name}  +{file.added} -{file.deleted}{by}{why}", hang=6)


def intent_lines(
    change: ReviewedChange, comments: Sequence[CommentStanding], rest: str, layout: Layout
) -> Iterator[str]:
    """Yield the change by intent with the numbers of its lines; `rest` is the command that shows all of it."""
    for line in change_text_lines(change, TextLimits(numbers=True, rest=rest), comments):
        text = printable(mark_lookalikes(line)).expandtabs(TAB_CELLS)
        if line.startswith(("# ", "@@ ")):
            yield from map(heading if line[0] == "#" else _paint_line, layout.wrap("", text, hang=3))
        else:
            yield _paint_line(text)


def _paint_line(text: str) -> str:
    sign = text[:1] if text[:1] in PATCH_COLORS else text[NUMBER_CELLS : NUMBER_CELLS + 1]
    return paint(text, PATCH_COLORS[sign]) if sign in PATCH_COLORS else text


def change_json(change: ReviewedChange) -> dict[str, Any]:
    """Return a change by intent, as JSON has it."""
    return {
        "base": change.base,
        "head": change.head,
        "fingerprint": change.fingerprint,
        "files": [
            {
                "path": os.fsencode(each.file.path).decode(errors="replace"),
                "former": os.fsencode(each.file.former).decode(errors="replace"),
                "kind": each.file.status,
                "added": each.file.added,
                "deleted": each.file.deleted,
                "attention": each.attention or None,
                "actions": list(each.actions),
            }
            for each in change.files
        ],
        "intents": [
            {
                "kind": group.line.kind,
                "action": group.line.action,
                "line": group.line.text or None,
                "title": group.line.title,
                "hunks": [_hunk_json(hunk) for hunk in group.hunks],
            }
            for group in change.groups
        ],
    }


def comment_json(standing: CommentStanding) -> dict[str, Any]:
    """Return a comment with its standing, as JSON has it."""
    comment = standing.comment
    return {
        "number": comment.number,
        "action": standing.action,
        "attempt": standing.attempt,
        "commit": comment.commit_sha,
        "fingerprint": comment.fingerprint,
        "place": comment.place,
        "path": comment.path,
        "first_line": comment.first_line,
        "last_line": comment.last_line,
        "before": comment.before,
        "quoted": comment.quoted,
        "text": comment.text,
        "author": comment.author,
        "created_at": comment.created_at,
        "sent_as": comment.sent_as or None,
        "sent_at": comment.sent_at,
        "line": standing.line,
        "outdated": standing.line is None,
        "state": standing.state,
        "said": standing.said or None,
    }


def _hunk_json(hunk: ReviewedHunk) -> dict[str, Any]:
    return {
        "path": os.fsencode(hunk.file.path).decode(errors="replace"),
        "first": hunk.first or None,
        "reason": hunk.reason,
        "also": list(hunk.also),
        "moved": hunk.moved or None,
        "executed": sorted(hunk.executed),
        "can_run": sorted(hunk.can_run),
        "lines": [[line.sign, line.new or line.old, line.text] for line in hunk.lines],
    }


def review_json(view: RunView, review: RunReview) -> dict[str, Any]:
    """Return what `review --json` prints."""
    return {
        "run": view.run.id,
        "status": view.status,
        "session_branch": view.run.session_branch,
        "base_branch": view.run.base_branch,
        **change_json(review.change),
        "facts": [fact_json(fact) for fact in review.facts],
        "commits": [
            {
                "commit": each.commit.commit,
                "subject": each.commit.subject,
                "action": each.commit.action,
                "facts": [fact.assertion for fact in each.facts],
                "executed_lines": each.executed,
            }
            for each in review.commits
        ],
        "in_base": list(review.in_base),
        "comments": [comment_json(each) for each in review.comments],
        "taken": [taken_json(move) for move in view.summary.taken.moves],
    }
