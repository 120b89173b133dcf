"""The requirements of a specification with what the last audit says of each, as a section of the page."""

from scaffold.cli.render.html.components import TableRow, badge, section, table
from scaffold.cli.render.html.markup import Node, element
from scaffold.core.proof.specification_audit import AuditedRequirement, Requirement
from scaffold.views.compliance import CLAIM
from scaffold.views.run_view import RunView
from scaffold.views.text_format import clip

TEXT_CELLS = 300


def compliance_section(view: RunView) -> Node:
    """Return the section; None for a run whose specification is not audited."""
    compliance = view.compliance
    if compliance is None:
        return None
    rows = (_requirement_row(each, compliance.verdict(each.id)) for each in compliance.requirements)
    listed = table(("Requirement", "Line", "Verdict", "Cited", "Note"), rows, label="Requirements")
    return section("requirements", "Requirements", listed, note=f"{compliance.summary}. {CLAIM}")


def _requirement_row(requirement: Requirement, said: AuditedRequirement | None) -> TableRow:
    places = [element("code", f"{each.file}:{each.line}") for each in (said.citations if said else ())]
    return TableRow(
        (
            f"{requirement.id}: {clip(requirement.text, TEXT_CELLS)}",
            f"{requirement.line}",
            badge(said.verdict if said else "pending"),
            element("div", *(node for each in places for node in (each, " "))),
            clip(said.note, TEXT_CELLS) if said else "",
        )
    )
