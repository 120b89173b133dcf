"""A live model: one conversation with one endpoint, one try at a time."""

import re
from collections.abc import Callable, Sequence
from functools import partial
from operator import is_

import msgspec

from scaffold.core.conversation import (
    AssistantMessage,
    DeltaHandler,
    Reply,
    Request,
    RetryWait,
    ToolResult,
    without_images,
)
from scaffold.core.errors import ContextOverflow, ModelAccessDenied, ModelError
from scaffold.core.model import Usage
from scaffold.core.ports import Clock
from scaffold.core.printable_text import join_limited
from scaffold.core.spending import UNLIMITED_TOKENS
from scaffold.llm.deltas import DeltaListener, EndlessReplyGuard, emit_deltas
from scaffold.llm.model_window import ModelWindow
from scaffold.llm.registry.cards import ModelCard, model_card
from scaffold.llm.registry.model_name import ModelName
from scaffold.llm.request_tokens import OfferedTools, RequestTokens
from scaffold.llm.transport.endpoint import Endpoint, find_endpoint
from scaffold.llm.transport.live_context import (
    Deadlines,
    HttpClient,
    HttpRequest,
    LiveContext,
    LoginClient,
    ignore_progress,
)
from scaffold.llm.transport.silence import ResponseBody, Silence
from scaffold.llm.wire.codec import BYTES_PER_TOKEN, OPAQUE, Codec, EncodedMessages, ModelTarget, WireReply
from scaffold.llm.wire.provider_errors import (
    RequestRejected,
    http_error,
    retry_after_header,
    unreadable_reply,
    web_page,
)
from scaffold.llm.wire.sse import SseDecoder, read_events
from scaffold.llm.wire.text_tools import TextToolsCodec

MAX_REPLY_BYTES = 64 * 2**20
"""A longer stream is treated as an error."""
LONG_EVENT_BYTES = 1_000
"""An unfinished event of more bytes is not a keep-alive."""
MAX_ERROR_BYTES = 2**16
STREAM_STARTS = (b"data:", b"event:", b"id:", b"retry:", b":")
"""How a stream of server-sent events begins."""
MAX_COUNT = 100_000_000
"""More tokens in one request, or fewer than none, are a server's mistake."""
DEFAULT_OUTPUT_TOKENS = 1_000
"""Expected output of an agent's first turn, besides its thoughts; later it is the most that a turn had so far."""
INPUT_MARGIN = 0.1
"""A request's input may exceed the estimate by this fraction."""
OUTPUT_MARGIN = 1.5
"""A reply may exceed its limit by this factor before we hang up, because its tokens are estimated."""
SURELY_TOO_LONG = 1.5
"""A request whose estimated size is this many windows is not sent."""
MIN_OUTPUT_TOKENS = 1_000
"""Always requested, even if the window has less left: then the provider reports that the conversation is too long."""
MAX_OUTPUT_TOKENS = 64_000
"""The limit of a reply that nothing else limits: what grows beyond it never ends."""
DEFAULT_DEADLINES = Deadlines()
REASONING_DEADLINES = Deadlines(idle_s=300.0)
"""For models that may think for minutes before they send the first byte."""
UNSTREAMED_DEADLINES = Deadlines(idle_s=600.0)
"""For replies without streaming: nothing arrives before the whole reply is generated."""
NOT_FOUND, MAX_NAMES = 404, 8
_VARYING = re.compile(r"[\w-]*\d[\w-]*")
"""What differs from one answer to the next: ids, times, counts."""


