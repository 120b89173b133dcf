"""Another model for an open session: the switch is complete, or nothing has changed."""

import asyncio
from contextlib import asynccontextmanager, closing

import msgspec
import pytest
import yaml

from scaffold.agent.model_access import open_user_store
from scaffold.cli.render.reporters import TextReporter
from scaffold.core.errors import ConversationBusy
from scaffold.host.identity import own_identity
from scaffold.policy.rule.ruleset import RuleSet
from scaffold.session.agent_session import open_session
from scaffold.session.conversation import open_conversation
from scaffold.session.options import SessionOptions, read_subagent_options


def tape(folder, name):
    """Write a cassette whose model says its name."""
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump({"version": 1, "replies": [{"when": {"role": "agent"}, "text": f"I am {name}"}]}))
    return f"cassette:{path}"


@pytest.fixture
async def session(home, tmp_path):
    """An open session; "old" answers in it."""
    work = tmp_path / "work"
    work.mkdir()
    options = SessionOptions(
        cwd=work, home=work, rules=RuleSet(), max_turns=9, budget_usd=None, stream=True, system_prompt=None
    )
    with (
        closing(open_user_store()) as store,
        open_conversation(
            store, None, cwd=str(work), model=tape(tmp_path, "old"), title="t", me=own_identity()
        ) as seat,
    ):
        async with open_session(options, seat, TextReporter(live=False)) as session:
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
    work = tmp_path / "work"
    work.mkdir()
    own = SessionOptions(
        cwd=work,
        home=work,
        rules=RuleSet(),
        max_turns=9,
        budget_usd=None,
        stream=True,
        system_prompt=None,
        effort="low",
    )
    flag = msgspec.structs.replace(own, chosen_effort="medium")
    model, me = tape(tmp_path, "old"), own_identity()
    efforts = []
    with closing(open_user_store()) as store:
        stored = None
        for options, switched in ((own, "high"), (own, None), (flag, None), (own, None), (flag, "off"), (own, None)):
            with open_conversation(store, stored, cwd=str(work), model=model, title="t", me=me) as seat:
                async with open_session(options, seat, TextReporter(live=False)) as session:
                    efforts.append(session.agent.effort)
                    if switched:
                        session.switch_effort(switched)
                    inherited = session._subagent_spec(None).words
                    assert read_subagent_options(inherited).session.effort == session.agent.effort
                    assert read_subagent_options(inherited).session.chosen_effort is None
                    await session.say("go")
                stored = store.conversations.get(seat.id)
    assert efforts == ["low", "high", "medium", "medium", "medium", "off"]
