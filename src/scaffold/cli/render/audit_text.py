"""The requirements of a specification with the verdicts of the last audit, as text."""

from collections.abc import Iterator, Mapping, Sequence

from scaffold.cli.render.terminal.style import heading, status_mark
from scaffold.cli.render.terminal.text_layout import Layout
from scaffold.core.printable_text import join_limited
from scaffold.core.proof.specification_audit import AuditedRequirement, Requirement
from scaffold.views.compliance import CLAIM, Compliance

MARKS: Mapping[str, str] = {"met": "completed", "unmet": "failed", "unclear": "blocked", "-": "pending"}
"""The status with the same mark as a verdict; `-` stands for no verdict yet."""
MAX_OPEN = 10
"""Unmet requirements shown with the state of a run."""
MAX_CITATIONS = 3


def compliance_section(compliance: Compliance, layout: Layout) -> str:
    """Return the number of requirements that are met, and the first unmet ones."""
    left = [each for each in compliance.requirements if _verdict_word(compliance.verdict(each.id)) != "met"]
    lines = [heading("Requirements"), *layout.prose("  ", f"{compliance.summary}{_under_way(compliance)}. {CLAIM}")]
    if compliance.last is not None:
        for each in left[:MAX_OPEN]:
            lines += _requirement_lines(each, compliance.verdict(each.id), layout)
    if left or compliance.last is not None:
        more = f"and {len(left) - MAX_OPEN} more: " if len(left) > MAX_OPEN and compliance.last else ""
        lines.append(f"  {more}`scaffold audit` shows each of them")
    return "\n".join(lines)


def audit_text(compliance: Compliance, layout: Layout) -> str:
    """Return all requirements with the verdicts of the last audit, and the number met in each audit."""
    lines = layout.prose("", f"{compliance.summary}{_under_way(compliance)}")
    for each in compliance.requirements:
        lines += _requirement_lines(each, compliance.verdict(each.id), layout)
    rounds = ", ".join(
        f"{each.number}: {len(each.met)} met{f' at {each.commit[:8]}' if each.commit else ''}"
        for each in compliance.audits
    )
    lines += ["", *layout.prose("", f"By audit: {rounds}")] if rounds else []
    lines += ["", *layout.prose("", CLAIM)]
    return "\n".join(lines)


def _under_way(compliance: Compliance) -> str:
    return f"; audit {compliance.auditing} is being made" if compliance.auditing else ""


def _verdict_word(said: AuditedRequirement | None) -> str:
    return said.verdict if said else "-"


def _requirement_lines(requirement: Requirement, said: AuditedRequirement | None, layout: Layout) -> Iterator[str]:
    word = _verdict_word(said)
    mark = f"  {status_mark(MARKS[word])} "
    yield from layout.prose(mark, f"{requirement.id} {word}: {requirement.text} (line {requirement.line})", hang=6)
    places: Sequence[str] = [f"{each.file}:{each.line}" for each in said.citations] if said else []
    parts = [join_limited(places, MAX_CITATIONS), said.note if said else ""]
    if shown := "; ".join(part for part in parts if part):
        yield from layout.prose("      ", shown, hang=6)
