"""Programs that speak the Agent Client Protocol, version 1.

They get no file system and no terminals from us: their files are those of the worktree, inside the sandbox.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import isfinite
from typing import Any, Literal

import msgspec
from msgspec import Struct, structs

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
    provider_failure,
)
from scaffold.executors.program_lines import Line, ProgramBroken, ProgramLines

PROTOCOL_VERSION = 1
AUTH_REQUIRED = -32000
CATEGORIES: Mapping[str, ToolCategory] = {
    "read": "file_read",
    "search": "file_read",
    "edit": "file_write",
    "delete": "file_write",
    "move": "file_write",
    "execute": "shell",
}
"""What kinds of tools count as; all other ones as the most careful category."""
ASKING_MODES = ("default", "ask")
"""Names by which a program that is not known calls the mode in which it asks before it changes something."""
OF_THE_MODEL = ("model", "model_config", "thought_level")
"""Categories of settings that do not say how the program asks."""
_STOPS: Mapping[str, TurnFailure] = {
    "max_tokens": "limit",
    "max_turn_requests": "limit",
    "refusal": "model",
    "cancelled": "program",
}
TellArguments = Callable[[Line], Mapping[str, Any]]
_CHUNKS = {"agent_message_chunk": False, "agent_thought_chunk": True}
"""Update with a piece of text -> whether the model thinks it."""


class AcpProtocol:
    """Talks to an agent over ACP; an object serves one turn at a time."""

    def __init__(self, edit_mode: str, read_mode: str, *, titles_commands: bool = False) -> None:
        """Take the program's names of its modes; empty ones if it has none, or is not known.

        `titles_commands`: the title of a question about a command is the command.
        """
        self._titles_commands = titles_commands
        self._modes = {"edit": edit_mode, "read": read_mode or edit_mode}
        self._conversation: _AcpTurn | None = None

    def arguments(self, _turn: ProgramTurn, /) -> Sequence[str]:
        """Return nothing: the program's command says that it shall speak ACP."""
        return ()

    async def converse(self, lines: ProgramLines, turn: ProgramTurn, listener: TurnListener) -> ProgramEnd:
        """Send the prompt and follow the turn to its end."""
        # In the modes that only read, the tools of servers are forbidden as well; our zone forbids to write anyway.
        mode = "edit" if turn.server is not None else turn.mode
        told = partial(_told_arguments, titles_commands=self._titles_commands)
        self._conversation = _AcpTurn(lines, turn, listener, self._modes[mode], told)
        return await self._conversation.take_turn()

    async def interrupt(self, _lines: ProgramLines, /) -> None:
        """Cancel the prompt, and wait until it has ended."""
        if self._conversation is not None:
            await self._conversation.interrupt()


