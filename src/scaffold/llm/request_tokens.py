"""How many tokens a request has: a guess from its bytes, corrected by what the server counted of earlier ones."""

from collections.abc import Sequence

import msgspec

from scaffold.core.conversation import AssistantMessage, Request
from scaffold.core.tool import Tool
from scaffold.llm.registry.cards import ModelCard
from scaffold.llm.wire.codec import BYTES_PER_TOKEN, EncodedMessages


class OfferedTools:
    """Leaves out the tools that are only for models trained to use them; the same tools give the same object."""

    def __init__(self, trained: frozenset[str]) -> None:
        self._trained = trained
        self._given: Sequence[Tool] = ()
        self._offered: Sequence[Tool] = ()

    def offered(self, request: Request) -> Request:
        """Return the request with the tools that are left."""
        if request.tools is not self._given and request.tools is not self._offered:
            self._given = request.tools
            self._offered = tuple(
                tool for tool in request.tools if not tool.for_trained_models or tool.name in self._trained
            )
        return msgspec.structs.replace(request, tools=self._offered)


class RequestTokens:
    """Estimates the tokens of one conversation's requests; tools are measured again only when they change."""

    def __init__(self, card: ModelCard) -> None:
        self._model = card.model
        self._scale: float | None = None
        """How many tokens the server last counted for each that was guessed."""
        self._tools: Sequence[Tool] = ()
        self._tools_size = 0

    def estimate(self, request: Request, pieces: EncodedMessages) -> int:
        """Return the estimated tokens of a request with these messages."""
        return round(self._guess(request, pieces) * self._known_scale(request))

    def correct(self, request: Request, pieces: EncodedMessages, counted: int) -> float:
        """Learn from what the server counted; return how many tokens that is for each guessed one."""
        self._scale = counted / max(1, self._guess(request, pieces))
        return self._scale

    def _guess(self, request: Request, pieces: EncodedMessages) -> int:
        if request.tools is not self._tools:
            self._tools = request.tools
            described = [(tool.name, tool.description, tool.schema) for tool in request.tools]
            self._tools_size = len(msgspec.json.encode(described))
        rest = len(request.system) + len(request.context) + len(request.reminder) + self._tools_size
        return pieces.tokens(request.messages) + rest // BYTES_PER_TOKEN

    def _known_scale(self, request: Request) -> float:
        if self._scale is not None:
            return self._scale
        # Another process may have begun the conversation, also with another model.
        mine = (
            each.token_scale
            for each in reversed(request.messages)
            if isinstance(each, AssistantMessage) and each.model == self._model
        )
        return next(filter(None, mine), 1.0)
