"""Runs as tasks of the Tasks extension. A task has the id of its run, so it outlives every server."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, ElicitResult, RequestParams

from scaffold.core.errors import UsageError
from scaffold.core.states import Cancelled, Completed, Failed
from scaffold.mcp.run_control import answer_question
from scaffold.mcp.run_queries import read_run_and_summary, summary_json
from scaffold.views.run_json import Json
from scaffold.views.run_view import RunSummary

TASKS_EXTENSION = "io.modelcontextprotocol/tasks"
POLL_MS, IDLE_POLL_MS = 2_000, 30_000  # for a run that is executed, and one that waits to be resumed
ANSWER = "answer"


class TaskParams(RequestParams):
    """Names a task."""

    task_id: str


class UpdateTaskParams(TaskParams):
    """Answers questions of a task."""

    input_responses: dict[str, ElicitResult]


def new_task(cwd: Path, task_id: str) -> Json:
    """Return the task of a run as the answer to the call that created it: without a result and questions."""
    task = task_of(cwd, task_id, asks=False)
    return {"resultType": "task", **{key: value for key, value in task.items() if key != "result"}}


def task_of(cwd: Path, task_id: str, *, asks: bool) -> Json:
    """Return the task of a run as `tasks/get` does, without the result's type; MCPError if there is none.

    `asks`: whether the client can put questions to its user.
    """
    run, summary = _find_run(cwd, task_id)
    shared: Json = {
        "taskId": run,
        "createdAt": summary.run.created_at.isoformat(),
        "lastUpdatedAt": max(summary.run.updated_at, summary.run.created_at).isoformat(),
        "ttlMs": None,  # runs are kept until `scaffold purge`
        "pollIntervalMs": POLL_MS if summary.is_live else IDLE_POLL_MS,
        "statusMessage": progress_text(summary),
    }
    match summary.run.state:
        case Cancelled():
            return {**shared, "status": "cancelled"}
        case Completed() | Failed():
            failed = isinstance(summary.run.state, Failed)
            return {**shared, "status": "completed", "result": tool_result(summary_json(summary), failed=failed)}
    if asks and (questions := [item for item in summary.inbox if item.kind == "question"]):
        answer = {"type": "string", "title": "Answer"}
        schema = {"type": "object", "properties": {ANSWER: answer}, "required": [ANSWER]}
        requests = {
            item.id: {
                "method": "elicitation/create",
                "params": {"mode": "form", "message": item.text, "requestedSchema": schema},
            }
            for item in questions
        }
        return {**shared, "status": "input_required", "inputRequests": requests}
    return {**shared, "status": "working"}


def answer_task(cwd: Path, params: UpdateTaskParams) -> None:
    """Answer open questions of a run; answers to other questions, and declined ones, are ignored."""
    _, summary = _find_run(cwd, params.task_id)
    open_items = {item.id for item in summary.inbox if item.kind == "question"}
    for item_id, given in params.input_responses.items():
        words = (given.content or {}).get(ANSWER)
        if item_id in open_items and given.action == "accept" and isinstance(words, str):
            answer_question(cwd, item_id, words)


def progress_text(summary: RunSummary) -> str:
    """Return in a line how far a run is, and what it waits for."""
    landed, actions = progress(summary)
    waits = f"; {len(summary.inbox)} in the inbox: `scaffold inbox`" if summary.inbox else ""
    why = f": {summary.reason}" if summary.reason else ""
    goes_on = (
        "" if summary.is_live or isinstance(summary.run.state, Completed | Failed | Cancelled) else "; not running"
    )
    return f"{summary.status}{why}, {landed} of {actions} actions done{waits}{goes_on}"


def progress(summary: RunSummary) -> tuple[int, int]:
    """Return how many actions are done, and how many there are."""
    done = sum(goal.status_counts.get("completed", 0) for goal in summary.goals)
    return done, sum(sum(goal.status_counts.values()) for goal in summary.goals)


def tool_result(value: Mapping[str, Any], *, failed: bool = False) -> Json:
    """Return the result of a tool call as it goes over the wire."""
    text = msgspec.json.encode(value).decode()
    return {"content": [{"type": "text", "text": text}], "structuredContent": dict(value), "isError": failed}


def _find_run(cwd: Path, task_id: str) -> tuple[str, RunSummary]:
    unknown = MCPError(INVALID_PARAMS, f"there is no task `{task_id}`")
    try:
        run, summary = read_run_and_summary(cwd, task_id or "-")  # an empty name would mean the latest run
    except UsageError as error:
        raise unknown from error
    if run.id != task_id:  # the beginning of an id finds a run, but is the id of no task
        raise unknown
    return run.id, summary
