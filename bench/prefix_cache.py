"""What providers would have in their caches: how many tokens of a request they have read before.

Both kinds are as their providers document them; a token is taken for four bytes of a part's JSON.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

from wires import TokenCounts

TOKEN_BYTES = 4
LEAST_TOKENS = 1024
STEP_TOKENS = 128
MOST_MARKS = 4
LOOK_BACK = 20
"""How many blocks before a mark are looked at for a prefix that an earlier request marked."""


class MarkedCache:
    """Anthropic's: the prefix that ends at a marked block is kept, and read again where a later request has marks."""

    def __init__(self) -> None:
        self._kept: set[bytes] = set()

    def count(self, body: bytes) -> TokenCounts:
        """Return the tokens of a Messages request, and keep what it marks; ValueError for too many marks."""
        ends, marks = _prefixes(_blocks(json.loads(body)))
        if len(marks) > MOST_MARKS:
            raise ValueError(len(marks))
        near = {index for mark in marks for index in range(max(0, mark - LOOK_BACK), mark + 1)}
        read = max((ends[index][1] for index in near if ends[index][0] in self._kept), default=0)
        written = max((ends[mark][1] for mark in marks if ends[mark][1] >= LEAST_TOKENS), default=0)
        self._kept |= {ends[mark][0] for mark in marks if ends[mark][1] >= LEAST_TOKENS}
        return TokenCounts(ends[-1][1], read, max(0, written - read))


def _blocks(body: Mapping[str, Any]) -> Iterator[tuple[Any, bool]]:
    """Yield the blocks in the order in which they are cached, and whether each is marked."""
    system = body.get("system", [])
    said = [
        (message["role"], block)
        for message in body["messages"]
        for block in (message["content"] if isinstance(message["content"], list) else [message["content"]])
    ]
    ahead = [("tool", tool) for tool in body.get("tools", [])]
    ahead += [("system", block) for block in (system if isinstance(system, list) else [system])]
    for place, block in ahead + said:
        marked = isinstance(block, dict) and "cache_control" in block
        bare = {key: value for key, value in block.items() if key != "cache_control"} if marked else block
        yield (place, bare), marked


def _prefixes(blocks: Iterator[tuple[Any, bool]]) -> tuple[list[tuple[bytes, int]], list[int]]:
    """Return each block's prefix as digest and tokens, and the places of the marked ones."""
    running, size = hashlib.sha256(), 0
    ends, marks = [], []
    for index, (block, marked) in enumerate(blocks):
        text = json.dumps(block).encode()
        running.update(text)
        size += len(text)
        ends.append((running.digest(), size // TOKEN_BYTES))
        if marked:
            marks.append(index)
    return ends, marks


class PrefixCache:
    """OpenAI's: the longest prefix that any earlier request began with, from 1,024 tokens on in steps of 128."""

    def __init__(self) -> None:
        self._kept: set[bytes] = set()

    def count(self, body: bytes) -> TokenCounts:
        """Return the tokens of a Chat Completions or Responses request, and keep all of it."""
        text = _flat(json.loads(body))
        digests = list(_steps(text))
        known = 0
        while known < len(digests) and digests[known] in self._kept:
            known += 1
        self._kept.update(digests)
        read = LEAST_TOKENS + STEP_TOKENS * (known - 1) if known else 0
        return TokenCounts(len(text) // TOKEN_BYTES, read)


def _flat(body: Mapping[str, Any]) -> bytes:
    """Return the request in the order in which a model reads it: instructions, tools, then what was said."""
    parts = [body.get("instructions"), body.get("tools"), *body.get("messages", []), *body.get("input", [])]
    return b"".join(json.dumps(part).encode() for part in parts)


def _steps(text: bytes) -> Iterator[bytes]:
    running, done = hashlib.sha256(), 0
    for end in range(LEAST_TOKENS * TOKEN_BYTES, len(text) + 1, STEP_TOKENS * TOKEN_BYTES):
        running.update(text[done:end])
        done = end
        yield running.digest()
