"""The subagent tools: start a subagent, show its status or wait for its end."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import msgspec

from scaffold.agent.messages.envelope_text import format_age
from scaffold.agent.messages.mailbox import Mailbox
from scaffold.agent.subagents.process_pool import MAX_SUBAGENTS, SubagentPool, SubagentTask
from scaffold.core.errors import ScaffoldError
from scaffold.core.extension_set import Role
from scaffold.core.ports import Clock
from scaffold.core.printable_text import short_line
from scaffold.core.tool import Tool, ToolOutput
from scaffold.store.user.subagents import StoredSubagent
from scaffold.tools.arguments import object_schema
from scaffold.tools.workspace import failed_answer

NO_SUBAGENT = "There is no subagent: none was started in this session. Start one with `subagent`."
MAX_TIMEOUT_S = 3_600
PAGE_CHARS = 12_000  # characters of one result shown at once
MAX_ROLE_CHARS = 200  # of what is said of one role
MAX_ROLES_CHARS = 6_000
ALL_RESULTS_CHARS = 24_000  # characters of several results shown together


def subagent_tools(pool: SubagentPool, mailbox: Mailbox, clock: Clock) -> tuple[Tool, ...]:
    """Return the two tools, in the order shown to the model."""
    return _subagent_tool(pool, mailbox), _subagent_status(pool, mailbox, clock)


def _subagent_tool(pool: SubagentPool, mailbox: Mailbox) -> Tool:
    async def run(args: Mapping[str, Any]) -> ToolOutput:
        """Start a subagent; a failed answer says why there is none."""
        if not args["task"].strip():
            return failed_answer("Not started: the task is empty. Say what to do and what to report.")
        busy = [each.name for each in pool.subagents() if each.status == "running"]
        most = min(pool.limits.most, MAX_SUBAGENTS)
        if len(busy) >= most:
            return failed_answer(
                f"Not started: {len(busy)} subagents are running ({', '.join(busy)}); the limit is {most}. "
                'Wait for one with subagent_status {"subagent_id": "...", "wait": true}, then ask again.'
            )
        task = SubagentTask(
            words=args["task"],
            context=args.get("context", ""),
            model=args.get("model"),
            timeout_s=_bound_timeout(args.get("timeout_s", pool.limits.timeout_s), pool.limits.timeout_s),
            role=args.get("agent", ""),
        )
        try:
            subagent = await pool.spawn(task)
        except ScaffoldError as error:
            return failed_answer(f"Not started: {error.in_full}")
        shown = {"subagent_id": subagent.name, "status": subagent.status}
        if subagent.status == "running":
            return ToolOutput(_to_json(shown))
        answer = _to_json(shown | {"error": subagent.error})
        mailbox.hand_out(answer, mailbox.endings_of([subagent.name]))
        return failed_answer(answer)

    return Tool(
        name="subagent",
        description=(
            "Start another agent on its own task, in parallel to you, in the same directory. It knows only what you "
            "write here. When it ends you get its final message; continue with other work until then."
        ),
        schema=object_schema(
            {"task": {"type": "string", "description": "What to do, and what to report in its final message."}},
            context={"type": "string", "description": "What it needs to know: files, findings, decisions."},
            model={"type": "string", "description": "A model string; default: your model."},
            timeout_s={"type": "number", "minimum": 1, "description": f"Seconds; default {pool.limits.timeout_s:g}."},
            **_role_schema(pool.limits.roles),
        ),
        category="subagent",
        run=run,
    )


def _role_schema(roles: Sequence[Role]) -> Mapping[str, Mapping[str, Any]]:
    if not roles:
        return {}
    described, room = [], MAX_ROLES_CHARS
    for role in roles:
        line = f"`{role.name}`: {short_line(role.description, MAX_ROLE_CHARS)}"
        room -= len(line)
        described += [line] if room > 0 else []
    text = "The kind of agent, with instructions and tools of its own; default: like you. " + "; ".join(described)
    return {"agent": {"type": "string", "enum": [role.name for role in roles], "description": text}}


def _subagent_status(pool: SubagentPool, mailbox: Mailbox, clock: Clock) -> Tool:
    async def run(args: Mapping[str, Any]) -> ToolOutput:
        """Return the status of subagents, at once or when they have ended."""
        wanted = args.get("subagent_id")
        chosen = [
            each
            for each in pool.subagents()
            if wanted is None or wanted.strip() in {each.name, str(each.number), each.id}
        ]
        if not chosen:
            names = ", ".join(each.name for each in pool.subagents())
            if not names:
                return failed_answer(NO_SUBAGENT)
            return failed_answer(f"There is no subagent {wanted!r}; there are {names}.")
        if args.get("wait"):
            longest_s = _bound_timeout(args.get("timeout_s", pool.limits.timeout_s), pool.limits.timeout_s)
            await pool.ended({each.id for each in chosen}, longest_s)
        now = {each.id: each for each in pool.subagents()}
        current = [now[each.id] for each in chosen]
        shown = [
            _status_of(each, clock, args.get("offset", 0), min(PAGE_CHARS, ALL_RESULTS_CHARS // len(current)))
            for each in current
        ]
        answer = _to_json(shown[0] if wanted is not None else {"subagents": shown})
        mailbox.hand_out(answer, mailbox.endings_of(each.name for each in current))
        return ToolOutput(answer)

    return Tool(
        name="subagent_status",
        description=(
            "Return the status of one subagent or of all; with `wait`, once it has (or all have) ended or the timeout "
            "is over."
        ),
        schema=object_schema(
            {},
            subagent_id={"type": "string", "description": "E.g. `sub-1`; default: all."},
            wait={"type": "boolean", "description": "Wait for the end."},
            timeout_s={"type": "number", "minimum": 0, "description": "Seconds to wait at most."},
            offset={"type": "integer", "minimum": 0, "description": "The first character to return of a long result."},
        ),
        category="memory",  # no approval needed: starting the subagent was approved
        run=run,
    )


def _status_of(subagent: StoredSubagent, clock: Clock, offset: int, page: int) -> Mapping[str, Any]:
    until = subagent.ended_at or clock.now()
    status: dict[str, Any] = {
        "subagent_id": subagent.name,
        "status": subagent.status,
        "task": subagent.task[:200],
        "took": format_age(max(until - subagent.started_at, timedelta())),
    }
    if subagent.error is not None and subagent.status != "running":
        status["error"] = subagent.error[:page]
    if subagent.result is not None and subagent.status != "running":
        end, size = offset + page, len(subagent.result)
        status["result"] = subagent.result[offset:end]
        status |= {"result_chars": size, "next_offset": end} if end < size else {}
    return status


def _bound_timeout(timeout_s: float, default_s: float) -> float:
    return min(float(timeout_s), max(MAX_TIMEOUT_S, default_s))


def _to_json(value: Mapping[str, Any]) -> str:
    return msgspec.json.encode(value).decode()
