"""The server of the protocol: both eras, tools with consent, resources, and runs as tasks."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from mcp.server import Server
from mcp.server.context import ServerRequestContext
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    CallToolRequestParams,
    CallToolResult,
    ClientCapabilities,
    InputRequiredResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    PaginatedRequestParams,
    ReadResourceRequestParams,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
    TextContent,
    TextResourceContents,
    Tool,
    ToolAnnotations,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel

from scaffold.core.errors import ScaffoldError, UsageError
from scaffold.host.installation import find_installation
from scaffold.mcp import run_control
from scaffold.mcp.consent import ConsentDesk, Power, can_ask
from scaffold.mcp.run_queries import evidence_json, inbox_json, run_status_json, runs_json
from scaffold.mcp.run_tasks import TASKS_EXTENSION, TaskParams, UpdateTaskParams, answer_task, new_task, task_of
from scaffold.mcp.tools import TOOLS, Call, RunAsTask, ServedPlace, ServedTool, read_arguments
from scaffold.policy.secret.redaction import Redactor
from scaffold.views.run_json import Json

SCHEME = "scaffold://"

RESOURCES = (
    ("scaffold://runs", "runs", "The runs of this repository, the one touched last first."),
    ("scaffold://inbox", "inbox", "What waits for a human, oldest first."),
)

TEMPLATES = (
    ("scaffold://runs/{run}", "run", "How far a run is: status, cost, goals, agents, inbox."),
    ("scaffold://runs/{run}/evidence", "evidence", "The facts of a run with their evidence, and what is missing."),
)

_FIXED: Mapping[str, Callable[[Path], Json]] = {"runs": runs_json, "inbox": inbox_json}
NAME = "scaffold"
Context = ServerRequestContext[Any, Any]
TaskHandler = Callable[[Context, Any], Awaitable[Json]]
INSTRUCTIONS = (
    "Runs of Scaffold in {folder}: agents work on actions, and only evidence makes a fact true. {may} A run is a "
    "process of its own: it goes on when this server ends. Approvals of what agents want to do are given at a "
    "terminal only."
)


def instructions(place: ServedPlace, allowed: frozenset[Power]) -> str:
    """Return the server's instructions for clients: what it has, and what they may do."""
    if allowed == {"start", "steer"}:
        may = "Starting and steering runs is allowed without a question."
    elif allowed:
        [power] = allowed
        may = f"To {power} runs is allowed without a question; what else changes something asks the user first."
    else:
        may = (
            "Reading is free. What starts or steers a run asks the user first; without that, this server is read-only."
        )
    return INSTRUCTIONS.format(folder=place.cwd, may=may)


class RunServer:
    """Answers the requests of clients."""

    def __init__(self, place: ServedPlace, allowed: frozenset[Power], redactor: Redactor) -> None:
        self._place = place
        self._desk = ConsentDesk(allowed)
        self._clean_all = redactor.clean_all
        self._tools = {tool.name: tool for tool in TOOLS}

    async def list_tools(self, _ctx: Context, _params: PaginatedRequestParams | None) -> ListToolsResult:
        """Return all tools, on one page."""
        return ListToolsResult(tools=[wire_tool(tool) for tool in TOOLS])

    async def call_tool(
        self, ctx: Context, params: CallToolRequestParams
    ) -> CallToolResult | InputRequiredResult | Json:
        """Run a tool if there is consent; an error of the tool is a result, so that the model learns it."""
        tool = self._tools.get(params.name)
        if tool is None:
            raise MCPError(INVALID_PARAMS, f"there is no tool `{params.name}`")
        try:
            args = read_arguments(tool, params.arguments or {})
            if tool.power is not None:
                question = self._clean_all(tool.question(args))
                if (asked := await self._desk.ask(ctx, params, tool.power, question)) is not None:
                    return asked
            found = await tool.run(self._place, args, Call(ctx.session.report_progress, takes_tasks=_takes_tasks(ctx)))
        except ScaffoldError as error:
            return _failure_result(self._clean_all(error.in_full))
        if isinstance(found, RunAsTask):
            task: Json = self._clean_all(new_task(self._place.cwd, found.run))
            return task
        return _success_result(self._clean_all(found))

    async def list_resources(self, _ctx: Context, _params: PaginatedRequestParams | None) -> ListResourcesResult:
        """Return the resources that are always there."""
        return ListResourcesResult(resources=[_resource(*each) for each in RESOURCES])

    async def list_templates(
        self, _ctx: Context, _params: PaginatedRequestParams | None
    ) -> ListResourceTemplatesResult:
        """Return the resources of each run."""
        return ListResourceTemplatesResult(resource_templates=[_template(*each) for each in TEMPLATES])

    async def read_resource(self, _ctx: Context, params: ReadResourceRequestParams) -> ReadResourceResult:
        """Return a resource as JSON."""
        uri = str(params.uri)
        try:
            found = await resource_json(self._place.cwd, uri)
        except ScaffoldError as error:
            raise MCPError(INVALID_PARAMS, self._clean_all(error.in_full), {"uri": uri}) from error
        text = msgspec.json.encode(self._clean_all(found)).decode()
        return ReadResourceResult(contents=[TextResourceContents(uri=uri, mime_type="application/json", text=text)])

    async def get_task(self, ctx: Context, params: TaskParams) -> Json:
        """Return the state of a run as a task."""
        found: Json = self._clean_all(task_of(self._place.cwd, params.task_id, asks=can_ask(ctx)))
        return found

    async def update_task(self, ctx: Context, params: UpdateTaskParams) -> Json:
        """Pass on a human's answers to questions of the run."""
        if not can_ask(ctx):
            raise MCPError(INVALID_PARAMS, "a client that cannot ask its user has no answers")
        try:
            answer_task(self._place.cwd, params)
        except ScaffoldError as error:
            raise MCPError(INVALID_PARAMS, self._clean_all(error.in_full)) from error
        return {}

    async def cancel_task(self, _ctx: Context, params: TaskParams) -> Json:
        """Stop the run, if that is allowed; its work is pinned, and it can be resumed."""
        task = task_of(self._place.cwd, params.task_id, asks=False)
        if not self._desk.allowed:
            raise MCPError(
                INVALID_PARAMS, f"stopping is not allowed here; the user can: `scaffold stop {task['taskId']}`"
            )
        try:
            await run_control.halt(self._place.program, "stop", task["taskId"])
        except ScaffoldError as error:
            raise MCPError(INVALID_PARAMS, self._clean_all(error.in_full)) from error
        return {}


