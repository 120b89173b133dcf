"""Tools of the agent that talks with the user: they plan, start and control runs; nothing starts without the user."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol, get_args

from msgspec import structs

from scaffold.core.errors import PlanInvalid, ScaffoldError, UsageError
from scaffold.core.ids import ActionKey, RunId
from scaffold.core.model import Goal, Run
from scaffold.core.plan import Plan, TaskType
from scaffold.core.states import PAUSED_BY_USER, Active, Cancelled, Completed, Failed, Paused, status_of
from scaffold.core.tool import Tool, ToolOutput
from scaffold.host.process_identity import is_alive
from scaffold.orchestrator.owner.planning_phase import begin_planning
from scaffold.orchestrator.owner.run_end import save_run
from scaffold.orchestrator.owner.run_lease import take_over_run_when_free
from scaffold.orchestrator.planning.apply_plan import apply_changes, read_draft
from scaffold.orchestrator.planning.projects import PROJECT_METHOD, project_changes, project_goal
from scaffold.orchestrator.planning.proposal_tools import create_actions_tool, create_goal_tool, proposed_goal
from scaffold.orchestrator.planning.proposals import DraftProposals
from scaffold.orchestrator.planning.reports import actions_report, find_goal, goal_report
from scaffold.orchestrator.planning.tool_responses import RESPONSE_CHARS, STRING_SCHEMA, Args, fit_entries, json_tool
from scaffold.orchestrator.user_control.execution_control import request_goal_control
from scaffold.plan.edit.draft import ChangeRejected, CreateActions, CreateGoal, DraftChange, PlanDraft
from scaffold.plan.edit.proposed_actions import read_tasks
from scaffold.plan.progress import PlanProgress
from scaffold.run.context import RunContext
from scaffold.store.database import Store
from scaffold.tools.arguments import object_schema
from scaffold.tools.workspace import failed_answer
from scaffold.views.run_view import read_summary

ENDED_STATES = (Completed, Failed, Cancelled)
TASK_SCHEMA = object_schema(
    {"description": {**STRING_SCHEMA, "description": "Everything the agent doing the task needs to know."}},
    key=STRING_SCHEMA,
    depends_on={"type": "array", "description": "Tasks that must be done first: indexes in the list, from 0, or keys."},
    role=STRING_SCHEMA,
    files={"type": "array", "items": STRING_SCHEMA},
    acceptance={"description": "Acceptance criteria: a string or a list."},
    verification_intent=STRING_SCHEMA,
    title=STRING_SCHEMA,
    type={**STRING_SCHEMA, "enum": list(get_args(TaskType))},
    notes=STRING_SCHEMA,
    contract={"type": "object"},
)


class ChatRunControl(Protocol):
    """The part of the chat interface for these tools; returned texts go to the model."""

    @property
    def context(self) -> RunContext:
        """The context of the repository."""

    def run(self) -> Run | None:
        """Return the conversation's current run from the store; None before the first."""

    async def execute_plan(self, plan: str) -> str:
        """Clear the conversation, have the plan turned into a run, and execute it if the user agrees."""

    async def open_unplanned_run(self, request: str) -> Run:
        """Create and return a run without goals, which is not started."""

    async def resume_in_background(self, run: Run) -> str:
        """Execute a run that no process owns in the background; return a text about it."""


class StartDialog(Protocol):
    """The part of the chat interface for planning and starting a run."""

    def show_step(self, text: str) -> None:
        """Show a line about the planner's progress."""

    async def confirm_start(self, run: Run) -> bool:
        """Show the planned run and return whether the user wants it to start."""

    def start_in_background(self, run: Run) -> None:
        """Hand the run, which this process owns, to a background process that executes it."""


def orchestrator_tools(control: ChatRunControl) -> tuple[Tool, ...]:
    """Return the tools for plans and goals."""
    return (
        _execute_plan(control),
        _list_tool(control, "list_goals", "List the goals of the run with their status.", projects=False),
        _status_tool(control, "goal_status", "Read a goal: what holds, what is missing, its actions.", projects=False),
        *_control_tools(control, "goal", projects=False),
    )


def project_tools(control: ChatRunControl) -> tuple[Tool, ...]:
    """Return the tools for projects: goals with a given list of tasks and their dependencies."""
    return (
        _create_project(control),
        _list_tool(control, "list_projects", "List the projects with their status.", projects=True),
        _status_tool(control, "project_status", "Read a project: its tasks with their status.", projects=True),
        *_control_tools(control, "project", projects=True),
    )


def goal_tools(control: ChatRunControl) -> tuple[Tool, ...]:
    """Return the planner's tools that create goals and actions in the conversation's run."""
    proposals = _ChatProposals(control)
    create_goal = create_goal_tool(proposals)

    async def run(args: Mapping[str, Any]) -> ToolOutput:
        try:
            if open_run_of(control) is None:
                # Tried on an empty plan first: a refused call must not leave a run without goals.
                PlanDraft(Plan(goals=()), PlanProgress()).apply(proposed_goal(args))
                await control.open_unplanned_run(args["description"])
        except ScaffoldError as refusal:
            return failed_answer(refusal.in_full)
        return await create_goal.run(args)

    waits = "It does not start yet: start_goal starts it once the user agrees."
    return (
        structs.replace(create_goal, run=run, description=f"{create_goal.description} {waits}"),
        create_actions_tool(proposals, control.context.git),
    )


