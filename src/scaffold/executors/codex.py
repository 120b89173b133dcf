"""Codex by the protocol of `codex app-server`."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from scaffold.core.model import Usage
from scaffold.core.tool import ToolCategory
from scaffold.executors.json_rpc import (
    CLIENT,
    METHOD_NOT_FOUND,
    JsonRpcPeer,
    RpcError,
    as_count,
    as_list,
    as_object,
    as_text,
)
from scaffold.executors.port import (
    EndedTool,
    Noticed,
    PermissionQuestion,
    ProgramEnd,
    ProgramTurn,
    ReportedUsage,
    SaidText,
    StartedSession,
    StartedTool,
    TurnFailure,
    TurnListener,
    Waits,
    provider_failure,
)
from scaffold.executors.program_lines import Line, ProgramBroken, ProgramLines

# The one pair that asks about every edit and every command, and needs no sandbox of its own inside of ours.
APPROVAL_POLICY = "untrusted"
SANDBOX = "danger-full-access"
NOBODY_ANSWERS = "Nobody is there to answer. Decide yourself, and say in the end what you assumed."
_TALK = frozenset(
    {"userMessage", "hookPrompt", "agentMessage", "reasoning", "plan", "contextCompaction"}
    | {"enteredReviewMode", "exitedReviewMode"}
)
"""Items that are no tools. All other ones count as tools, also those that a later version invents."""
_DELTAS = {"item/agentMessage/delta": False, "item/reasoning/summaryTextDelta": True, "item/reasoning/textDelta": True}
"""Notification of a piece of text -> whether the model thinks it."""
_APPROVAL = "codex_approval_kind"
_WARNINGS = frozenset({"warning", "configWarning", "deprecationNotice", "guardianWarning"})
_FAILURES: Mapping[str, TurnFailure] = {
    "unauthorized": "login",
    "usageLimitExceeded": "quota",
    "rateLimitExceeded": "overloaded",
    "serverOverloaded": "overloaded",
    "internalServerError": "overloaded",
    "contextWindowExceeded": "context",
    "sandboxError": "program",
    "sessionBudgetExceeded": "limit",
    "tooManyDenials": "limit",
}

CALL_S = 3_600
"""How long a call of one of our tools may take."""


class CodexProtocol:
    """Talks to `codex app-server`; an object serves one turn at a time."""

    def __init__(self) -> None:
        self._conversation: _CodexTurn | None = None

    def arguments(self, _turn: ProgramTurn, /) -> Sequence[str]:
        """Return the arguments behind the program's command."""
        return ("app-server",)

    async def converse(self, lines: ProgramLines, turn: ProgramTurn, listener: TurnListener) -> ProgramEnd:
        """Send the prompt and follow the turn to its end."""
        self._conversation = _CodexTurn(lines, turn, listener)
        return await self._conversation.take_turn()

    async def interrupt(self, _lines: ProgramLines, /) -> None:
        """Deny what it waits for, and wait until it has ended the turn."""
        if self._conversation is not None:
            await self._conversation.interrupt()


