"""The tools by which agents plan: they read the run and propose; evidence alone decides what is true."""

from collections.abc import Mapping
from typing import Any

from scaffold.core.ids import Assertion, Key
from scaffold.core.plan import GoalSpec
from scaffold.core.tool import Tool
from scaffold.orchestrator.answers import TEXT, TEXTS, Args, answering, names
from scaffold.orchestrator.desks import Desk
from scaffold.orchestrator.reports import (
    STATUSES,
    action_meant,
    actions_report,
    claims_report,
    faults_of,
    goal_meant,
    goal_report,
    results_report,
    unmet_of,
)
from scaffold.plan.draft import CreateActions, CreateGoal, DraftRefused, Propose, UpdateAction
from scaffold.plan.proposed import read_proposed
from scaffold.plan.wording import shown
from scaffold.tools.arguments import object_schema

FLAG = {"type": "boolean"}
ACTION = object_schema(
    {
        "key": {**TEXT, "description": "Unique in the run, e.g. `store/schema`."},
        "description": {**TEXT, "description": "All that whoever does it needs to know."},
        "kind": {**TEXT, "enum": ["primitive", "compound"]},
        "preconditions": {**TEXTS, "description": "Assertions that must hold first."},
        "effects": {**TEXTS, "description": "Assertions that hold once it has landed."},
    },
    role={**TEXT, "description": "Default implementation; code_review, testing, ..."},
    files={**TEXTS, "description": "Paths and globs it means to touch."},
    acceptance={"description": "Criteria: a text or a list."},
    verification_intent=TEXT,
    contract={
        "type": "object",
        "description": "{commands: [{command, expect: 'exit 0' | 'output contains X', required, timeout_s}], "
        "must_exist, must_not_exist, must_not_change: [GLOB]}; checks that decide whether the effects hold.",
    },
)
ACTION["required"] = ["key", "description", "effects"]
"""A kind that is not given is primitive, and preconditions that are not given are none."""


def planning_tools(desk: Desk) -> tuple[Tool, ...]:
    """Return the tools of a planner, which lays out what a request asks for."""
    return (_create_goal(desk), _create_actions(desk), _get_goal(desk), _list_actions(desk))


def supervisor_tools(desk: Desk) -> tuple[Tool, ...]:
    """Return the tools of a supervisor's agent, which breaks down, replans and judges."""
    return (
        *planning_tools(desk),
        _update_action(desk),
        _dispatch_action(desk),
        _update_world_state(desk),
        _check_complete(desk),
        _get_action_results(desk),
    )


def _create_goal(desk: Desk) -> Tool:
    async def answer(args: Args) -> Mapping[str, Any]:
        wanted = tuple(map(Assertion, args["goal_state"]))
        spec = GoalSpec(
            name=args["name"],
            description=args["description"],
            goal_state=wanted,
            persistent=args.get("persistent", False),
        )
        created = desk.change(CreateGoal(spec))
        return {"goal": spec.name, "created": created, "note": None if created else "It exists already, the same."}

    return answering(
        "goap_create_goal",
        "Create a goal: what is to be true in the end. Its actions come by goap_create_actions.",
        object_schema({"name": TEXT, "description": TEXT, "goal_state": TEXTS}, persistent=FLAG),
        answer,
    )


def _create_actions(desk: Desk) -> Tool:
    async def answer(args: Args) -> Mapping[str, Any]:
        goal = goal_meant(desk, args["goal"])
        parent = action_meant(desk, args["parent"]).key if args.get("parent") else None
        specs = read_proposed(args["actions"], parent=parent)
        known = {action.key for action in goal.actions}
        desk.change(CreateActions(goal.name, specs))
        return {
            "goal": goal.name,
            "created": [spec.key for spec in specs if spec.key not in known],
            "existed": [spec.key for spec in specs if spec.key in known] or None,
            "not_sound_yet": faults_of(desk, goal.name),
        }

    return answering(
        "goap_create_actions",
        "Add actions to a goal, below the compound `parent` if given; all of them or none. Order follows from "
        "preconditions and effects alone. The children of a compound must make all its effects true.",
        object_schema({"goal": TEXT, "actions": {"type": "array", "items": ACTION}}, parent=TEXT),
        answer,
    )


def _get_goal(desk: Desk) -> Tool:
    async def answer(args: Args) -> Mapping[str, Any]:
        return goal_report(desk, goal_meant(desk, args["goal"]))

    return answering(
        "goap_get_goal",
        "Read a goal: description, goal state, what holds, summary, how many actions have which status.",
        object_schema({"goal": TEXT}),
        answer,
        only_reads=True,
    )


