"""Parse the verdicts of reviewers and auditors, and check that the lines they cite exist."""

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

import msgspec
from msgspec.structs import replace

from scaffold.core.ids import Commit
from scaffold.core.model import Action
from scaffold.core.plan import WorkKind, is_review_role
from scaffold.core.printable_text import count_of, utf8_safe
from scaffold.core.proof.contract import CheckResult, Citation, Review, Verification
from scaffold.core.proof.specification_audit import Audit, RequirementId
from scaffold.git.client.command_line import Git
from scaffold.plan.compliance import verdicts
from scaffold.plan.compliance.verdicts import AUDIT, JudgedAudit, judge_audit
from scaffold.policy.secret.redaction import Redactor

AUDIT_FORMAT = (
    '{"requirements": [{"id": "R1", "verdict": "met" or "unmet" or "unclear", '
    '"citations": [{"file": PATH, "line": NUMBER, "note": TEXT}], "note": TEXT}], "summary": TEXT}'
)
REVIEW = "review"
"""The name of the result in a verification that holds a review."""
MAX_CITATIONS = 100
MAX_PATH_CHARS = 4_096
FILES_AT_ONCE = 100
"""The most files whose names fit into one command."""
CODE_FENCE = "```"
VERDICT_FORMAT = (
    '{"verdict": "approve" or "reject", "citations": [{"file": PATH, "line": NUMBER, "note": TEXT}], "summary": TEXT}'
)
_COUNTED = re.compile(rb"([^\0]+)\0(\d+)\n")


def is_audit(action: Action) -> bool:
    """Return whether attempts at the action give a verdict on each of some requirements."""
    return action.method == "audit"


def is_review(action: Action) -> bool:
    """Return whether attempts at the action only read and give a verdict, unlike a step in its parent's worktree."""
    return action.workspace == "own" and (is_audit(action) or is_review_role(action.role))


def work_kind(action: Action, parent: Action | None) -> WorkKind:
    """Return the kind of work that an attempt at the action hands in; `parent` is its compound.

    In its parent's worktree, only the action that gives the parent one of its effects lands the work of all.
    """
    if action.workspace == "parent" and parent is not None:
        return "step" if set(parent.effects).isdisjoint(action.effects) else "change"
    return "review" if is_review(action) else "change"


def parse_review(text: str) -> Review | str:
    """Return the verdict at the end of a reviewer's message, or a message that tells the reviewer what is wrong.

    The JSON block must be the last thing in the text: an earlier block may be a quotation.
    """
    block = last_block(text)
    if block is None:
        return f"Your message does not end with a fenced JSON block: {VERDICT_FORMAT}."
    try:
        review = msgspec.json.decode(block.encode(), type=Review)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
        return (
            f"The JSON block at the end of your message is not a valid verdict ({error}). It must be: {VERDICT_FORMAT}."
        )
    return _review_problem(review) or msgspec.structs.replace(
        review, citations=tuple(map(tidy_citation, review.citations))
    )


def review_text(review: Review) -> str:
    """Return the review as readable text: its summary, then a line per citation."""
    lines = [review.summary.strip()]
    for citation in review.citations:
        note = f": {citation.note.strip()}" if citation.note.strip() else ""
        lines.append(utf8_safe(f"- {_format_position(citation)}{note}"))
    return "\n".join(lines).strip()


async def unresolved_citations(
    review: Review, git: Git, commit: Commit, *, base: Commit | None = None
) -> tuple[str, ...]:
    """Return a message for each citation whose file or line does not exist in `commit`, in order.

    Lines from before the change are looked up in `base`, which is None if no change is reviewed.
    """
    now = await line_counts(git, commit, _cited_files(review.citations, before=False))
    then = await line_counts(git, base, _cited_files(review.citations, before=True)) if base else {}
    problems = ((each, citation_problem(each, then if each.before else now)) for each in review.citations)
    return tuple(f"{_format_position(each)}: {problem}." for each, problem in problems if problem is not None)


def approval_verification(
    review: Review, commit: Commit, redactor: Redactor, checks: Sequence[CheckResult] = ()
) -> Verification:
    """Return a verification of the reviewed commit from an approval and the `checks` of the action's contract."""
    encoded = msgspec.json.encode(redactor.clean_all(msgspec.to_builtins(review))).decode()
    return Verification(commit=commit, results=(*checks, CheckResult(name=REVIEW, verdict="pass", detail=encoded)))


def review_in(result: CheckResult) -> Review:
    """Return the review in a result named `REVIEW`, or raise msgspec.DecodeError."""
    return msgspec.json.decode(result.detail.encode(), type=Review)


def reviews(verification: Verification) -> tuple[Review, ...]:
    """Return all reviews in a verification."""
    return tuple(review_in(result) for result in verification.results if result.name == REVIEW)


def last_block(text: str) -> str | None:
    """Return the content of the fenced block that `text` ends with; None if it does not end with one."""
    lines = text.rstrip().split("\n")
    if lines[-1].strip() != CODE_FENCE:
        return None
    begin = next((at for at in range(len(lines) - 2, -1, -1) if lines[at].strip().startswith(CODE_FENCE)), None)
    if begin is None or lines[begin].strip().removeprefix(CODE_FENCE).strip().casefold() not in {"", "json"}:
        return None
    return "\n".join(lines[begin + 1 : -1])


