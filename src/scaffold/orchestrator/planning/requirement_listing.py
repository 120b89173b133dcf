"""The planner lists the requirements of a specification that has none in a form that is recognized."""

from collections.abc import Iterator, Mapping
from typing import Any

from scaffold.core.plan import Finding
from scaffold.core.proof.specification_audit import Requirement
from scaffold.core.tool import Tool
from scaffold.orchestrator.planning.tool_responses import STRING_LIST_SCHEMA, Args, json_tool, truncate_names
from scaffold.plan.compliance.requirements import quoted_requirements
from scaffold.plan.compliance.rounds import is_reserved
from scaffold.plan.edit.draft import ChangeRejected, PlanDraft
from scaffold.tools.arguments import object_schema

TOOL = "spec_requirements"


class RequirementListing:
    """The requirements that a planner quotes from the specification; the last list counts."""

    def __init__(self, specification: str) -> None:
        self._specification = specification
        self.requirements: tuple[Requirement, ...] = ()

    def tool(self) -> Tool:
        """Return `spec_requirements`."""

        async def answer(args: Args) -> Mapping[str, Any]:
            found = quoted_requirements(self._specification, args["quotes"])
            if isinstance(found, str):
                raise ChangeRejected(found, "Call it again with the whole list.")
            self.requirements = found
            return {"requirements": truncate_names([each.criterion for each in found])}

        return json_tool(
            TOOL,
            "List the requirements of the specification: each is a quotation from one of its lines, word for word. "
            "Another call replaces the list.",
            object_schema({"quotes": STRING_LIST_SCHEMA}),
            answer,
        )

    def faults(self) -> tuple[Finding, ...]:
        """Return an error as long as no requirement is listed."""
        if self.requirements:
            return ()
        message = "the requirements of the specification are not listed"
        fix = f"Call {TOOL} with quotations of its lines."
        return (Finding(code="no-requirements", severity="error", message=message, fix=fix),)


def reserved_names(draft: PlanDraft) -> Iterator[Finding]:
    """Yield an error for each goal and action with a name that audits and their tasks take."""
    goals = [(goal.name, None) for goal in draft.plan.goals]
    for name, action in (*goals, *((action.key, action.key) for action in draft.plan.actions)):
        if is_reserved(name):
            yield Finding(
                code="reserved-name",
                severity="error",
                action=action,
                message=f"the name `{name}` is kept for audits and their tasks",
                fix="Use names that do not begin with audit- or gaps- and a number.",
            )
