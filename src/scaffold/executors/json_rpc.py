"""JSON-RPC with a program: requests, answers and notifications of both sides, one a line."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from scaffold.executors.program_lines import Line, ProgramLines

METHOD_NOT_FOUND = -32601
INVALID_REQUEST = -32600
RequestId = str | int
CLIENT = {"name": "scaffold", "title": "scaffold", "version": "1"}
"""How we introduce ourselves."""


class RpcError(Exception):
    """A refused request: by the other side, or by us where a listener raises it."""

    def __init__(self, code: int, message: str, data: object = None) -> None:
        """Keep what the other side says; `data` is its own, and may have the details."""
        details = as_text(as_object(data).get("details"))
        super().__init__(f"{message}: {details}" if details else message)
        self.code = code
        self.data = data


class RpcListener(Protocol):
    """Who takes part in a conversation."""

    def hear(self, method: str, params: Line, /) -> None:
        """Take a notification."""

    async def answer(self, method: str, params: Line, /) -> Mapping[str, Any]:
        """Return the result of a request; RpcError to refuse it. Anything else it raises ends the conversation."""

    def denial(self, method: str, /) -> Mapping[str, Any]:
        """Return the result of a request that is denied as the turn ends."""


class JsonRpcPeer:
    """Our side of a conversation. It reads only while `request` or `follow` is awaited.

    So a conversation is one coroutine, and what its listener raises comes out of it.
    """

    def __init__(self, lines: ProgramLines, listener: RpcListener) -> None:
        self._lines = lines
        self._listener = listener
        self._sent = 0
        self._answers: dict[RequestId, asyncio.Future[Line]] = {}
        self._questions: dict[RequestId, tuple[str, asyncio.Task[None]]] = {}
        self._is_ending = False

    async def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Send a notification."""
        await self._lines.send({"jsonrpc": "2.0", "method": method, "params": params})

    async def post(self, method: str, params: Mapping[str, Any]) -> asyncio.Future[Line]:
        """Send a request, and return its answer to come: a result, or RpcError."""
        self._sent += 1
        answer: asyncio.Future[Line] = asyncio.get_running_loop().create_future()
        # An error that nobody waits for any more is no fault of ours.
        answer.add_done_callback(lambda each: each.cancelled() or each.exception())
        self._answers[self._sent] = answer
        await self._lines.send({"jsonrpc": "2.0", "id": self._sent, "method": method, "params": params})
        return answer

    async def request(self, method: str, params: Mapping[str, Any]) -> Line:
        """Send a request, and return its result; RpcError if it is refused."""
        answer = await self.post(method, params)
        await self.follow(answer.done)
        return answer.result()

    async def follow(self, is_over: Callable[[], bool]) -> None:
        """Take what comes until `is_over`. Raises ProgramBroken, and what the listener raised."""
        receiving: asyncio.Task[Line] | None = None
        try:
            while not is_over():
                receiving = receiving or asyncio.create_task(self._lines.receive())
                questions = [task for _, task in self._questions.values()]
                await asyncio.wait([receiving, *questions], return_when=asyncio.FIRST_COMPLETED)
                for number in [number for number, (_, task) in self._questions.items() if task.done()]:
                    # One that failed stays: its asker waits until it is denied.
                    self._questions[number][1].result()
                    del self._questions[number]
                if receiving.done():
                    message, receiving = receiving.result(), None
                    await self._take_message(message)
        finally:
            if receiving is not None:
                receiving.cancel()

    def withdraw(self, number: object) -> None:
        """Drop a question that the other side has answered itself, or does not ask any more."""
        if isinstance(number, RequestId) and number in self._questions:
            self._questions.pop(number)[1].cancel()

    def stop_answering(self) -> None:
        """Stop the work on open questions, whose askers go on waiting."""
        for _, task in self._questions.values():
            task.cancel()

    async def deny_questions(self) -> None:
        """Deny all open questions, and those that are still to come."""
        self._is_ending = True
        while self._questions:
            number, (method, task) = self._questions.popitem()
            task.cancel()
            await self._deny_request(number, method)

    async def _deny_request(self, number: RequestId, method: str) -> None:
        await self._lines.send({"jsonrpc": "2.0", "id": number, "result": self._listener.denial(method)})

    async def _take_message(self, message: Line) -> None:
        number, method, params = message.get("id"), message.get("method"), as_object(message.get("params"))
        # Both sides number their requests alike, so only its method tells a request from an answer.
        if isinstance(method, str) and number is None:
            self._listener.hear(method, params)
        elif isinstance(method, str) and isinstance(number, RequestId) and number not in self._questions:
            if self._is_ending:
                await self._deny_request(number, method)
            else:
                task = asyncio.create_task(self._answer_question(number, method, params))
                self._questions[number] = (method, task)
        elif method is not None:
            error = {"code": INVALID_REQUEST, "message": "not a valid request, or its id is in use"}
            await self._lines.send({"jsonrpc": "2.0", "id": number, "error": error})
        elif isinstance(number, RequestId) and (answer := self._answers.pop(number, None)) is not None:
            if message.get("error") is None:
                answer.set_result(as_object(message.get("result")))
            else:
                answer.set_exception(_rpc_error(as_object(message["error"])))

    async def _answer_question(self, number: RequestId, method: str, params: Line) -> None:
        reply: dict[str, Any]
        try:
            reply = {"result": await self._listener.answer(method, params)}
        except RpcError as error:
            reply = {"error": {"code": error.code, "message": str(error)}}
        await self._lines.send({"jsonrpc": "2.0", "id": number, **reply})


def _rpc_error(error: Line) -> RpcError:
    code = error.get("code")
    message = as_text(error.get("message")) or "it refused the request and said no reason"
    return RpcError(code if isinstance(code, int) else 0, message, error.get("data"))


def as_object(value: object) -> Line:
    """Return the value if it is an object; an empty one otherwise: programs leave out what they like."""
    return value if isinstance(value, dict) else {}


def as_list(value: object) -> list[Line]:
    """Return the objects of the value if it is a list."""
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def as_text(value: object) -> str:
    """Return the value if it is a text; an empty one otherwise."""
    return value if isinstance(value, str) else ""


def as_count(value: object) -> int:
    """Return the value if it is a number of at least 0; 0 otherwise."""
    return max(int(value), 0) if isinstance(value, int | float) and abs(value) < 1e15 else 0
