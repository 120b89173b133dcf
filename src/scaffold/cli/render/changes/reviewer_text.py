"""Second reviewers: their rates, and the result of a probe, as text and as JSON."""

from collections.abc import Iterator, Sequence
from typing import Any

from scaffold.cli.render.terminal.style import heading, status_mark
from scaffold.cli.render.terminal.text_layout import Layout
from scaffold.core.model import Usage
from scaffold.core.printable_text import count_of, one_line
from scaffold.plan.review_rates import MIN_PLANTED, ProbeStanding, ReviewerRates
from scaffold.views.text_format import format_cost
from scaffold.worker.second_review.reviewer_probe import ProbeReply

NOTHING = "No second reviewer has judged anything yet. `scaffold review --probe` tries the configured one."


def rates_lines(rates: Sequence[ReviewerRates], layout: Layout) -> Iterator[str]:
    """Yield each reviewer's record: its verdicts, the agreement of humans, overturned verdicts, probes."""
    if not rates:
        yield from layout.prose("", NOTHING)
    for each in rates:
        yield from map(heading, layout.wrap("", each.model, hang=2))
        counts = f"{each.approvals} approved, {each.rejections} rejected"
        yield from layout.prose("  ", f"{count_of(each.verdicts, 'verdict')}: {counts}")
        yield from layout.prose("  ", f"humans agreed with {each.agreed} of {each.decided} that they decided, too")
        landed = each.stood + each.overturned_approvals
        overturned = f"{each.overturned_approvals} of {landed} approved changes that landed"
        yield from layout.prose("  ", f"overturned: {overturned}, {each.overturned_rejections} rejections")
        yield from _probe_lines(each.probe, layout)


def _probe_lines(probe: ProbeStanding, layout: Layout) -> Iterator[str]:
    if not probe.planted:
        tried = f"no usable verdict about {count_of(probe.unanswered, 'change')} of a probe"
        tried = tried if probe.unanswered else "never tried with planted faults"
        yield from layout.prose("  ", f"{tried}: `scaffold review --probe`")
        return
    mark = status_mark("warn") if probe.is_unreliable else " "
    known = "" if probe.planted >= MIN_PLANTED else f"; too few to judge it: that takes {MIN_PLANTED}"
    yield from layout.prose(f"{mark} ", f"{probe.text}, named the place of {probe.located}{known}", hang=2)
    if probe.unanswered:
        yield from layout.prose("  ", f"no usable verdict about {count_of(probe.unanswered, 'change')}")
    if probe.is_unreliable:
        yield from layout.prose("  ", "its approvals do not count: weak facts stay weak, and you are asked")


def rates_json(rates: Sequence[ReviewerRates]) -> dict[str, Any]:
    """Return what `review --rates --json` prints."""
    return {
        "reviewers": [
            {
                "model": each.model,
                "verdicts": each.verdicts,
                "approvals": each.approvals,
                "rejections": each.rejections,
                "human_decisions": each.decided,
                "human_agreed": each.agreed,
                "approvals_that_stand": each.stood,
                "overturned_approvals": each.overturned_approvals,
                "overturned_rejections": each.overturned_rejections,
                "probe": standing_json(each.probe),
            }
            for each in rates
        ]
    }


def standing_json(probe: ProbeStanding) -> dict[str, Any]:
    """Return a reviewer's result on planted faults."""
    return {
        "planted": probe.planted,
        "found": probe.found,
        "located": probe.located,
        "sound": probe.sound,
        "false_alarms": probe.false_alarms,
        "unanswered": probe.unanswered,
        "unreliable": probe.is_unreliable,
    }


def reply_lines(reply: ProbeReply, layout: Layout) -> Iterator[str]:
    """Yield a reviewer's answer about one change of a probe, and whether it is right."""
    fault, verdict = reply.case.fault, reply.answer.verdict
    what = f"{fault.kind.replace('_', ' ')} in {fault.path}:{fault.line}" if fault else "no fault"
    if not verdict:
        mark, how = "warn", "no usable verdict"
    elif fault:
        found = verdict == "reject"
        mark, how = ("done", "found") if found else ("failed", "missed")
        how += ", and its place" if reply.answer.located and found else ""
    else:
        mark, how = ("done", "approved") if verdict == "approve" else ("failed", "false alarm")
    said = f": {one_line(reply.said)}" if reply.said else ""
    yield from layout.prose(f"{status_mark(mark)} ", f"{reply.case.change.action.key}, {what}: {how}{said}", hang=4)


def probe_json(replies: Sequence[ProbeReply], probe: ProbeStanding, model: str, seed: int) -> dict[str, Any]:
    """Return what `review --probe --json` prints."""
    usage = sum((each.usage for each in replies), start=Usage())
    return {
        "model": model,
        "seed": seed,
        "cases": [
            {
                "action": each.case.change.action.key,
                "commit": each.case.change.commit,
                "fault": _fault_json(each),
                "verdict": each.answer.verdict or None,
                "located": each.answer.located,
                "said": each.said,
            }
            for each in replies
        ],
        "latest": standing_json(probe),
        "cost_usd": usage.cost_usd,
        "tokens": usage.tokens,
    }


def _fault_json(reply: ProbeReply) -> dict[str, Any] | None:
    fault = reply.case.fault
    return {"kind": fault.kind, "file": fault.path, "line": fault.line} if fault else None


def cost_text(replies: Sequence[ProbeReply]) -> str:
    """Return the cost of a probe."""
    usage = sum((each.usage for each in replies), start=Usage())
    return f"{count_of(usage.tokens, 'token')}, {format_cost(usage.cost_usd)}"
