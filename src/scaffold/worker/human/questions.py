"""The questions of a worker's agent to a human: within the budget of the tier, or else noted as assumptions."""

from collections.abc import Iterable

from scaffold.core.model import Assumption
from scaffold.core.printable_text import utf8_safe
from scaffold.core.states import COUNTED_FAILURES
from scaffold.plan.question_budget import AskingAgent, why_not_asked
from scaffold.policy.path.protected_areas import ProtectedAreas
from scaffold.policy.path.protected_files import protected_entry
from scaffold.tools.human_question import HumanQuestion
from scaffold.worker.attempt_records import AttemptRecords
from scaffold.worker.human.inbox_approval import InboxApprover, is_asked_by_agent
from scaffold.worker.workspace.attempt_worktree import AttemptWorkspace

DECIDE = (
    "No human is asked: {why}. Decide it yourself, in the way that is easiest to change later. Then call `ask_human` "
    "with the same question once more, and say in `assumption` what you assume: the user reads it."
)
NOTED = "No human is asked: {why}. Your assumption is noted, and the user reads it. Go on with it."


class AgentQuestions:
    """Answers the questions of one attempt's agent, by a human or by its own assumption."""

    def __init__(self, workspace: AttemptWorkspace, human: InboxApprover, records: AttemptRecords) -> None:
        self._workspace = workspace
        self._human = human
        self._records = records

    async def answer(self, question: HumanQuestion) -> str:
        """Return a human's answer, or that there is none and what the agent is to do instead."""
        why = await self._why_not_asked(question)
        if not why:
            return await self._human.answer(question.text, question.options, kind=question.kind)
        self._note_assumption(question)
        return (NOTED if question.assumption else DECIDE).format(why=why)

    async def _why_not_asked(self, question: HumanQuestion) -> str:
        store, task = self._records.store, self._records.task
        # Questions of the run, e.g. after the last failure, do not count against the agents' budget.
        items = filter(is_asked_by_agent, store.inbox.for_action(task.action.id))
        asked = [item.detail["question"] for item in items]
        # An earlier attempt asked the same, so the answer interrupts no one again.
        if self._records.redactor.clean(utf8_safe(question.text)) in asked:
            return ""
        agent = AskingAgent(tier=task.run.settings.tier, asked=len(asked))
        if not why_not_asked(agent, question.kind):
            return ""
        agent = AskingAgent(
            tier=agent.tier, asked=agent.asked, failed=self._failed_executions(), protected=await self._protected_path()
        )
        return why_not_asked(agent, question.kind)

    def _failed_executions(self) -> int:
        attempts = self._records.store.attempts.for_action(self._records.task.action.id)
        own = self._records.task.attempt.id
        failed = sum(max(1, each.iteration) for each in attempts if each.outcome in COUNTED_FAILURES)
        now = next((each for each in attempts if each.id == own), None)
        # An iteration that only improves passing work has not failed.
        has_failed = now is not None and now.verification is not None and not now.verification.passed
        return failed + (now.iteration if now is not None and has_failed else 0)

    async def _protected_path(self) -> str:
        # A mistake in a protected path costs more than an interruption, so its agent may ask more.
        git, base = self._workspace.git, self._workspace.base
        changed = await git("diff", "--name-only", "--no-renames", "--no-ext-diff", "-z", base)
        new = await git("ls-files", "--others", "--exclude-standard", "-z", "--", ":/")
        areas = ProtectedAreas.with_added(self._records.task.run.settings.permissions.areas)
        paths: Iterable[str] = (*self._records.declaration.all, *changed.records, *new.records)
        return next((path for path in paths if areas.area_of(path) or protected_entry(path)), "")

    def _note_assumption(self, question: HumanQuestion) -> None:
        store, task, clean = self._records.store, self._records.task, self._records.redactor.clean
        asked, assumed = clean(utf8_safe(question.text)), clean(utf8_safe(question.assumption))
        with self._records.transaction():
            store.assumptions.add(
                task.run.id,
                Assumption(
                    action_id=task.action.id,
                    attempt_id=task.attempt.id,
                    question=asked,
                    assumed=assumed,
                    created_at=self._records.run_context.clock.now(),
                ),
            )
        said = f"{task.action.key} assumes: {assumed}" if assumed else f"{task.action.key} decides by itself: {asked}"
        self._records.inform(said)
