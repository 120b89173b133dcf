"""The acceptance criteria of a story, judged by what its review cites of the work."""

from msgspec import structs

from scaffold.core.ids import Commit
from scaffold.core.printable_text import count_of, join_limited
from scaffold.core.proof.contract import CheckResult, Citation, Doubt, Verification
from scaffold.plan.story.criteria_review import CriterionVerdict, judge_criteria, unmet_feedback
from scaffold.plan.story.prompt import JUDGING_STEPS, MAX_CRITERIA
from scaffold.verify.contract.review_verdict import citation_problem, line_counts
from scaffold.worker.attempt_records import AttemptRecords
from scaffold.worker.story.first_prompt import is_step_of_story

CRITERIA = "criteria"
"""The name of the result that says which criteria are not met."""
MAX_NAMES = 3


async def unmet_criteria(records: AttemptRecords, answer: str, commit: Commit) -> str:
    """Return the message about the criteria that a review does not show to be met at `commit`; empty if all are.

    Empty in steps that judge none, too.
    """
    return unmet_feedback(await _criterion_verdicts(records, answer, commit))


async def denied_criteria(records: AttemptRecords, answer: str, commit: Commit) -> Verification | None:
    """Return a failed verification of work whose final review says that a criterion is unmet; None if it does not."""
    denied = unmet_feedback([each for each in await _criterion_verdicts(records, answer, commit) if each.denied])
    failed = CheckResult(name=CRITERIA, verdict="fail", detail=denied)
    return Verification(commit=commit, results=(failed,)) if denied else None


async def with_uncited_criteria(records: AttemptRecords, answer: str, found: Verification) -> Verification:
    """Return a verification with a doubt about the criteria for which a final review cites no line that exists."""
    unmet = [each for each in await _criterion_verdicts(records, answer, found.commit) if not each.met]
    if not unmet:
        return found
    named = join_limited([f"{each.number} ({each.problem})" for each in unmet], MAX_NAMES)
    text = f"{count_of(len(unmet), 'acceptance criterion', 'acceptance criteria')} not shown to be met: {named}"
    return structs.replace(found, doubts=(*found.doubts, Doubt("criteria_not_cited", text)))


async def _criterion_verdicts(records: AttemptRecords, answer: str, commit: Commit) -> tuple[CriterionVerdict, ...]:
    task = records.task
    if task.parent is None or not is_step_of_story(task) or task.action.role not in JUDGING_STEPS:
        return ()
    criteria = task.parent.acceptance[:MAX_CRITERIA]
    cited: set[str] = set()

    def note(citation: Citation) -> bool:
        cited.add(citation.file)
        return True

    judge_criteria(answer, criteria, note)
    lines = await line_counts(records.run_context.git, commit, sorted(cited))
    return judge_criteria(answer, criteria, lambda each: citation_problem(each, lines) is None)
