"""Where an attempt works: its worktree, its sandbox, and the environment of its commands and checks."""

import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from functools import partial

from msgspec import Struct

from scaffold.core.errors import EnvironmentNotReady
from scaffold.core.ids import Commit
from scaffold.core.proof.contract import CheckResult, Contract
from scaffold.core.proof.gates import Baseline, CheckEnvironment, GateRun
from scaffold.core.proof.not_ready import MissingProgram
from scaffold.git.checkouts import worktree
from scaffold.host.child_environment import agent_variables
from scaffold.host.contained_path import ContainedPath
from scaffold.host.sandbox.confinement import SandboxSpec
from scaffold.run.activity_recorder import ActivityRecorder
from scaffold.run.attempts.assignment import Assignment, action_of_work
from scaffold.run.context import RunContext
from scaffold.run.gate_logs import keep_gate_log
from scaffold.run.resources.attempt_resources import AttemptResources
from scaffold.run.resources.candidate_environment import environment_at, hook_place, worktree_environment
from scaffold.run.resources.sandbox import (
    check_services,
    folders_without_sandbox,
    open_sandbox,
    with_new_temporary_folder,
)
from scaffold.verify.contract.check_runs import Tree, run_checks
from scaffold.verify.environment.check_env import check_environ, with_shown_folders
from scaffold.verify.environment.check_programs import (
    WorkScope,
    is_named_in,
    missing_program,
    program_not_started,
    work_may_bring,
)
from scaffold.worker.workspace.attempt_worktree import AttemptWorkspace
from scaffold.worker.workspace.shared_folder import SharedFolder, open_shared_folder


class Workplace(Struct, frozen=True, kw_only=True):
    """Where the agent and the checks of one attempt work."""

    run_context: RunContext
    task: Assignment
    workspace: AttemptWorkspace
    sandbox: SandboxSpec | None
    """Confines the commands of the agent and of the checks; without it (None) the agent's commands need approval."""
    activities: ActivityRecorder
    """Says what a check is doing, for people who watch."""
    baseline: Baseline | None = None
    """The run's baseline; None if none was captured."""
    environment: CheckEnvironment | None = None
    """The environment of the agent's commands, and of the checks of the attempt's base; None without a baseline."""
    resources: AttemptResources = AttemptResources()
    """What the attempt has for itself on this machine."""
    shared: SharedFolder | None = None
    """Where its agent shares notes with others; None for checks alone."""

    @property
    def environ(self) -> dict[str, str]:
        """Return the environment variables of everything the attempt starts."""
        return self._environ_in(self.environment)

    def _environ_in(self, environment: CheckEnvironment | None) -> dict[str, str]:
        context, task, attempt = self.run_context, self.task, self.task.attempt
        marks = {"SCAFFOLD_RUN": attempt.run_id, "SCAFFOLD_ACTION": task.action.key, "SCAFFOLD_ATTEMPT": attempt.id}
        marks |= agent_variables(attempt.workspace_name) | self.resources.variables
        marks |= self.shared.variables if self.shared else {}
        own = worktree_environment(context, task.run, self.workspace.path, marks=marks)
        return check_environ(environment, self.workspace.path, own)

    def tree(self, commit: Commit, environment: CheckEnvironment | None = None) -> Tree:
        """Return the worktree as a tree to check at `commit`, which must be checked out with that environment.

        Its checks share a new temporary folder. `environment` None means the base's.
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
            clean=self.run_context.clean,
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

    async def missing_program(self, contract: Contract | None, files: Sequence[str]) -> MissingProgram | None:
        """Return a program that a check of the contract cannot run here; work in these `files` may bring its own."""
        return await missing_program(contract, self.tree(self.workspace.base), self._scope(files))

    async def program_not_started(
        self, contract: Contract | None, ran: Mapping[str, GateRun | CheckResult]
    ) -> MissingProgram | None:
        """Return a program that is missing here and that checks of the contract could not start, by how they ended."""
        return await program_not_started(contract, ran, self.tree(self.workspace.base))

    async def require_started(
        self, contract: Contract, ran: Mapping[str, GateRun], files: Sequence[str]
    ) -> MissingProgram | None:
        """Return the program that checks could not start on the base, by how they ended there, and the work may bring.

        Raises EnvironmentNotReady for a program or module that is missing and that no work of the run may bring.
        """
        tree = self.tree(self.workspace.base)
        program = await program_not_started(contract, ran, tree)
        missing = program or await program_not_started(contract, ran, tree, imports=True)
        if missing and not await work_may_bring(missing, tree, self._scope(files)):
            actions = self.run_context.store.actions.for_run(self.task.run.id)
            if not is_named_in(missing, [path for each in actions for path in each.files]):
                raise self.not_ready(missing)
        return program

    def _scope(self, files: Sequence[str]) -> WorkScope:
        return WorkScope(tuple(files), installs=self.task.run.settings.environment.trusted)

    def not_ready(self, missing: MissingProgram) -> EnvironmentNotReady:
        """Return the error that ends the action: whatever its agent does, a check cannot run here."""
        # The steps of a story are checked as a whole, by its own contract.
        judged = action_of_work(self.run_context.store, self.task.action)
        retry = f"{missing.fix}; then `scaffold retry {judged.key}` and `scaffold resume`"
        return EnvironmentNotReady(missing.what, retry)

    @contextlib.asynccontextmanager
    async def base_checked_out(self) -> AsyncIterator[None]:
        """Check the base out, which is where most attempts begin, and afterwards the commit where this one begins.

        What ran meanwhile may have left files, which are not the agent's work and must not be committed as such.
        """
        if self.workspace.start != self.workspace.base:
            await worktree.restore(self.workspace.git, self.workspace.base)
        yield
        await worktree.restore(self.workspace.git, self.workspace.start)


@contextlib.asynccontextmanager
async def open_workplace(
    context: RunContext, task: Assignment, workspace: AttemptWorkspace, resources: AttemptResources
) -> AsyncIterator[Workplace]:
    """Yield the workplace in this worktree, with a sandbox as long as the block runs."""
    run, attempt = task.run, task.attempt
    activities = ActivityRecorder(context, run, attempt_id=attempt.id)
    baseline = context.store.baselines.for_run(run.id)
    environment = baseline.environment if baseline else None
    if environment is not None:
        found = await environment_at(context, run, environment, workspace.base, during=activities.during)
        environment = found.environment
    # Held open, so that no folder that replaces it gets its inode.
    with ContainedPath(workspace.path).opened():
        async with open_sandbox(context, run, workspace.path, name=attempt.id) as sandbox:
            story = task.parent.key if task.parent and task.parent.method == "story" else None
            yield Workplace(
                run_context=context,
                task=task,
                workspace=workspace,
                sandbox=with_shown_folders(environment, sandbox),
                activities=activities,
                baseline=baseline,
                environment=environment,
                resources=resources,
                shared=open_shared_folder(context, task, sandbox, story),
            )
