"""What endpoints say of their models: the window, also as configured or named in an error, and which there are."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from scaffold.core.errors import ModelError
from scaffold.llm.registry.cards import ModelCard
from scaffold.llm.transport.endpoint import Endpoint
from scaffold.llm.transport.live_context import Deadlines, HttpClient, HttpRequest, LearnedWindows, ServerFacts
from scaffold.llm.wire.format import encode_json
from scaffold.llm.wire.provider_errors import OVERFLOW_FIX

LOOK_S = 1.0
"""How long a local server may take to report its facts; a request never waits longer for it."""
LIST_S = 3.0
"""How long an endpoint may take to list its models, where the user waits for that."""
MAX_LOOKS = 2
"""A server is asked before its first request, and after it: some load a model only then."""
MAX_BODY_BYTES = 2**20
MIN_WINDOW = 256
"""A smaller number is not a window."""
MIN_ADVISED = 16_384
_OPTIONS = {
    "/props": "llama.cpp: `-c {}` for each slot",
    "/api/v0/": "LM Studio: `lms load --context-length {}`",
    "/api/ps": "Ollama: `OLLAMA_CONTEXT_LENGTH={}`",
    "/models": "vLLM: `--max-model-len {}`",
    "": "llama.cpp: `-c {0}`, Ollama: `OLLAMA_CONTEXT_LENGTH={0}`, vLLM: `--max-model-len {0}`",
}
"""How the window is set, by a part of the URL where it is told."""
_NAMES = ("id", "name", "model")
# The window that a listed model has now: at vLLM, LM Studio, Ollama and OpenRouter, Mistral. Not the one that it was
# trained with, which LM Studio tells, too.
_SIZES = ("max_model_len", "loaded_context_length", "context_length", "max_context_length")
UNKNOWN = ServerFacts()


class ModelWindow:
    """One model's window and facts, as far as known; what servers say is kept in `learned`, for all conversations."""

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
        return min(filter(None, (self._known or self.facts.window, self._learned.tokens.get(self._key))), default=None)

    @property
    def facts(self) -> ServerFacts:
        """Return what the server has said so far."""
        return self._learned.facts.get(self._key, UNKNOWN)

    def learn(self, tokens: int | None) -> None:
        """Remember a window that the server named."""
        if tokens is not None and tokens >= MIN_WINDOW:
            self._learned.learn(self._key, tokens)

    def overflow_fix(self, needed: int) -> str:
        """Return what to do where a request of so many tokens does not fit, with the option of a local server."""
        if not self._endpoint.window_urls:
            return OVERFLOW_FIX
        told_at = self._learned.told_at.get(self._key, "")
        option = next(option for path, option in _OPTIONS.items() if path in told_at)
        # With room for the reply, and for the work that follows.
        size = max(MIN_ADVISED, 1 << (needed * 3 // 2).bit_length())
        return f"Start its server with a larger window ({option.format(size)}), or choose another model with `--model`."

    async def look(self, wire: HttpClient, idle_s: float, *, most: int = MAX_LOOKS) -> bool:
        """Ask a local server for what is unknown; return whether the window is known since.

        Never fails: a server that is slow is not asked again, nor one that was asked `most` times. `idle_s` is how long
        its replies may be silent.
        """
        looks, known = self._learned.looks, self.tokens
        if self.facts.window is not None or not self._endpoint.window_urls or looks[self._key] >= most:
            return False
        # A request never waits long for it: without a window it is only cut later.
        try:
            async with asyncio.timeout(min(LOOK_S, idle_s)):
                for url in self._endpoint.window_urls:
                    lists_models = await self._ask(wire, url)
                    # Ollama tells elsewhere what a model can do, if it is named.
                    if lists_models and url.endswith("/api/ps"):
                        await self._ask(wire, url.removesuffix("ps") + "show", encode_json({"model": self._name}))
                    if self.facts.window is not None:
                        self._learned.told_at[self._key] = url
                        break
            looks[self._key] += 1
        except TimeoutError:
            # A server that is this slow would delay each request.
            looks[self._key] = MAX_LOOKS
        except ModelError:
            pass  # a server that is not there, and may come: so far it has not been asked
        return known is None and self.tokens is not None

    async def served_models(self, wire: HttpClient, idle_s: float) -> Sequence[str]:
        """Return the names of the models that a local server lists; empty if it tells none."""
        names: list[str] = []
        with suppress(ModelError, TimeoutError):
            async with asyncio.timeout(min(LOOK_S, idle_s)):
                for url in (each for each in self._endpoint.window_urls if each.endswith("/models")):
                    names += [str(one.get("id")) for one in listed_models(await self._read(wire, url)) if one.get("id")]
        return list(dict.fromkeys(names))

    async def _ask(self, wire: HttpClient, url: str, body: bytes = b"") -> bool:
        """Learn the facts in the answer; return whether it lists models as Ollama does."""
        answer = await self._read(wire, url, body)
        self._learned.facts[self._key] = self.facts.extended(served_facts(answer, self._name))
        return "models" in _json_object(answer)

    async def _read(self, wire: HttpClient, url: str, body: bytes = b"") -> bytes:
        status, answer = await read_page(self._endpoint, wire, url, body)
        return answer if status == 200 else b""


async def read_page(endpoint: Endpoint, wire: HttpClient, url: str, body: bytes = b"") -> tuple[int, bytes]:
    """Return the status and the body of what an endpoint has at a URL; ModelError if it cannot be reached."""
    asked = HttpRequest(url=url, headers=endpoint.headers, body=body, deadlines=Deadlines())
    read = bytearray()
    async with (wire.post if body else wire.get)(asked) as answer:
        while (chunk := await answer.read()) and len(read) < MAX_BODY_BYTES:
            read += chunk
    return answer.status, bytes(read)


async def offered_models(endpoint: Endpoint, wire: HttpClient) -> Mapping[str, ServerFacts]:
    """Return the models that an endpoint lists, by name, with what it says of each; nothing if it has no list.

    ModelError if it cannot be reached or refuses the key.
    """
    try:
        async with asyncio.timeout(LIST_S):
            found = await _listed_at(endpoint, endpoint.models_url, wire)
            # LM Studio says more of its models here, and which of them make embeddings.
            for url in (each for each in endpoint.window_urls if each.endswith("/v0/models")):
                more = await _listed_at(endpoint, url, wire)
                found |= {name: found[name].extended(facts) for name, facts in more.items() if name in found}
    except TimeoutError as error:
        raise ModelError(f"no answer within {LIST_S:.0f} s", "Is the server running?") from error
    return found


async def _listed_at(endpoint: Endpoint, url: str, wire: HttpClient) -> dict[str, ServerFacts]:
    status, body = await read_page(endpoint, wire, url)
    if status in {401, 403}:
        raise ModelError("the key is refused", "Set another key.")
    if status != 200:
        return {}
    return {
        name: listed_facts(each) for each in listed_models(body) if isinstance(name := each.get("id"), str) and name
    }


def served_facts(body: bytes, name: str) -> ServerFacts:
    """Return what a local server's answer says of the model `name`."""
    # Ollama's tag `latest` may be left out.
    names = {name, f"{name}:latest"}
    mine = next((one for one in listed_models(body) if names & {str(one.get(key)) for key in _NAMES}), None)
    return _own_facts(_json_object(body)) if mine is None else listed_facts(mine)


def _json_object(body: bytes) -> Mapping[str, Any]:
    value: Any = None
    with suppress(msgspec.DecodeError, UnicodeError, RecursionError):
        value = msgspec.json.decode(body)
    return _fields(value)


def listed_models(body: bytes) -> Sequence[Mapping[str, Any]]:
    """Return the models in a list, as the server describes each."""
    answer = _json_object(body)
    return [_fields(each) for key in ("data", "models") for each in _items(answer.get(key))]


def _own_facts(answer: Mapping[str, Any]) -> ServerFacts:
    """Return the facts of an answer about one model: of llama.cpp, or of Ollama, which lists capabilities."""
    template = _fields(answer.get("chat_template_caps"))
    skills = set(map(str, _items(answer.get("capabilities"))))
    dropped = False in (template.get("supports_tools"), template.get("supports_tool_calls"))
    return ServerFacts(
        # The size of one slot.
        window=_count(_fields(answer.get("default_generation_settings")).get("n_ctx"), MIN_WINDOW),
        slots=_count(answer.get("total_slots"), 1),
        tools=False if dropped else "tools" in skills if skills else _flag(template.get("supports_tools")),
        several_calls=_flag(template.get("supports_parallel_tool_calls")),
        system_role=_flag(template.get("supports_system_role")),
        images="vision" in skills if skills else _flag(_fields(answer.get("modalities")).get("vision")),
    )


def listed_facts(model: Mapping[str, Any]) -> ServerFacts:
    """Return the facts of a model in a list."""
    sizes = [size for size in _SIZES if "state" not in model or size == "loaded_context_length"]
    found = (_count(model.get(size), MIN_WINDOW) for size in sizes)
    mistral, openrouter = _fields(model.get("capabilities")), _items(model.get("supported_parameters"))
    kinds = _items(_fields(model.get("architecture")).get("input_modalities"))
    kind = {"vlm": True, "llm": False}.get(str(model.get("type")))  # LM Studio
    return ServerFacts(
        window=next(filter(None, found), None),
        tools="tools" in openrouter if openrouter else _flag(mistral.get("function_calling")),
        images=kind if kind is not None else "image" in kinds if kinds else _flag(mistral.get("vision")),
        chat=False if model.get("type") == "embeddings" else None,  # LM Studio
    )


def _fields(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _items(value: object) -> Sequence[Any]:
    return value if isinstance(value, list) else ()


def _flag(value: object) -> bool | None:
    return value if isinstance(value, bool) else None


def _count(value: object, least: int) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= least else None
