"""Claude Code without its SDK: one JSON object a line both ways, questions of permission as control requests."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec
from msgspec import structs

from scaffold.core.model import Usage
from scaffold.core.tool import ToolCategory
from scaffold.executors.claude_messages import (
    Block,
    ClaudeLine,
    ClaudeMessage,
    ClaudeRequest,
    ClaudeTokens,
    ControlAnswer,
    RateLimit,
    SessionUsage,
    usage_between,
    usage_of,
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
from scaffold.executors.program_lines import Line, ProgramBroken, ProgramLines, text_of_blocks

MODE = "default"
"""It asks before each edit and command; in other modes it asks less, or lets a second model decide."""
TOOLS: Mapping[str, ToolCategory] = {
    "Bash": "shell",
    "Edit": "file_write",
    "Write": "file_write",
    "NotebookEdit": "file_write",
    "Read": "file_read",
    "Glob": "file_read",
    "Grep": "file_read",
}
"""Its own tools that it may have: none of them starts agents, schedules work, or goes on after the turn."""
SETTINGS = {"env": {"CLAUDE_CODE_DISABLE_BACKGROUND_TASKS": "1"}, "permissions": {"ask": tuple(TOOLS)}}
"""No background commands, which would outlive the turn, and whose end would start another one; and it asks about reads
and harmless commands too, so that the user's rules hold for them."""
_ERRORS: Mapping[str, TurnFailure] = {
    "authentication_failed": "login",
    "oauth_org_not_allowed": "login",
    "account_on_hold": "login",
    "verification_required": "login",
    "cloud_credential_error": "login",
    "billing_error": "quota",
    "rate_limit": "overloaded",
    "overloaded": "overloaded",
    "server_error": "overloaded",
    "invalid_request": "model",
    "model_not_found": "model",
    "max_output_tokens": "model",
}
"""What it calls the errors of its provider."""
_REASONS: Mapping[str, TurnFailure] = {
    "prompt_too_long": "context",
    "blocking_limit": "context",
    "rapid_refill_breaker": "context",
    "max_turns": "limit",
    "budget_exhausted": "limit",
    "error_max_turns": "limit",
    "error_max_budget_usd": "limit",
}
"""Why it ended a turn, by `terminal_reason`, and by the subtype of versions that have none."""


