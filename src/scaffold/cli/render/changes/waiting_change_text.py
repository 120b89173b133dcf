"""A change that waits for a human's approval, as text and as JSON: evidence, doubts, the second reviewer, the diff."""

from collections.abc import Iterator
from typing import Any

import msgspec

from scaffold.cli.render.terminal.style import PATCH_COLORS, paint
from scaffold.cli.render.terminal.text_layout import Layout
from scaffold.core.printable_text import count_of, join_limited, printable
from scaffold.core.proof.contract import open_doubts
from scaffold.landing.facts.effect_evidence import describe_gate
from scaffold.verify.contract.review_verdict import review_text
from scaffold.views.changes.waiting_change import WaitingChange
from scaffold.views.lookalikes import mark_lookalikes
from scaffold.views.text_format import TAB_CELLS

MAX_DIFF_LINES = 300
MAX_CHECKS = 12
MAX_PATHS = 20


def change_lines(change: WaitingChange | None, layout: Layout) -> Iterator[str]:
    """Yield what a human needs to decide about a change, if any; the doubts come before the diff."""
    if change is None:
        return
    subject = change.subject
    yield from layout.prose("  ", f"attempt {subject.attempt}, on {subject.base[:8]}")
    for doubt in open_doubts(change.doubts):
        yield from layout.prose("  doubt: ", doubt.text)
    if subject.protected:
        yield from layout.prose("  protected: ", join_limited(subject.protected, MAX_PATHS))
    for line in subject.merged:
        yield from layout.prose("  merged: ", line)
    if change.review is not None:
        verdict = {"approve": "approves", "reject": "rejects"}[change.review.review.verdict]
        head, *cited = review_text(change.review.review).split("\n")
        yield from layout.prose("  ", f"second reviewer ({change.review.model}) {verdict}: {head}", hang=2)
        for line in cited:
            yield from layout.prose("      ", line)
    for result in change.checks[:MAX_CHECKS]:
        code = "" if result.exit_code is None else f" (exit {result.exit_code})"
        yield from layout.prose("  check: ", f"{result.name}: {result.verdict}{code}")
    if len(change.checks) > MAX_CHECKS:
        yield f"  and {count_of(len(change.checks) - MAX_CHECKS, 'more check')}"
    for gate in change.gates:
        yield from layout.prose("  gate: ", describe_gate(gate))
    yield from _diff_lines(change)


def _diff_lines(change: WaitingChange) -> Iterator[str]:
    lines = change.diff.split("\n")[:-1]
    for line in lines[:MAX_DIFF_LINES]:
        text = printable(mark_lookalikes(line)).expandtabs(TAB_CELLS)
        yield f"    {paint(text, PATCH_COLORS[line[0]]) if line[:1] in PATCH_COLORS else text}".rstrip()
    if len(lines) > MAX_DIFF_LINES:
        yield f"    … and {count_of(len(lines) - MAX_DIFF_LINES, 'more line')}"
    yield f"  all of it: `scaffold diff {change.subject.action}`"


def change_json(change: WaitingChange) -> dict[str, Any]:
    """Return what `inbox --json` has of a change beside its item."""
    return {
        "doubts": [{"code": each.code, "text": each.text} for each in open_doubts(change.doubts)],
        "checks": [{"name": each.name, "verdict": each.verdict, "exit_code": each.exit_code} for each in change.checks],
        "gates": [describe_gate(gate) for gate in change.gates],
        "review": msgspec.to_builtins(change.review) if change.review is not None else None,
        "diff": change.diff,
    }
