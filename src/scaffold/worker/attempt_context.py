"""The context of one running attempt: its task, workspace, sandbox, human and records."""

import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from functools import partial

from msgspec import Struct, field

from scaffold.agent.extensions.hook_access import NO_HOOKS, AgentHooks
from scaffold.agent.extensions.plugin_access import NO_PLUGINS, AgentPlugins
from scaffold.core.ids import Commit
from scaffold.core.ports import Model
from scaffold.core.proof.contract import CheckResult, Contract
from scaffold.core.proof.gates import Baseline, CheckEnvironment
from scaffold.core.tool import Tool
from scaffold.git.checkouts import worktree
from scaffold.host.child_environment import agent_variables
from scaffold.host.sandbox.confinement import SandboxSpec
from scaffold.run.activity_recorder import ActivityRecorder
from scaffold.run.attempts.assignment import Assignment
from scaffold.run.attempts.declaration import Declaration, read_declaration
from scaffold.run.context import RunContext
from scaffold.run.gate_logs import keep_gate_log
from scaffold.run.resources.attempt_resources import AttemptResources
from scaffold.run.resources.sandbox import check_services, folders_without_sandbox, with_new_temporary_folder
from scaffold.run.resources.worktree_environment import hook_place, worktree_environment
from scaffold.verify.contract.check_runs import Tree, run_checks
from scaffold.verify.environment.check_env import check_environ, with_shown_folders
from scaffold.worker.activity_clock import ActivityClock
from scaffold.worker.asked_edits import AskedEdits
from scaffold.worker.attempt_record import AttemptRecorder
from scaffold.worker.declaration_review import DeclarationReviewer, no_reviewer
from scaffold.worker.inbox_approval import InboxApprover
from scaffold.worker.workspace.attempt_worktree import AttemptWorkspace
from scaffold.worker.workspace.shared_folder import SharedFolder


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
    activities: ActivityRecorder
    baseline: Baseline | None = None
    """The run's baseline; None if none was captured."""
    environment: CheckEnvironment | None = None
    """The environment of the agent's commands, and of the checks of the attempt's base; None without a baseline."""
    resources: AttemptResources = AttemptResources()
    """What the attempt has for itself on this machine."""
    shared: SharedFolder | None = None
    """Where its agent shares notes with others; None for checks alone."""
    asked_edits: AskedEdits = field(default_factory=AskedEdits)
    """What its agent asks to change in its story by the tool."""
    side_models: Mapping[str, Model] = {}
    """The models of agents that advise on it, by role, where they are not that of its work."""
    plugins: AgentPlugins = NO_PLUGINS
    """The user's plugins that its agent works with."""
    server_tools: tuple[Tool, ...] = ()
    """The tools of the run's MCP servers, not gated."""
    hooks: AgentHooks = NO_HOOKS
    """The hooks of the run, around the calls and turns of its agent."""
    reviewer: DeclarationReviewer = no_reviewer
    """Decides requests for files that judge the work, before a human is asked."""

    @property
    def environ(self) -> dict[str, str]:
        """Return the environment variables of everything the attempt starts."""
        return self._environ_in(self.environment)

    def _environ_in(self, environment: CheckEnvironment | None) -> dict[str, str]:
        """Return the user's variables without secrets, the attempt's marks, and the variables of the environment."""
        context, task, attempt = self.run_context, self.task, self.task.attempt
        marks = {"SCAFFOLD_RUN": attempt.run_id, "SCAFFOLD_ACTION": task.action.key, "SCAFFOLD_ATTEMPT": attempt.id}
        marks |= agent_variables(attempt.id) | self.resources.variables
        marks |= self.shared.variables if self.shared else {}
        own = worktree_environment(context, task.run, self.workspace.path, marks=marks)
        return check_environ(environment, self.workspace.path, own)

    @property
    def declaration(self) -> Declaration:
        """What the action may change, with what was granted since it was planned."""
        return read_declaration(self.run_context.store, self.task.action)

    def tree(self, commit: Commit, environment: CheckEnvironment | None = None) -> Tree:
        """Return the worktree as a tree to check at `commit`, which must be checked out with that environment.

        Its checks share a temporary folder that is new. Without an `environment`, it is that of the base.
        """
        run, attempt = self.task.run, self.task.attempt
        environment = environment or self.environment
        return Tree(
            git=self.workspace.git,
            base=self.workspace.base,
            commit=commit,
            environ=self._environ_in(environment)
            | folders_without_sandbox(self.run_context, run, self.sandbox, name=attempt.id),
            sandbox=with_shown_folders(environment, with_new_temporary_folder(self.sandbox)),
            services=check_services(self.run_context, run, environment),
            clean=self.run_context.redactor.clean,
            keep_log=partial(keep_gate_log, self.run_context, run.id),
            during=self.activities.during,
            hooks=hook_place(self.run_context, run, environment),
        )

    async def results_at_base(self, contract: Contract | None) -> Sequence[CheckResult]:
        """Return the contract's check results on the attempt's base commit; empty without a contract."""
        if contract is None or contract.empty:
            return ()
        async with self.base_checked_out():
            return await run_checks(contract, self.tree(self.workspace.base))

    @contextlib.asynccontextmanager
    async def base_checked_out(self) -> AsyncIterator[None]:
        """Check the base out, which is where most attempts begin, and afterwards the commit where this one begins.

        What ran meanwhile may have left files, which are not the agent's work and must not be committed as such.
        """
        if self.workspace.start != self.workspace.base:
            await worktree.restore(self.workspace.git, self.workspace.base)
        yield
        await worktree.restore(self.workspace.git, self.workspace.start)
