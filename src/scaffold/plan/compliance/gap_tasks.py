"""The tasks for the gaps that an audit left. Apart from `rounds`, which `status` loads: this needs YAML's parser."""

from collections.abc import Iterator, Mapping, Sequence

from scaffold.core.ids import ActionKey
from scaffold.core.proof.specification_audit import AuditedRequirement, AuditRound, Requirement, RequirementId
from scaffold.plan.compliance.rounds import gaps_name
from scaffold.plan.source.dag import TaskSpec

TITLE_CHARS = 100


def gap_tasks(
    audit: AuditRound, requirements: Sequence[Requirement], gaps: Sequence[RequirementId]
) -> tuple[TaskSpec, ...]:
    """Return a task for each gap that an audit left, with what the audit says of it."""
    said: Mapping[RequirementId, AuditedRequirement] = {each.id: each for each in audit.verdicts}
    return tuple(
        TaskSpec(
            key=ActionKey(f"{gaps_name(audit.number)}/{each.id}"),
            # The whole text is in the task; a title is one line of a list.
            title=each.text if len(each.text) <= TITLE_CHARS else f"{each.text[: TITLE_CHARS - 1]}…",
            description="\n".join(_gap_lines(audit, each, said.get(each.id))),
            acceptance=(each.text,),
        )
        for each in requirements
        if each.id in gaps
    )


def _gap_lines(audit: AuditRound, requirement: Requirement, said: AuditedRequirement | None) -> Iterator[str]:
    yield f"Line {requirement.line} of the specification requires ({requirement.id}):"
    yield f"> {requirement.text}"
    yield ""
    verdict = said.verdict if said else "unclear"
    at = f" of {audit.commit[:8]}" if audit.commit else ""
    yield f"An audit{at} found it {verdict}: {said.note if said and said.note else 'it gave no reason'}"
    yield from (f"- {each.file}:{each.line} {each.note}".rstrip() for each in (said.citations if said else ()))
    yield ""
    # Auditors make mistakes: a task must be able to end without a change.
    yield (
        "Find out what is missing and add it, with tests that show it. The audit may be wrong: if the requirement is "
        "met already, change nothing, and say where it is met."
    )
