"""The trade of `scaffold`: plans are refined with the user, and carried out in the background."""

import asyncio
from collections.abc import Callable, Sequence

import click

from scaffold.cli.execution.background_start import start_in_background
from scaffold.cli.execution.planning_phase import PlanningPhase
from scaffold.cli.render.findings import format_finding
from scaffold.cli.render.goals_tasks_agents import agents_text, goals_text, tasks_text
from scaffold.cli.render.run_preview import RunPreview
from scaffold.cli.render.style import print_note
from scaffold.cli.repl.profile import ReplHandle
from scaffold.config.run_flags import RunFlags
from scaffold.config.run_settings import run_settings
from scaffold.config.settings import Settings
from scaffold.core.errors import PlanInvalid, ScaffoldError
from scaffold.core.ids import ConversationId, RunId
from scaffold.core.model import Run
from scaffold.core.tool import Tool
from scaffold.git.repository import checkout_status
from scaffold.orchestrator.chat_tools import orchestrator_tools, project_tools
from scaffold.orchestrator.owner.open_run import EMPTY_PLAN, open_run
from scaffold.orchestrator.owner.run_end import finish_run
from scaffold.orchestrator.owner.run_lease import take_over_run_when_free
from scaffold.orchestrator.planning.apply_plan import stored_plan
from scaffold.policy.permission.approval_gate import ApprovalQuestion
from scaffold.run.context import RunContext
from scaffold.run.lease import owner_transaction
from scaffold.session.slash_queries import ExtraCommand
from scaffold.views.lookup import find_goal

CLEAR = "/clear"
NO_RUN = "There is no run yet: say what is to be done."
EXTRA_COMMANDS: Sequence[ExtraCommand] = (
    ExtraCommand("goals", "", "the goals of the run, what holds and what is missing"),
    ExtraCommand("tasks", "[GOAL]", "its actions as a tree: status, effects, results"),
    ExtraCommand("agents", "", "its processes: what each is at, what it costs"),
)


class OrchestratorProfile:
    """Talks about plans, and has them carried out; a `trade.Trade` and a `deeds.Foreman`."""

    name = "scaffold"
    own = EXTRA_COMMANDS

    def __init__(self, site: RunContext, settings: Settings, flags: RunFlags) -> None:
        self.site = site
        self._settings = settings
        self._flags = flags
        self._table: ReplHandle
        self._run_id: RunId | None = None

    def attach(self, table: ReplHandle) -> None:
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
        return NO_RUN if run is None else self._told(shows, run, rest.strip())

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
        mine = await take_over_run_when_free(self.site, opened.id)
        try:
            left = await PlanningPhase(self.site, mine, say=self._table.narrator.tell).run()
        except PlanInvalid as invalid:
            findings = "\n".join(format_finding(finding, "plan") for finding in invalid.findings)
            return f"Not started: {invalid.in_full}\n{findings}"
        return f"Not started: it was {left}." if left else await self._offered(mine)

    async def open_unplanned_run(self, request: str) -> Run:
        """Open a run without goals, which this talk is about from now on."""
        chosen = await run_settings(self.site, self._settings, self._flags, planner=True, notice=print_note)
        opened = open_run(
            self.site.store,
            EMPTY_PLAN,
            request=request,
            survey=await checkout_status(self.site.repository),
            settings=chosen,
            source=request,
            now=self.site.clock.now(),
        )
        self._run_id = opened.id
        return opened

    async def resume_in_background(self, run: Run) -> str:
        """Have a run that no process owns carried out in the background, if the user agrees."""
        return await self._offered(await take_over_run_when_free(self.site, run.id))

    async def _offered(self, mine: Run) -> str:
        """Start a run that this process owns if the user agrees, else save it; it is let go of in any case."""
        store = self.site.store
        try:
            agreed = await self._agreed(RunPreview(mine, stored_plan(store, mine)).text())
        except asyncio.CancelledError:
            finish_run(store, mine, "saved")
            raise
        if not agreed:
            finish_run(store, mine, "saved")
            return f"The user does not want to start yet. The plan is saved as run {mine.id}: `scaffold resume`."
        with owner_transaction(store, mine):
            store.runs.release(mine.id, fence=mine.fence)
        start_in_background(self.site, mine.id)
        self._table.narrator.tell(
            f"run {mine.id} goes on in the background: /tasks shows it, `scaffold attach` follows"
        )
        self._table.run_after_turn(CLEAR)
        return f"Run {mine.id} is being carried out in the background. Tell the user in a line, and end your turn."

    async def _agreed(self, offer: str) -> bool:
        why = "agents begin to work on it, in the background"
        question = ApprovalQuestion(tool="start", category="subagent", subject=offer, why=why)
        return await self._table.questions.ask(question) != "deny"

    def _told(self, show: Callable[[Run, str], str], run: Run, rest: str) -> str:
        try:
            return click.unstyle(show(run, rest)) or NO_RUN
        except ScaffoldError as trouble:
            return trouble.in_full

    def _goals(self, run: Run, rest: str) -> str:  # noqa: ARG002 - it takes no name
        return goals_text(self.site, run)

    def _tasks(self, run: Run, rest: str) -> str:
        return tasks_text(self.site, run, find_goal(self.site, run, rest) if rest else None)

    def _agents(self, run: Run, rest: str) -> str:  # noqa: ARG002 - it takes no name
        return agents_text(self.site, run)
