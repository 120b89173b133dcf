"""pi in its mode `rpc`: commands and events, one JSON object a line. It asks for no permission at all."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from scaffold.core.model import Usage
from scaffold.executors.port import (
    EndedTool,
    Noticed,
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

ALONE = ("--no-extensions", "--no-skills", "--no-prompt-templates", "--no-mcp")
"""Nothing but its own tools: the rest runs in its process, and skills and templates are put in the place of prompts."""
READING_TOOLS = "read,grep,find,ls"
_STATUS = re.compile(r"\s*(\d{3})\b")


class _Cost(Struct, frozen=True):
    total: float = 0.0
    """0 too for a model whose price it does not know."""


class _PiTokens(Struct, frozen=True, rename="camel"):
    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    cost: _Cost = _Cost()


class _PiMessage(Struct, frozen=True, rename="camel"):
    role: str = ""
    content: Any = None
    model: str = ""
    usage: _PiTokens | None = None
    stop_reason: str = ""
    error_message: str = ""


class _Delta(Struct, frozen=True):
    type: str = ""
    delta: str = ""


class _State(Struct, frozen=True, rename="camel"):
    session_id: str = ""
    message_count: int = 0


class _PiLine(Struct, frozen=True, rename="camel"):
    """The fields of all its answers and events that are read."""

    type: str = ""
    id: str = ""
    success: bool = True
    error: str = ""
    data: _State | None = None
    message: _PiMessage | None = None
    assistant_message_event: _Delta = _Delta()
    tool_call_id: str = ""
    tool_name: str | None = ""
    args: Mapping[str, Any] = {}
    result: Any = None
    is_error: bool = False
    delay_ms: float = 0
    error_message: str = ""
    method: str = ""


class Pi:
    """pi 1.6."""

    def arguments(self, turn: ProgramTurn) -> Sequence[str]:
        """Return the options: no extensions, and no settings of the repository unless it is trusted."""
        argv = ["--mode", "rpc", *ALONE, *(("--approve",) if turn.trusted else ("--no-approve", "--no-context-files"))]
        if turn.mode == "read":
            argv += ["--tools", READING_TOOLS]
        if turn.session:
            argv += ["--session-id", turn.session]
        if turn.model:
            argv += ["--model", turn.model]
        if turn.system:
            argv += ["--append-system-prompt", turn.system]
        return argv

    async def converse(self, lines: ProgramLines, turn: ProgramTurn, listener: TurnListener) -> ProgramEnd:
        """Follow the turn until it settles: after retries, and after the conversation was made shorter."""
        listener.hear(Noticed("pi asks for no permission: only its sandbox limits what it does"))
        return await _PiTurn(lines, turn, listener).follow()

    async def interrupt(self, lines: ProgramLines) -> None:
        """Ask it to end the turn, and wait until it has."""
        await lines.send({"type": "abort", "id": "abort"})
        while (await lines.receive()).get("id") != "abort":
            pass


class _PiTurn:
    """What is known of a turn while it runs."""

    def __init__(self, lines: ProgramLines, turn: ProgramTurn, listener: TurnListener) -> None:
        self._lines = lines
        self._turn = turn
        self._listener = listener
        self._session = ""
        self._last = _PiMessage()
        """The latest message of the model."""
        self._usage: Usage | None = None

    async def follow(self) -> ProgramEnd:
        """Return how the turn ended, as far as it is known if the program ends first."""
        try:
            state = await self._ask_program("state", {"type": "get_state"})
            if self._turn.session and not state.message_count:
                return self._make_end("session", f"it has no conversation {self._turn.session}")  # and began a new one
            self._session = state.session_id
            self._listener.hear(StartedSession(self._session))
            await self._ask_program("prompt", {"type": "prompt", "message": self._turn.prompt})
            while (message := await self._receive_message()).type != "agent_settled":
                self._take_event(message)
        except ProgramBroken as broken:
            return self._make_end("program", str(broken))
        if self._last.stop_reason == "error":
            # Its text begins with the provider's HTTP status, where there was one.
            error, status = self._last.error_message, _STATUS.match(self._last.error_message)
            failure = provider_failure(int(status[1]) if status else 503, error[status.end() :] if status else error)
            return self._make_end(failure, error)
        if self._last.stop_reason == "aborted":
            return self._make_end("program", "it was interrupted")
        return self._make_end(None, "")

    async def _ask_program(self, request_id: str, command: Mapping[str, Any]) -> _State:
        await self._lines.send({**command, "id": request_id})
        while (answer := await self._receive_message()).type != "response" or answer.id != request_id:
            self._take_event(answer)
        if not answer.success:
            raise ProgramBroken(answer.error)
        return answer.data or _State()

    async def _receive_message(self) -> _PiLine:
        line: Line = await self._lines.receive()
        try:
            message = msgspec.convert(line, _PiLine)
        except msgspec.ValidationError as error:
            if line.get("type") == "response":
                raise ProgramBroken(f"its answer cannot be read: {error}") from error
            self._listener.hear(Noticed(f"a message of the type {line.get('type')!r} cannot be read: {error}"))
            return _PiLine()
        if message.type == "extension_ui_request":
            # A dialog waits without an end; what needs no answer is not hurt by one.
            await self._lines.send({"type": "extension_ui_response", "id": message.id, "cancelled": True})
        return message

    def _take_event(self, event: _PiLine) -> None:
        match event.type:
            case "message_update":
                delta = event.assistant_message_event
                if delta.type in {"text_delta", "thinking_delta"}:
                    self._listener.hear(SaidText(delta.delta, is_thinking=delta.type == "thinking_delta"))
            case "message_end":
                self._take_whole_message(event.message)
            case "tool_execution_start":
                self._listener.hear(StartedTool(event.tool_call_id, event.tool_name or "", event.args))
            case "tool_execution_end":
                content = event.result.get("content") if isinstance(event.result, dict) else None
                self._listener.hear(EndedTool(event.tool_call_id, text_of_blocks(content), event.is_error))
            case "auto_retry_start" | "summarization_retry_scheduled":
                self._listener.hear(Waits(event.delay_ms / 1000, event.error_message))
            case "extension_error":
                self._listener.hear(Noticed(event.error))
            case _:
                pass

    def _take_whole_message(self, message: _PiMessage | None) -> None:
        if message is None or message.role != "assistant":
            return
        self._last = message
        if (tokens := message.usage) is not None:
            usage = Usage(
                input_tokens=tokens.input + tokens.cache_read + tokens.cache_write,
                cached_input_tokens=tokens.cache_read,
                cache_write_tokens=tokens.cache_write,
                output_tokens=tokens.output,
                cost_usd=tokens.cost.total or (None if tokens.input or tokens.output else 0.0),
                requests=1,
            )
            self._usage = usage if self._usage is None else self._usage + usage
            self._listener.hear(ReportedUsage(self._usage))

    def _make_end(self, failure: TurnFailure | None, why: str) -> ProgramEnd:
        return ProgramEnd(
            text=text_of_blocks(self._last.content),
            session=self._session,
            usage=self._usage,
            model=self._last.model,
            failure=failure,
            why=why,
        )
