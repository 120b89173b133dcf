"""The acceptance criteria of a story, judged by what its review cites of the work."""

from scaffold.core.ids import Commit
from scaffold.core.proof.contract import CheckResult, Citation, Verification
from scaffold.plan.story.criteria_review import judge_criteria, unmet_feedback
from scaffold.plan.story.prompt import JUDGING_STEPS, MAX_CRITERIA
from scaffold.verify.contract.review_verdict import citation_problem, line_counts
from scaffold.worker.attempt_records import AttemptRecords
from scaffold.worker.story.first_prompt import is_step_of_story

CRITERIA = "criteria"
"""The name of the result that says which criteria are not met."""


async def unmet_criteria(records: AttemptRecords, answer: str, commit: Commit) -> str:
    """Return the message about the criteria that a review does not show to be met at `commit`; empty if all are.

    Empty in steps that judge none, too.
    """
    task = records.task
    if task.parent is None or not is_step_of_story(task) or task.action.role not in JUDGING_STEPS:
        return ""
    criteria = task.parent.acceptance[:MAX_CRITERIA]
    cited: set[str] = set()

    def note(citation: Citation) -> bool:
        cited.add(citation.file)
        return True

    judge_criteria(answer, criteria, note)
    lines = await line_counts(records.run_context.git, commit, sorted(cited))
    return unmet_feedback(judge_criteria(answer, criteria, lambda each: citation_problem(each, lines) is None))


async def failed_criteria(records: AttemptRecords, answers: str, commit: Commit) -> Verification | None:
    """Return a failed verification of work whose final review does not show that all criteria are met; None if it does.

    What an earlier review of the story has cited counts, if it is still there.
    """
    task = records.task
    steps = records.store.actions.children(task.parent.id) if task.parent else ()
    earlier = [each.result or "" for each in steps if each.role in JUDGING_STEPS and each.id != task.action.id]
    unmet = await unmet_criteria(records, "\n".join([*earlier, answers]), commit)
    failed = CheckResult(name=CRITERIA, verdict="fail", detail=unmet)
    return Verification(commit=commit, results=(failed,)) if unmet else None
