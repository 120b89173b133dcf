"""The trade of `scaffold`: plans are refined with the user, and carried out in the background."""

import asyncio
from collections.abc import Callable, Sequence

import click

from scaffold.cli.detached import send_away
from scaffold.cli.findings import finding_lines
from scaffold.cli.flags import Flags
from scaffold.cli.inquiry import Own
from scaffold.cli.layout import Layout
from scaffold.cli.lookup import find_goal
from scaffold.cli.offer import Offer
from scaffold.cli.repl.trade import Table
from scaffold.cli.run_settings import run_settings
from scaffold.cli.settings import Settings
from scaffold.cli.views import agents_text, goals_text, tasks_text
from scaffold.core.errors import PlanInvalid, ScaffoldError
from scaffold.core.ids import ConversationId, RunId
from scaffold.core.model import Run
from scaffold.core.tool import Tool
from scaffold.git.repository import survey
from scaffold.orchestrator.ending import finish
from scaffold.orchestrator.foreman import orchestrator_tools, project_tools
from scaffold.orchestrator.opening import UNPLANNED, open_run
from scaffold.orchestrator.takeover import take_over_when_free
from scaffold.orchestrator.writing import plan_of
from scaffold.policy.consent import Question
from scaffold.worker.lease import owned
from scaffold.worker.site import Site

CLEAR = "/clear"
NOTHING_YET = "There is no run yet: say what is to be done."
OWN: Sequence[Own] = (
    Own("goals", "", "the goals of the run, what holds and what is missing"),
    Own("tasks", "[GOAL]", "its actions as a tree: status, effects, results"),
    Own("agents", "", "its processes: what each is at, what it costs"),
)


class Foreman:
    """Talks about plans, and has them carried out; a `trade.Trade` and a `deeds.Foreman`."""

    name = "scaffold"
    own = OWN

    def __init__(self, site: Site, settings: Settings, flags: Flags) -> None:
        self.site = site
        self._settings = settings
        self._flags = flags
        self._table: Table
        self._run_id: RunId | None = None

    def sit_down(self, table: Table) -> None:
        """Take the talk it is at."""
        self._table = table

    def keeps(self, tool: Tool) -> bool:
        """Keep what reads files: the work itself is for the agents of a run."""
        return tool.category == "file_read"

    def tools(self) -> tuple[Tool, ...]:
        """Return what plans, starts and steers."""
        return (*orchestrator_tools(self), *project_tools(self))

    def answer(self, words: str) -> str | None:
        """Return what `/goals`, `/tasks` and `/agents` tell, without a model."""
        name, _, rest = words.strip().partition(" ")
        shows = {"/goals": self._goals, "/tasks": self._tasks, "/agents": self._agents}.get(name.lower())
        if shows is None:
            return None
        run = self.run()
        return NOTHING_YET if run is None else self._told(shows, run, rest.strip())

    def farewell(self, conversation: ConversationId | None) -> str:  # noqa: ARG002 - what counts is the run
        """Return where the run stands that this was about."""
        run = self.run() if self._run_id is not None else None
        return f"run {run.id}: `scaffold status` shows it, `scaffold attach` watches it" if run else ""

    def run(self) -> Run | None:
        """Return the run this talk began, or the repository's latest; None before the first."""
        store = self.site.store
        return store.runs.latest() if self._run_id is None else store.runs.get(self._run_id)

    async def execute_plan(self, plan: str) -> str:
        """Have a planner of its own lay a plan out, and start it if the user agrees; return words for the model."""
        opened = await self.open_unplanned_run(plan)
        mine = await take_over_when_free(self.site, opened.id)
        try:
            left = await Layout(self.site, mine, say=self._table.narrator.tell).carry_out()
        except PlanInvalid as invalid:
            findings = "\n".join(finding_lines(finding, "plan") for finding in invalid.findings)
            return f"Not started: {invalid.in_full}\n{findings}"
        return f"Not started: it was {left}." if left else await self._offered(mine)

    async def open_unplanned_run(self, request: str) -> Run:
        """Open a run without goals, which this talk is about from now on."""
        chosen = await run_settings(self.site, self._settings, self._flags, planner=True)
        opened = open_run(
            self.site.store,
            UNPLANNED,
            request=request,
            survey=await survey(self.site.repository),
            settings=chosen,
            source=request,
            now=self.site.clock.now(),
        )
        self._run_id = opened.id
        return opened

    async def go_on(self, run: Run) -> str:
        """Have a run that no process owns carried out in the background, if the user agrees."""
        return await self._offered(await take_over_when_free(self.site, run.id))

    async def _offered(self, mine: Run) -> str:
        """Start a run that this process owns if the user agrees, else save it; it is let go of in any case."""
        store = self.site.store
        try:
            agreed = await self._agreed(Offer(mine, plan_of(store, mine)).text())
        except asyncio.CancelledError:
            finish(store, mine, "saved")
            raise
        if not agreed:
            finish(store, mine, "saved")
            return f"The user does not want to start yet. The plan is saved as run {mine.id}: `scaffold resume`."
        with owned(store, mine):
            store.runs.release(mine.id, fence=mine.fence)
        send_away(self.site, mine.id)
        self._table.narrator.tell(
            f"run {mine.id} goes on in the background: /tasks shows it, `scaffold attach` follows"
        )
        self._table.later(CLEAR)
        return f"Run {mine.id} is being carried out in the background. Tell the user in a line, and end your turn."

    async def _agreed(self, offer: str) -> bool:
        why = "agents begin to work on it, in the background"
        question = Question(tool="start", category="subagent", subject=offer, why=why)
        return await self._table.questions.ask(question) != "deny"

    def _told(self, show: Callable[[Run, str], str], run: Run, rest: str) -> str:
        try:
            return click.unstyle(show(run, rest)) or NOTHING_YET
        except ScaffoldError as trouble:
            return trouble.in_full

    def _goals(self, run: Run, rest: str) -> str:  # noqa: ARG002 - it takes no name
        return goals_text(self.site, run)

    def _tasks(self, run: Run, rest: str) -> str:
        return tasks_text(self.site, run, find_goal(self.site, run, rest) if rest else None)

    def _agents(self, run: Run, rest: str) -> str:  # noqa: ARG002 - it takes no name
        return agents_text(self.site, run)
