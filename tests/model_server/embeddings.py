"""Servers of embeddings on loopback: the answers of OpenAI's `/v1/embeddings` and of Ollama's `/api/embed`."""

import json
import zlib
from collections.abc import Sequence

from model_server.turn import Received, Turn

SAME = {"feline": "cat", "rug": "mat", "resting": "sat"}
"""Words that mean the same to the model."""


def vector(text: str, dimension: int) -> list[float]:
    """Return a vector that is near to those of texts with words of the same meaning."""
    found = [0.001] * dimension
    for word in text.lower().replace(".", " ").split():
        found[zlib.crc32(SAME.get(word, word).encode()) % dimension] += 1.0
    return found


def openai_answer(received: Received, dimension: int = 64) -> Turn:
    """Return the answer of OpenAI's wire; its items may come in any order."""
    texts: Sequence[str] = received.json["input"]
    items = [
        {"object": "embedding", "index": at, "embedding": vector(each, dimension)} for at, each in enumerate(texts)
    ]
    used = sum(len(text.split()) for text in texts)
    body = {
        "object": "list",
        "data": items[::-1],
        "model": received.json["model"],
        "usage": {"prompt_tokens": used, "total_tokens": used},
    }
    return Turn(body=json.dumps(body), content_type="application/json")


def ollama_answer(received: Received, dimension: int = 64) -> Turn:
    """Return the answer of Ollama's own wire."""
    texts: Sequence[str] = received.json["input"]
    body = {
        "model": received.json["model"],
        "embeddings": [vector(each, dimension) for each in texts],
        "total_duration": 14_143_917,
        "load_duration": 1_019_500,
        "prompt_eval_count": 8,
    }
    return Turn(body=json.dumps(body), content_type="application/json")
