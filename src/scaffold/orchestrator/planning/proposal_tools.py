"""Tools of planning agents, which read the run and propose changes; only evidence makes an assertion true."""

from collections.abc import Collection, Mapping
from typing import Any, get_args

from msgspec import structs

from scaffold.core.errors import GitError
from scaffold.core.ids import ActionKey, Assertion
from scaffold.core.plan import GoalSpec, Plan, TaskType
from scaffold.core.tool import Tool
from scaffold.git.client.command_line import Git
from scaffold.git.ignored_files import ignored_declarations
from scaffold.orchestrator.planning.evidence_check import EvidenceCheck, nothing_to_check, summarize_finding
from scaffold.orchestrator.planning.proposals import ProposalTarget
from scaffold.orchestrator.planning.reports import (
    STATUS_ORDER,
    actions_report,
    claims_report,
    find_action,
    find_goal,
    goal_plan_errors,
    goal_report,
    results_report,
    unmet_assertions,
)
from scaffold.orchestrator.planning.tool_responses import (
    STRING_LIST_SCHEMA,
    STRING_SCHEMA,
    Args,
    json_tool,
    truncate_names,
)
from scaffold.plan.edit.draft import ChangeRejected, CreateActions, CreateGoal, ProposeAssertions, UpdateAction
from scaffold.plan.edit.proposed_actions import read_proposed_actions
from scaffold.plan.message_text import quoted
from scaffold.tools.arguments import object_schema

BOOLEAN_SCHEMA = {"type": "boolean"}
ACTION_SCHEMA = object_schema(
    {
        "key": {**STRING_SCHEMA, "description": "Unique in the run, e.g. `store/schema`."},
        "description": {**STRING_SCHEMA, "description": "Everything the agent doing it needs to know."},
        "kind": {**STRING_SCHEMA, "enum": ["primitive", "compound"]},
        "preconditions": {**STRING_LIST_SCHEMA, "description": "Assertions that must hold first."},
        "effects": {**STRING_LIST_SCHEMA, "description": "Assertions that hold once it has landed."},
    },
    role={**STRING_SCHEMA, "description": "Default implementation; code_review, testing, ..."},
    files={**STRING_LIST_SCHEMA, "description": "Paths and globs that it may change, with existing tests."},
    acceptance={"description": "Acceptance criteria: a string or a list."},
    verification_intent=STRING_SCHEMA,
    title=STRING_SCHEMA,
    type={**STRING_SCHEMA, "enum": list(get_args(TaskType))},
    notes=STRING_SCHEMA,
    contract={
        "type": "object",
        "description": "{commands: [{command, expect: 'exit 0' | 'output contains X', required, timeout_s}], "
        "must_exist, must_not_exist, must_not_change: [GLOB]}: checks that decide whether the effects hold.",
    },
)
ACTION_SCHEMA["required"] = ["key", "description", "effects"]
"""`kind` defaults to primitive, `preconditions` to none."""


def planning_tools(proposals: ProposalTarget, git: Git | None = None) -> tuple[Tool, ...]:
    """Return the tools of the planner, which turns a request into goals and actions.

    With `git` they refuse to declare files that it ignores.
    """
    create_actions = create_actions_tool(proposals, git)
    return (create_goal_tool(proposals), create_actions, _get_goal(proposals), _list_actions(proposals))


def supervisor_tools(
    proposals: ProposalTarget, check: EvidenceCheck = nothing_to_check, git: Git | None = None
) -> tuple[Tool, ...]:
    """Return the tools of a supervisor's agent, which decomposes, replans and judges; `check` checks its evidence."""
    return (
        *planning_tools(proposals, git),
        _update_action(proposals),
        _dispatch_action(proposals),
        _update_world_state(proposals, check),
        _check_complete(proposals),
        _get_action_results(proposals),
    )


def proposed_goal(args: Args) -> CreateGoal:
    """Return the change that the arguments of `goap_create_goal` propose."""
    return CreateGoal(
        GoalSpec(
            name=args["name"],
            description=args["description"],
            goal_state=tuple(map(Assertion, args["goal_state"])),
            persistent=args.get("persistent", False),
        )
    )


