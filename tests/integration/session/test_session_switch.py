"""Another model for an open session: the switch is complete, or nothing has changed."""

import asyncio
from contextlib import asynccontextmanager, closing

import msgspec
import pytest

from integration.session.builders import cassette, opened_session, session_options
from scaffold.agent.model_access import open_user_store
from scaffold.core.errors import ConversationBusy
from scaffold.session.options import read_subagent_options


def tape(folder, name):
    """Write a cassette whose model says its name."""
    return cassette(folder / f"{name}.yaml", {"when": {"role": "agent"}, "text": f"I am {name}"})


@pytest.fixture
async def session(home, tmp_path):
    """An open session; "old" answers in it."""
    with closing(open_user_store()) as store:
        async with opened_session(store, session_options(tmp_path / "work"), tape(tmp_path, "old")) as session:
            yield session


@asynccontextmanager
async def closes_slowly(closing_began):
    try:
        yield
    finally:
        closing_began.set()
        await asyncio.sleep(60)


def stored_model(session):
    opened = session.open_conversation
    return opened.store.conversations.get(opened.id).model


async def expect_answers(session, name):
    assert (await session.say("who are you?")).text == f"I am {name}"
    assert session.model == stored_model(session)
    assert session.model.endswith(f"/{name}.yaml")


async def test_a_switch_closes_the_previous_connection(session, tmp_path):
    closed = []
    session._connection.callback(closed.append, "old")
    await session.switch(tape(tmp_path, "new"))
    assert closed == ["old"]
    await expect_answers(session, "new")


async def test_a_switch_cancelled_while_the_previous_connection_closes_is_complete(session, tmp_path):
    closing_began = asyncio.Event()
    await session._connection.enter_async_context(closes_slowly(closing_began))
    switching = asyncio.create_task(session.switch(tape(tmp_path, "new")))
    await closing_began.wait()
    switching.cancel()
    with pytest.raises(asyncio.CancelledError):
        await switching
    await expect_answers(session, "new")


async def test_a_switch_that_cannot_be_stored_leaves_the_previous_model_connected(session, tmp_path):
    """RA-10: another process has the conversation."""
    opened, closed = session.open_conversation, []
    session._connection.callback(closed.append, "old")
    with opened.store.transaction():
        opened.store.conversations.release(opened.id, opened.owner)
    with pytest.raises(ConversationBusy):
        await session.switch(tape(tmp_path, "new"))
    with opened.store.transaction():
        opened.store.conversations.claim(opened.id, opened.owner)
    assert closed == []
    await expect_answers(session, "old")


async def test_a_chosen_effort_is_stored_and_wins_over_the_settings(home, tmp_path):
    """RA-5, RA-10: that of the command line is a choice, too; a subagent gets what the session has now."""
    own = session_options(tmp_path / "work", effort="low")
    flag = msgspec.structs.replace(own, chosen_effort="medium")
    model, efforts, stored = tape(tmp_path, "old"), [], None
    with closing(open_user_store()) as store:
        for options, switched in ((own, "high"), (own, None), (flag, None), (own, None), (flag, "off"), (own, None)):
            async with opened_session(store, options, model, stored) as session:
                efforts.append(session.agent.effort)
                if switched:
                    session.switch_effort(switched)
                inherited = session._subagent_spec(None).words
                assert read_subagent_options(inherited).session.effort == session.agent.effort
                assert read_subagent_options(inherited).session.chosen_effort is None
                await session.say("go")
            stored = store.conversations.get(session.open_conversation.id)
    assert efforts == ["low", "high", "medium", "medium", "medium", "off"]