def tidy_citation(citation: Citation) -> Citation:
    """Return the citation with its path as git writes it: `./a//b` is `a/b`."""
    return msgspec.structs.replace(citation, file=str(PurePosixPath(citation.file)))


def _review_problem(review: Review) -> str | None:
    if not review.summary.strip():
        return "`summary` is empty: give the reason in one or two sentences."
    if review.verdict == "approve" and not review.citations:
        return "An approval must cite at least one file and line that shows the requested change."
    if len(review.citations) > MAX_CITATIONS:
        return f"There are {len(review.citations)} citations; give only the {MAX_CITATIONS} most important ones."
    return None


def _format_position(citation: Citation) -> str:
    return f"{citation.file}:{citation.line}{' (before the change)' if citation.before else ''}"


def _cited_files(citations: Sequence[Citation], *, before: bool) -> list[str]:
    return sorted({each.file for each in citations if each.before == before})


def citation_problem(citation: Citation, lines: Mapping[str, int]) -> str | None:
    """Return the reason why the cited line does not exist, given {file: number of lines}, or None if it does."""
    if citation.file not in lines:
        return "the file is empty or not in the commit; paths are relative to the root of the worktree"
    if citation.line > lines[citation.file]:
        return f"the file has {count_of(lines[citation.file], 'line')}"
    return None


def _is_valid_path(file: str) -> bool:
    path = PurePosixPath(file)
    invalid = "\0" in file or file != utf8_safe(file) or len(file) > MAX_PATH_CHARS
    return bool(path.parts) and not (invalid or path.is_absolute() or ".." in path.parts)


async def line_counts(git: Git, commit: Commit, files: Sequence[str]) -> Mapping[str, int]:
    """Return the number of lines of each of `files` in `commit`; missing, empty and impossible ones are left out."""
    paths = [f":(literal,top){file}" for file in files if _is_valid_path(file)]
    # One process counts the lines of many files: the empty pattern matches each line.
    options = ("--count", "--text", "--null", "--full-name", "--no-recurse-submodules", "-e", "")
    found: dict[str, int] = {}
    for first in range(0, len(paths), FILES_AT_ONCE):
        some = paths[first : first + FILES_AT_ONCE]
        result = await git("grep", *options, commit, "--", *some, ok=frozenset({0, 1}))
        counted = _COUNTED.findall(result.out)
        found |= {os.fsdecode(name).removeprefix(f"{commit}:"): int(count) for name, count in counted}
    return found


def parse_audit(text: str) -> Audit | str:
    """Return the verdicts at the end of an auditor's message, or a message that tells the auditor what is wrong."""
    block = last_block(text)
    if block is None:
        return f"Your message does not end with a fenced JSON block: {AUDIT_FORMAT}."
    try:
        audit = msgspec.json.decode(block.encode(), type=Audit)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
        return f"The JSON block at the end of your message is not an audit ({error}). It must be: {AUDIT_FORMAT}."
    tidy = [tuple(map(tidy_citation, each.citations[: verdicts.MAX_CITATIONS])) for each in audit.requirements]
    pairs = zip(audit.requirements, tidy, strict=True)
    return replace(audit, requirements=tuple(replace(each, citations=citations) for each, citations in pairs))


async def judged_at(
    answer: Audit, asked: Sequence[RequirementId], git: Git, commit: Commit, *, specification: str
) -> JudgedAudit:
    """Judge the verdicts on the requirements `asked` by the lines of the commit that they cite.

    A line of the `specification` itself proves nothing.
    """
    cited = {citation.file for said in answer.requirements if said.id in asked for citation in said.citations}
    lines = await line_counts(git, commit, sorted(cited))
    same = frozenset[str]()
    if lines:
        text = specification.encode("utf-8", "surrogateescape")
        blob = (await git("hash-object", "--no-filters", "--stdin", stdin=text)).line
        listed = await git("ls-tree", "-z", "-r", "--full-tree", commit)
        entries = (entry.partition("\t") for entry in listed.records)
        same = frozenset(path for meta, _, path in entries if path in lines and meta.split()[-1] == blob)

    def problem(citation: Citation) -> str | None:
        place = f"`{citation.file}:{citation.line}`"
        if citation.file in same:
            return f"{place} is a line of the specification itself"
        wrong = citation_problem(citation, lines)
        return None if wrong is None else f"{place} cannot be looked up: {wrong}"

    return judge_audit(answer, asked, problem)


def audit_verification(audit: Audit, commit: Commit, redactor: Redactor) -> Verification:
    """Return a verification that the commit was audited, not that it meets the requirements."""
    encoded = msgspec.json.encode(redactor.clean_all(msgspec.to_builtins(audit))).decode()
    return Verification(commit=commit, results=(CheckResult(name=AUDIT, verdict="pass", detail=encoded),))


def audit_text(audit: Audit) -> str:
    """Return an audit as text: one line, then its summary."""
    met = sum(each.verdict == "met" for each in audit.requirements)
    line = f"an agent's claim: {met} of {count_of(len(audit.requirements), 'requirement')} met, by lines that exist"
    return "\n".join(part for part in (line, audit.summary) if part)


def asked_in(criteria: Sequence[str]) -> tuple[RequirementId, ...]:
    """Return the ids of the requirements that are the acceptance criteria of an audit; see `Requirement.criterion`."""
    return tuple(RequirementId(each.partition(":")[0]) for each in criteria)
