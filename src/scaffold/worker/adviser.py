"""Who is asked about an attempt's work, and does none of it: without tools, watched, and paid by the attempt."""

from functools import partial
from typing import Literal

from scaffold.agent.agent import Agent, Books, Brief, Finish
from scaffold.agent.journal import JournalFile
from scaffold.agent.outside import Outside
from scaffold.agent.prompts import system_prompt
from scaffold.core.conversation import Caller
from scaffold.core.ports import Model
from scaffold.host.identity import own_identity
from scaffold.store.run_budget import RunBudget
from scaffold.worker.notice import warn
from scaffold.worker.pulse import PatientBudget
from scaffold.worker.station import Station
from scaffold.worker.watch import Circles, Stuck, Watched, state_of


class Adviser:
    """One conversation; what is said in it stands in the action's journal."""

    def __init__(
        self, station: Station, model: Model, role: Literal["critic", "drafter"], *, event: str | None = None
    ) -> None:
        self._station = station
        site, run, attempt, key = station.site, station.task.run, station.task.attempt, station.task.action.key
        fields = {"run": run.id, "action": key, "attempt": attempt.number, "role": role}
        self.journal = JournalFile(
            site.journal(station.task.goal.name, key), clock=site.clock, fields=fields, redactor=site.redactor
        )
        budget = RunBudget(
            site.store, attempt, limit_usd=run.settings.budget_usd, clock=site.clock, owner=own_identity()
        )
        agent = Agent(
            model=model,
            tools=(),
            brief=Brief(
                caller=Caller(role=role, action=key, attempt=attempt.number, event=event),
                system=system_prompt(role, folders=run.settings.prompts, notice=self.warn),
            ),
            outside=Outside(hear=station.pulse.hear, redactor=site.redactor),
            books=Books(journal=self.journal, budget=PatientBudget(budget, station.pulse)),
        )
        circles = Circles(partial(state_of, station.workspace.git, station.workspace.base))
        self._watched = Watched(agent, station.pulse, circles, idle_s=run.settings.idle_s)

    async def turn(self, said: str) -> Finish | Stuck:
        """Say `said`, without secrets, and return how it went; Stuck if nothing is heard, not after a nudge either."""
        return await self._watched.turn(self._station.site.redactor.clean(said))

    def warn(self, text: str) -> None:
        """Leave a warning in the run and in the journal."""
        self.journal.note("notice", text=text)
        warn(self._station.site, self._station.task.run.id, text)
