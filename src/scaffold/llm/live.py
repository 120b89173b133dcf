"""A live model: one conversation with one endpoint, try by try."""

import asyncio
from collections.abc import Sequence

import msgspec

from scaffold.core.conversation import Hear, Reply, Request
from scaffold.core.errors import ModelTrouble
from scaffold.core.model import Usage
from scaffold.core.ports import Clock
from scaffold.core.tool import Tool
from scaffold.llm.codec import Codec, Heard, Target
from scaffold.llm.endpoint import Endpoint
from scaffold.llm.line import Answer, Deadlines, Post, Wire
from scaffold.llm.pieces import BYTES_PER_TOKEN, Pieces
from scaffold.llm.registry import ModelCard
from scaffold.llm.sse import Events
from scaffold.llm.telling import tell
from scaffold.llm.trouble import SystemMessageRefused, refused, unreadable, wish

LONGEST_REPLY = 64 * 2**20
"""Bytes; a stream that goes on beyond has lost its mind."""
LONGEST_REFUSAL = 2**16
USUAL_OUTPUT_TOKENS = 1_000
"""What a turn of an agent is likely to say at first; later turns are likely to say what the last one said."""
MARGIN = 0.1
"""How much more than estimated a request's input may turn out to be."""
LEAST_OUTPUT_TOKENS = 1_000
"""Asked for however little the window leaves: if that is too much, the conversation is too long."""


