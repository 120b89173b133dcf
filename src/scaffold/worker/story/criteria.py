"""The acceptance criteria of a story, judged by what its review cites of the work."""

from scaffold.core.contract import CheckResult, Verification
from scaffold.core.ids import Commit
from scaffold.core.review import Citation
from scaffold.plan.story.criteria_review import judge_criteria, unmet_feedback
from scaffold.plan.story.prompt import JUDGING_STEPS, MAX_CRITERIA
from scaffold.verify.contract.review import citation_problem, line_counts
from scaffold.worker.attempt_context import AttemptContext
from scaffold.worker.story.prompt import is_step_of_story

CRITERIA = "criteria"
"""The name of the result that says which criteria are not met."""


async def unmet_criteria(context: AttemptContext, answer: str, commit: Commit) -> str:
    """Return the message about the criteria that a review does not show to be met at `commit`; empty if all are.

    Empty in steps that judge none, too.
    """
    task = context.task
    if task.parent is None or not is_step_of_story(task) or task.action.role not in JUDGING_STEPS:
        return ""
    criteria = task.parent.acceptance[:MAX_CRITERIA]
    cited: set[str] = set()

    def note(citation: Citation) -> bool:
        cited.add(citation.file)
        return True

    judge_criteria(answer, criteria, note)
    lines = await line_counts(context.run_context.git, commit, sorted(cited))
    return unmet_feedback(judge_criteria(answer, criteria, lambda each: citation_problem(each, lines) is None))


async def unmet_at_the_end(context: AttemptContext, answer: str, commit: Commit) -> Verification | None:
    """Return a failed verification of work whose final review does not show all criteria to be met; None if it does."""
    unmet = await unmet_criteria(context, answer, commit)
    failed = CheckResult(name=CRITERIA, verdict="fail", detail=unmet)
    return Verification(commit=commit, results=(failed,)) if unmet else None