class _CodexTurn:
    def __init__(self, lines: ProgramLines, turn: ProgramTurn, listener: TurnListener) -> None:
        self._turn = turn
        self._listener = listener
        self._peer = JsonRpcPeer(lines, self)
        self._thread = self._number = self._model = self._text = ""
        self._items: dict[str, Line] = {}
        """Tools that it has begun to use, by the id of their item."""
        self._streamed: set[str] = set()
        """Items whose text came in pieces."""
        self._denied: list[str] = []
        self._commands = 0
        self._unstarted: list[str] = []
        """What those of its commands said that never ran."""
        self._usage = _TurnUsage()
        self._retried: object = "other"
        """What went wrong with the request that was sent again."""
        self._limits: Line = {}
        self._end: Line | None = None

    async def take_turn(self) -> ProgramEnd:
        """Open the conversation, send the prompt and return how the turn ended."""
        try:
            await self._peer.request("initialize", {"clientInfo": CLIENT})
            await self._peer.notify("initialized", {})
            if (failed := await self._open_thread()) is not None:
                return failed
            self._listener.hear(StartedSession(self._thread))
            asked: dict[str, Any] = {
                "threadId": self._thread,
                "input": [{"type": "text", "text": self._turn.prompt, "text_elements": []}],
            }
            if self._turn.answer_schema is not None:
                asked["outputSchema"] = self._turn.answer_schema
            begun = await self._peer.request("turn/start", asked)
            self._number = as_text(as_object(begun.get("turn")).get("id"))
            await self._peer.follow(lambda: self._end is not None)
            return self._turn_result(as_object(self._end))
        except (RpcError, ProgramBroken) as broken:
            return self._end_turn("program", str(broken))
        finally:
            self._peer.stop_answering()

    async def interrupt(self) -> None:
        await self._peer.deny_questions()
        if self._number and self._end is None:
            # It refuses if the turn has ended by itself.
            with suppress(RpcError):
                await self._peer.request("turn/interrupt", {"threadId": self._thread, "turnId": self._number})
                await self._peer.follow(lambda: self._end is not None)

    async def _open_thread(self) -> ProgramEnd | None:
        turn = self._turn
        asked: dict[str, Any] = {
            "cwd": str(turn.folder),
            "approvalPolicy": APPROVAL_POLICY,
            "sandbox": SANDBOX,
            "config": _thread_configuration(turn),
            "approvalsReviewer": "user",
        }
        if turn.model:
            asked["model"] = turn.model
        if turn.system:
            asked["developerInstructions"] = turn.system
        if turn.session:
            try:
                resumed = {**asked, "threadId": turn.session, "excludeTurns": True}
                opened = await self._peer.request("thread/resume", resumed)
            except RpcError as gone:
                return self._end_turn("session", str(gone))
        else:
            opened = await self._peer.request("thread/start", asked)
        if not (thread := as_text(as_object(opened.get("thread")).get("id"))):
            raise ProgramBroken("it opened no thread")
        self._thread = thread
        self._model = as_text(opened.get("model"))
        return None

    def hear(self, method: str, params: Line, /) -> None:
        """Take a notification."""
        if method in _DELTAS:
            self._streamed.add(as_text(params.get("itemId")))
            self._listener.hear(SaidText(as_text(params.get("delta")), _DELTAS[method]))
        elif method.startswith("item/"):
            self._hear_item(method, params)
        elif method in _WARNINGS:
            self._listener.hear(Noticed(as_text(params.get("message")) or as_text(params.get("summary"))))
        else:
            self._hear_turn(method, params)

    def _hear_item(self, method: str, params: Line) -> None:
        match method:
            case "item/started":
                self._begin_item(as_object(params.get("item")))
            case "item/completed":
                self._end_item(as_object(params.get("item")))
            case "item/fileChange/patchUpdated":
                self._asked_item(params)["changes"] = params.get("changes")
            case _:
                pass

    def _hear_turn(self, method: str, params: Line) -> None:
        match method:
            # What a resumed thread has used before is told before the turn begins.
            case "thread/tokenUsage/updated" if self._number:
                self._listener.hear(ReportedUsage(self._usage.take_report(params)))
            case "account/rateLimits/updated":
                self._limits = as_object(params.get("rateLimits"))
            case "model/rerouted":
                self._model = as_text(params.get("toModel"))
            case "serverRequest/resolved":
                self._peer.withdraw(params.get("requestId"))
            case "error" if params.get("willRetry") is True:
                error = as_object(params.get("error"))
                self._retried = error.get("codexErrorInfo")
                reason = as_text(error.get("additionalDetails")) or as_text(error.get("message"))
                self._listener.hear(Waits(0.0, reason))
            case "turn/completed" if params.get("threadId") == self._thread:
                self._end = as_object(params.get("turn"))
            case _:
                pass

    async def answer(self, method: str, params: Line, /) -> Mapping[str, Any]:
        """Answer a question of the program."""
        match method:
            case "item/commandExecution/requestApproval":
                questions = [_command_question(params, self._asked_item(params))]
                return {"decision": "accept" if await self._is_permitted(questions) else "decline"}
            case "item/fileChange/requestApproval":
                questions = _change_questions(params, self._asked_item(params))
                return {"decision": "accept" if await self._is_permitted(questions) else "decline"}
            case "mcpServer/elicitation/request" if as_object(params.get("_meta")).get(_APPROVAL) == "mcp_tool_call":
                is_allowed = await self._is_permitted([_server_question(params)])
                return {"action": "accept", "content": {}} if is_allowed else self.denial(method)
            case "item/tool/requestUserInput":
                asked = [as_text(each.get("id")) for each in as_list(params.get("questions"))]
                return {"answers": {each: {"answers": [NOBODY_ANSWERS]} for each in asked}}
            case "item/permissions/requestApproval" | "mcpServer/elicitation/request":
                reason = as_text(params.get("reason")) or as_text(params.get("message"))
                self._listener.hear(Noticed(f"declined {method}: {reason}"))
                return self.denial(method)
            case _:
                self._listener.hear(Noticed(f"refused the unknown request {method}"))
                raise RpcError(METHOD_NOT_FOUND, f"{method} is not offered")

    def denial(self, method: str, /) -> Mapping[str, Any]:
        """Return the result that denies a request."""
        match method:
            case "item/permissions/requestApproval":
                return {"permissions": {}}
            case "mcpServer/elicitation/request":
                return {"action": "decline", "content": None}
            case "item/tool/requestUserInput":
                return {"answers": {}}
            case _:
                return {"decision": "decline"}

    def _asked_item(self, params: Line) -> Line:
        return self._items.get(as_text(params.get("itemId")), {})

    async def _is_permitted(self, questions: Sequence[PermissionQuestion]) -> bool:
        for question in questions:
            if not (await self._listener.permit(question)).allowed:
                self._denied.append(question.tool)
                return False
        return True

    def _begin_item(self, item: Line) -> None:
        kind, number = as_text(item.get("type")), as_text(item.get("id"))
        if kind not in _TALK and number not in self._items:
            self._items[number] = item
            name, args = _tool_call(item)
            self._listener.hear(StartedTool(number, name, args))

    def _end_item(self, item: Line) -> None:
        kind, number = as_text(item.get("type")), as_text(item.get("id"))
        if kind == "agentMessage":
            self._text = as_text(item.get("text"))
            if number not in self._streamed:
                self._listener.hear(SaidText(self._text))
        if kind in _TALK:
            return
        self._begin_item(item)
        said = [as_text(each.get("text")) for each in as_list(as_object(item.get("result")).get("content"))]
        output = as_text(item.get("aggregatedOutput")) or as_text(as_object(item.get("error")).get("message"))
        output = output or "\n".join(said)
        status, code = as_text(item.get("status")), item.get("exitCode")
        if kind == "commandExecution" and status != "declined":
            self._commands += 1
            if status == "failed" and code is None:
                self._unstarted.append(output)
        failed = status in {"failed", "declined"} or code not in (None, 0)
        self._listener.hear(EndedTool(number, output or (as_text(status) if failed else ""), failed))

    def _turn_result(self, turn: Line) -> ProgramEnd:
        error = as_object(turn.get("error"))
        match turn.get("status"):
            case "completed" if self._unstarted and len(self._unstarted) == self._commands:
                why = f"none of its {self._commands} commands could be started: {self._unstarted[-1]}"
                return self._end_turn("program", why)
            case "completed":
                return self._end_turn()
            case "failed":
                info = error.get("codexErrorInfo")
                # A connection that breaks again and again ends as `other`: what was retried tells more.
                why = as_text(error.get("message")) or "it failed and said no reason"
                return self._end_turn(_failure_of(self._retried if info == "other" else info, why), why)
            case status:
                return self._end_turn("program", f"it ended the turn as {status}")

    def _end_turn(self, failure: TurnFailure | None = None, why: str = "") -> ProgramEnd:
        return ProgramEnd(
            text=self._text,
            session=self._thread,
            usage=self._usage.total,
            model=self._model,
            denied=tuple(self._denied),
            failure=failure,
            why=why,
            resets_at=_reset_time(self._limits) if failure == "quota" else None,
        )