class LiveModel:
    """Asks an endpoint; a Model whose tries can be told apart. One object for each conversation."""

    def __init__(
        self,
        endpoint: Endpoint,
        card: ModelCard,
        *,
        wire: Wire,
        clock: Clock,
        deadlines: Deadlines,
        stream: bool = True,
    ) -> None:
        self._endpoint = endpoint
        self._card = card
        self._wire = wire
        self._clock = clock
        self._deadlines = deadlines
        self._target = Target(
            name=card.name,
            model=card.model,
            max_output_tokens=card.max_output_tokens,
            thinking_tags=card.thinking_tags,
            stream=stream,
        )
        self._speak(endpoint.codec)
        self._fixed = _FixedPart()
        self._last = Usage()
        self._guessed = 0

    def _speak(self, codec: Codec) -> None:
        self._codec = codec
        self._pieces = Pieces(codec, self._target)

    @property
    def endpoint(self) -> str:
        """Return who else is asked too much when this model is."""
        return self._endpoint.name

    @property
    def window_tokens(self) -> int | None:
        """Return how many tokens a request and its reply may have together; None where nobody knows."""
        return self._card.window_tokens

    def estimate(self, request: Request) -> Usage:
        """Return what the request is likely to use, judged by its bytes and by the last reply."""
        guess = self._guess(request)
        grown = guess - self._guessed
        input_tokens = self._last.input_tokens + grown if self._last.requests and grown >= 0 else guess
        output_tokens = self._last.output_tokens or USUAL_OUTPUT_TOKENS
        usage = Usage(
            input_tokens=input_tokens,
            cached_input_tokens=min(self._last.cached_input_tokens, input_tokens),
            output_tokens=min(output_tokens, request.max_output_tokens or output_tokens),
            requests=1,
        )
        return self._priced(usage)

    async def attempt(self, request: Request, try_number: int, hear: Hear, *, silence_s: float) -> Reply:  # noqa: ARG002 - every try asks for the whole reply
        """Return one whole reply, told to `hear` as it comes; every try asks for it from its beginning.

        ModelTrouble when none is to be had, transient if nothing at all came within `silence_s`.
        """
        try:
            return await self._once(request, hear, silence_s)
        except SystemMessageRefused:
            plainer = self._endpoint.plainer
            if plainer is None or self._codec is plainer:
                raise
        self._speak(plainer)
        return await self._once(request, hear, silence_s)

    async def _once(self, request: Request, hear: Hear, silence_s: float) -> Reply:
        pieces = self._pieces.of(request.messages)
        post = Post(
            url=self._endpoint.url,
            headers=self._endpoint.headers,
            body=self._codec.request(self._within_window(request), pieces, self._target),
            deadlines=self._deadlines,
        )
        try:
            async with asyncio.timeout(silence_s) as silence, self._wire.post(post) as answer:
                first = await answer.read()
                silence.reschedule(None)
                heard = await self._read(_Body(answer, first), hear)
        except TimeoutError as error:
            raise _silent(self._card.model, silence_s) from error
        except ModelTrouble as trouble:
            trouble.what = self._endpoint.without_key(trouble.what)
            raise
        return self._reply(request, heard)

    def _within_window(self, request: Request) -> Request:
        """Return the request with no more output wanted than its input leaves: some providers refuse it otherwise."""
        window = self._card.window_tokens
        limits = [most for most in (request.max_output_tokens, self._card.max_output_tokens) if most is not None]
        if window is None or not limits:
            return request
        left = window - int(self.estimate(request).input_tokens * (1 + MARGIN))
        return msgspec.structs.replace(request, max_output_tokens=min(*limits, max(left, LEAST_OUTPUT_TOKENS)))

    async def _read(self, body: "_Body", hear: Hear) -> Heard:
        kind = body.answer.headers.get("content-type", "").lower()
        if body.answer.status != 200:
            raise await self._refusal(body)
        if kind.startswith("text/event-stream"):
            return await self._streamed(body, hear)
        if kind.startswith("text/html"):
            raise unreadable("it is a web page")
        heard = self._codec.whole(await body.whole(LONGEST_REPLY), self._target)
        tell(heard.message, hear)
        return heard

    async def _streamed(self, body: "_Body", hear: Hear) -> Heard:
        events, reader = Events(), self._codec.reader(self._target)
        size = 0
        while chunk := await body.read():
            size += len(chunk)
            if size > LONGEST_REPLY:
                raise unreadable(f"it has more than {LONGEST_REPLY:,} bytes")
            for event in events.feed(chunk):
                for delta in reader.feed(event):
                    hear(delta)
                if reader.complete:
                    return reader.end()
        return reader.end()

    async def _refusal(self, body: "_Body") -> ModelTrouble:
        status, headers = body.answer.status, body.answer.headers
        if 300 <= status < 400:
            return ModelTrouble(
                f"{self._card.model} is not served where it was asked: HTTP status {status} sends us elsewhere.",
                "Set the base URL to where the provider really is: a key is never sent on to another address.",
            )
        said = (await body.whole(LONGEST_REFUSAL, strict=False)).decode(errors="replace")
        return refused(
            status,
            self._endpoint.without_key(said).encode(),  # before it is shortened, which might leave half a key
            who=self._card.model,
            retry_after=wish(headers),
            now=self._clock.now(),
            should_retry=headers.get("x-should-retry"),
        )

    def _reply(self, request: Request, heard: Heard) -> Reply:
        usage = self._priced(self._counted(request, heard))
        self._last, self._guessed = usage, self._guess(request)
        return Reply(message=heard.message, usage=usage, stop=heard.stop)

    def _counted(self, request: Request, heard: Heard) -> Usage:
        """Return what was used; where the server did not count, what is likely, since nothing is free."""
        if heard.usage.input_tokens:
            return heard.usage
        said = self._codec.message(heard.message, self._target)
        return Usage(input_tokens=self._guess(request), output_tokens=len(said) // BYTES_PER_TOKEN, requests=1)

    def _guess(self, request: Request) -> int:
        return self._pieces.tokens(request.messages) + self._fixed.tokens(request)

    def _priced(self, usage: Usage) -> Usage:
        prices = self._card.prices
        cost_usd = None if prices is None else prices.cost_usd(usage, self._clock.now().date())
        return msgspec.structs.replace(usage, cost_usd=cost_usd)


class _FixedPart:
    """How much of a request is not messages; tools are measured when they change."""

    def __init__(self) -> None:
        self._tools: Sequence[Tool] = ()
        self._tools_size = 0

    def tokens(self, request: Request) -> int:
        if request.tools is not self._tools:
            self._tools = request.tools
            described = [(tool.name, tool.description, tool.schema) for tool in request.tools]
            self._tools_size = len(msgspec.json.encode(described))
        return (len(request.system) + len(request.context) + self._tools_size) // BYTES_PER_TOKEN


class _Body:
    """A body whose first bytes were read already."""

    def __init__(self, answer: Answer, first: bytes) -> None:
        self.answer = answer
        self._first = first

    async def read(self) -> bytes:
        """Return what has come; empty at the end."""
        first, self._first = self._first, b""
        return first or await self.answer.read()

    async def whole(self, longest: int, *, strict: bool = True) -> bytes:
        """Return all of it; ModelTrouble if there is more than `longest` or it breaks off, or what there is so far."""
        read = bytearray()
        try:
            while chunk := await self.read():
                read += chunk
                if len(read) > longest:
                    raise unreadable(f"it has more than {longest:,} bytes")
        except ModelTrouble:
            if strict:
                raise
        return bytes(read[:longest])


def _silent(model: str, seconds: float) -> ModelTrouble:
    return ModelTrouble(
        f"{model} did not answer within {seconds:.0f} s.",
        "Check the connection to the model, then go on; `ralph -c` takes the conversation up where it stands.",
        transient=True,
    )