class _AcpTurn:
    def __init__(
        self, lines: ProgramLines, turn: ProgramTurn, listener: TurnListener, mode: str, told_arguments: TellArguments
    ) -> None:
        self._turn = turn
        self._listener = listener
        self._peer = JsonRpcPeer(lines, self)
        self._wanted_mode = mode
        self._told_arguments = told_arguments
        self._session = self._text = self._model = self._broken = ""
        self._settings: dict[str, str] = {}
        self._can_resume = self._has_acted = False
        self._calls: dict[str, Line] = {}
        """Calls of tools by id, as all updates so far describe them."""
        self._told: set[str] = set()
        """Calls whose start was told."""
        self._denied: list[str] = []
        self._used: Usage | None = None
        self._cost: float | None = None
        self._cost_before = 0.0
        self._answer: asyncio.Future[Line] | None = None

    async def take_turn(self) -> ProgramEnd:
        """Open the conversation, send the prompt and return how the turn ended."""
        try:
            if (failed := await self._open_session()) is not None:
                return failed
            if self._can_resume:
                self._listener.hear(StartedSession(self._session))
            # Its base prompt cannot be changed: what is to be added begins the conversation.
            system = "" if self._turn.session else self._turn.system
            # Words come first, or it may be a command of the program: `/allow-all on` would end all its questions.
            texts = [
                text if text[:1].isalnum() else f"Your task:\n{text}" for text in (system, self._turn.prompt) if text
            ]
            prompt = [{"type": "text", "text": text} for text in texts]
            self._answer = await self._peer.post("session/prompt", {"sessionId": self._session, "prompt": prompt})
            await self._peer.follow(self._has_ended)
            return self._turn_result(self._answer)
        except RpcError as refused:
            failure = _failure_of(refused)
            # Some open a conversation of another folder and cannot go on in it: that folder is gone.
            if self._turn.session and failure == "model" and not self._has_acted:
                self._session, failure = "", "session"
            return self._end_turn(failure, str(refused))
        except ProgramBroken as broken:
            return self._end_turn("program", str(broken))
        finally:
            self._peer.stop_answering()

    async def interrupt(self) -> None:
        if self._answer is not None:
            await self._peer.notify("session/cancel", {"sessionId": self._session})
        await self._peer.deny_questions()
        if self._answer is not None:
            await self._peer.follow(self._answer.done)

    def _has_ended(self) -> bool:
        # The one place that says so: in version 2 an answer only acknowledges, and `state_update` ends the turn.
        return bool(self._broken) or (self._answer is not None and self._answer.done())

    async def _open_session(self) -> ProgramEnd | None:
        asked = {"protocolVersion": PROTOCOL_VERSION, "clientCapabilities": {}, "clientInfo": CLIENT}
        agent = await self._peer.request("initialize", asked)
        if (version := agent.get("protocolVersion")) != PROTOCOL_VERSION:
            raise ProgramBroken(f"it speaks version {version} of ACP, not {PROTOCOL_VERSION}")
        method = _resume_method(as_object(agent.get("agentCapabilities")))
        place = {"cwd": str(self._turn.folder), "mcpServers": _server_list(self._turn)}
        self._can_resume = bool(method)
        if not self._turn.session:
            opened = await self._peer.request("session/new", place)
            self._session = as_text(opened.get("sessionId"))
        elif not method:
            return self._end_turn("session", "it cannot continue a conversation")
        else:
            self._session = self._turn.session
            try:
                opened = await self._peer.request(method, {"sessionId": self._session, **place})
            except RpcError as gone:
                self._session = ""
                failure = _failure_of(gone)
                return self._end_turn(failure if failure == "login" else "session", str(gone))
        if not self._session:
            raise ProgramBroken("it opened no session")
        self._settings = _told_settings(opened)
        self._settings["mode"] = mode = await self._choose_setting(opened, "mode", self._wanted_mode)
        self._model = await self._choose_setting(opened, "model", self._turn.model)
        if (now := self._settings["mode"]) != mode:
            raise ProgramBroken(f"it changed its mode from {mode} to {now}")
        return None

    async def _choose_setting(self, opened: Line, what: Literal["mode", "model"], wanted: str) -> str:
        """Make sure that the session has the mode or model of this name; return the one that it has then."""
        offer = _find_offer(opened, what)
        if what == "model" and not wanted:
            return offer.current
        names = [wanted] if wanted else [name for name in ASKING_MODES if name in offer.names]
        if (wanted or offer.names) and not set(names) & set(offer.names):
            offered = ", ".join(offer.names) or "none"
            raise ProgramBroken(f"it offers no {what} {wanted or ' or '.join(ASKING_MODES)}, but: {offered}")
        if not names or names[0] == offer.current:
            return offer.current
        await self._peer.request(offer.method, {"sessionId": self._session, **offer.params, offer.key: names[0]})
        self._listener.hear(Noticed(f"set its {what} from {offer.current or 'none'} to {names[0]}"))
        return names[0]

    def hear(self, method: str, params: Line, /) -> None:
        """Take a notification."""
        if method == "$/cancel_request":
            self._peer.withdraw(params.get("requestId"))
        if method != "session/update" or params.get("sessionId") != self._session:
            return
        update = as_object(params.get("update"))
        self._check_settings(update)
        self._take_cost(update)
        # Before the prompt it repeats what was said in earlier turns.
        if self._answer is None:
            return
        match kind := as_text(update.get("sessionUpdate")):
            case "tool_call" | "tool_call_update":
                self._has_acted = True
                self._update_call(update)
            case _ if kind in _CHUNKS:
                self._has_acted = True
                self._take_text(update, is_thinking=_CHUNKS[kind])
            case _:
                pass

    def _check_settings(self, update: Line) -> None:
        for name, value in _told_settings(update).items():
            before = self._settings.get(name, value)
            # With another setting it may ask about less.
            if self._answer is not None and value != before:
                self._broken = f"it changed its {name} from {before} to {value}"
            else:
                self._settings[name] = value

    def _take_text(self, update: Line, *, is_thinking: bool) -> None:
        if text := as_text(as_object(update.get("content")).get("text")):
            self._text += "" if is_thinking else text
            self._listener.hear(SaidText(text, is_thinking))
        # Some say with their words what the request for them used.
        if used := as_object(as_object(update.get("_meta")).get("usage")):
            self._used = (self._used or Usage(cost_usd=None)) + _usage_of(used)
            self._report_usage()

    def _take_cost(self, update: Line) -> None:
        cost = as_object(update.get("cost"))
        amount = cost.get("amount")
        if cost.get("currency") != "USD" or not isinstance(amount, int | float) or not isfinite(amount):
            return
        # It counts on from the earlier turns of a conversation. 0 is said of models whose price is not known.
        if self._answer is None:
            self._cost_before = amount
        elif amount:
            self._cost = max(amount - self._cost_before, 0.0)
            self._report_usage()

    def _report_usage(self) -> None:
        if (usage := self._turn_usage()) is not None:
            self._listener.hear(ReportedUsage(usage))

    def _turn_usage(self) -> Usage | None:
        if self._used is None and self._cost is None:
            return None
        return structs.replace(self._used or Usage(), cost_usd=self._cost)

    def _update_call(self, update: Line) -> Line:
        """Return the call as all updates describe it; tell its start once it is more than announced, and its end."""
        number = as_text(update.get("toolCallId"))
        # Calls without an id must not be taken for one call.
        call = self._calls.setdefault(number, {}) if number else {}
        call.update({key: value for key, value in update.items() if value is not None})
        if number not in self._told and (call.get("status") != "pending" or call.get("rawInput")):
            self._told.add(number)
            # What it says after its last tool is its answer.
            self._text = ""
            self._listener.hear(StartedTool(number, _call_title(call), as_object(call.get("rawInput"))))
        if (status := as_text(call.get("status"))) in {"completed", "failed"}:
            self._calls.pop(number, None)
            self._listener.hear(EndedTool(number, _call_text(call), status == "failed"))
        return call

    async def answer(self, method: str, params: Line, /) -> Mapping[str, Any]:
        """Answer a question of the program."""
        if method != "session/request_permission":
            self._listener.hear(Noticed(f"refused the request {method}, which it was not offered"))
            raise RpcError(METHOD_NOT_FOUND, f"{method} is not offered")
        options = as_list(params.get("options"))
        call = self._update_call(as_object(params.get("toolCall")))
        is_allowed = await self._is_permitted(call, options)
        option = _option_id(options, "allow_once" if is_allowed else "reject_once")
        if option is None:
            return self.denial(method)
        # By its id: of one kind there can be several, and only the first is for this one call and nothing else.
        self._listener.hear(Noticed(f"answered `{_call_title(call)}` with its option `{option}`"))
        return {"outcome": {"outcome": "selected", "optionId": option}}

    def denial(self, _method: str, /) -> Mapping[str, Any]:
        """Return the result that denies a request."""
        return {"outcome": {"outcome": "cancelled"}}

    async def _is_permitted(self, call: Line, options: list[Line]) -> bool:
        if _option_id(options, "allow_once") is None:
            self._listener.hear(Noticed(f"denied `{_call_title(call)}`: it cannot be allowed for this one call"))
            self._denied.append(as_text(call.get("kind")) or "other")
            return False
        for question in _questions_of(call, self._told_arguments):
            if not (await self._listener.permit(question)).allowed:
                self._denied.append(question.tool)
                return False
        return True

    def _turn_result(self, answer: asyncio.Future[Line]) -> ProgramEnd:
        if self._broken:
            return self._end_turn("program", self._broken)
        result = answer.result()
        meta = as_object(result.get("_meta"))
        if used := as_object(result.get("usage")) or as_object(as_object(meta.get("quota")).get("token_count")):
            self._used = _usage_of(used)
            self._report_usage()
        stop = as_text(result.get("stopReason"))
        if stop == "end_turn":
            return self._end_turn()
        return self._end_turn(_STOPS.get(stop, "program"), f"it stopped with `{stop}`")

    def _end_turn(self, failure: TurnFailure | None = None, why: str = "") -> ProgramEnd:
        return ProgramEnd(
            text=self._text,
            session=self._session if self._can_resume else "",
            usage=self._turn_usage(),
            model=self._model,
            denied=tuple(self._denied),
            failure=failure,
            why=why,
        )


