"""Steps towards what a compound lands: the agent works in the shared worktree, and may change nothing."""

import msgspec
from msgspec import Struct, structs

from scaffold.agent.agent_spec import TurnResult
from scaffold.core.proof.contract import Verification
from scaffold.plan.story.summary import ASK_FOR_SUMMARY, find_summary
from scaffold.run.attempts.assignment import Assignment
from scaffold.run.failures.attempt_end import AttemptEnd
from scaffold.run.failures.refused_work import NAMED_REMEDIES, summarize_failures
from scaffold.worker.agent.capabilities import AgentCapabilities
from scaffold.worker.agent.continued_turn import KeptWork, take_up_turn
from scaffold.worker.agent.native_executor import watched_agent
from scaffold.worker.agent.prompt_learnings import with_learnings, with_learnings_of_failure
from scaffold.worker.agent.watchdog import NoProgress, WatchedAgent
from scaffold.worker.attempt_records import AttemptRecords, CandidateReady
from scaffold.worker.story.criteria import CRITERIA, unmet_criteria
from scaffold.worker.story.edits import collect_edits
from scaffold.worker.story.first_prompt import first_prompt, is_step_of_story
from scaffold.worker.story.lint_step import lint_answer, lint_before_agent, lint_failure
from scaffold.worker.story.rebase_step import PreparedMerge, merge_note, prepare_merge, with_second_parent
from scaffold.worker.task_prompts import failure_prompt
from scaffold.worker.workspace.shared_folder import merge_shared_folder
from scaffold.worker.workspace.work_commit import WorkCommit, commit_work, hand_in, step_ended
from scaffold.worker.workspace.workplace import Workplace


class _StepProgress(Struct, frozen=True):
    """How far the step has come when a turn of its agent begins."""

    iteration: int = 1
    said: str = ""
    """What it said before it was asked for a summary."""
    asked: bool = False
    """Whether it was told of criteria that it had not met."""
    merge: PreparedMerge | None = None
    """The merge that it resolves, if it does."""


async def run_step(
    place: Workplace, capabilities: AgentCapabilities, records: AttemptRecords
) -> CandidateReady | AttemptEnd:
    """Run the step's agent and hand in what it left; the work is checked when all of it is to land."""
    kept = await take_up_turn(place, records)
    agent, continued = watched_agent(place, capabilities, records, kept), kept.turn
    records.enter("executing")
    linted = None if continued else await lint_before_agent(place)
    if linted is not None and linted.passed:
        records.answered(lint_answer(linted), iteration=1)
        records.enter("verifying")
        return await hand_in(place.workspace, records, linted)
    at = msgspec.json.decode(kept.progress, type=_StepProgress) if kept.progress else _StepProgress()
    if not continued:
        at = structs.replace(at, merge=await prepare_merge(place))
    prompt = continued or "\n\n".join(
        [
            with_learnings(records, await first_prompt(place, records, failure=lint_failure(linted))),
            *([merge_note(at.merge)] if at.merge else []),
        ]
    )
    unusable, most = Verification(commit=place.workspace.start, results=()), records.task.run.settings.tier.iterations
    for iteration in range(at.iteration, most + 1):
        kept.note_next(at)
        finish = await agent.turn(prompt)
        said = await _with_summary(records.task, agent, kept, at, finish)
        if isinstance(said, NoProgress):
            return AttemptEnd(said.outcome, said.cause)
        edits = await collect_edits(place.shared, capabilities.asked_edits, records)
        records.answered(said, iteration=iteration, edits=edits)
        if place.shared is not None:  # the next step begins as soon as this one is handed in
            await merge_shared_folder(records.run_context, records.task, place.shared)
        records.enter("verifying")
        work = await commit_work(place, records)
        if at.merge is not None and isinstance(work, WorkCommit):
            work = await with_second_parent(place, at.merge, work)
        if isinstance(work, Verification):
            unusable, prompt = work, with_learnings_of_failure(records, failure_prompt(work), work)
            records.enter("executing", verification=work)
            at = structs.replace(at, iteration=iteration + 1, said="")
            continue
        # Asked once: what is not met after that, the final review finds again.
        unmet = "" if edits or at.asked else await unmet_criteria(records, said, work.head)
        if not unmet or iteration == most:
            return await hand_in(place.workspace, records, step_ended(work.head, "its agent ended its turn"))
        at = structs.replace(at, iteration=iteration + 1, said="", asked=True)
        prompt = f"{unmet}\n{NAMED_REMEDIES[CRITERIA]}"
        records.enter("executing")
    return AttemptEnd("executor_failed", summarize_failures(unusable))


async def _with_summary(
    task: Assignment, agent: WatchedAgent, kept: KeptWork, at: _StepProgress, finish: TurnResult | NoProgress
) -> str | NoProgress:
    if isinstance(finish, NoProgress):
        return finish
    text = f"{at.said}\n\n{finish.text}".strip() if at.said else finish.text
    # Later steps read the summary, so an answer without one is worth one more request.
    if at.said or not is_step_of_story(task) or find_summary(text) is not None:
        return text
    asked = structs.replace(at, said=text)
    kept.note_next(asked)
    return await _with_summary(task, agent, kept, asked, await agent.turn(ASK_FOR_SUMMARY))
