"""The learner: proposes one learning from work that passes after it had failed. It decides nothing."""

from contextlib import suppress

from scaffold.core.errors import BudgetExceeded, ModelError, UsageError
from scaffold.core.learning import Learning, Triple
from scaffold.core.plan import full_text
from scaffold.core.printable_text import truncate_text, utf8_safe
from scaffold.core.proof.contract import Verification
from scaffold.git import commits
from scaffold.host.random_ids import new_id
from scaffold.plan.learning.triples import read_triple
from scaffold.run.failures.ladder import verification_fingerprint
from scaffold.run.failures.refused_work import summarize_failures
from scaffold.run.gate_logs import shown_path
from scaffold.run.learning.stores import LearningStores
from scaffold.worker.agent.capabilities import AgentCapabilities
from scaffold.worker.agent.side_agent import SideAgent
from scaffold.worker.agent.watchdog import NoProgress
from scaffold.worker.attempt_records import AttemptRecords
from scaffold.worker.second_review.review_agent import HAND_IN_RESERVE_S
from scaffold.worker.workspace.attempt_worktree import AttemptWorkspace

TASK_CHARS, FAILURE_CHARS, DIFF_CHARS = 6_000, 8_000, 24_000
DIFF_BYTES = 64 * 1024


class Learner:
    """Asks once, paid from the attempt's budget; whatever goes wrong, the work is handed in as it is."""

    def __init__(self, workspace: AttemptWorkspace, capabilities: AgentCapabilities, records: AttemptRecords) -> None:
        self._workspace = workspace
        self._capabilities = capabilities
        self._records = records

    async def propose(self, failed: Verification, passed: Verification) -> None:
        """Store what the learner answers about work that had failed, unproven; it counts once this work has landed."""
        side_agent = SideAgent(self._workspace, self._records, self._capabilities.adviser("learner"), "learner")
        key, deadline = self._records.task.action.key, None
        try:
            async with self._capabilities.human.deadline(spare_s=HAND_IN_RESERVE_S) as deadline:
                finish = await side_agent.turn(await self._learner_prompt(failed, passed))
        except TimeoutError:
            if deadline is None or not deadline.expired():
                raise
            side_agent.journal.note("notice", text=f"{key}: no time was left to ask what was learned")
            return
        except (ModelError, BudgetExceeded) as error:
            side_agent.journal.note("notice", text=f"{key}: nothing was learned: {error.what}")
            return
        if not isinstance(finish, NoProgress) and finish.stop != "refused":
            self._store_learning(finish.text, failed, passed)

    async def _learner_prompt(self, failed: Verification, passed: Verification) -> str:
        workspace, action = self._workspace, self._records.task.action
        diff = await commits.diff_text(workspace.git, workspace.base, passed.commit, limit_bytes=DIFF_BYTES)
        parts = (
            f"# The task: {action.key} (role: {action.role})\n{truncate_text(full_text(action), TASK_CHARS)}",
            f"# What failed\n{truncate_text(summarize_failures(failed), FAILURE_CHARS)}",
            f"# The change that passes now\n```diff\n{truncate_text(diff, DIFF_CHARS)}\n```",
            "What would have avoided the failure?",
        )
        return "\n\n".join(parts)

    def _store_learning(self, answer: str, failed: Verification, passed: Verification) -> None:
        # A learning with a secret would be shown to every later agent.
        run_context, attempt = self._records.run_context, self._records.task.attempt
        lines = [line.strip().strip("`") for line in utf8_safe(answer).splitlines() if line.strip()]
        triple = read_triple(lines[-1]) if lines else ""
        if not isinstance(triple, Triple) or run_context.redactor.clean(lines[-1]) != lines[-1]:
            return
        now = run_context.clock.now()
        learning = Learning(
            id=new_id(),
            triple=triple,
            outcome="tests_pass",
            commit=passed.commit,
            log=shown_path(run_context.repository.root, run_context.journal(*self._records.task.journal_names)),
            fingerprint=verification_fingerprint(failed),
            source="agent",
            attempt=attempt.id,
            unconfirmed=True,
            created_at=now,
            changed_at=now,
        )
        with suppress(UsageError):  # the limit of learnings is reached
            LearningStores(run_context.store, None).add(learning)
