"""A review as text and as JSON: weak facts first, then the commits with their evidence, then the diff by risk."""

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from scaffold.cli.render.goals_tasks_agents import evidence_source
from scaffold.cli.render.status_text import taken_lines
from scaffold.cli.render.terminal.style import heading, status_mark, titled
from scaffold.cli.render.terminal.text_layout import Layout
from scaffold.core.model import Fact
from scaffold.core.printable_text import count_of, join_limited
from scaffold.core.proof.contract import STRENGTHS, Strength, reasons_of
from scaffold.views.changes.review_view import RISKS, ReviewedFile, Risk, RunReview
from scaffold.views.run_json import fact_json, taken_json
from scaffold.views.run_view import RunView

HEADINGS: Mapping[Risk, str] = {
    "checks": "Decides how work is checked",
    "protected": "Protected areas",
    "deleted": "Deleted",
    "big": "Big changes",
    "untested": "Parts of changes of which checks executed only some lines",
    "rest": "Everything else",
}
MARKS: Mapping[Strength, str] = {each: "warn" if each == "weak" else "holds" for each in STRENGTHS}
MAX_EVIDENCE = 8


def summary_lines(view: RunView, review: RunReview, layout: Layout) -> Iterator[str]:
    """Yield the size of the work and the strength of its evidence; then weak facts, each with the reasons."""
    run, facts = view.run, review.facts
    added, deleted = sum(each.added for each in review.files), sum(each.deleted for each in review.files)
    yield from titled("", f"run {run.id} {view.status}", run.request, layout)
    size = f"{count_of(len(review.commits), 'commit')}, {count_of(len(review.files), 'file')}, +{added} -{deleted}"
    yield from layout.prose("  ", f"{run.session_branch} at {review.head[:8]}, from {review.base[:8]}: {size}")
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


def files_by_risk(review: RunReview) -> Iterator[tuple[Risk, list[ReviewedFile]]]:
    """Yield the risks that some file has, in order, with their files."""
    for risk in RISKS:
        if files := [each for each in review.files if each.risk == risk]:
            yield risk, files


def file_lines(risk: Risk, files: list[ReviewedFile], layout: Layout) -> Iterator[str]:
    """Yield the heading of a risk and its files."""
    title = f"{HEADINGS[risk]}: {count_of(len(files), 'file')}"
    yield from ("", *map(heading, layout.wrap("", title)))
    for each in files:
        by = f" [{join_limited(each.actions, 3)}]" if each.actions else ""
        why = f": {each.reason}" if each.reason else ""
        yield from layout.prose(f"  {each.kind} ", f"{each.path}  +{each.added} -{each.deleted}{by}{why}", hang=6)


def review_json(view: RunView, review: RunReview, patches: Mapping[Risk, bytes]) -> dict[str, Any]:
    """Return what `review --json` prints."""
    return {
        "run": view.run.id,
        "status": view.status,
        "session_branch": view.run.session_branch,
        "base_branch": view.run.base_branch,
        "base": review.base,
        "head": review.head,
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
        "files": [
            {
                "path": os.fsencode(each.path).decode(errors="replace"),
                "kind": each.kind,
                "added": each.added,
                "deleted": each.deleted,
                "risk": each.risk,
                "reason": each.reason or None,
                "actions": list(each.actions),
            }
            for each in review.files
        ],
        "patch": "".join(patch.decode(errors="replace") for patch in patches.values()),
        "taken": [taken_json(move) for move in view.summary.taken.moves],
    }
