"""The server of the protocol: both eras, tools with consent, resources, and runs as tasks."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import mcp_types
import msgspec
from mcp.server import Server
from mcp.server.context import ServerRequestContext
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel

from scaffold.core.errors import ScaffoldError, UsageError
from scaffold.host.installation import find_installation
from scaffold.mcp.consent import ConsentDesk, Power, can_ask
from scaffold.mcp.run_queries import evidence_json, inbox_json, run_status_json, runs_json
from scaffold.mcp.run_tasks import TASKS_EXTENSION, TaskParams, UpdateTaskParams, answer_task, new_task, task_of
from scaffold.mcp.tools import TOOLS, Call, RunAsTask, ServedPlace, ServedTool, read_arguments
from scaffold.orchestrator.user_control.own_program import halt_run_by_command
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

NAME = "scaffold"
JSON_TYPE = "application/json"
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

    async def list_tools(
        self, _ctx: Context, _params: mcp_types.PaginatedRequestParams | None
    ) -> mcp_types.ListToolsResult:
        """Return all tools, on one page."""
        return mcp_types.ListToolsResult(tools=[wire_tool(tool) for tool in TOOLS])

    async def call_tool(
        self, ctx: Context, params: mcp_types.CallToolRequestParams
    ) -> mcp_types.CallToolResult | mcp_types.InputRequiredResult | Json:
        """Run a tool if there is consent; an error of the tool is a result, so that the model learns it."""
        tool = self._tools.get(params.name)
        if tool is None:
            raise MCPError(mcp_types.INVALID_PARAMS, f"there is no tool `{params.name}`")
        try:
            args = read_arguments(tool, params.arguments or {})
            if tool.power is not None:
                question = self._clean_all(tool.question(args))
                if (asked := await self._desk.ask(ctx, params, tool.power, question)) is not None:
                    return asked
            is_modern = ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
            knows_tasks = ctx.session.check_client_capability(
                mcp_types.ClientCapabilities(extensions={TASKS_EXTENSION: {}})
            )
            # For other clients a task would be an invalid answer.
            call = Call(ctx.session.report_progress, takes_tasks=is_modern and knows_tasks)
            found = await tool.run(self._place, args, call)
        except ScaffoldError as error:
            text = self._clean_all(error.in_full)
            return mcp_types.CallToolResult(content=[mcp_types.TextContent(type="text", text=text)], is_error=True)
        if isinstance(found, RunAsTask):
            task: Json = self._clean_all(new_task(self._place.cwd, found.run))
            return task
        value = self._clean_all(found)
        # As text, too: not every client passes structured content on to its model.
        text = msgspec.json.encode(value).decode()
        return mcp_types.CallToolResult(
            content=[mcp_types.TextContent(type="text", text=text)], structured_content=dict(value)
        )

    async def list_resources(
        self, _ctx: Context, _params: mcp_types.PaginatedRequestParams | None
    ) -> mcp_types.ListResourcesResult:
        """Return the resources that are always there."""
        return mcp_types.ListResourcesResult(
            resources=[
                mcp_types.Resource(uri=uri, name=name, description=about, mime_type=JSON_TYPE)
                for uri, name, about in RESOURCES
            ]
        )

    async def list_templates(
        self, _ctx: Context, _params: mcp_types.PaginatedRequestParams | None
    ) -> mcp_types.ListResourceTemplatesResult:
        """Return the resources of each run."""
        return mcp_types.ListResourceTemplatesResult(
            resource_templates=[
                mcp_types.ResourceTemplate(uri_template=uri, name=name, description=about, mime_type=JSON_TYPE)
                for uri, name, about in TEMPLATES
            ]
        )

    async def read_resource(
        self, _ctx: Context, params: mcp_types.ReadResourceRequestParams
    ) -> mcp_types.ReadResourceResult:
        """Return a resource as JSON."""
        uri = str(params.uri)
        try:
            found = await _read_resource(self._place.cwd, uri)
        except ScaffoldError as error:
            raise MCPError(mcp_types.INVALID_PARAMS, self._clean_all(error.in_full), {"uri": uri}) from error
        text = msgspec.json.encode(self._clean_all(found)).decode()
        return mcp_types.ReadResourceResult(
            contents=[mcp_types.TextResourceContents(uri=uri, mime_type=JSON_TYPE, text=text)]
        )

    async def get_task(self, ctx: Context, params: TaskParams) -> Json:
        """Return the state of a run as a task."""
        found: Json = self._clean_all(task_of(self._place.cwd, params.task_id, asks=can_ask(ctx)))
        return found

    async def update_task(self, ctx: Context, params: UpdateTaskParams) -> Json:
        """Pass on a human's answers to questions of the run."""
        if not can_ask(ctx):
            raise MCPError(mcp_types.INVALID_PARAMS, "this client cannot ask its user, so it has no answers")
        try:
            answer_task(self._place.cwd, params)
        except ScaffoldError as error:
            raise MCPError(mcp_types.INVALID_PARAMS, self._clean_all(error.in_full)) from error
        return {}

    async def cancel_task(self, _ctx: Context, params: TaskParams) -> Json:
        """Stop the run, if that is allowed; its work is pinned, and it can be resumed."""
        task = task_of(self._place.cwd, params.task_id, asks=False)
        # A tool call can be answered with a question to the user, this request cannot.
        if not self._desk.allowed:
            raise MCPError(
                mcp_types.INVALID_PARAMS,
                f"stopping is not allowed here; the user can: `scaffold stop {task['taskId']}`",
            )
        try:
            await halt_run_by_command(self._place.program, "stop", task["taskId"])
        except ScaffoldError as error:
            raise MCPError(mcp_types.INVALID_PARAMS, self._clean_all(error.in_full)) from error
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
            raise MCPError(mcp_types.METHOD_NOT_FOUND, f"there is no method `{name}` in this version of the protocol")
        return await handler(ctx, params)

    return run


def wire_tool(tool: ServedTool) -> mcp_types.Tool:
    """Return a tool as clients see it."""
    needs = (
        f" Needs consent: the flag `--allow-{tool.power}`, or the user's answer to a question." if tool.power else ""
    )
    return mcp_types.Tool(
        name=tool.name,
        title=tool.title,
        description=tool.about + needs,
        input_schema=dict(tool.schema),
        annotations=mcp_types.ToolAnnotations(read_only_hint=tool.power is None, open_world_hint=False),
    )


async def _read_resource(cwd: Path, uri: str) -> Json:
    # In threads: SQLite would block the server.
    match uri.removeprefix(SCHEME).split("/") if uri.startswith(SCHEME) else []:
        case ["inbox"]:
            return await inbox_json(cwd)
        case ["runs"]:
            return await asyncio.to_thread(runs_json, cwd)
        case ["runs", run] if run:
            return await asyncio.to_thread(run_status_json, cwd, run)
        case ["runs", run, "evidence"] if run:
            return await asyncio.to_thread(evidence_json, cwd, run, None)
    known = ", ".join(uri for uri, *_ in (*RESOURCES, *TEMPLATES))
    raise UsageError(f"there is no resource `{uri}`", f"There are {known}.")
