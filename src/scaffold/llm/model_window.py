"""The context window of a live model: configured, of a provider's model, asked of a local server, named in an error."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import msgspec

from scaffold.core.errors import ModelError
from scaffold.llm.registry.cards import ModelCard
from scaffold.llm.transport.endpoint import Endpoint
from scaffold.llm.transport.live_context import Deadlines, HttpClient, HttpRequest, LearnedWindows

LOOK_S = 1.0
"""How long a local server may take to report a window; a request never waits longer for it."""
MAX_LOOKS = 2
"""A server is asked before its first request, and after it: some load a model only then."""
MAX_BODY_BYTES = 2**20
MIN_WINDOW = 256
"""A smaller number is not a window."""
_LISTS = ("data", "models")
_NAMES = ("id", "name", "model")
# The window that a listed model has now: at vLLM, LM Studio, Ollama. Not the window it was trained with.
_SIZES = ("max_model_len", "loaded_context_length", "context_length")


class ModelWindow:
    """One model's window, as far as known; a server's reports are kept in `learned`, for all conversations."""

    def __init__(
        self, card: ModelCard, endpoint: Endpoint, configured: Mapping[str, int], learned: LearnedWindows
    ) -> None:
        self._known = configured.get(card.model) or configured.get(card.name) or card.window_tokens
        self._endpoint = endpoint
        self._name = card.name
        self._learned = learned
        self._key = f"{endpoint.name} {card.name}"

    @property
    def tokens(self) -> int | None:
        """Return the window; None if it is unknown."""
        return min(filter(None, (self._known, self._learned.tokens.get(self._key))), default=None)

    @property
    def drops_tools(self) -> bool:
        """Whether the server says that it passes no tools to the model."""
        return self._key in self._learned.without_tools

    def learn(self, tokens: int | None) -> None:
        """Remember a window that the server named."""
        if tokens is not None and tokens >= MIN_WINDOW:
            self._learned.learn(self._key, tokens)

    async def look(self, wire: HttpClient, idle_s: float) -> bool:
        """Ask a local server for a window that is unknown; return whether it is known since.

        Never fails: a server that is slow is not asked again. `idle_s` is how long its replies may be silent.
        """
        looks = self._learned.looks
        if self.tokens is not None or not self._endpoint.window_urls or looks[self._key] >= MAX_LOOKS:
            return False
        # A request never waits long for it: without a window it is only cut later.
        try:
            async with asyncio.timeout(min(LOOK_S, idle_s)):
                for url in self._endpoint.window_urls:
                    self.learn(await self._ask_window(wire, url))
                    if self.tokens is not None:
                        return True
            looks[self._key] += 1
        except TimeoutError:
            # A server that is this slow would delay each request.
            looks[self._key] = MAX_LOOKS
        except ModelError:
            pass  # a server that is not there, and may come: so far it has not been asked
        return False

    async def _ask_window(self, wire: HttpClient, url: str) -> int | None:
        asked = HttpRequest(url=url, headers=self._endpoint.headers, body=b"", deadlines=Deadlines())
        read = bytearray()
        async with wire.get(asked) as answer:
            while (chunk := await answer.read()) and len(read) < MAX_BODY_BYTES:
                read += chunk
        if answer.status != 200:
            return None
        if drops_tools(bytes(read)):
            self._learned.without_tools.add(self._key)
        return served_window(bytes(read), self._name)


def _json_object(body: bytes) -> dict[str, Any]:
    value: Any = None
    with suppress(msgspec.DecodeError, UnicodeError, RecursionError):
        value = msgspec.json.decode(body)
    return value if isinstance(value, dict) else {}


def drops_tools(body: bytes) -> bool:
    """Return whether a local server's answer says that its model's chat template has no tools, as llama.cpp does."""
    caps = _json_object(body).get("chat_template_caps")
    return isinstance(caps, dict) and caps.get("supports_tools") is False


def served_window(body: bytes, name: str) -> int | None:
    """Return the window of the model `name` that a local server's answer contains; None if it contains none."""
    value = _json_object(body)
    # llama.cpp, whose names mean nothing unless it serves several models: the size of one slot.
    settings = value.get("default_generation_settings")
    slot = settings.get("n_ctx") if isinstance(settings, dict) else None
    # Ollama's tag `latest` may be left out.
    mine = (
        model
        for models in (value.get(key) for key in _LISTS)
        for model in (models if isinstance(models, list) else ())
        if isinstance(model, dict) and {name, f"{name}:latest"} & {str(model.get(key)) for key in _NAMES}
    )
    sizes = (slot, *(model.get(size) for model in mine for size in _SIZES))
    return next((size for size in sizes if isinstance(size, int) and size >= MIN_WINDOW), None)