def create_goal_tool(proposals: ProposalTarget) -> Tool:
    """Return `goap_create_goal`."""

    async def answer(args: Args) -> Mapping[str, Any]:
        change = proposed_goal(args)
        created = proposals.change(change)
        note = None if created else "An identical goal already exists."
        return {"goal": change.spec.name, "created": created, "note": note}

    return json_tool(
        "goap_create_goal",
        "Create a goal: the assertions that must hold at the end. Add its actions with goap_create_actions.",
        object_schema(
            {"name": STRING_SCHEMA, "description": STRING_SCHEMA, "goal_state": STRING_LIST_SCHEMA},
            persistent=BOOLEAN_SCHEMA,
        ),
        answer,
    )


def create_actions_tool(proposals: ProposalTarget, git: Git | None = None) -> Tool:
    """Return `goap_create_actions`; with `git` it refuses files that git ignores, while others can be chosen."""

    async def answer(args: Args) -> Mapping[str, Any]:
        goal = find_goal(proposals, args["goal"])
        parent = find_action(proposals, args["parent"]).key if args.get("parent") else None
        specs = read_proposed_actions(args["actions"], parent=parent)
        # Read before the change: a call may be repeated, and the answer says which actions existed.
        known = {action.key for action in goal.actions}
        if git is not None:
            new = structs.replace(goal, actions=tuple(spec for spec in specs if spec.key not in known))
            await _reject_ignored(
                git, Plan(goals=(*proposals.draft.plan.goals, new)), {spec.key for spec in new.actions}
            )
        proposals.change(CreateActions(goal.name, specs))
        return {
            "goal": goal.name,
            "created": [spec.key for spec in specs if spec.key not in known],
            "existed": [spec.key for spec in specs if spec.key in known] or None,
            "not_sound_yet": goal_plan_errors(proposals, goal.name),
        }

    return json_tool(
        "goap_create_actions",
        "Add actions to a goal, below the compound `parent` if given; either all are added or none. Only preconditions "
        "and effects determine the order. The children of a compound must make all its effects true.",
        object_schema(
            {"goal": STRING_SCHEMA, "actions": {"type": "array", "items": ACTION_SCHEMA}}, parent=STRING_SCHEMA
        ),
        answer,
    )


async def _reject_ignored(git: Git, plan: Plan, keys: Collection[ActionKey]) -> None:
    try:
        ignored = [finding for finding in await ignored_declarations(git, plan) if finding.action in keys]
    except GitError:
        return  # those that run the plan find it
    if ignored:
        raise ChangeRejected("; ".join(finding.message for finding in ignored), ignored[0].fix)


def _get_goal(proposals: ProposalTarget) -> Tool:
    async def answer(args: Args) -> Mapping[str, Any]:
        return goal_report(proposals, find_goal(proposals, args["goal"]))

    return json_tool(
        "goap_get_goal",
        "Read a goal: description, goal state, what holds, summary, and the number of actions by status.",
        object_schema({"goal": STRING_SCHEMA}),
        answer,
        read_only=True,
    )


def _list_actions(proposals: ProposalTarget) -> Tool:
    async def answer(args: Args) -> Mapping[str, Any]:
        goal = find_goal(proposals, args["goal"])
        return actions_report(proposals, goal, status=args.get("status"), parent=args.get("parent"))

    return json_tool(
        "goap_list_actions",
        f"List a goal's actions: all, those with one status ({', '.join(STATUS_ORDER)}), or those below one compound. "
        "Kind and role are omitted for primitive implementation actions.",
        object_schema({"goal": STRING_SCHEMA}, status=STRING_SCHEMA, parent=STRING_SCHEMA),
        answer,
        read_only=True,
    )


def _update_action(proposals: ProposalTarget) -> Tool:
    async def answer(args: Args) -> Mapping[str, Any]:
        action = find_action(proposals, args["action"])
        changed = proposals.change(_action_update(action.key, args["status"], args.get("result", "")))
        draft = proposals.draft
        goal = draft.goal_of(action.key)
        return {
            "action": action.key,
            "status": draft.progress.status(action.key),
            "changed": changed,
            "not_sound_yet": None if goal is None else goal_plan_errors(proposals, goal.name),
        }

    return json_tool(
        "goap_update_action",
        "Set an action to `skipped`, with the reason as `result`, or a failed action back to `pending`, with another "
        "approach as `result`, for one more attempt. Only evidence completes an action.",
        object_schema({"action": STRING_SCHEMA, "status": STRING_SCHEMA}, result=STRING_SCHEMA),
        answer,
    )