class LiveModel:
    """A `SingleTryModel` that calls an endpoint; one object for each conversation."""

    def __init__(
        self,
        endpoint: Endpoint,
        card: ModelCard,
        *,
        wire: HttpClient,
        clock: Clock,
        deadlines: Deadlines,
        window: ModelWindow,
        stream: bool = True,
    ) -> None:
        self._endpoint = endpoint
        self._window = window
        self._card = card
        self._wire = wire
        self._clock = clock
        self._deadlines = deadlines
        self._target = ModelTarget(
            name=card.name,
            model=card.model,
            max_output_tokens=card.max_output_tokens,
            thinking_tags=card.thinking_tags,
            thinking=card.thinking,
            stream=stream,
        )
        self._use_codec(endpoint.codec, self._target)
        self._tools, self._tokens = OfferedTools(card.trained_tools), RequestTokens(card)
        self._last = Usage()
        self._sent: Request | None = None
        self._most_output = 0
        self._sends_limit = True
        self._fallbacks: list[Codec] = [*endpoint.fallback_codecs]
        if self._fallbacks:
            self._fallbacks.append(TextToolsCodec(self._fallbacks[-1]))
        """Those not tried yet."""
        self._proposed: tuple[Codec, ModelTarget] | None = None
        """The form that was accepted after errors that may have passed by themselves."""
        self._is_blind = False
        """Whether the user knows that the model sees no images."""

    def _use_codec(self, codec: Codec, target: ModelTarget) -> None:
        self._codec, self._target = codec, target
        self._pieces = EncodedMessages(codec, target)

    @property
    def endpoint(self) -> str:
        """Return the endpoint's name; models of the same endpoint share its rate limits."""
        return self._endpoint.name

    @property
    def window_tokens(self) -> int | None:
        """Return the maximum tokens of a request and its reply together; None if unknown."""
        return self._window.tokens

    @property
    def slots(self) -> int | None:
        """Return how many requests the server says that it works on at once; None if it does not say."""
        return self._window.facts.slots

    def estimate(self, request: Request) -> Usage:
        """Return the estimated usage of the request, from its size in bytes and what the server counted so far."""
        request = self._tools.offered(request)
        input_tokens = self._tokens.estimate(request, self._pieces)
        thoughts = self._card.thinking.expected_tokens(request.effort)
        output_tokens = self._most_output or DEFAULT_OUTPUT_TOKENS + thoughts
        usage = Usage(
            input_tokens=input_tokens,
            cached_input_tokens=min(self._last.cached_input_tokens, input_tokens),
            output_tokens=min(output_tokens, request.max_output_tokens or output_tokens),
            requests=1,
        )
        return self._price_usage(usage)

    async def attempt(self, request: Request, try_number: int, on_delta: DeltaHandler, *, silence_s: float) -> Reply:
        """Return one complete reply, streaming its deltas to `on_delta`; every try starts from the beginning.

        Raises ModelError on failure, transient if nothing arrived within `silence_s`.
        """
        request = self._tools.offered(request)
        found = await self._window.look(self._wire, self._deadlines.idle_s, most=1)
        request = self._suited_request(request, on_delta)
        if request.tools and self._window.facts.tools is False and not isinstance(self._codec, TextToolsCodec):
            self._use_codec(TextToolsCodec(self._codec), self._target)
            self._fallbacks = [each for each in self._fallbacks if isinstance(each, TextToolsCodec)]
            what = f"the server of {self._card.model} says that it has no tools: they are offered as text"
            on_delta(RetryWait(0.0, f"{what}; a model or chat template that has tools calls them more reliably"))
        if found and self.estimate(request).input_tokens > (self._window.tokens or 0):
            # The caller did not know that. Some servers would shorten the request themselves, without a word.
            raise ContextOverflow(f"it does not fit: {self._sizes_text(request)}", self._overflow_fix(request))
        reply = await self._once_accepted(request, on_delta, silence_s, again=try_number > 1)
        await self._window.look(self._wire, self._deadlines.idle_s)
        return reply

    def _suited_request(self, request: Request, on_delta: DeltaHandler) -> Request:
        """Spell the conversation as the server says that its model can take it; return the request without more."""
        facts, codecs = self._window.facts, self._endpoint.fallback_codecs
        if self._codec is self._endpoint.codec and False in (facts.system_role, facts.several_calls):
            self._use_codec(codecs[-1 if facts.system_role is False else 0], self._target)
        if facts.images is not False:
            return request
        messages = tuple(map(without_images, request.messages))
        if messages != request.messages and not self._is_blind:
            self._is_blind = True
            on_delta(RetryWait(0.0, f"{self._card.model} takes no images, so it is only told that there are some"))
        return msgspec.structs.replace(request, messages=messages)

    def _note_dropped_prompt(self, request: Request, usage: Usage) -> None:
        """Put the base prompt where the template keeps it, if a longer conversation has fewer tokens than before."""
        sent = self._sent
        if sent is None or (sent.system, sent.tools) != (request.system, request.tools):
            return
        grown = len(request.messages) > len(sent.messages) > 0 and all(map(is_, sent.messages, request.messages))
        shrunk = not usage.estimated_tokens and usage.input_tokens < self._last.input_tokens
        # Mistral's templates have it only where the last message is the user's; there Qwen's drop earlier thoughts.
        within = grown and any(isinstance(part, ToolResult) for part in request.messages[-1].parts[-1:])
        if within and shrunk and self._endpoint.window_urls and not isinstance(self._codec, TextToolsCodec):
            self._use_codec(self._endpoint.fallback_codecs[-1], self._target)

    async def _once_accepted(self, request: Request, on_delta: DeltaHandler, silence_s: float, *, again: bool) -> Reply:
        """Return the reply to the request, sent again without what the endpoint rejects, or in another form."""
        known, untried, limited = (self._codec, self._target), self._fallbacks, self._sends_limit
        refused: list[tuple[HttpRequest, RequestRejected]] = []
        proposed, self._proposed = self._proposed, None
        reply = None
        try:
            while reply is None:
                try:
                    reply = await self._reply_once(request, on_delta, silence_s)
                except ContextOverflow:
                    if not self._sends_limit or not self._endpoint.window_urls:
                        raise
                    # Servers that count the limit as used may refuse it, because our estimate of the rest is rough.
                    self._sends_limit = False
                except RequestRejected as error:
                    # An error that may pass is a refusal once it has come again.
                    passing = error.transient and not again and proposed is None
                    passing = passing or (isinstance(on_delta, DeltaListener) and on_delta.has_output)
                    sent = self._with_limit(request, self.estimate(request))
                    refused.append((self._http_request(sent, self._codec, self._target), error))
                    plainer = proposed if len(refused) == 1 and proposed else self._plainer_request(sent, refused)
                    if passing or plainer is None:
                        raise
                    on_delta(RetryWait(0.0, f"asking again: {error.what}"))
                    # For the rest of the conversation: the same server would reject the next request as well.
                    self._use_codec(*plainer)
        finally:
            # An outage that ended just then looks like a form that helped: the next request has everything again, and
            # if that is refused as well, the form stays.
            doubted = bool(refused) and refused[0][1].transient and proposed is None
            self._proposed = (self._codec, self._target) if doubted and reply is not None else None
            if reply is None or doubted:
                self._use_codec(*known)
                self._fallbacks = untried
            if reply is None:
                self._sends_limit = limited
        return reply

    def _plainer_request(
        self, request: Request, refused: Sequence[tuple[HttpRequest, RequestRejected]]
    ) -> tuple[Codec, ModelTarget] | None:
        """Return a codec and a target without the feature that the endpoint rejects; None if all were `refused`."""
        error = refused[-1][1]
        # What one server wants back another one behind the same address may refuse, in words of its own. An outage says
        # nothing of that: the thoughts would be lost, and what the provider has cached.
        unsigned = None if error.transient else self._target.without(OPAQUE)
        targets = (self._codec.adapted(self._target, error.answer), unsigned)
        named = ((self._codec, target) for target in targets if target is not None)
        # Chat templates refuse in words of their own, with any status. Once the server has answered in this
        # conversation, only the calls in its history can be at fault: in an outage, only several in a reply.
        several = any(len(each.tool_calls) > 1 for each in request.messages if isinstance(each, AssistantMessage))
        spelling = self._endpoint.fallback_codecs[: several or not error.transient]
        # A provider has tools: in an outage, which may end at any form, it would look as if it had none.
        texts = self._endpoint.window_urls or not error.transient
        codecs = [each for each in self._fallbacks if texts or not isinstance(each, TextToolsCodec)]
        codecs = [each for each in codecs if not self._last.requests or each in spelling]
        # What a plainer form did not change, others hardly will: only the plainest of all is left to be tried.
        answers = {_VARYING.sub("", each.answer) for _, each in refused}
        codecs = codecs[-1:] if len(answers) < len(refused) else codecs
        for codec, changed in (*named, *((each, self._target) for each in codecs)):
            plainer = self._http_request(request, codec, changed)
            if all((sent.headers, sent.body) != (plainer.headers, plainer.body) for sent, _ in refused):
                if codec in self._fallbacks:  # those before it are less plain
                    self._fallbacks = self._fallbacks[self._fallbacks.index(codec) + 1 :]
                return codec, changed
        return None

    def _http_request(
        self, request: Request, codec: Codec, target: ModelTarget, on_sent: Callable[[], None] = ignore_progress
    ) -> HttpRequest:
        current = codec is self._codec and target is self._target
        pieces = self._pieces if current else EncodedMessages(codec, target)
        return HttpRequest(
            url=self._endpoint.url,
            headers={name: value for name, value in self._endpoint.headers.items() if name not in target.refused},
            body=codec.request(request, pieces.encode(request.messages), target),
            deadlines=self._deadlines,
            on_sent=on_sent,
        )

    def _with_limit(self, request: Request, expected: Usage) -> Request:
        if not self._sends_limit:
            return request
        return msgspec.structs.replace(request, max_output_tokens=self._output_limit(request, expected))

    def _output_limit(self, request: Request, expected: Usage) -> int:
        """Return the most tokens that the reply may have: of the model, the rest of its window, and of the budget."""
        limits = [self._card.max_output_tokens or MAX_OUTPUT_TOKENS, self._affordable_tokens(request, expected)]
        limits += [] if request.max_output_tokens is None else [request.max_output_tokens]
        if self._window.tokens is not None:
            # Some providers require that the output limit fits in the rest of the window.
            left = self._window.tokens - int(expected.input_tokens * (1 + INPUT_MARGIN))
            limits.append(max(left, MIN_OUTPUT_TOKENS))
        return min(limits)

    def _affordable_tokens(self, request: Request, expected: Usage) -> int:
        """Return how long a reply the budget has room for; at least a short one, which the last of it may pay."""
        left = request.left
        if left is None:
            return UNLIMITED_TOKENS
        silent = msgspec.structs.replace(expected, output_tokens=0)
        tokens = left.tokens - silent.counted_tokens
        priced = msgspec.structs.replace(silent, output_tokens=MAX_OUTPUT_TOKENS)
        least_usd, most_usd = self._price_usage(silent).cost_usd, self._price_usage(priced).cost_usd
        if least_usd is not None and most_usd is not None and left.usd < most_usd:
            tokens = min(tokens, int((left.usd - least_usd) / (most_usd - least_usd) * MAX_OUTPUT_TOKENS))
        return max(tokens, MIN_OUTPUT_TOKENS)

    def _overflow_fix(self, request: Request) -> str:
        return self._window.overflow_fix(self.estimate(request).input_tokens)

    def _sizes_text(self, request: Request) -> str:
        window, needed = self._window.tokens, self.estimate(request).input_tokens
        known = "" if window is None else f", the context window of {self._card.model} {window:,}"
        return f"the request has about {needed:,} tokens{known}"

    async def _reply_once(self, request: Request, on_delta: DeltaHandler, silence_s: float) -> Reply:
        window, expected = self._window.tokens, self.estimate(request)
        # Only if even a wrong estimate cannot be that wrong: otherwise the provider decides, at no cost. What it has
        # answered before fits, whatever we know of its window.
        longest = None if window is None else max(window, self._last.input_tokens) * SURELY_TOO_LONG
        if longest is not None and expected.input_tokens > longest:
            raise ContextOverflow(f"it does not fit: {self._sizes_text(request)}", self._overflow_fix(request))
        silence = Silence(silence_s, self._deadlines.idle_s)
        post = self._http_request(self._with_limit(request, expected), self._codec, self._target, silence.sending)
        # The budget has no margin: it is what was agreed.
        most = min(self._output_limit(request, expected) * OUTPUT_MARGIN, self._affordable_tokens(request, expected))
        try:
            async with silence.timeout, self._wire.post(post) as answer:
                first = await answer.read()
                silence.broken()
                tell = partial(self._tell_streamed, expected, on_delta)
                watched = EndlessReplyGuard(self._card.model, most, on_delta, tell)
                try:
                    wire_reply = await self._read_body(ResponseBody(answer, first, silence), watched)
                finally:
                    tell(watched.tokens)
        except TimeoutError as error:
            # One of the caller, who shows the reply, says nothing about the model.
            if not silence.timeout.expired():
                raise
            raise silence.error(self._card.model) from error
        except ContextOverflow as error:
            self._window.learn(error.window_tokens)
            error.what = f"{self._endpoint.without_key(error.what)}; {self._sizes_text(request)}"
            error.fix = self._overflow_fix(request)
            raise
        except ModelError as error:
            error.what = self._endpoint.without_key(error.what)
            raise
        usage = self._price_usage(self._count_usage(request, wire_reply))
        self._note_dropped_prompt(request, usage)
        self._last, self._sent, message = usage, request, wire_reply.message
        if not usage.estimated_tokens:
            scale = self._tokens.correct(request, self._pieces, usage.input_tokens)
            # With the conversation, whatever process continues it.
            message = msgspec.structs.replace(message, token_scale=round(scale, 3))
        self._most_output = max(self._most_output, usage.output_tokens)
        return Reply(message=message, usage=usage, stop=wire_reply.stop)

    def _tell_streamed(self, expected: Usage, on_delta: DeltaHandler, tokens: int) -> None:
        if isinstance(on_delta, DeltaListener):
            used = msgspec.structs.replace(expected, output_tokens=tokens)
            on_delta.streamed(self._price_usage(used))

    async def _read_body(self, body: ResponseBody, watched: EndlessReplyGuard) -> WireReply:
        kind = body.answer.headers.get("content-type", "").lower()
        if not 200 <= body.answer.status < 300:
            raise await self._read_refusal(body)
        # Some servers call a stream plain text, or answer a whole reply as a stream.
        start = await body.start()
        called_stream = kind.startswith("text/event-stream") and not start.startswith((b"{", b"["))
        if called_stream or start.startswith(STREAM_STARTS):
            return await self._read_stream(body, watched)
        if kind.startswith("text/html") or start.startswith(b"<"):
            raise web_page(self._card.model)
        reply = self._codec.reader(self._target).whole(await body.whole(MAX_REPLY_BYTES))
        emit_deltas(reply.message, watched.on_delta)
        return reply

    async def _read_stream(self, body: ResponseBody, on_delta: DeltaHandler) -> WireReply:
        events, reader = SseDecoder(), self._codec.reader(self._target)
        size = 0
        while not reader.complete and (chunk := await body.read()):
            size += len(chunk)
            if size > MAX_REPLY_BYTES:
                raise unreadable_reply(f"it has more than {MAX_REPLY_BYTES:,} bytes")
            if read_events(reader, events.feed(chunk), on_delta) or events.unfinished > LONG_EVENT_BYTES:
                body.silence.broken()
        if not reader.complete:
            read_events(reader, events.end(), on_delta)
        return reader.end()

    async def _read_refusal(self, body: ResponseBody) -> ModelError:
        status, headers = body.answer.status, body.answer.headers
        if 300 <= status < 400:
            return ModelAccessDenied(
                f"the endpoint of {self._card.model} answered with a redirect (HTTP status {status})",
                "Set the base URL to the provider's real address; redirects are not followed, to protect the key.",
            )
        text = (await body.whole(MAX_ERROR_BYTES, strict=False)).decode(errors="replace")
        error = http_error(
            status,
            self._endpoint.without_key(text).encode(),  # before truncation, which could leave half a key
            who=self._card.model,
            retry_after=retry_after_header(headers),
            now=self._clock.now(),
            should_retry=headers.get("x-should-retry"),
        )
        if status == NOT_FOUND and (served := await self._window.served_models(self._wire, self._deadlines.idle_s)):
            error.fix = f"The server has {join_limited(served, MAX_NAMES)}. {error.fix}"
        return error

    def _count_usage(self, request: Request, wire_reply: WireReply) -> Usage:
        """Return the reported usage, or an estimate if the server reported none that can be, so that none is free."""
        reported = wire_reply.usage
        if 0 < reported.input_tokens <= MAX_COUNT and 0 <= reported.output_tokens <= MAX_COUNT:
            # Impossible cached tokens do not count: a wrong number must not lower what was spent.
            cached = reported.cached_input_tokens
            cached = cached if 0 <= cached <= reported.input_tokens else 0
            written = min(max(reported.cache_write_tokens, 0), reported.input_tokens - cached)
            return msgspec.structs.replace(reported, cached_input_tokens=cached, cache_write_tokens=written)
        encoded = self._codec.message(wire_reply.message, self._target)
        output_tokens = len(encoded) // BYTES_PER_TOKEN
        estimate = self.estimate(request).input_tokens
        return Usage(input_tokens=estimate, output_tokens=output_tokens, requests=1).as_estimate

    def _price_usage(self, usage: Usage) -> Usage:
        prices = self._card.prices
        cost_usd = None if prices is None else prices.cost_usd(usage, self._clock.now().date())
        return msgspec.structs.replace(usage, cost_usd=cost_usd)


def open_live_model(model: ModelName, clock: Clock, line: LiveContext, *, stream: bool) -> tuple[LiveModel, float]:
    """Return the model without retries, and the seconds that it may send nothing."""
    card = model_card(model)
    streamed = REASONING_DEADLINES if card.may_think else DEFAULT_DEADLINES
    deadlines = line.deadlines or (streamed if stream else UNSTREAMED_DEADLINES)
    endpoint = find_endpoint(model, line.environ, line.login)
    wire = line.wire if endpoint.login is None else LoginClient(line.wire, endpoint.login)
    window = ModelWindow(card, endpoint, line.windows, line.learned)
    live = LiveModel(endpoint, card, wire=wire, clock=clock, deadlines=deadlines, window=window, stream=stream)
    return live, deadlines.idle_s