class Claude:
    """Claude Code 2.1."""

    def __init__(self) -> None:
        self._conversation: _ClaudeTurn | None = None

    def arguments(self, turn: ProgramTurn) -> Sequence[str]:
        """Return the options: streams both ways, questions to us, no settings of the repository, only our server."""
        tools = (name for name, category in TOOLS.items() if turn.mode == "edit" or category == "file_read")
        argv = [
            *("-p", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose"),
            *("--include-partial-messages", "--permission-prompt-tool", "stdio", "--permission-mode", MODE),
            *("--tools", ",".join(tools), "--settings", msgspec.json.encode(SETTINGS).decode()),
            *("--setting-sources", "project" if turn.trusted else "", "--strict-mcp-config"),
        ]
        if turn.server is not None:
            program, *rest = turn.server.command
            server = {"type": "stdio", "command": program, "args": rest, "env": turn.server.env}
            config = msgspec.json.encode({"mcpServers": {turn.server.name: server}}).decode()
            # Our server asks for its calls itself: they would be asked for twice.
            argv += ["--mcp-config", config, "--allowedTools", f"mcp__{turn.server.name}"]
        if turn.session:
            argv.append(f"--resume={turn.session}")
        if turn.model:
            argv.append(f"--model={turn.model}")
        if turn.budget_usd is not None:
            argv += ["--max-budget-usd", f"{turn.budget_usd:f}"]
        return argv

    async def converse(self, lines: ProgramLines, turn: ProgramTurn, listener: TurnListener) -> ProgramEnd:
        """Follow the turn up to its first result: whatever comes after it is not of this turn."""
        try:
            async with asyncio.TaskGroup() as questions:
                self._conversation = _ClaudeTurn(lines, turn, listener, questions)
                end = await self._conversation.follow()
                self._conversation.withdraw_questions()
        except BaseExceptionGroup as failed:
            raise failed.exceptions[0] from None
        return end

    async def interrupt(self, lines: ProgramLines) -> None:
        """Ask it to end the turn, and wait for the result, behind which the conversation is stored."""
        if self._conversation is None or not self._conversation.has_begun:
            return
        interrupt = {"subtype": "interrupt"}
        await lines.send({"type": "control_request", "request_id": "interrupt", "request": interrupt})
        while (line := await lines.receive()).get("type") != "result":
            pass
        self._conversation.tell_usage(line)


class _ClaudeTurn:
    """What is known of a turn while it runs."""

    def __init__(
        self, lines: ProgramLines, turn: ProgramTurn, listener: TurnListener, questions: asyncio.TaskGroup
    ) -> None:
        self._lines = lines
        self._turn = turn
        self._listener = listener
        self._questions = questions
        self._open: dict[str, asyncio.Task[None]] = {}
        """Questions, each answered beside the stream: that may take hours, and the program may withdraw it, or end."""
        self._session = ""
        self._model = ""
        self._text = ""
        self._tokens: dict[str, ClaudeTokens] = {}
        """By message: one is reported in pieces, each with the usage so far."""
        self._streamed = ""
        """The message whose text was told as it came; it comes again, whole."""
        self._block = Block()
        self._input = ""
        self._tools: set[str] = set()
        self._denied: dict[str, str] = {}
        self._before: SessionUsage | None = SessionUsage()
        """What the conversation had used before the turn; None if that is unknown."""
        self.has_begun = False
        """Whether the prompt is sent: a result follows."""
        self._is_lost = False
        self._error = ""
        self._limit: RateLimit | None = None
        """The limit of the subscription that is reached."""

    async def follow(self) -> ProgramEnd:
        """Return how the turn ended, as far as it is known if the program ends first."""
        try:
            await self._send_prompt()
            while (message := await self._receive_message()).type != "result":
                self._take_message(message)
            return self._end_of_result(message)
        except ProgramBroken as broken:
            return self._make_end("session" if self._is_lost else "program", str(broken))

    def withdraw_questions(self) -> None:
        """Stop asking what nobody waits for any more."""
        for task in self._open.values():
            task.cancel()

    def tell_usage(self, result: Line) -> None:
        """Tell what the turn has used up to `result`, also if it was cut short."""
        if usage := self._end_of_result(self._read_line(result)).usage:
            self._listener.hear(ReportedUsage(usage))

    async def _send_prompt(self) -> None:
        fields: dict[str, Any] = {"subtype": "initialize", "hooks": {}}
        if self._turn.system:
            fields["appendSystemPrompt"] = self._turn.system
        if self._turn.answer_schema is not None:
            fields["jsonSchema"] = self._turn.answer_schema
        answer = await self._ask_program("initialize", fields)
        if answer.subtype != "success":
            raise ProgramBroken(f"it refused to start: {answer.error}")
        if self._turn.session:
            answer = await self._ask_program("usage", {"subtype": "get_usage"})
            self._before = answer.response.session if answer.subtype == "success" else None
        self.has_begun = True
        await self._lines.send(
            {
                "type": "user",
                "message": {"role": "user", "content": [{"type": "text", "text": self._turn.prompt}]},
                "parent_tool_use_id": None,
                "session_id": "",
                # Else it would run `/commands` in the prompt, and put files in the place of `@paths`.
                "client_composed": True,
            }
        )

    async def _ask_program(self, request_id: str, request: Mapping[str, Any]) -> ControlAnswer:
        await self._lines.send({"type": "control_request", "request_id": request_id, "request": request})
        while (message := await self._receive_message()).response.request_id != request_id:
            if message.type == "result":
                # It names its other reasons not to start; it has none for a conversation that it does not find.
                self._is_lost = bool(self._turn.session) and message.startup_failure_reason is None
                raise ProgramBroken("; ".join(message.errors or ()) or message.result or "it did not start")
            self._take_message(message)
        return message.response

    async def _receive_message(self) -> ClaudeLine:
        """Return the next message that is not a question, or about one."""
        while True:
            message = self._read_line(await self._lines.receive())
            if message.type == "control_request":
                self._withdraw_question(message.request_id)  # of the same number
                self._open[message.request_id] = self._questions.create_task(self._answer_request(message))
            elif message.type == "control_cancel_request":
                self._withdraw_question(message.request_id)
            else:
                return message

    def _withdraw_question(self, request_id: str) -> None:
        if (question := self._open.pop(request_id, None)) is not None:
            question.cancel()

    def _read_line(self, line: Line) -> ClaudeLine:
        try:
            return msgspec.convert(line, ClaudeLine)
        except msgspec.ValidationError as error:
            kind = line.get("type")
            if kind in ("control_request", "control_response", "result"):
                raise ProgramBroken(f"its `{kind}` cannot be read: {error}") from error
            self._listener.hear(Noticed(f"a message of the type {kind!r} cannot be read: {error}"))
            return ClaudeLine()

    async def _answer_request(self, message: ClaudeLine) -> None:
        request = message.request
        answer: dict[str, Any] = {"subtype": "error", "error": f"there is no {request.subtype!r} here"}
        if request.subtype == "can_use_tool":
            answer = {"subtype": "success", "response": await self._permit_call(request)}
        with suppress(ProgramBroken):  # `receive` says so too
            await self._lines.send(
                {"type": "control_response", "response": {**answer, "request_id": message.request_id}}
            )

    async def _permit_call(self, request: ClaudeRequest) -> Mapping[str, Any]:
        name = request.tool_name
        answer = await self._listener.permit(
            PermissionQuestion(
                id=request.tool_use_id,
                tool=name,
                title=request.title or request.description or request.display_name or name,
                category="mcp" if name.startswith("mcp__") else TOOLS.get(name, "network"),
                args=request.input,
                reason=request.decision_reason or "",
            )
        )
        if answer.allowed:
            return {"behavior": "allow", "updatedInput": request.input}
        self._denied[request.tool_use_id] = name
        return {"behavior": "deny", "message": answer.reason or "denied"}

    def _take_message(self, message: ClaudeLine) -> None:
        match message.type:
            case "system":
                self._take_system(message)
            case "assistant" if isinstance(message.message, ClaudeMessage):
                self._take_assistant(message.message, message.error)
            case "user" if isinstance(message.message, ClaudeMessage):
                self._take_results(message.message)
            case "rate_limit_event":
                self._take_rate_limit(message.rate_limit_info)
            case "stream_event" if isinstance(message.event, dict):
                self._take_stream_event(self._read_line(message.event))
            case _:
                self._take_stream_event(message)

    def _take_system(self, message: ClaudeLine) -> None:
        match message.subtype:
            case "init":
                if message.permission_mode != MODE:
                    raise ProgramBroken(f"it runs in the mode {message.permission_mode!r}, not in {MODE!r}")
                self._session = message.session_id or ""
                self._model = message.model or ""
                self._listener.hear(StartedSession(self._session))
            case "api_retry":
                reason = " ".join(str(part) for part in (message.error_status, message.error) if part)
                self._listener.hear(Waits(message.retry_delay_ms / 1000, reason))
            case "permission_denied":
                self._denied[message.tool_use_id] = message.tool_name
            case _:
                pass

    def _take_rate_limit(self, limit: RateLimit) -> None:
        if limit.status == "rejected":
            self._limit = limit
            self._listener.hear(Noticed(f"the provider's limit is reached: {limit.kind}"))

    def _take_assistant(self, message: ClaudeMessage, error: object) -> None:
        self._error = error if isinstance(error, str) else ""
        if not self._error:
            self._count_tokens(message.id, message)
        blocks = message.content if isinstance(message.content, list) else [Block("text", message.content)]
        for block in blocks:
            if message.id != self._streamed:
                self._tell_text(block)
            if block.type == "text":
                self._text = block.text
            self._tell_tool(block)

    def _take_results(self, message: ClaudeMessage) -> None:
        for block in message.content if isinstance(message.content, list) else ():
            if block.type == "tool_result":
                self._listener.hear(EndedTool(block.tool_use_id, text_of_blocks(block.content), bool(block.is_error)))

    def _take_stream_event(self, event: ClaudeLine) -> None:
        match event.type:
            case "message_start" if isinstance(event.message, ClaudeMessage):
                self._streamed = event.message.id
                self._count_tokens(self._streamed, event.message)
            case "content_block_start":
                self._block, self._input = event.content_block, ""
                self._tell_text(self._block)
            case "content_block_delta":
                self._input += event.delta.partial_json
                self._tell_text(event.delta)
            case "content_block_stop":
                with suppress(msgspec.DecodeError):
                    self._block = structs.replace(self._block, input=msgspec.json.decode(self._input))
                self._tell_tool(self._block)
            case "message_delta":
                self._count_tokens(self._streamed, event)
            case _:  # a ping, what we do not read, and what is not known yet
                pass

    def _tell_text(self, block: Block) -> None:
        if block.text or block.thinking:
            self._listener.hear(SaidText(block.text or block.thinking, is_thinking=bool(block.thinking)))

    def _tell_tool(self, block: Block) -> None:
        if block.type in {"tool_use", "server_tool_use"} and block.id not in self._tools:
            self._tools.add(block.id)
            args = block.input if isinstance(block.input, dict) else {}
            self._listener.hear(StartedTool(block.id, block.name, args))

    def _count_tokens(self, message_id: str, report: ClaudeMessage | ClaudeLine) -> None:
        if report.usage is None:
            return
        counts = {name: count for name, count in structs.asdict(report.usage).items() if count is not None}
        known = self._tokens.get(message_id, ClaudeTokens())
        self._tokens[message_id] = structs.replace(known, **counts)
        if self._tokens[message_id] != known:
            self._listener.hear(ReportedUsage(self._sum_tokens()))

    def _sum_tokens(self) -> Usage:
        total = Usage(cost_usd=None)
        for tokens in self._tokens.values():
            total += usage_of(tokens, 1)
        return total

    def _end_of_result(self, result: ClaudeLine) -> ProgramEnd:
        for denial in result.permission_denials or ():
            self._denied[denial.tool_use_id] = denial.tool_name
        self._session = result.session_id or self._session
        text = result.result or self._text
        if result.structured_output is not None:
            text = msgspec.json.encode(result.structured_output).decode()
        why = result.result or "; ".join(result.errors or ()) or result.subtype or ""
        failure = self._failure_of(result, why) if result.is_error else None
        end = self._make_end(failure, why if failure else "", text=text)
        # Its totals have what side requests used, too; those of a continued conversation include its earlier turns.
        if self._before is None or not result.model_usage:
            return end
        after = SessionUsage(result.total_cost_usd or 0, result.model_usage)
        return structs.replace(end, usage=usage_between(self._before, after, len(self._tokens)))

    def _failure_of(self, result: ClaudeLine, why: str) -> TurnFailure:
        if reason := _REASONS.get(result.terminal_reason or "") or _REASONS.get(result.subtype or ""):
            return reason
        failure: TurnFailure = _ERRORS.get(self._error, "program")
        if self._error not in _ERRORS and result.api_error_status is not None:
            failure = provider_failure(result.api_error_status, why)
        return "quota" if failure == "overloaded" and self._limit is not None else failure

    def _make_end(self, failure: TurnFailure | None, why: str, text: str = "") -> ProgramEnd:
        return ProgramEnd(
            text=text or self._text,
            session=self._session,
            usage=self._sum_tokens() if self._tokens else None,
            model=self._model,
            denied=tuple(self._denied.values()),
            failure=failure,
            why=why,
            resets_at=self._limit.resets_at if self._limit is not None and failure == "quota" else None,
        )
