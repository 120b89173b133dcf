"""The providers of a soak: three wires on loopback, the agents' replies, and the trouble that the wires are in."""

import asyncio
import re
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Literal

from model_server.server import Server, serve
from model_server.turn import Protocol, Received, Turn, Used
from soak_test.workload import Job, Workload

WIRES: tuple[Protocol, ...] = ("anthropic", "responses", "chat")
RESULTS: Mapping[Protocol, bytes] = {
    "anthropic": b'"tool_use_id"',
    "chat": b'"tool_call_id"',
    "responses": b'"function_call_output"',
}
"""What stands once in a request for each result of a tool."""
KEY = re.compile(rb"\bjob\d{5}\b")
USED = Used(input=1000, output=50)
CRITIQUE = "Correctness: 3/3\nReadability: 3/3\nEdge cases: 3/3\nTotal: 9/9\nDONE"
STALL = Turn(stall_at=-1)

Trouble = Literal["limit", "outage", "quota"]
"""A rate limit of seconds | nobody answers | a rate limit until a reset that is far away."""


class Providers:
    """Three servers, what they were asked, and the trouble that each of them is in."""

    def __init__(self, workload: Workload) -> None:
        self.served: Counter[str] = Counter()
        """How many requests each wire answered, by `WIRE` and, in trouble, by `WIRE TROUBLE`."""
        self.cost_usd = 0.0
        self._jobs = workload.by_key
        self._finished: Counter[str] = Counter()
        self._hung: set[str] = set()
        self._trouble: dict[Protocol, tuple[Trouble, float, float]] = {}
        self._servers: dict[Protocol, Server] = {}

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """Run the servers while the block lasts."""
        async with AsyncExitStack() as stack:
            for wire in WIRES:
                server = await stack.enter_async_context(
                    serve(wire, lambda received, w=wire: self._answer(w, received))
                )
                self._servers[wire] = server
            yield

    @property
    def models(self) -> Mapping[Protocol, str]:
        """The model string of each wire."""
        return {wire: server.local_model if wire == "chat" else server.model for wire, server in self._servers.items()}

    @property
    def environ(self) -> dict[str, str]:
        """The variables that lead to the servers."""
        found: dict[str, str] = self._servers["anthropic"].environ | self._servers["responses"].environ
        return found

    def begin(self, wires: Sequence[Protocol], trouble: Trouble, seconds: float, *, retry_after_s: float = 0.0) -> None:
        """Let these wires be in trouble for so long; a limit or quota tells clients to wait `retry_after_s`."""
        for wire in wires:
            self._trouble[wire] = (trouble, time.monotonic() + seconds, retry_after_s)

    async def until_well(self) -> None:
        """Wait until none of the wires is in trouble."""
        left = (until - time.monotonic() for _, until, _ in self._trouble.values())
        await asyncio.sleep(max(0.0, *left))

    def _answer(self, wire: Protocol, received: Received) -> Turn:
        if refusal := self._refusal(wire):
            return refusal
        self.served[wire] += 1
        server = self._servers[wire]
        server.requests.clear()  # it keeps each of them, and a long run has many
        return self._reply(wire, received.body)

    def _refusal(self, wire: Protocol) -> Turn | None:
        trouble, until, retry_after_s = self._trouble.get(wire, ("limit", 0.0, 0.0))
        left = until - time.monotonic()
        if left <= 0:
            return None
        self.served[f"{wire} {trouble}"] += 1
        if trouble == "outage":
            return Turn(cut_at=-1)
        wait = max(retry_after_s, left) if trouble == "quota" else retry_after_s
        error = ("rate_limit_error", "too many requests")
        return Turn(status=429, error=error, headers={"Retry-After": f"{max(1, round(wait))}"})

    def _reply(self, wire: Protocol, body: bytes) -> Turn:
        if b"Total: N/9" in body:
            return Turn(text=CRITIQUE, usage=USED)
        found = KEY.search(body)
        if found is None:
            return Turn(text="There is nothing to do.", usage=USED)
        job = self._jobs[found[0].decode()]
        if b'"verdict"' in body and b"citations" in body:
            return Turn(text=_approval(job), usage=USED)
        return self._work(job, body.count(RESULTS[wire]))

    def _work(self, job: Job, results: int) -> Turn:
        """Return the reply of the agent that has seen so many results of its tools."""
        first = self._finished[job.key] == 0 and job.key not in self._hung
        if job.behaviour == "stalls_once" and first and results:
            self._hung.add(job.key)
            return STALL
        steps = job.steps(first=first)
        if results >= len(steps):
            self._finished[job.key] += 1
            return Turn(text="It is done.", usage=USED)
        if job.behaviour == "hangs_once" and first:
            self._hung.add(job.key)
        return Turn(calls=(steps[results],), usage=USED)


def _approval(job: Job) -> str:
    citation = f'{{"file": "{job.path}", "line": 1, "note": "it is what was asked for"}}'
    return f'```json\n{{"verdict": "approve", "citations": [{citation}], "summary": "right"}}\n```'