class _TurnUsage:
    """What one turn has used: in its own thread, and in the threads of agents that it started."""

    def __init__(self) -> None:
        self._before: dict[str, Line] = {}
        self._latest: dict[str, Line] = {}
        self._requests = 0
        self.total: Usage | None = None

    def take_report(self, params: Line) -> Usage:
        """Return the usage so far, with this report of one thread."""
        thread, report = as_text(params.get("threadId")), as_object(params.get("tokenUsage"))
        total, last = as_object(report.get("total")), as_object(report.get("last"))
        self._requests += total != self._latest.get(thread)
        self._latest[thread] = total
        # A thread counts on from its earlier turns.
        self._before.setdefault(thread, {key: as_count(total[key]) - as_count(last.get(key)) for key in total})

        def count(key: str) -> int:
            return sum(as_count(now.get(key)) - self._before[each].get(key, 0) for each, now in self._latest.items())

        self.total = Usage(
            input_tokens=count("inputTokens"),
            cached_input_tokens=count("cachedInputTokens"),
            cache_write_tokens=count("cacheWriteInputTokens"),
            output_tokens=count("outputTokens"),
            cost_usd=None,
            requests=self._requests,
        )
        return self.total


def _thread_configuration(turn: ProgramTurn) -> Mapping[str, Any]:
    # Without a level it would trust the folder by itself, write that into the user's settings, and use the folder's
    # own settings and hooks.
    trust = "trusted" if turn.trusted else "untrusted"
    configuration: dict[str, Any] = {
        "projects": {str(turn.folder): {"trust_level": trust}},
        # Its provider would search, and nobody would be asked.
        "web_search": "disabled",
    }
    if turn.server is not None:
        program, *args = turn.server.command
        server = {"command": program, "args": args, "env": dict(turn.server.env)}
        # Its own limit is a minute; what takes longer is a check that we limit ourselves, or a question to people.
        ours = {**server, "default_tools_approval_mode": "approve", "tool_timeout_sec": CALL_S}
        configuration["mcp_servers"] = {turn.server.name: ours}
    return configuration


