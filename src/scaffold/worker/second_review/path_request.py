"""Ask the second reviewer whether an action may change further files that help to decide whether work is right."""

from collections.abc import Sequence

from scaffold.core.proof.citation import Review
from scaffold.run.learning.reviewer_standing import reviewer_standing
from scaffold.worker.agent.capabilities import AgentCapabilities
from scaffold.worker.attempt_records import AttemptRecords
from scaffold.worker.human.declaration_review import (
    DeclarationAnswer,
    DeclarationQuestion,
    DeclarationReviewer,
    no_reviewer,
)
from scaffold.worker.second_review.review_agent import ReviewQuestion, YesNoReviewer, second_reviewer
from scaffold.worker.second_review.reviewer_prompts import paths_prompt
from scaffold.worker.workspace.workplace import Workplace


def declaration_reviewer(
    place: Workplace, capabilities: AgentCapabilities, records: AttemptRecords
) -> DeclarationReviewer:
    """Return what decides requests for files that judge the work: the run's second reviewer, or `no_reviewer`."""
    reviewer = second_reviewer(place, capabilities, records)
    # A human is asked in place of one that misses too much.
    if reviewer is None or reviewer_standing(reviewer.model_name, records.run_context.clock).is_unreliable:
        return no_reviewer

    async def decide(question: DeclarationQuestion) -> DeclarationAnswer | None:
        review = await judge_path_request(place, reviewer, question.entries, question.reason)
        return None if review is None else DeclarationAnswer(review.verdict == "approve", review.summary)

    return decide


async def judge_path_request(
    place: Workplace, reviewer: YesNoReviewer, paths: Sequence[str], why: str
) -> Review | None:
    """Return the verdict about an agent's request to change `paths`, for its reason; None without a usable one.

    The agent may still be at work: the reviewer reads the worktree as it is now, and cites the base, where lines of any
    file count, since a path that is asked for need not exist yet. The model must not be in use by another request.
    """
    prompt = paths_prompt(place.task.action, paths, why)
    return await reviewer.ask(ReviewQuestion(event="files", prompt=prompt, work=place.workspace.base))
