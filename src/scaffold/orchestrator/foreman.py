"""The tools by which the agent that talks with the user has plans carried out: goals of the run, and projects."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

from scaffold.core.errors import ScaffoldError, UsageProblem
from scaffold.core.ids import WishId
from scaffold.core.model import Goal, Run, Wish, WishKind
from scaffold.core.states import Active, Cancelled, Completed, Failed, Paused, status_of
from scaffold.core.tool import Tool
from scaffold.host.identity import alive
from scaffold.host.ids import new_id
from scaffold.orchestrator.answers import TEXT, WHOLE, Args, answering, fitting
from scaffold.orchestrator.control import grant
from scaffold.orchestrator.desks import DraftDesk
from scaffold.orchestrator.projects import PROJECT_METHOD, changes_of, project_goal
from scaffold.orchestrator.reports import actions_report, goal_meant, goal_report
from scaffold.orchestrator.wishes import SET_ASIDE
from scaffold.orchestrator.writing import write_changes
from scaffold.plan.draft import DraftRefused
from scaffold.plan.proposed import read_tasks
from scaffold.tools.arguments import object_schema
from scaffold.worker.site import Site

PATIENCE_S = 30.0
"""How long a wish about a goal may take its run's owner."""
ENDED = (Completed, Failed, Cancelled)
TASK = object_schema(
    {"description": {**TEXT, "description": "All that whoever does it needs to know."}},
    key=TEXT,
    depends_on={"type": "array", "description": "Tasks that must be done before: places in the list, from 0, or keys."},
    role=TEXT,
    files={"type": "array", "items": TEXT},
    acceptance={"description": "Criteria: a text or a list."},
    verification_intent=TEXT,
    contract={"type": "object"},
)


class Foreman(Protocol):
    """What the face that talks with the user does for these tools; its words go to the model."""

    @property
    def site(self) -> Site:
        """The repository that is worked on."""

    def run(self) -> Run | None:
        """Return the run that is talked about, as it is stored now; None before the first."""

    async def execute_plan(self, plan: str) -> str:
        """Clear the conversation, have the plan laid out, and carried out if the user agrees."""

    async def open_unplanned_run(self, request: str) -> Run:
        """Open a run without goals; it is not started."""

    async def go_on(self, run: Run) -> str:
        """Have a run that no process owns carried out in the background."""


def orchestrator_tools(foreman: Foreman) -> tuple[Tool, ...]:
    """Return the tools for plans and goals."""
    return (
        _execute_plan(foreman),
        _listing(foreman, "list_goals", "List the goals of the run with their status.", projects=False),
        _status(foreman, "goal_status", "Read a goal: what holds, what is missing, its actions.", projects=False),
        *_steering(foreman, "goal", projects=False),
    )


def project_tools(foreman: Foreman) -> tuple[Tool, ...]:
    """Return the tools for projects: goals whose tasks, with what each depends on, are given."""
    return (
        _create_project(foreman),
        _listing(foreman, "list_projects", "List the projects with their status.", projects=True),
        _status(foreman, "project_status", "Read a project: which tasks are where.", projects=True),
        *_steering(foreman, "project", projects=True),
    )


def _execute_plan(foreman: Foreman) -> Tool:
    async def answer(args: Args) -> Mapping[str, Any]:
        plan = args["plan"].strip()
        if not plan:
            raise UsageProblem("the plan is empty", "Write down all that was agreed on with the user.")
        try:
            return {"said": await foreman.execute_plan(plan)}
        except ScaffoldError as error:
            raise UsageProblem(error.what, error.fix) from error

    return answering(
        "execute_plan",
        "Carry out the plan that the user has agreed to. This conversation is cleared: write down all of it.",
        object_schema({"plan": TEXT}),
        answer,
    )


def _create_project(foreman: Foreman) -> Tool:
    async def answer(args: Args) -> Mapping[str, Any]:
        """Write the project down as a goal that is set aside; the same one twice is there once."""
        spec = project_goal(args["name"], args["description"], read_tasks(args["tasks"]))
        run = foreman.run()
        if run is None or isinstance(run.state, ENDED):
            run = await foreman.open_unplanned_run(args["description"])
        store = foreman.site.store
        with store.transaction(durable=True):
            written = write_changes(store, run, changes_of(spec), now=foreman.site.clock.now())
            goal = store.goals.by_name(run.id, spec.name)
            if written and goal is not None and not isinstance(goal.state, Paused):
                store.goals.move(goal.id, Paused(SET_ASIDE))
        note = "Start it with start_project." if written else "It exists already, the same."
        return {"project": spec.name, "run": run.id, "tasks": len(spec.actions), "created": bool(written), "note": note}

    return answering(
        "create_project",
        "Create a project from a list of tasks, each with those it depends on; nothing starts yet.",
        object_schema({"name": TEXT, "description": TEXT, "tasks": {"type": "array", "items": TASK}}),
        answer,
    )


