"""Steps towards what a compound lands: the agent works in the shared worktree, and may change nothing."""

from scaffold.core.contract import CheckResult, Verification
from scaffold.core.ports import Model
from scaffold.run.attempt_end import AttemptEnd
from scaffold.run.failure_summary import summarize_failures
from scaffold.verify.contract.checks import STEP_CHECK
from scaffold.worker.attempt_context import AttemptContext
from scaffold.worker.attempt_record import CandidateReady
from scaffold.worker.continued_turn import take_up_turn
from scaffold.worker.native_executor import watched_agent
from scaffold.worker.prompts import failure_prompt, task_prompt
from scaffold.worker.watchdog import NoProgress
from scaffold.worker.work_commit import WorkCommit, commit_work, hand_in


async def run_step(context: AttemptContext, model: Model) -> CandidateReady | AttemptEnd:
    """Run the step's agent and hand in what it left; the work is checked when all of it is to land."""
    continued = await take_up_turn(context)
    agent = watched_agent(context, model, continued)
    context.record.enter("executing")
    prompt = continued or task_prompt(context.task)
    unusable = Verification(commit=context.workspace.start, results=())
    for iteration in range(1, context.task.run.settings.tier.iterations + 1):
        finish = await agent.turn(prompt)
        if isinstance(finish, NoProgress):
            return context.end_without_progress(finish)
        context.record.answered(finish.text, iteration=iteration)
        context.record.enter("verifying")
        work = await commit_work(context)
        if isinstance(work, WorkCommit):
            ended = CheckResult(name=STEP_CHECK, verdict="pass", detail="its agent ended its turn")
            return await hand_in(context, Verification(commit=work.head, results=(ended,)))
        unusable, prompt = work, failure_prompt(work)
        context.record.enter("executing", verification=work)
    return AttemptEnd("executor_failed", summarize_failures(unusable))