class _SettingOffer(Struct, frozen=True):
    """The modes or models of a session, and how one is chosen."""

    names: tuple[str, ...] = ()
    current: str = ""
    method: str = ""
    params: Mapping[str, str] = {}
    """Of the method, besides the session and the name."""
    key: str = ""
    """The method's parameter with the name."""


def _find_offer(opened: Line, what: Literal["mode", "model"]) -> _SettingOffer:
    for option in as_list(opened.get("configOptions")):
        if option.get("category") == what:
            entries = as_list(option.get("options"))
            # They may be in groups.
            entries = [each for entry in entries for each in as_list(entry.get("options")) or [entry]]
            return _SettingOffer(
                tuple(as_text(each.get("value")) for each in entries),
                as_text(option.get("currentValue")),
                "session/set_config_option",
                {"configId": as_text(option.get("id"))},
                "value",
            )
    if not (state := as_object(opened.get(f"{what}s"))):
        return _SettingOffer()
    entries = as_list(state.get(f"available{what.capitalize()}s"))
    return _SettingOffer(
        tuple(as_text(each.get("id")) or as_text(each.get("modelId")) for each in entries),
        as_text(state.get(f"current{what.capitalize()}Id")),
        f"session/set_{what}",
        key=f"{what}Id",
    )


def _told_settings(said: Line) -> dict[str, str]:
    """Return the values of all settings that it tells, but for those of the model: they say how it asks."""
    settings = {
        "mode" if option.get("category") == "mode" else as_text(option.get("id")): as_text(option.get("currentValue"))
        for option in as_list(said.get("configOptions"))
        if option.get("category") not in OF_THE_MODEL
    }
    mode = as_text(as_object(said.get("modes")).get("currentModeId")) or as_text(said.get("currentModeId"))
    return settings | ({"mode": mode} if mode else {})


