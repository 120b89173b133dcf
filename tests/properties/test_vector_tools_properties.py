"""Whatever an agent does with the tools of the vector database, searches return what exists, and all of it."""

import asyncio
import importlib.util
import os
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scaffold.host.clock import SystemClock
from scaffold.store.user_store import UserStore
from support.vector_agent import VectorAgent

INDEXES = ("one", "two")
WORDS = ("apple", "banana", "cherry", "damson")
VECTORS = importlib.util.find_spec("usearch") is not None
names, words, picks = st.sampled_from(INDEXES), st.sampled_from(WORDS), st.integers(0, 9)
numbers = st.lists(st.integers(-3, 3), min_size=2, max_size=2)
steps = st.one_of(
    st.tuples(st.just("create"), names, st.booleans()),
    st.tuples(st.just("drop"), names),
    st.tuples(st.just("text"), names, words),
    st.tuples(st.just("chunks"), names, st.lists(words, min_size=1, max_size=3)),
    st.tuples(st.just("vector"), names, numbers, words),
    st.tuples(st.just("change"), names, picks, words),
    st.tuples(st.just("move"), names, picks, numbers),
    st.tuples(st.just("delete"), names, picks),
)


class Expected:
    """What the indexes have, by what the tools have answered: for each item its text, or a vector's."""

    def __init__(self):
        self.items = {}
        self.given = {}

    def pick(self, index, place):
        ids = sorted(self.items.get(index, {}))
        return ids[place % len(ids)] if ids else "nobody"


async def take(agent, known, step):  # noqa: C901 - one for each
    """Take a step, and note what became of it; a call may be refused, and then nothing has changed."""
    match step:
        case "create", index, given:
            done = await agent.result("create_index", index=index, **({"dimension": 2} if given else {}))
            assert done.failed == (index in known.items)
            if not done.failed:
                known.items[index], known.given[index] = {}, given
        case "drop", index:
            if not (await agent.result("delete_index", index=index)).failed:
                del known.items[index]
        case "text", index, word:
            await note(agent, known, index, [f"A {word}."], "add_text", text=f"A {word}.")
        case "chunks", index, several:
            text = "\n\n".join(f"# {word}\n\nThe {word} of part {place}." for place, word in enumerate(several))
            await note(agent, known, index, several, "add_chunked_text", text=text, kind="markdown")
        case "vector", index, vector, word:
            await note(agent, known, index, [word], "add_vector", vector=vector, text=word)
        case "change", index, place, word:
            item = known.pick(index, place)
            if not (await agent.result("update_vector", index=index, id=item, text=word)).failed:
                known.items[index][item] = word
        case "move", index, place, vector:
            await agent.result("update_vector", index=index, id=known.pick(index, place), vector=vector)
        case "delete", index, place:
            item = known.pick(index, place)
            if not (await agent.result("delete_vector", index=index, ids=[item])).failed:
                del known.items[index][item]


async def note(agent, known, index, texts, tool, **args):
    done = await agent.result(tool, index=index, **args)
    if not done.failed:
        ids = await agent.do(tool, index=index, **args)
        assert ids["new"] == 0, "the same again is there already"
        known.items[index] |= {
            item: known.items[index].get(item, text) for item, text in zip(ids["ids"], texts, strict=True)
        }


async def check(agent, known):
    for index, items in known.items.items():
        every = {each["id"] for each in await agent.rows("search_by_time", index=index, k=50)}
        assert every == set(items)
        for word in WORDS:
            found = {each["id"] for each in await agent.rows("search_text", index=index, query=word, k=50)}
            assert {item for item, text in items.items() if word in text} <= found <= set(items)
        if VECTORS and known.given[index]:
            near = await agent.rows("search", index=index, vector=[1, 1], k=50)
            assert {each["id"] for each in near} == set(items)
    listed = await agent.do("list_indices")
    assert all(f'"index": "{index}"' in listed for index in known.items)


async def live(taken):
    with TemporaryDirectory() as folder, closing(UserStore.open(Path(folder) / "u.db", clock=SystemClock())) as store:
        agent, known = VectorAgent(Path(folder), store), Expected()
        for step in taken:
            await take(agent, known, step)
        await check(agent, known)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.lists(steps, max_size=25))
def test_after_any_calls_searches_return_all_that_exists_and_nothing_else(taken):
    """RA-7."""
    os.environ.pop("SCAFFOLD_DATABASE_URL", None)
    asyncio.run(live(taken))
