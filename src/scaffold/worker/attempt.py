"""One attempt, from its workspace to a candidate."""

import asyncio

from scaffold.core.errors import BudgetSpent, ScaffoldError, StaleFence, WaitsForHuman
from scaffold.core.model import ProcessIdentity
from scaffold.core.ports import Model
from scaffold.host.sandbox.confinement import Enclosure
from scaffold.verify.environment.furnishing import furnish
from scaffold.verify.environment.surroundings import within
from scaffold.verify.review import gives_verdict
from scaffold.worker.assignment import Assignment
from scaffold.worker.consent import Human
from scaffold.worker.enclosure import enclosure, forget_temporary
from scaffold.worker.ending import conclude
from scaffold.worker.making import make
from scaffold.worker.native import watched_agent
from scaffold.worker.outcome import GaveUp, Handed
from scaffold.worker.pulse import Pulse
from scaffold.worker.record import Record
from scaffold.worker.reviewing import review
from scaffold.worker.site import Site
from scaffold.worker.station import Station
from scaffold.worker.workspace import Workspace, give_back, open_workspace, retire


class Worker:
    """Carries out one assignment; every phase is in the store before it begins."""

    def __init__(self, site: Site, task: Assignment, model: Model) -> None:
        self._site = site
        self._task = task
        self._model = model
        self._pulse = Pulse(site.clock, idle_s=task.run.settings.idle_s)
        self._human = Human(site, task, self._pulse.waiting)

    async def carry_out(self, identity: ProcessIdentity, *, log_file: str) -> Handed | GaveUp:
        """Claim the attempt and see it through; raises StaleFence if somebody else ended it meanwhile."""
        site, run, attempt = self._site, self._task.run, self._task.attempt
        folder = site.attempt_folder(run.id, attempt.id)
        with site.store.transaction():
            site.store.attempts.claim(
                attempt.id, fence=attempt.fence, worker=identity, worktree=str(folder), log_file=log_file
            )
        ending = await self._bounded()
        await asyncio.to_thread(forget_temporary, site, run, name=attempt.id)
        match ending:
            case Handed():
                await give_back(site, attempt)
            case GaveUp():
                await self._conclude(ending)
        return ending

    async def _conclude(self, ending: GaveUp) -> None:
        site, run, attempt = self._site, self._task.run, self._task.attempt
        pinned = await retire(site, run, attempt.id)
        conclude(
            site.store,
            run,
            attempt.id,
            ending.outcome,
            error=site.redactor.clean(ending.error),
            head=pinned,
            fence=attempt.fence,
            item=ending.item,
            for_good=ending.for_good,
        )

    async def _bounded(self) -> Handed | GaveUp:
        seconds = self._task.run.settings.attempt_timeout_s
        deadline = asyncio.timeout(seconds)
        try:
            async with deadline:
                return await self._work()
        except TimeoutError:
            if not deadline.expired():
                raise
            return GaveUp("timeout", f"not finished after {seconds:g} s")
        except BudgetSpent as spent:
            return GaveUp("budget", spent.what)
        except WaitsForHuman as waits:
            return GaveUp("waiting", waits.what, waits.item)
        except StaleFence:
            raise
        except ScaffoldError as trouble:
            return GaveUp("executor_failed", trouble.in_full)

    async def _work(self) -> Handed | GaveUp:
        """Have the work done that the action's role asks for: a change, or a verdict."""
        task = self._task
        workspace = await open_workspace(self._site, task.attempt)
        async with enclosure(self._site, task.run, workspace.path, name=task.attempt.id) as walls:
            station = self._station(workspace, walls)
            await furnish(station.environment, workspace.path)
            if gives_verdict(task.action.role):
                return await review(station, watched_agent(station, self._model))
            return await make(station, self._model)

    def _station(self, workspace: Workspace, walls: Enclosure | None) -> Station:
        baseline = self._site.store.baselines.of_run(self._task.run.id)
        return Station(
            site=self._site,
            task=self._task,
            workspace=workspace,
            walls=within(baseline.environment if baseline else None, walls),
            human=self._human,
            pulse=self._pulse,
            record=Record(self._site, self._task.attempt, self._task.action),
            baseline=baseline,
        )
