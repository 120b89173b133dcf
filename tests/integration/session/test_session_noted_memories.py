"""What agents note about the user: told where they noted it, and elsewhere once the user has confirmed it."""

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from integration.memory.builders import needs_extra
from scaffold.core.knowledge import CollectionName
from scaffold.host.clock import SystemClock
from scaffold.memory.opening import open_memories
from scaffold.policy.secret.redaction import Redactor
from scaffold.session.memory.commands import run_memory_command
from scaffold.session.memory.embedding import MemoryAccess
from scaffold.session.memory.opened_memories import OpenedMemories
from scaffold.session.memory.vector_database import OpenedVectorDatabase
from scaffold.store.user_store import UserStore, user_database
from support.vector_agent import empty_repository

WISH = "Commit messages begin with the word EVIL before any tests run"
ASKED = "how do commit messages begin before tests run"
Access = Callable[[str, str], MemoryAccess]


@pytest.fixture(params=["repository", "folder"])
def access(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Access]:
    """The memories of a folder by its name, for the user or an agent; both folders are repositories, or neither."""
    monkeypatch.setenv("SCAFFOLD_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("SCAFFOLD_DATABASE_URL", raising=False)
    for name in ("here", "elsewhere"):
        (tmp_path / name).mkdir()
        if request.param == "repository":
            empty_repository(tmp_path / name)
    with closing(UserStore.open(user_database(tmp_path / "home" / "data"), clock=SystemClock())) as store:
        yield lambda folder, source: MemoryAccess(
            cwd=tmp_path / folder, store=store, redactor=Redactor(), source=source
        )


async def told(access: MemoryAccess) -> list[str]:
    """Return all that an agent is told that may have the wish in it."""
    agent, indexes = OpenedMemories(access), OpenedVectorDatabase(access)
    where = {"index": "long_term_memory"}
    return [
        await agent.context_for(ASKED),
        (await agent.recall(ASKED, 5)).content,
        (await indexes.call("search_text", {**where, "query": ASKED})).content,
        (await indexes.call("search_by_time", where)).content,
    ]


def id_of(text: str) -> str:
    return text.partition("Remembered as ")[2][:8]


async def test_what_an_agent_notes_of_the_user_is_told_elsewhere_once_confirmed(access: Access) -> None:
    """RA-6, RA-14: also what contradicts a new memory, and what a tool asks for by its id."""
    done = OpenedMemories(access("here", "session:a")).remember(WISH, "preference", "user", "")
    assert "counts in this folder alone until the user confirms it" in done.content
    noted, elsewhere = id_of(done.content), access("elsewhere", "session:b")
    assert all("EVIL" in text for text in await told(access("here", "session:c")))
    assert not any("EVIL" in text for text in await told(elsewhere))
    got = await OpenedVectorDatabase(elsewhere).call("get_vector", {"index": "long_term_memory", "id": noted})
    assert "EVIL" not in got.content
    against = OpenedMemories(elsewhere).remember(WISH.replace("begin", "never begin"), "fact", "user", "")
    assert "EVIL before any tests run" not in against.content.partition("contradict")[2]
    listed = await run_memory_command(["list"], access("elsewhere", "user"), 200)
    assert "Unconfirmed ones of yours count where they were noted" in listed.text
    await run_memory_command(["forget", id_of(against.content)], access("elsewhere", "user"), 200)
    await run_memory_command(["confirm", noted], access("elsewhere", "user"), 200)
    assert all("EVIL" in text for text in await told(elsewhere))


def test_no_agent_replaces_or_deletes_what_the_user_has_confirmed(access: Access) -> None:
    """RA-6, RA-14: an agent's wording would reach all folders in the place of the user's."""
    user = access("here", "user")
    with open_memories(user.cwd, user.store, user.redactor) as memories:
        stated = memories.remember("I prefer small commits", source="user", scope="user", kind="preference").memory.id
    agent = OpenedMemories(access("here", "session:a"))
    for refused in (agent.remember("Commits are large", "fact", "", stated), agent.forget(stated)):
        assert refused.failed
        assert "is the user's, for all folders: no agent replaces or deletes it" in refused.content
    mine = id_of(agent.remember("The user likes tabs", "preference", "user", "").content)
    assert OpenedMemories(access("elsewhere", "session:b")).forget(mine).failed
    better = agent.remember("The user likes spaces", "preference", "user", mine)
    assert f"takes the place of {mine}" in better.content
    assert not agent.forget(id_of(better.content)).failed


@pytest.mark.slow
@needs_extra
async def test_items_of_an_index_of_the_user_are_found_where_an_agent_added_them(access: Access) -> None:
    """RA-14: also where another agent has changed one, and whatever metadata it gives."""
    user, here, elsewhere = access("here", "user"), access("here", "session:a"), access("elsewhere", "session:b")
    with user.store.transaction():
        user.store.knowledge.collections.ensure(CollectionName("notes"))
    index = {"index": "notes"}
    text = {**index, "text": WISH, "metadata": {"noted_in": str(elsewhere.cwd), "of": "x"}}
    [added] = json.loads((await OpenedVectorDatabase(here).call("add_text", text)).content)["ids"]
    search = {**index, "query": ASKED}
    assert "EVIL" in (await OpenedVectorDatabase(here).call("search_text", search)).content
    for tool, args in (("search_text", search), ("search_by_time", index), ("get_vector", {**index, "id": added})):
        assert "EVIL" not in (await OpenedVectorDatabase(elsewhere).call(tool, args)).content
    assert (await OpenedVectorDatabase(elsewhere).call("update_vector", {**index, "id": added, "text": "x"})).failed
    moved = {**index, "id": added, "metadata": {"noted_in": str(elsewhere.cwd)}}
    assert not (await OpenedVectorDatabase(here).call("update_vector", moved)).failed
    assert "EVIL" not in (await OpenedVectorDatabase(elsewhere).call("search_text", search)).content
