"""What a session does after its conversation was compacted."""

from contextlib import closing

from integration.session.builders import cassette, opened_session, session_options
from scaffold.agent.model_access import open_user_store
from scaffold.core.conversation import ToolResult
from scaffold.policy.rule.ruleset import RuleSet

CHANGE = {"path": "a.txt", "operations": [{"operation": "replace", "start_line": 2, "content": "2"}]}
READ = {"path": "a.txt"}


def reply(turn, *calls, text=""):
    called = [{"name": name, "args": args} for name, args in calls]
    return {"when": {"role": "agent", "turn": turn}, "text": text, "tool_calls": called}


def failures(session):
    """Return whether each tool call of the conversation failed."""
    kept = session.open_conversation.conversation.kept
    return [part.failed for message in kept for part in message.parts if isinstance(part, ToolResult)]


async def test_lines_are_read_again_before_they_are_changed_by_number(home, tmp_path):
    """RA-4, RA-10: also when the conversation is resumed, and the read after it is a real one."""
    work = tmp_path / "work"
    work.mkdir()
    (work / "a.txt").write_text("one\ntwo\n")
    options = session_options(work, rules=RuleSet(yolo=True))
    model = cassette(
        tmp_path / "tape.yaml",
        reply(1, ("read_file", READ), text="word " * 4_000),
        *(reply(turn, text="word " * 4_000) for turn in (2, 3)),
        reply(4, ("apply_delta", CHANGE)),
        reply(5, ("read_file", READ)),
        reply(6, ("apply_delta", CHANGE)),
        reply(7, text="done"),
    )
    with closing(open_user_store()) as store:
        async with opened_session(store, options, model) as session:
            await session.say("look")
            await session.say("on")
            assert await session.agent.compact()
            assert (await session.say("change it")).text == "done"
            assert failures(session)[-3:] == [True, False, False]
            assert await session.agent.compact()
        stored = store.conversations.get(session.open_conversation.id)
        async with opened_session(store, options, model, stored) as session:
            assert session._seen.knows(work / "a.txt")
            assert not session._seen.knows_lines(work / "a.txt")
