"""What a session does after its conversation was compacted."""

from contextlib import closing

import yaml

from scaffold.agent.model_access import open_user_store
from scaffold.cli.render.reporters import TextReporter
from scaffold.core.conversation import ToolResult
from scaffold.host.identity import own_identity
from scaffold.policy.rule.ruleset import RuleSet
from scaffold.session.agent_session import open_session
from scaffold.session.conversation import open_conversation
from scaffold.session.options import SessionOptions

CHANGE = {"path": "a.txt", "operations": [{"operation": "replace", "start_line": 2, "content": "2"}]}
READ = {"path": "a.txt"}


def reply(turn, *calls, text=""):
    called = [{"name": name, "args": args} for name, args in calls]
    return {"when": {"role": "agent", "turn": turn}, "text": text, "tool_calls": called}


def tape(folder, *replies):
    path = folder / "tape.yaml"
    path.write_text(yaml.safe_dump({"version": 1, "replies": replies}))
    return f"cassette:{path}"


def failures(session):
    """Return whether each tool call of the conversation failed."""
    kept = session.open_conversation.conversation.kept
    return [part.failed for message in kept for part in message.parts if isinstance(part, ToolResult)]


async def test_lines_are_read_again_before_they_are_changed_by_number(home, tmp_path):
    """RA-4, RA-10: also when the conversation is resumed, and the read after it is a real one."""
    work = tmp_path / "work"
    work.mkdir()
    (work / "a.txt").write_text("one\ntwo\n")
    options = SessionOptions(
        cwd=work, home=work, rules=RuleSet(yolo=True), max_turns=9, budget_usd=None, stream=True, system_prompt=None
    )
    model = tape(
        tmp_path,
        reply(1, ("read_file", READ), text="word " * 4_000),
        *(reply(turn, text="word " * 4_000) for turn in (2, 3)),
        reply(4, ("apply_delta", CHANGE)),
        reply(5, ("read_file", READ)),
        reply(6, ("apply_delta", CHANGE)),
        reply(7, text="done"),
    )
    me, opened = own_identity(), {"cwd": str(work), "model": model, "title": "t"}
    with closing(open_user_store()) as store:
        with open_conversation(store, None, me=me, **opened) as seat:
            async with open_session(options, seat, TextReporter(live=False)) as session:
                await session.say("look")
                await session.say("on")
                assert await session.agent.compact()
                assert (await session.say("change it")).text == "done"
                assert failures(session)[-3:] == [True, False, False]
                assert await session.agent.compact()
        stored = store.conversations.get(seat.id)
        with open_conversation(store, stored, me=me, **opened) as seat:
            async with open_session(options, seat, TextReporter(live=False)) as session:
                assert session._seen.knows(work / "a.txt")
                assert not session._seen.knows_lines(work / "a.txt")
