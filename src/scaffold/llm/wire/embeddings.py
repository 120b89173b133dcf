"""Requests for vectors, and their answers: OpenAI's `/v1/embeddings` and Ollama's `/api/embed`."""

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from scaffold.llm.wire.format import decode_json, encode_json
from scaffold.llm.wire.provider_errors import unreadable_reply

MAX_DIMENSION = 16_384


class WireVectors(Struct, frozen=True):
    """The vectors in an answer, in the order of the texts; `tokens` is 0 if the server reports none."""

    vectors: Sequence[Sequence[float]]
    tokens: int


class _EmbeddingUsage(Struct, frozen=True):
    prompt_tokens: int = 0
    total_tokens: int = 0


class _EmbeddingItem(Struct, frozen=True):
    embedding: list[float]
    index: int | None = None


class _OpenAI(Struct, frozen=True):
    data: list[_EmbeddingItem]
    usage: _EmbeddingUsage | None = None


class _Ollama(Struct, frozen=True):
    embeddings: list[list[float]]
    prompt_eval_count: int = 0


_OPENAI: msgspec.json.Decoder[_OpenAI] = msgspec.json.Decoder(_OpenAI)
_OLLAMA: msgspec.json.Decoder[_Ollama] = msgspec.json.Decoder(_Ollama)


def embedding_body(model: str, texts: Sequence[str]) -> bytes:
    """Return the body of a request; both wires ask in the same way."""
    return encode_json({"model": model, "input": list(texts)})


def read_vectors(body: bytes, texts: int, *, ollama: bool) -> WireVectors:
    """Return the vectors of so many texts; ModelError, transient, if the answer does not have them."""
    if ollama:
        answer = decode_json(_OLLAMA, body)
        found = WireVectors(answer.embeddings, answer.prompt_eval_count)
    else:
        listed = decode_json(_OPENAI, body)
        places, items = [each.index for each in listed.data], listed.data
        # The wire numbers the vectors, and may send them in any order.
        if sorted(place for place in places if place is not None) == list(range(len(items))):
            items = sorted(items, key=lambda each: each.index or 0)
        elif any(place is not None for place in places):
            raise unreadable_reply("its vectors are not numbered from 0 on")
        used = listed.usage or _EmbeddingUsage()
        found = WireVectors([each.embedding for each in items], used.prompt_tokens or used.total_tokens)
    if len(found.vectors) != texts:
        raise unreadable_reply(f"it has {len(found.vectors)} vectors for {texts} texts")
    dimensions = {len(each) for each in found.vectors}
    if len(dimensions) != 1 or not 1 <= min(dimensions) <= MAX_DIMENSION:
        raise unreadable_reply(f"its vectors have {', '.join(map(str, sorted(dimensions)[:4]))} numbers")
    return found