def _resume_method(capabilities: Line) -> str:
    # Loading repeats the whole conversation, resuming nothing.
    if "resume" in as_object(capabilities.get("sessionCapabilities")):
        return "session/resume"
    return "session/load" if capabilities.get("loadSession") is True else ""


def _server_list(turn: ProgramTurn) -> list[Mapping[str, Any]]:
    if turn.server is None:
        return []
    program, *args = turn.server.command
    env = [{"name": name, "value": value} for name, value in turn.server.env.items()]
    return [{"name": turn.server.name, "command": program, "args": args, "env": env}]


def _option_id(options: list[Line], kind: str) -> str | None:
    return next((as_text(each.get("optionId")) for each in options if each.get("kind") == kind), None)


def _call_title(call: Line) -> str:
    return as_text(call.get("title")) or as_text(call.get("kind")) or "a tool without a name"


def _questions_of(call: Line, told_arguments: TellArguments) -> list[PermissionQuestion]:
    category = CATEGORIES.get(as_text(call.get("kind")), "network")
    args = as_object(call.get("rawInput")) or told_arguments(call)
    diffs = {as_text(each.get("path")): each for each in as_list(call.get("content")) if each.get("type") == "diff"}
    named = [as_text(each.get("path")) for each in as_list(call.get("locations"))]
    every: list[Mapping[str, Any]] = [args]
    if category in {"file_read", "file_write"} and (diffs or named):
        # One for each file: a rule about one of them must not be passed over.
        every = [
            {
                **args,
                **{key: diffs.get(path, {}).get(key) for key in ("oldText", "newText") if path in diffs},
                "path": path,
            }
            for path in dict.fromkeys((*named, *diffs))
        ]
    return [
        PermissionQuestion(
            id=as_text(call.get("toolCallId")),
            tool=as_text(call.get("kind")) or "other",
            title=_call_title(call),
            category=category,
            args=each,
        )
        for each in every
    ]


def _told_arguments(call: Line, *, titles_commands: bool) -> Mapping[str, Any]:
    """Return what a call without arguments tells of them elsewhere: an answer must not hold for another call."""
    if titles_commands and call.get("kind") == "execute" and as_text(call.get("title")):
        return {"command": call["title"]}
    return {"title": _call_title(call)} | ({"content": text} if (text := _call_text(call)) else {})


def _call_text(call: Line) -> str:
    texts = (as_text(as_object(each.get("content")).get("text")) for each in as_list(call.get("content")))
    output = call.get("rawOutput") or ""
    return "\n".join(filter(None, texts)) or (
        output if isinstance(output, str) else msgspec.json.encode(output).decode()
    )


def _usage_of(report: Line) -> Usage:
    # Some write the names as the protocol does, some with underscores.
    tokens = {key.replace("_", "").lower(): as_count(value) for key, value in report.items()}
    read, written = tokens.get("cachedreadtokens", 0), tokens.get("cachedwritetokens", 0)
    given, output = tokens.get("inputtokens", 0), tokens.get("outputtokens", 0)
    # The sum tells whether the input includes what came from the cache.
    if tokens.get("totaltokens", 0) >= given + output + read + written:
        given += read + written
    return Usage(
        input_tokens=given,
        cached_input_tokens=read,
        cache_write_tokens=written,
        output_tokens=output,
        cost_usd=None,
        requests=1,
    )


def _failure_of(error: RpcError) -> TurnFailure:
    if error.code == AUTH_REQUIRED:
        return "login"
    data = as_object(error.data)
    status = next((data[key] for key in ("status", "statusCode", "httpStatus") if key in data), error.code)
    return provider_failure(status, str(error)) if isinstance(status, int) and status > 0 else "model"
