"""The planner's turn: it turns a request into goals and actions, and lists the requirements of a specification."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from scaffold.core.model import Run
from scaffold.core.plan import Finding
from scaffold.core.proof.specification_audit import Requirement
from scaffold.core.tool import Tool
from scaffold.host.child_environment import child_environment
from scaffold.orchestrator.planning.proposal_tools import planning_tools
from scaffold.orchestrator.planning.proposals import ProposalTarget
from scaffold.orchestrator.planning.tool_responses import STRING_LIST_SCHEMA, Args, json_tool, truncate_names
from scaffold.orchestrator.planning.turn import PlanningResult, TurnRequest, TurnRules, only_errors, run_proposal_turn
from scaffold.plan.compliance.requirements import quoted_requirements
from scaffold.plan.compliance.rounds import is_reserved
from scaffold.plan.edit.draft import ChangeRejected, PlanDraft
from scaffold.policy.permission.approval_gate import ApprovalGate, ApprovalOutcome
from scaffold.policy.shell.command_policy import ShellCommandPolicy
from scaffold.policy.shell.workspace_paths import WorkspacePaths
from scaffold.run.attempts.time_limit import TimeLimit
from scaffold.run.context import RunContext
from scaffold.run.learning.told_learnings import with_notes_by_meaning
from scaffold.store.database import Store
from scaffold.tools.arguments import object_schema
from scaffold.tools.catalog import builtin_tools
from scaffold.tools.read_cache import with_read_cache
from scaffold.tools.workspace import Workspace
from scaffold.worker.agent.agent_source import AgentSource
from scaffold.worker.human.inbox_approval import worker_rules

ToolWrapper = Callable[[Tool], Tool]
"""Returns the same tool, which also reports its calls."""
REQUEST_PROMPT = """\
Plan the request below for the repository you can read. Up to {agents} agents will work on it in parallel.

<request>
{request}
</request>"""
LIST_REQUIREMENTS = """

Before the plan, call `spec_requirements` with the requirements of this specification, each quoted from one line of it,
word for word. After the work each of them is audited."""
TOOL = "spec_requirements"


def unwrapped_tool(tool: Tool) -> Tool:
    """Return the tool as it is."""
    return tool


async def plan_run(
    context: RunContext,
    run: Run,
    source: AgentSource,
    *,
    watch: ToolWrapper = unwrapped_tool,
    limit: TimeLimit | None = None,
) -> PlanningResult:
    """Let the planner plan a run that this process owns, within `limit`, and return the result.

    The proposal is written at the end or not at all. Raises StaleFence if another process owns the run.
    """
    prompt = REQUEST_PROMPT.format(agents=run.settings.tier.agents, request=run.request.strip())
    read_tools = read_only_tools(context, run)
    audited = run.settings.planning.until_complied
    listing = RequirementListing(run.request) if audited and not context.store.requirements.for_run(run.id) else None

    def tools(proposals: ProposalTarget) -> tuple[Tool, ...]:
        listed = [listing.tool()] if listing else []
        return tuple(map(watch, (*planning_tools(proposals, context.git), *listed, *read_tools)))

    def faults(draft: PlanDraft) -> tuple[Finding, ...]:
        return (
            *(listing.faults() if listing else ()),
            *plan_errors(draft),
            *(reserved_names(draft) if audited else ()),
        )

    def keep(store: Store) -> None:
        if listing:
            store.requirements.add(run.id, listing.requirements)

    prompt += LIST_REQUIREMENTS if listing else ""
    prompt = await with_notes_by_meaning(context, run, prompt, run.request)
    rules = TurnRules(tools=tools, faults=faults, extra_changes=keep)
    return await run_proposal_turn(context, run, source, TurnRequest(event="plan", prompt=prompt, limit=limit), rules)


def plan_errors(draft: PlanDraft) -> tuple[Finding, ...]:
    """Return the errors that forbid a plan: those of lint, and the lack of any goal."""
    if draft.plan.goals:
        return tuple(only_errors(draft.findings()))
    message = "there is no goal yet, so there is nothing to do"
    fix = "Create a goal with goap_create_goal, then its actions with goap_create_actions."
    return (Finding(code="no-goal", severity="error", message=message, fix=fix),)


def read_only_tools(context: RunContext, run: Run) -> tuple[Tool, ...]:
    """Return the tools that read the user's checkout; the approval gate denies protected files."""
    root = context.repository.root
    workspace = Workspace(root, child_environment(context.environ, {}), redactor=context.redactor)
    gate = ApprovalGate(
        worker_rules(run.settings.permissions, confined=False),
        workspace=WorkspacePaths.on_disk(root, Path.home()),
        clock=context.clock,
        tell=_ignore_approval,
        shell=partial(ShellCommandPolicy, context.environ),
    )
    # The planner works in the user's own checkout, which no run ever changes.
    read_tools = (tool for tool in builtin_tools(workspace) if tool.category == "file_read" and tool.group is None)
    return tuple(map(gate.guard, with_read_cache(tuple(read_tools), root)))


def _ignore_approval(approval: ApprovalOutcome) -> None:
    """Do nothing: the journal has denials as answers of the tool."""


class RequirementListing:
    """The requirements that a planner quotes from a specification without recognizable ones; the last list counts."""

    def __init__(self, specification: str) -> None:
        self._specification = specification
        self.requirements: tuple[Requirement, ...] = ()

    def tool(self) -> Tool:
        """Return `spec_requirements`."""

        async def answer(args: Args) -> Mapping[str, Any]:
            found = quoted_requirements(self._specification, args["quotes"])
            if isinstance(found, str):
                raise ChangeRejected(found, "Call it again with the whole list.")
            self.requirements = found
            return {"requirements": truncate_names([each.criterion for each in found])}

        return json_tool(
            TOOL,
            "List the requirements of the specification: each is a quotation from one of its lines, word for word. "
            "Another call replaces the list.",
            object_schema({"quotes": STRING_LIST_SCHEMA}),
            answer,
        )

    def faults(self) -> tuple[Finding, ...]:
        """Return an error while no requirement is listed."""
        if self.requirements:
            return ()
        message = "the requirements of the specification are not listed"
        fix = f"Call {TOOL} with quotations of its lines."
        return (Finding(code="no-requirements", severity="error", message=message, fix=fix),)


def reserved_names(draft: PlanDraft) -> Iterator[Finding]:
    """Yield an error for each goal and action with a name that is reserved for audits and their tasks."""
    goals = [(goal.name, None) for goal in draft.plan.goals]
    for name, action in (*goals, *((action.key, action.key) for action in draft.plan.actions)):
        if is_reserved(name):
            yield Finding(
                code="reserved-name",
                severity="error",
                action=action,
                message=f"the name `{name}` is kept for audits and their tasks",
                fix="Use names that do not begin with audit- or gaps- and a number.",
            )
