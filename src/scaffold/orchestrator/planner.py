"""The planner's turn: a request becomes goals and actions, on a conversation of its own."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from scaffold.core.model import Run
from scaffold.core.plan import Finding
from scaffold.core.ports import Model
from scaffold.core.tool import Tool
from scaffold.host.environment import child_environment
from scaffold.orchestrator.desks import Desk
from scaffold.orchestrator.goap import planning_tools
from scaffold.orchestrator.turn import Conditions, Occasion, TurnEnding, errors, take_turn
from scaffold.plan.draft import Draft
from scaffold.policy.consent import Approval, Gate
from scaffold.policy.shell.commands import Commands
from scaffold.tools.builtin import builtin_tools
from scaffold.tools.reads import remembering
from scaffold.tools.workspace import Workspace
from scaffold.worker.consent import worker_rules
from scaffold.worker.site import Site

Watch = Callable[[Tool], Tool]
"""Returns a tool that does the same and lets somebody see what it does."""

ENVELOPE = """\
Plan the request below for the repository you can read. Up to {agents} agents will work on it side by side.

<request>
{request}
</request>"""


def unwatched(tool: Tool) -> Tool:
    """Return the tool as it is."""
    return tool


async def lay_out(site: Site, run: Run, model: Model, *, watch: Watch = unwatched) -> TurnEnding:
    """Have the planner lay out a run that this process owns; what it proposes is written at the end, or not at all.

    StaleFence once another process owns the run.
    """
    words = ENVELOPE.format(agents=run.settings.agents, request=run.request.strip())
    reading = reading_tools(site, run)

    def tools(desk: Desk) -> tuple[Tool, ...]:
        return tuple(map(watch, (*planning_tools(desk), *reading)))

    conditions = Conditions(tools=tools, faults=faults)
    return await take_turn(site, run, model, Occasion(event="plan", prompt=words), conditions)


def faults(draft: Draft) -> tuple[Finding, ...]:
    """Return all that must not be in a laid-out run: what lint calls an error, and no goal at all."""
    if draft.plan.goals:
        return tuple(errors(draft.findings()))
    message = "there is no goal yet, so nothing would be done"
    fix = "Create a goal with goap_create_goal, then its actions with goap_create_actions."
    return (Finding(code="no-goal", severity="error", message=message, fix=fix),)


def reading_tools(site: Site, run: Run) -> tuple[Tool, ...]:
    """Return what looks at the user's checkout and changes nothing; what is protected stays unread."""
    root = site.repository.root
    place = Workspace(root, child_environment(site.environ, {}), redactor=site.redactor)
    gate = Gate(
        worker_rules(run.settings, confined=False),
        root=root,
        home=Path.home(),
        clock=site.clock,
        tell=_untold,
        shell=partial(Commands, site.environ),
    )
    reading = (tool for tool in builtin_tools(place) if tool.category == "file_read")
    return tuple(map(gate.guard, remembering(tuple(reading), root)))


def _untold(approval: Approval) -> None:
    """Tell nobody: what is denied stands in the journal as the tool's answer."""