class _ChatProposals:
    """Writes each change to the conversation's run at once; a `ProposalTarget`."""

    def __init__(self, control: ChatRunControl) -> None:
        self._control = control

    @property
    def store(self) -> Store:
        """The store of the repository."""
        return self._control.context.store

    @property
    def run(self) -> Run:
        """The conversation's run; raises ChangeRejected unless it can take goals."""
        run = open_run_of(self._control)
        if run is None:
            raise ChangeRejected("there is no run that has not ended", "Create a goal first, with goap_create_goal.")
        return run

    @property
    def draft(self) -> PlanDraft:
        """The run's current plan."""
        return read_draft(self.store, self.run)

    def change(self, change: DraftChange) -> bool:
        """Write one change; a new goal is paused until the user starts it."""
        if isinstance(change, CreateActions):
            # Actions that are added to an active goal of a running run would start at once.
            run, goal = self.run, self.store.goals.by_name(self.run.id, change.goal)
            executed = run.owner is not None and is_alive(run.owner)
            if executed and goal is not None and isinstance(goal.state, Active):
                fix = "Pause it with pause_goal, add them, and start it again once the user agrees."
                raise ChangeRejected(
                    f"goal `{change.goal}` is being worked on, so new actions would start at once", fix
                )
        return write_set_aside(self._control.context, self.run, (change,))

    async def dispatch(self, key: ActionKey) -> int | None:  # noqa: ARG002 - the tools of this module start nothing
        """Return None: nothing starts before the user agrees."""
        return None


def open_run_of(control: ChatRunControl) -> Run | None:
    """Return the conversation's run if it can take more goals; None otherwise."""
    run = control.run()
    return None if run is None or isinstance(run.state, ENDED_STATES) else run


def write_set_aside(context: RunContext, run: Run, changes: Sequence[DraftChange]) -> bool:
    """Write the changes and return whether any was new; new goals are paused until the user starts them."""
    store = context.store
    with store.transaction(durable=True):
        written = apply_changes(store, run, changes, now=context.clock.now())
        for change in written:
            goal = store.goals.by_name(run.id, change.spec.name) if isinstance(change, CreateGoal) else None
            # In a running run a new goal is active, and a supervisor would start it before the user agrees.
            if goal is not None:
                store.goals.move(goal.id, Paused(PAUSED_BY_USER))
    return bool(written)


def _execute_plan(control: ChatRunControl) -> Tool:
    async def answer(args: Args) -> Mapping[str, Any]:
        plan = args["plan"].strip()
        if not plan:
            raise UsageError("the plan is empty", "Write down everything agreed on with the user.")
        try:
            return {"note": await control.execute_plan(plan)}
        except ScaffoldError as error:
            raise UsageError(error.what, error.fix) from error

    return json_tool(
        "execute_plan",
        "Execute the plan that the user has agreed to. This conversation is cleared, so the plan must be complete.",
        object_schema({"plan": STRING_SCHEMA}),
        answer,
    )


def _create_project(control: ChatRunControl) -> Tool:
    async def answer(args: Args) -> Mapping[str, Any]:
        spec = project_goal(args["name"], args["description"], read_tasks(args["tasks"]))
        run = open_run_of(control) or await control.open_unplanned_run(args["description"])
        written = write_set_aside(control.context, run, project_changes(spec))
        note = "Start it with start_project." if written else "An identical project already exists."
        return {"project": spec.name, "run": run.id, "tasks": len(spec.actions), "created": written, "note": note}

    return json_tool(
        "create_project",
        "Create a project from a list of tasks with their dependencies. It does not start yet.",
        object_schema(
            {"name": STRING_SCHEMA, "description": STRING_SCHEMA, "tasks": {"type": "array", "items": TASK_SCHEMA}}
        ),
        answer,
    )


def _list_tool(control: ChatRunControl, name: str, description: str, *, projects: bool) -> Tool:
    async def answer(args: Args) -> Mapping[str, Any]:  # noqa: ARG001 - the tool has no arguments
        what = "projects" if projects else "goals"
        run = control.run()
        if run is None:
            return {what: [], "note": "There is no run yet."}
        goals = control.context.store.goals.for_run(run.id)
        listed = {goal.name for goal in goals if not projects or _is_project(control.context, goal)}
        summary = read_summary(control.context, run)
        lines: Iterator[dict[str, Any]] = (
            {
                "goal": goal.name,
                "status": goal.status,
                "complete": goal.held == goal.desired,
                "actions": goal.status_counts,
            }
            for goal in summary.goals
            if goal.name in listed
        )
        taken, left = fit_entries(lines, most=len(listed), room=RESPONSE_CHARS)
        return {"run": run.id, "run_status": summary.status, what: taken, "left_out": left or None}

    return json_tool(name, description, object_schema({}), answer, read_only=True)


