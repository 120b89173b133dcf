"""Parse an auditor's verdicts, and judge them by the lines that they cite."""

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from scaffold.core.ids import Commit
from scaffold.core.printable_text import count_of
from scaffold.core.proof.citation import Citation
from scaffold.core.proof.contract import CheckResult, Verification
from scaffold.core.proof.specification_audit import Audit, AuditedRequirement, RequirementId
from scaffold.git.client.command_line import Git
from scaffold.plan.compliance.verdicts import AUDIT, MAX_CITATIONS, JudgedAudit, judge_audit
from scaffold.policy.secret.redaction import Redactor
from scaffold.verify.contract.review_verdict import citation_problem, last_block, line_counts, tidy_citation

AUDIT_FORMAT = (
    '{"requirements": [{"id": "R1", "verdict": "met" or "unmet" or "unclear", '
    '"citations": [{"file": PATH, "line": NUMBER, "note": TEXT}], "note": TEXT}], "summary": TEXT}'
)


def parse_audit(text: str) -> Audit | str:
    """Return the verdicts at the end of an auditor's message, or a message to it that says what is wrong."""
    block = last_block(text)
    if block is None:
        return f"Your message does not end with a fenced JSON block: {AUDIT_FORMAT}."
    try:
        audit = msgspec.json.decode(block.encode(), type=Audit)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
        return f"The JSON block at the end of your message is not an audit ({error}). It must be: {AUDIT_FORMAT}."
    return replace(audit, requirements=tuple(map(_tidy_requirement, audit.requirements)))


def _tidy_requirement(said: AuditedRequirement) -> AuditedRequirement:
    return replace(said, citations=tuple(map(tidy_citation, said.citations[:MAX_CITATIONS])))


async def judged_at(
    answer: Audit, asked: Sequence[RequirementId], git: Git, commit: Commit, *, specification: str
) -> JudgedAudit:
    """Return what counts of the verdicts on the requirements `asked`, by the lines that they cite of a commit.

    A file that is the `specification` itself shows nothing.
    """
    cited = {citation.file for said in answer.requirements if said.id in asked for citation in said.citations}
    lines = await line_counts(git, commit, sorted(cited))
    same = await _files_with(git, commit, specification, sorted(lines))

    def problem(citation: Citation) -> str | None:
        place = f"`{citation.file}:{citation.line}`"
        if citation.file in same:
            return f"{place} is a line of the specification itself"
        wrong = citation_problem(citation, lines)
        return None if wrong is None else f"{place} cannot be looked up: {wrong}"

    return judge_audit(answer, asked, problem)


async def _files_with(git: Git, commit: Commit, text: str, files: Sequence[str]) -> frozenset[str]:
    """Return which of the files have exactly this text in the commit."""
    if not files:
        return frozenset()
    blob = (await git("hash-object", "--no-filters", "--stdin", stdin=text.encode("utf-8", "surrogateescape"))).line
    listed = await git("ls-tree", "-z", "-r", "--full-tree", commit)
    entries = (entry.partition("\t") for entry in listed.records)
    return frozenset(path for meta, _, path in entries if path in files and meta.split()[-1] == blob)


def audit_verification(audit: Audit, commit: Commit, redactor: Redactor) -> Verification:
    """Return a verification of the audited commit: that there is an audit, not that the requirements are met."""
    encoded = msgspec.json.encode(redactor.clean_all(msgspec.to_builtins(audit))).decode()
    return Verification(commit=commit, results=(CheckResult(name=AUDIT, verdict="pass", detail=encoded),))


def audit_text(audit: Audit) -> str:
    """Return an audit in one line, and its summary below."""
    met = sum(each.verdict == "met" for each in audit.requirements)
    line = f"an agent's claim: {met} of {count_of(len(audit.requirements), 'requirement')} met, by lines that exist"
    return "\n".join(part for part in (line, audit.summary) if part)


def asked_in(criteria: Sequence[str]) -> tuple[RequirementId, ...]:
    """Return the ids of the requirements that are the acceptance criteria of an audit; see `Requirement.criterion`."""
    return tuple(RequirementId(each.partition(":")[0]) for each in criteria)
