"""Verdicts of an auditor's answer: `met` counts only with lines that exist."""

from collections.abc import Callable, Sequence

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from scaffold.core.printable_text import truncate_text
from scaffold.core.proof.contract import CheckResult, Citation, Verification
from scaffold.core.proof.specification_audit import Audit, AuditedRequirement, RequirementId

AUDIT = "audit"
"""The name of the result in a verification that holds an audit."""
MAX_CITATIONS = 20
"""Of one requirement; the rest is left out."""
MAX_NOTE_CHARS = 2_000
CitationProblem = Callable[[Citation], str | None]
"""Returns why a cited line shows nothing, e.g. because it does not exist; None if it can be looked up."""


class JudgedAudit(Struct, frozen=True, kw_only=True):
    """An auditor's answer as it counts."""

    audit: Audit
    """Exactly one verdict on each requirement that was asked about, in that order."""
    complaints: tuple[str, ...]
    """What the auditor should correct; `audit` does not depend on it."""


def judge_audit(answer: Audit, asked: Sequence[RequirementId], problem: CitationProblem) -> JudgedAudit:
    """Return the verdicts that count in an answer about the requirements `asked`.

    A requirement is met only if the answer says so once, cites lines for it, and each of them can be looked up.
    Otherwise it is unclear, unless the answer says that it is unmet.
    """
    judged = [
        _judge_requirement(each, [said for said in answer.requirements if said.id == each], problem) for each in asked
    ]
    audit = Audit(requirements=tuple(verdict for verdict, _ in judged), summary=answer.summary.strip())
    unknown = sorted({said.id for said in answer.requirements}.difference(asked))
    complaints = [f"{verdict.id}: {complaint}" for verdict, complaint in judged if complaint]
    complaints += [f"{each}: you were not asked about it" for each in unknown]
    return JudgedAudit(audit=audit, complaints=tuple(complaints))


def _judge_requirement(
    asked: RequirementId, said: Sequence[AuditedRequirement], problem: CitationProblem
) -> tuple[AuditedRequirement, str]:
    """Return the verdict that counts, and what is wrong with the one that was given; empty if it counts."""
    if not said:
        return _unclear_verdict(asked, "the audit has no verdict on it")
    # Which of the two is true cannot be told.
    if len({each.verdict for each in said}) > 1:
        return _unclear_verdict(asked, "the audit contradicts itself")
    # Repeated citations count once, so that padding does not push others over the limit.
    cited = tuple(dict.fromkeys(citation for each in said for citation in each.citations))[:MAX_CITATIONS]
    wrong = [why for why in map(problem, cited) if why is not None]
    verdict = replace(
        said[0],
        citations=tuple(each for each in cited if problem(each) is None),
        note=truncate_text(said[0].note.strip(), MAX_NOTE_CHARS),
    )
    # That something is missing needs no line: there may be none to cite.
    if verdict.verdict != "met":
        return verdict, ""
    if not cited:
        return _unclear_verdict(asked, "it is said to be met, but no line is cited")
    if wrong:
        return _unclear_verdict(asked, f"it is said to be met, but {wrong[0]}")
    return verdict, ""


def _unclear_verdict(asked: RequirementId, why: str) -> tuple[AuditedRequirement, str]:
    return AuditedRequirement(id=asked, verdict="unclear", note=why), why


def audit_in(verification: Verification | None) -> Audit | None:
    """Return the audit in a verification; None if there is none."""
    results = verification.results if verification else ()
    return next((audit_of(result) for result in results if result.name == AUDIT), None)


def audit_of(result: CheckResult) -> Audit:
    """Return the audit in a result named `AUDIT`; msgspec.DecodeError if there is none."""
    return msgspec.json.decode(result.detail.encode(), type=Audit)