def _status_tool(control: ChatRunControl, name: str, description: str, *, projects: bool) -> Tool:
    async def answer(args: Args) -> Mapping[str, Any]:
        run, goal = _find_run_and_goal(control, args, projects=projects)
        proposals = DraftProposals(control.context.store, run)
        spec = find_goal(proposals, goal.name)
        report = {each: value for each, value in goal_report(proposals, spec).items() if value is not None}
        actions = actions_report(proposals, spec, status=None, parent=None)
        return {**report, "counts": report["actions"], "actions": actions["actions"], "left_out": actions["left_out"]}

    schema = object_schema({"project" if projects else "goal": STRING_SCHEMA})
    return json_tool(name, description, schema, answer, read_only=True)


def _control_tools(control: ChatRunControl, noun: str, *, projects: bool) -> tuple[Tool, ...]:
    # `noun` is `goal` or `project`.
    def tool(verb: str, description: str, steer: Callable[[ChatRunControl, Run, Goal], Awaitable[str]]) -> Tool:
        async def answer(args: Args) -> Mapping[str, Any]:
            run, goal = _find_run_and_goal(control, args, projects=projects)
            note = await steer(control, run, goal)
            now = control.context.store.goals.get(goal.id) or goal
            return {noun: goal.name, "status": status_of(now.state), "note": note or None}

        return json_tool(f"{verb}_{noun}", description, object_schema({noun: STRING_SCHEMA}), answer)

    return (
        tool("start", f"Start a {noun}, or resume it after a pause.", _start_goal),
        tool("pause", f"Start nothing new in a {noun}; running work finishes.", _pause_goal),
        tool("cancel", f"End a {noun} for good and stop its running work; landed changes stay.", _cancel_goal),
    )


async def _start_goal(control: ChatRunControl, run: Run, goal: Goal) -> str:
    if isinstance(goal.state, Failed):
        fix = "Only the user can retry it: `scaffold retry`."
        raise UsageError(f"`{goal.name}` has failed: {goal.state.reason}", fix)
    # A killed owner leaves its goals active, so the state alone does not say whether work goes on.
    owned = run.owner is not None and is_alive(run.owner)
    if owned and isinstance(goal.state, Active):
        return "It is already running."
    if goal.state == Paused(PAUSED_BY_USER):
        await request_goal_control(control.context, run, goal, "resume")
    return "" if owned else await control.resume_in_background(run)


async def _pause_goal(control: ChatRunControl, run: Run, goal: Goal) -> str:
    await request_goal_control(control.context, run, goal, "pause")
    return "Running work finishes and lands."


async def _cancel_goal(control: ChatRunControl, run: Run, goal: Goal) -> str:
    await request_goal_control(control.context, run, goal, "cancel")
    return "Landed changes stay; unfinished work is pinned."


def _find_run_and_goal(control: ChatRunControl, args: Args, *, projects: bool) -> tuple[Run, Goal]:
    run = control.run()
    if run is None:
        fix = "Plan with the user first, then call execute_plan, goap_create_goal or create_project."
        raise ChangeRejected("there is no run yet", fix)
    spec = find_goal(DraftProposals(control.context.store, run), args["project" if projects else "goal"])
    goal = control.context.store.goals.by_name(run.id, spec.name)
    if goal is None:
        raise LookupError(spec.name)
    if projects and not _is_project(control.context, goal):
        raise ChangeRejected(f"`{goal.name}` is a goal, not a project", "Use the goal tools, such as goal_status.")
    return run, goal


def _is_project(context: RunContext, goal: Goal) -> bool:
    return any(action.method == PROJECT_METHOD for action in context.store.actions.for_goal(goal.id))


async def plan_and_confirm(context: RunContext, run_id: RunId, dialog: StartDialog) -> str:
    """Plan a new run, and start it in the background if the user agrees.

    Raises as `PlanningPhase.run_to_end` does, but for PlanInvalid.
    """
    phase = await begin_planning(context, run_id, show_step=dialog.show_step)
    try:
        stopped = await phase.run_to_end()
    except PlanInvalid as invalid:
        findings = (
            f"- {finding.severity}[{finding.code}] {finding.message}. {finding.fix}" for finding in invalid.findings
        )
        return "\n".join((f"Not started: {invalid.in_full}", *findings))
    return f"Not started: planning was {stopped}." if stopped else await _start_if_agreed(context, phase.run, dialog)


async def resume_and_confirm(context: RunContext, run_id: RunId, dialog: StartDialog) -> str:
    """Start a planned run that no process owns, in the background, if the user agrees."""
    return await _start_if_agreed(context, await take_over_run_when_free(context, run_id), dialog)


async def _start_if_agreed(context: RunContext, run: Run, dialog: StartDialog) -> str:
    # The run is released in all cases.
    try:
        agreed = await dialog.confirm_start(run)
    except asyncio.CancelledError:
        save_run(context, run.id)
        raise
    if not agreed:
        save_run(context, run.id)
        return f"The user does not want to start yet. The plan is saved; `scaffold resume {run.id}` starts it."
    dialog.start_in_background(run)
    return f"Run {run.id} is running in the background. Tell the user so in one line, then end your turn."