def _listing(foreman: Foreman, name: str, description: str, *, projects: bool) -> Tool:
    async def answer(args: Args) -> Mapping[str, Any]:  # noqa: ARG001 - there is nothing to say
        """Return a line for each, with how far it is."""
        what = "projects" if projects else "goals"
        run = foreman.run()
        if run is None:
            return {what: [], "note": "There is no run yet."}
        desk = DraftDesk(foreman.site.store, run)
        goals = foreman.site.store.goals.of_run(run.id)
        reports = (
            goal_report(desk, goal_meant(desk, goal.name))
            for goal in goals
            if not projects or _is_project(foreman.site, goal)
        )
        lines = ({key: report[key] for key in ("goal", "status", "complete", "actions")} for report in reports)
        taken, left = fitting(lines, most=len(goals), room=WHOLE)
        return {"run": run.id, "run_status": status_of(run.state), what: taken, "left_out": left or None}

    return answering(name, description, object_schema({}), answer, only_reads=True)


def _status(foreman: Foreman, name: str, description: str, *, projects: bool) -> Tool:
    async def answer(args: Args) -> Mapping[str, Any]:
        run, goal = _meant(foreman, args, projects=projects)
        desk = DraftDesk(foreman.site.store, run)
        spec = goal_meant(desk, goal.name)
        report = {each: value for each, value in goal_report(desk, spec).items() if value is not None}
        actions = actions_report(desk, spec, status=None, parent=None)
        return {**report, "counts": report["actions"], "actions": actions["actions"], "left_out": actions["left_out"]}

    schema = object_schema({"project" if projects else "goal": TEXT})
    return answering(name, description, schema, answer, only_reads=True)


def _steering(foreman: Foreman, noun: str, *, projects: bool) -> tuple[Tool, ...]:
    """Return the tools that start, pause and cancel what `noun` names."""

    def tool(verb: str, description: str, steer: Callable[[Foreman, Run, Goal], Awaitable[str]]) -> Tool:
        async def answer(args: Args) -> Mapping[str, Any]:
            run, goal = _meant(foreman, args, projects=projects)
            said = await steer(foreman, run, goal)
            now = foreman.site.store.goals.get(goal.id) or goal
            return {noun: goal.name, "status": status_of(now.state), "note": said or None}

        return answering(f"{verb}_{noun}", description, object_schema({noun: TEXT}), answer)

    return (
        tool("start", f"Start a {noun}, or let it go on after a pause.", _start),
        tool("pause", f"Start nothing new in a {noun}; what runs finishes.", _pause),
        tool("cancel", f"End a {noun} for good, with everything that runs for it; what landed stays.", _cancel),
    )


async def _start(foreman: Foreman, run: Run, goal: Goal) -> str:
    if isinstance(goal.state, Failed):
        fix = "What failed is the user's to retry: `scaffold retry`."
        raise UsageProblem(f"`{goal.name}` has failed: {goal.state.reason}", fix)
    owned = run.owner is not None and alive(run.owner)
    if owned and isinstance(goal.state, Active):
        return "It is being pursued already."
    if goal.state == Paused(SET_ASIDE):
        await _grant(foreman, run, goal, "resume")
    return "" if owned else await foreman.go_on(run)


async def _pause(foreman: Foreman, run: Run, goal: Goal) -> str:
    await _grant(foreman, run, goal, "pause")
    return "What runs finishes and lands."


async def _cancel(foreman: Foreman, run: Run, goal: Goal) -> str:
    await _grant(foreman, run, goal, "cancel")
    return "What landed stays; unfinished work is pinned."


async def _grant(foreman: Foreman, run: Run, goal: Goal, kind: WishKind) -> None:
    now = foreman.site.clock.now()
    wish = Wish(id=WishId(new_id()), run_id=run.id, kind=kind, goal_id=goal.id, created_at=now)
    await grant(foreman.site, run, wish, patience_s=PATIENCE_S)


def _meant(foreman: Foreman, args: Args, *, projects: bool) -> tuple[Run, Goal]:
    """Return the run that is talked about and the goal or project that the arguments name; DraftRefused if none."""
    run = foreman.run()
    if run is None:
        fix = "Plan with the user first, then call execute_plan or create_project."
        raise DraftRefused("there is no run yet", fix)
    spec = goal_meant(DraftDesk(foreman.site.store, run), args["project" if projects else "goal"])
    goal = foreman.site.store.goals.by_name(run.id, spec.name)
    if goal is None:
        raise LookupError(spec.name)
    if projects and not _is_project(foreman.site, goal):
        raise DraftRefused(f"`{goal.name}` is a goal and no project", "Use goal_status and the like.")
    return run, goal


def _is_project(site: Site, goal: Goal) -> bool:
    return any(action.method == PROJECT_METHOD for action in site.store.actions.of_goal(goal.id))