def _tool_call(item: Line) -> tuple[str, Mapping[str, Any]]:
    kind = as_text(item.get("type"))
    match kind:
        case "commandExecution":
            return kind, {"command": as_text(item.get("command")), "cwd": as_text(item.get("cwd"))}
        case "fileChange":
            return kind, {"path": ", ".join(as_text(each.get("path")) for each in as_list(item.get("changes")))}
        case "mcpToolCall":
            return f"{as_text(item.get('server'))}.{as_text(item.get('tool'))}", as_object(item.get("arguments"))
        case _:
            return kind, {key: value for key, value in item.items() if key not in {"type", "id", "status"}}


def _command_question(params: Line, item: Line) -> PermissionQuestion:
    command = as_text(params.get("command")) or as_text(item.get("command"))
    host = as_object(params.get("networkApprovalContext"))
    # Whatever is not plainly a new command counts as the most careful kind, with all that is said of it.
    is_command = bool(command) and not host and params.get("kind", "command") == "command"
    category: ToolCategory = "shell" if is_command else "network"
    keys = ("command", "cwd") if is_command else ("kind", "command", "cwd", "networkApprovalContext")
    return PermissionQuestion(
        id=as_text(params.get("approvalId")) or as_text(params.get("itemId")),
        tool="commandExecution",
        title=command or as_text(host.get("host")),
        category=category,
        args={key: params[key] for key in keys if params.get(key) is not None},
        reason=as_text(params.get("reason")),
    )


def _change_questions(params: Line, item: Line) -> list[PermissionQuestion]:
    changes = as_list(item.get("changes"))
    wanted: dict[str, Mapping[str, Any]] = {as_text(each.get("path")): each for each in changes}
    wanted |= {moved: each for each in changes if (moved := as_text(as_object(each.get("kind")).get("move_path")))}
    if root := as_text(params.get("grantRoot")):
        wanted[root] = params
    return [
        PermissionQuestion(
            id=as_text(params.get("itemId")),
            tool="fileChange",
            title=f"change {path}",
            category="file_write",
            args={"path": path, "diff": as_text(change.get("diff"))},
            reason=as_text(params.get("reason")),
        )
        # A change that was not announced is asked about without its path.
        for path, change in (wanted or {"": {}}).items()
    ]


def _server_question(params: Line) -> PermissionQuestion:
    call = as_object(params.get("_meta"))
    name = f"{as_text(params.get('serverName'))}.{as_text(call.get('tool_name'))}"
    title, args = as_text(params.get("message")), as_object(call.get("tool_params"))
    return PermissionQuestion(id=name, tool=name, title=title, category="mcp", args=args)


def _failure_of(info: object, message: str) -> TurnFailure:
    if isinstance(info, str):
        return _FAILURES.get(info) or provider_failure(400, message)
    # One member, named after what went wrong with the connection.
    status = next((as_object(each).get("httpStatusCode") for each in as_object(info).values()), None)
    return provider_failure(status if isinstance(status, int) else 503, message)


def _reset_time(limits: Line) -> float | None:
    windows = [as_object(limits.get(each)) for each in ("primary", "secondary")]
    full = [as_count(each.get("resetsAt")) for each in windows if as_count(each.get("usedPercent")) >= 100]
    resets = max(full, default=0)
    return float(resets) if resets else None
