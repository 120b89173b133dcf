"""The trade of `scaffold`: plans are refined with the user, and carried out in the background."""

from collections.abc import Callable, Sequence

import click

from scaffold.cli.execution.background_start import start_in_background
from scaffold.cli.render.goals_tasks_agents import agents_text, goals_text, tasks_text
from scaffold.cli.render.run_preview import RunPreview
from scaffold.cli.render.style import print_note
from scaffold.cli.repl.profile import ReplHandle
from scaffold.config.run_flags import RunFlags
from scaffold.config.run_settings import run_settings
from scaffold.config.settings import Settings
from scaffold.core.errors import ScaffoldError
from scaffold.core.ids import ConversationId, RunId
from scaffold.core.model import Run
from scaffold.core.tool import Tool
from scaffold.orchestrator.chat_run import plan_and_confirm, resume_and_confirm
from scaffold.orchestrator.chat_tools import orchestrator_tools, project_tools
from scaffold.orchestrator.owner.open_run import RunInput, start_run
from scaffold.orchestrator.planning.apply_plan import stored_plan
from scaffold.policy.permission.approval_gate import ApprovalQuestion
from scaffold.run.context import RunContext
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
        """Plan a run from the text, and start it if the user agrees; return a text for the model."""
        return await plan_and_confirm(self.site, (await self.open_unplanned_run(plan)).id, self)

    async def open_unplanned_run(self, request: str) -> Run:
        """Open a run without goals, which this talk is about from now on."""
        chosen = await run_settings(self.site, self._settings, self._flags, planner=True, notice=print_note)
        opened = await start_run(self.site, RunInput(request=request, source=request), chosen)
        self._run_id = opened.id
        return opened

    async def resume_in_background(self, run: Run) -> str:
        """Start a run that no process owns in the background if the user agrees; return a text for the model."""
        return await resume_and_confirm(self.site, run.id, self)

    def show_step(self, text: str) -> None:
        """Show a line about the planner's progress."""
        self._table.narrator.tell(text)

    async def confirm_start(self, run: Run) -> bool:
        """Show the planned run and return whether the user wants it to start."""
        question = ApprovalQuestion(
            tool="start",
            category="subagent",
            subject=RunPreview(run, stored_plan(self.site.store, run)).text(),
            why="agents begin to work on it, in the background",
        )
        return await self._table.questions.ask(question) != "deny"

    def start_in_background(self, run_id: RunId) -> None:
        """Start a process that executes the run, and clear the conversation after this turn."""
        start_in_background(self.site, run_id)
        self._table.narrator.tell(
            f"run {run_id} is running in the background: /tasks shows it, `scaffold attach` follows it"
        )
        self._table.run_after_turn(CLEAR)

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