def _list_actions(desk: Desk) -> Tool:
    async def answer(args: Args) -> Mapping[str, Any]:
        goal = goal_meant(desk, args["goal"])
        return actions_report(desk, goal, status=args.get("status"), parent=args.get("parent"))

    return answering(
        "goap_list_actions",
        f"List a goal's actions: all, of one status ({', '.join(STATUSES)}) or below one compound. They are primitive "
        "implementations unless it says otherwise.",
        object_schema({"goal": TEXT}, status=TEXT, parent=TEXT),
        answer,
        only_reads=True,
    )


def _update_action(desk: Desk) -> Tool:
    async def answer(args: Args) -> Mapping[str, Any]:
        action = action_meant(desk, args["action"])
        changed = desk.change(_update(action.key, args["status"], args.get("result", "")))
        draft = desk.draft
        goal = draft.goal_of(action.key)
        return {
            "action": action.key,
            "status": draft.standing.status(action.key),
            "changed": changed,
            "not_sound_yet": None if goal is None else faults_of(desk, goal.name),
        }

    return answering(
        "goap_update_action",
        "Set an action to `skipped`, with the reason as `result`, or a failed one back to `pending`, with another "
        "approach as `result`: it gets one more attempt. Only evidence completes an action.",
        object_schema({"action": TEXT, "status": TEXT}, result=TEXT),
        answer,
    )


def _update(key: Key, status: str, note: str) -> UpdateAction:
    match status:
        case "pending" | "skipped":
            return UpdateAction(key, status, note)
        case "completed":
            fix = "Use goap_update_world_state to name evidence."
            raise DraftRefused(f"`{key}` is not completed by a word: only evidence completes", fix)
        case "cancelled":
            fix = "Set it to `skipped`, with the reason, if nobody needs it."
            raise DraftRefused(f"`{key}` is not an agent's to cancel: that is for a human", fix)
        case _:
            fix = "Set it to `pending` (another try at what failed) or `skipped` (nobody needs it)."
            raise DraftRefused(f"`{key}` cannot be set to {shown(status)}", fix)


def _dispatch_action(desk: Desk) -> Tool:
    async def answer(args: Args) -> Mapping[str, Any]:
        action = action_meant(desk, args["action"])
        number = await desk.dispatch(action.key)
        if number is None:
            note = "What is ready is dispatched by itself, as soon as a worker is free."
            return {"action": action.key, "dispatched": False, "note": note}
        return {"action": action.key, "dispatched": True, "attempt": number}

    return answering(
        "goap_dispatch_action",
        "Give a ready primitive action to a worker of its own. You are told when it has ended.",
        object_schema({"action": TEXT}),
        answer,
    )


def _update_world_state(desk: Desk) -> Tool:
    async def answer(args: Args) -> Mapping[str, Any]:
        goal = goal_meant(desk, args["goal"])
        claims: dict[Assertion, bool] = {}
        for name, claim in args["assertions"].items():
            if not isinstance(claim, bool):
                raise DraftRefused(f"assertion {shown(name)} is neither true nor false", "Write true or false.")
            claims[Assertion(name)] = claim
        evidence = args.get("evidence", "")
        recorded = desk.change(Propose(goal.name, claims, evidence, args.get("summary")))
        return {"goal": goal.name, "recorded": recorded, **claims_report(desk, goal, claims, evidence)}

    return answering(
        "goap_update_world_state",
        "Propose that assertions hold, naming the evidence (e.g. the action that showed it), and rewrite the goal's "
        "summary if you like. A proposal is no fact: the answer says what holds by evidence.",
        object_schema({"goal": TEXT, "assertions": {"type": "object"}}, evidence=TEXT, summary=TEXT),
        answer,
    )


def _check_complete(desk: Desk) -> Tool:
    async def answer(args: Args) -> Mapping[str, Any]:
        goal = goal_meant(desk, args["goal"])
        unmet = unmet_of(desk.draft, goal)
        return {"goal": goal.name, "complete": not unmet, "unmet": names(unmet)}

    return answering(
        "goap_check_complete",
        "Test whether everything in the goal state holds.",
        object_schema({"goal": TEXT}),
        answer,
        only_reads=True,
    )


def _get_action_results(desk: Desk) -> Tool:
    async def answer(args: Args) -> Mapping[str, Any]:
        goal = goal_meant(desk, args["goal"])
        keys = [action_meant(desk, name).key for name in args.get("actions", ())]
        return results_report(desk, goal, keys)

    return answering(
        "goap_get_action_results",
        "Read what actions came to: the worker's own words, and why attempts failed. Long ones are cut; name fewer "
        "`actions` to see more of each.",
        object_schema({"goal": TEXT}, actions=TEXTS),
        answer,
        only_reads=True,
    )