def build_server(place: ServedPlace, allowed: frozenset[Power], redactor: Redactor) -> Server[Any]:
    """Return a server for the runs of a repository; what it may do without asking is `allowed`."""
    ours = RunServer(place, allowed, redactor)
    server: Server[Any] = Server(
        NAME,
        version=find_installation().version,
        title="Scaffold",
        instructions=instructions(place, allowed),
        on_list_tools=ours.list_tools,
        on_call_tool=ours.call_tool,  # type: ignore[arg-type] # a task is a result of the extension's, not the core's
        on_list_resources=ours.list_resources,
        on_list_resource_templates=ours.list_templates,
        on_read_resource=ours.read_resource,
    )
    add_tasks(server, get=ours.get_task, update=ours.update_task, cancel=ours.cancel_task)
    return protected(server)


def protected(server: Server[Any]) -> Server[Any]:
    """Return the server; state that a client sends back is sealed, and bound to the request it was made for."""
    server.middleware.append(RequestStateBoundary(RequestStateSecurity.ephemeral(), default_audience=server.name))
    return server


def add_tasks(server: Server[Any], *, get: TaskHandler, update: TaskHandler, cancel: TaskHandler) -> None:
    """Let a server serve the Tasks extension, to clients of its era."""
    server.extensions[TASKS_EXTENSION] = {}
    methods: Sequence[tuple[str, type[BaseModel], TaskHandler]] = (
        ("tasks/get", TaskParams, get),
        ("tasks/update", UpdateTaskParams, update),
        ("tasks/cancel", TaskParams, cancel),
    )
    for name, params, handler in methods:
        server.add_request_handler(name, params, _modern_only(name, handler))


def _modern_only(name: str, handler: TaskHandler) -> TaskHandler:
    async def run(ctx: Context, params: Any) -> Json:
        if ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            raise MCPError(METHOD_NOT_FOUND, f"there is no method `{name}` in this version of the protocol")
        return await handler(ctx, params)

    return run


def wire_tool(tool: ServedTool) -> Tool:
    """Return a tool as clients see it."""
    needs = (
        f" Needs consent: the flag `--allow-{tool.power}`, or the user's answer to a question." if tool.power else ""
    )
    return Tool(
        name=tool.name,
        title=tool.title,
        description=tool.about + needs,
        input_schema=dict(tool.schema),
        annotations=ToolAnnotations(read_only_hint=tool.power is None, open_world_hint=False),
    )


def _takes_tasks(ctx: Context) -> bool:
    """Return whether the client may be answered with a task."""
    is_modern = ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
    return is_modern and ctx.session.check_client_capability(ClientCapabilities(extensions={TASKS_EXTENSION: {}}))


def _success_result(value: Mapping[str, Any]) -> CallToolResult:
    text = msgspec.json.encode(value).decode()
    return CallToolResult(content=[TextContent(type="text", text=text)], structured_content=dict(value))


def _failure_result(words: str) -> CallToolResult:
    return CallToolResult(content=[TextContent(type="text", text=words)], is_error=True)


def _resource(uri: str, name: str, about: str) -> Resource:
    return Resource(uri=uri, name=name, description=about, mime_type="application/json")


def _template(uri: str, name: str, about: str) -> ResourceTemplate:
    return ResourceTemplate(uri_template=uri, name=name, description=about, mime_type="application/json")


async def resource_json(cwd: Path, uri: str) -> Json:
    """Return the content of a resource; UsageError if there is none of this address."""
    return await asyncio.to_thread(_read_resource, cwd, uri)


def _read_resource(cwd: Path, uri: str) -> Json:
    match uri.removeprefix(SCHEME).split("/") if uri.startswith(SCHEME) else []:
        case [name] if name in _FIXED:
            return _FIXED[name](cwd)
        case ["runs", run] if run:
            return run_status_json(cwd, run)
        case ["runs", run, "evidence"] if run:
            return evidence_json(cwd, run, None)
    known = ", ".join(uri for uri, *_ in (*RESOURCES, *TEMPLATES))
    raise UsageError(f"there is no resource `{uri}`", f"There are {known}.")
