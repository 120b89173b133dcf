"""Learnings as text and as JSON."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from scaffold.cli.render.terminal.style import heading
from scaffold.cli.render.terminal.text_layout import Layout
from scaffold.core.learning import Learning, LearningUse
from scaffold.core.printable_text import count_of
from scaffold.plan.learning.evidence import Score, Standing
from scaffold.plan.learning.selection import contradictions

STANDINGS: Mapping[Standing, str] = {
    "unproven": "unproven",
    "helps": "helps",
    "no_lift": "no lift, given no more",
    "harms": "harms, given no more",
}
ENDS: Mapping[bool | None, str] = {
    True: "the work landed",
    False: "the work did not land, or was undone",
    None: "it has not ended, or its end says nothing about the work",
}
MOST_USES = 10
Opposites = Mapping[str, Sequence[str]]


def opposites_of(learnings: Sequence[Learning]) -> Opposites:
    """Return the ids of contradicting learnings for each contradicted learning."""
    found: dict[str, list[str]] = {}
    for one, other in contradictions([each for each in learnings if not each.superseded_by]):
        found.setdefault(one.id, []).append(other.id)
        found.setdefault(other.id, []).append(one.id)
    return found


def learning_json(learning: Learning, score: Score, against: Sequence[str], now: datetime) -> dict[str, Any]:
    """Return everything known of a learning."""
    lift = score.lift
    return {
        "id": learning.id,
        "when": learning.triple.condition,
        "do": learning.triple.advice,
        "result": learning.triple.result,
        "scope": learning.scope,
        "module": learning.module or None,
        "preference": learning.preference,
        "concepts": learning.concepts,
        "outcome": learning.outcome,
        "commit": learning.commit or None,
        "log": learning.log or None,
        "source": learning.source,
        "attempt": learning.attempt or None,
        "standing": score.standing,
        "used": score.used,
        "helped": score.helped,
        "withheld": score.withheld,
        "withheld_helped": score.withheld_helped,
        "runs": score.runs,
        "expected": round(score.expected, 3),
        "lift": None
        if lift is None
        else {"value": round(lift.value, 3), "least": round(lift.least, 3), "most": round(lift.most, 3)},
        "too_few_runs": score.too_few or None,
        "contradicted_by": list(against),
        "superseded_by": learning.superseded_by or None,
        "triggers": learning.triggers,
        "triggered_at": learning.triggered_at,
        "created_at": learning.created_at,
        "changed_at": learning.changed_at,
        "expires_at": learning.expires_at,
        "expired": now >= learning.expires_at,
    }


def learning_lines(
    learning: Learning, score: Score, against: Sequence[str], now: datetime, layout: Layout
) -> Iterator[str]:
    """Yield a learning as text: its id, its standing and evidence, and its triple."""
    place = f"module {learning.module}" if learning.scope == "module" else learning.scope
    facts = [place, *_learning_facts(learning, score, now), *(f"#{each}" for each in learning.concepts)]
    yield from layout.prose(f"{heading(learning.id)}  ", ", ".join(facts))
    triple = learning.triple
    for word, text in {"WHEN": triple.condition, "DO": triple.advice, "RESULT": triple.result}.items():
        if text:
            yield from layout.prose(f"  {word:<6} ", text)
    if against:
        yield from layout.prose("  ", f"contradicted by {', '.join(against)}: agents get the one with better evidence")
    if learning.superseded_by:
        yield f"  superseded by {learning.superseded_by}"


def _learning_facts(learning: Learning, score: Score, now: datetime) -> Iterator[str]:
    if learning.preference:
        yield "preference"
    if learning.source == "agent":
        yield "proposed by an agent"
    if now >= learning.expires_at:
        yield "expired"
    yield STANDINGS[score.standing]
    if score.used:
        yield f"helped {score.helped} of {score.used}"
    if score.withheld:
        yield f"without it {score.withheld_helped} of {score.withheld}"
    if learning.outcome:
        yield f"led to {learning.outcome}"


def evidence_lines(learning: Learning, uses: Sequence[LearningUse], now: datetime, layout: Layout) -> Iterator[str]:
    """Yield the origin of a learning, and its latest uses."""
    shown = {"commit": learning.commit, "log": learning.log, "failure": learning.fingerprint}
    for name, text in shown.items():
        if text:
            yield from layout.prose(f"  {name}: ", text)
    used = f", last {learning.triggered_at:%Y-%m-%d}" if learning.triggered_at else ""
    yield f"  found for {count_of(learning.triggers, 'attempt')}{used}"
    passed = "expired" if now >= learning.expires_at else "expires"
    yield f"  {passed} {learning.expires_at:%Y-%m-%d}, 90 days after the last use"
    for each in uses[-MOST_USES:]:
        had = "given" if each.given else "withheld"
        yield f"  {each.at:%Y-%m-%d}  run {each.run}: {had}, {ENDS[each.helped]}"


def lift_line(learning: Learning, score: Score, layout: Layout) -> Iterator[str]:
    """Yield the lift of a learning, with its range when each run in turn is left out."""
    counts = f"{score.helped} of {score.used} with it, {score.withheld_helped} of {score.withheld} without"
    if score.lift is None:
        missing = score.too_few or "without any one run, nothing is left to compare with"
        said = f"too few runs: {missing} ({counts})"
    else:
        lift = score.lift
        said = (
            f"{STANDINGS[score.standing]}: {lift.value:+.0%} of attempts land ({lift.least:+.0%} to {lift.most:+.0%} "
            f"with any one of {score.runs} runs left out; {counts})"
        )
    yield from layout.prose(f"{heading(learning.id)}  ", said)
    yield from layout.prose("  WHEN ", learning.triple.condition)
