"""The context of one running attempt: its task, workspace, sandbox, human and records."""

from collections.abc import Sequence

from msgspec import Struct

from scaffold.core.contract import CheckResult, Contract
from scaffold.core.gates import Baseline, CheckEnvironment
from scaffold.core.ids import Commit
from scaffold.git import worktree
from scaffold.host.environment import agent_variables
from scaffold.host.sandbox.confinement import SandboxSpec
from scaffold.run.assignment import Assignment
from scaffold.run.attempt_end import AttemptEnd
from scaffold.run.context import RunContext
from scaffold.run.environment import worktree_environment
from scaffold.run.sandbox import check_services, folders_without_sandbox, with_new_temporary_folder
from scaffold.verify.contract.checks import Tree, run_checks
from scaffold.verify.environment.check_env import check_environ
from scaffold.verify.environment.generated_files import with_fitting_files
from scaffold.worker.activity import ActivityClock
from scaffold.worker.attempt_record import AttemptRecorder
from scaffold.worker.inbox_approval import InboxApprover
from scaffold.worker.watchdog import ESCALATION_TEXT, NoProgress, next_escalation
from scaffold.worker.workspace import AttemptWorkspace


class AttemptContext(Struct, frozen=True, kw_only=True):
    """One running attempt and the objects its phases share."""

    run_context: RunContext
    task: Assignment
    workspace: AttemptWorkspace
    sandbox: SandboxSpec | None
    """Confines the commands of the agent and of the checks; without it (None) the agent's commands need approval."""
    human: InboxApprover
    activity: ActivityClock
    record: AttemptRecorder
    baseline: Baseline | None = None
    """The run's baseline; None if none was captured."""

    @property
    def environment(self) -> CheckEnvironment | None:
        """The environment of the checks and of the agent's commands."""
        return self.baseline.environment if self.baseline else None

    async def environment_at(self, commit: Commit) -> CheckEnvironment | None:
        """Return the environment of the checks of a commit."""
        if self.environment is None:
            return None
        git, since = self.workspace.git, self.task.run.base_sha
        return await with_fitting_files(self.environment, git, made_at=since, commit=commit)

    @property
    def environ(self) -> dict[str, str]:
        """Return the environment variables of everything the attempt starts.

        They are the user's without secrets, the attempt's marks, and those of the check environment.
        """
        context, task, attempt = self.run_context, self.task, self.task.attempt
        marks = {"SCAFFOLD_RUN": attempt.run_id, "SCAFFOLD_ACTION": task.action.key, "SCAFFOLD_ATTEMPT": attempt.id}
        own = worktree_environment(context, task.run, self.workspace.path, marks=marks | agent_variables(attempt.id))
        return check_environ(self.environment, self.workspace.path, own)

    def tree(self, commit: Commit) -> Tree:
        """Return the worktree as a tree to check at `commit`, which must be checked out.

        Its checks share a temporary folder that is new.
        """
        run, attempt = self.task.run, self.task.attempt
        return Tree(
            git=self.workspace.git,
            base=self.workspace.base,
            commit=commit,
            environ=self.environ | folders_without_sandbox(self.run_context, run, self.sandbox, name=attempt.id),
            sandbox=with_new_temporary_folder(self.sandbox),
            services=check_services(self.run_context, run, self.environment),
            clean=self.run_context.redactor.clean,
        )

    async def results_at_base(self, contract: Contract | None) -> Sequence[CheckResult]:
        """Return the contract's check results on the attempt's base commit; empty without a contract."""
        if contract is None or contract.empty:
            return ()
        results = await run_checks(contract, self.tree(self.workspace.base))
        # Files that the checks left behind are not the agent's work, and must not be committed as such.
        await worktree.restore(self.workspace.git, self.workspace.base)
        return results

    def end_without_progress(self, stuck: NoProgress) -> AttemptEnd:
        """Return the ending of an attempt without progress, with the next escalation in its error."""
        settings, action = self.task.run.settings, self.task.action
        # The store counts this failure only when the attempt ends.
        spent = self.run_context.store.actions.failures(action.id) + 1
        left = settings.limits.attempts + action.extra_attempts - spent
        escalation = next_escalation(attempts_left=left, planner=settings.planning.planner)
        return AttemptEnd(stuck.outcome, f"{stuck.cause}. {ESCALATION_TEXT[escalation]}")