def _action_update(key: ActionKey, status: str, note: str) -> UpdateAction:
    match status:
        case "pending" | "skipped":
            return UpdateAction(key, status, note)
        case "completed":
            fix = "Use goap_update_world_state to name evidence."
            raise ChangeRejected(f"`{key}` cannot be set to completed: only evidence completes an action", fix)
        case "cancelled":
            fix = "Set it to `skipped`, with the reason, if it is not needed."
            raise ChangeRejected(f"`{key}` cannot be cancelled by an agent, only by a human", fix)
        case _:
            fix = "Set it to `pending` (retry a failed action) or `skipped` (not needed)."
            raise ChangeRejected(f"`{key}` cannot be set to {quoted(status)}", fix)


def _dispatch_action(proposals: ProposalTarget) -> Tool:
    async def answer(args: Args) -> Mapping[str, Any]:
        action = find_action(proposals, args["action"])
        number = await proposals.dispatch(action.key)
        if number is None:
            note = "Ready actions are dispatched automatically as soon as a worker is free."
            return {"action": action.key, "dispatched": False, "note": note}
        return {"action": action.key, "dispatched": True, "attempt": number}

    return json_tool(
        "goap_dispatch_action",
        "Start a worker for a ready primitive action. You are woken when it has ended.",
        object_schema({"action": STRING_SCHEMA}),
        answer,
    )


def _update_world_state(proposals: ProposalTarget, check: EvidenceCheck) -> Tool:
    async def answer(args: Args) -> Mapping[str, Any]:
        goal = find_goal(proposals, args["goal"])
        claims: dict[Assertion, bool] = {}
        for name, claim in args["assertions"].items():
            if not isinstance(claim, bool):
                raise ChangeRejected(f"assertion {quoted(name)} is neither true nor false", "Write true or false.")
            claims[Assertion(name)] = claim
        evidence = args.get("evidence", "")
        found = await check(evidence, args.get("command", ""))
        said = " ".join([evidence, *(f"(checked: {summarize_finding(each)})" for each in found)]).strip()
        recorded = proposals.change(ProposeAssertions(goal.name, claims, said, args.get("summary")))
        report = claims_report(proposals, goal, claims, evidence, checked=bool(found))
        checked = found[0] if len(found) == 1 else found or None
        return {"goal": goal.name, "recorded": recorded, "checked": checked, **report}

    return json_tool(
        "goap_update_world_state",
        "Propose that assertions hold, naming the evidence: the action that showed it, `commit SHA`, or a command, in "
        "backticks or as `command`, which runs at once on what has landed. `summary` replaces the goal's summary. A "
        "proposal is not a fact: the answer says what was found, and what holds by evidence.",
        object_schema(
            {"goal": STRING_SCHEMA, "assertions": {"type": "object"}},
            evidence=STRING_SCHEMA,
            command=STRING_SCHEMA,
            summary=STRING_SCHEMA,
        ),
        answer,
    )


def _check_complete(proposals: ProposalTarget) -> Tool:
    async def answer(args: Args) -> Mapping[str, Any]:
        goal = find_goal(proposals, args["goal"])
        unmet = unmet_assertions(proposals.draft, goal)
        return {"goal": goal.name, "complete": not unmet, "unmet": truncate_names(unmet)}

    return json_tool(
        "goap_check_complete",
        "Check whether everything in the goal state holds.",
        object_schema({"goal": STRING_SCHEMA}),
        answer,
        read_only=True,
    )


def _get_action_results(proposals: ProposalTarget) -> Tool:
    async def answer(args: Args) -> Mapping[str, Any]:
        goal = find_goal(proposals, args["goal"])
        keys = [find_action(proposals, name).key for name in args.get("actions", ())]
        return results_report(proposals, goal, keys)

    return json_tool(
        "goap_get_action_results",
        "Read the results of actions: the worker's report, and why attempts failed. Long texts are truncated; name "
        "fewer `actions` to see more of each.",
        object_schema({"goal": STRING_SCHEMA}, actions=STRING_LIST_SCHEMA),
        answer,
        read_only=True,
    )
