"""Where one attempt is carried out: what it is about, whom it can ask, and what is written down of it."""

from collections.abc import Sequence

from msgspec import Struct

from scaffold.core.contract import CheckResult, Contract
from scaffold.core.gates import Baseline, CheckEnvironment
from scaffold.core.ids import Commit
from scaffold.git import worktree
from scaffold.host.environment import agent_marks, child_environment
from scaffold.host.sandbox.confinement import Enclosure
from scaffold.verify.contract import Tree, results_of
from scaffold.verify.environment.surroundings import check_environ
from scaffold.worker.assignment import Assignment
from scaffold.worker.consent import Human
from scaffold.worker.outcome import GaveUp
from scaffold.worker.pulse import Pulse
from scaffold.worker.record import Record
from scaffold.worker.services import services_of
from scaffold.worker.site import Site
from scaffold.worker.watch import Stuck
from scaffold.worker.watchdog import FOLLOWS, next_rung
from scaffold.worker.workspace import Workspace


class Station(Struct, frozen=True, kw_only=True):
    """An attempt under way."""

    site: Site
    task: Assignment
    workspace: Workspace
    walls: Enclosure | None
    """What holds the commands of its agent and its checks; None: nothing does, and the agent's wait for the human."""
    human: Human
    pulse: Pulse
    record: Record
    baseline: Baseline | None = None
    """What the run is held against; None where nothing was captured."""

    @property
    def environment(self) -> CheckEnvironment | None:
        """What checks stand on, and the agent's commands, too."""
        return self.baseline.environment if self.baseline else None

    @property
    def environ(self) -> dict[str, str]:
        """Return the environment of everything the attempt starts: allow-listed, marked as its own, the checks' own."""
        site, task, attempt = self.site, self.task, self.task.attempt
        marks = {"SCAFFOLD_RUN": attempt.run_id, "SCAFFOLD_ACTION": task.action.key, "SCAFFOLD_ATTEMPT": attempt.id}
        own = child_environment(site.environ, marks | agent_marks(attempt.id), names=task.run.settings.environment)
        return check_environ(self.environment, self.workspace.path, own)

    def tree(self, commit: Commit) -> Tree:
        """Return the worktree as something to be checked at `commit`, which must be checked out."""
        return Tree(
            git=self.workspace.git,
            base=self.workspace.base,
            commit=commit,
            environ=self.environ,
            enclosure=self.walls,
            services=services_of(self.site, self.task.run, self.environment),
            clean=self.site.redactor.clean,
        )

    async def results_at_base(self, contract: Contract | None) -> Sequence[CheckResult]:
        """Return what a contract shows of the commit that the attempt starts from; nothing without one."""
        if contract is None or contract.empty:
            return ()
        results = await results_of(contract, self.tree(self.workspace.base))
        await worktree.restore(self.workspace.git, self.workspace.base)
        return results

    def stuck(self, stuck: Stuck) -> GaveUp:
        """Return how an attempt ends whose agent gets nowhere, and what is to follow."""
        settings, action = self.task.run.settings, self.task.action
        spent = self.site.store.actions.failures(action.id) + 1
        left = settings.attempts + action.extra_attempts - spent
        rung = next_rung(nudged=True, attempts_left=left, planner=settings.planner)
        return GaveUp(stuck.outcome, f"{stuck.cause}. {FOLLOWS[rung]}")
