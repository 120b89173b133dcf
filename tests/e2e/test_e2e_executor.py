"""Our client of ACP with an agent that the protocol's own SDK serves: `ralph acp`."""

import asyncio

import pytest
import yaml

from scaffold.executors.acp import AcpProtocol
from scaffold.executors.port import EndedTool, ProgramTurn, SaidText, StartedSession, StartedTool
from scaffold.executors.turn import take_program_turn
from scaffold.host.process.piped_process import PipedCommand
from support.scenario import write
from support.turn_listeners import Answers, NeverAnswers


def reply(turn, text="", calls=()):
    """Return the entry for the agent's request of this number in the conversation of its process."""
    said = {"text": text} if text else {}
    return {"when": {"role": "agent", "turn": turn}, **said, **({"tool_calls": list(calls)} if calls else {})}


FIRST = [reply(1, "I write.", [write("new.txt", "one\n")]), reply(2, "Done.")]


def take_turn(scenario, listener, replies, **fields):
    """Let `ralph acp` take a turn in the repository, with these replies of its model."""
    path = scenario.home / "cassette.yaml"
    path.write_text(yaml.safe_dump({"version": 1, "replies": replies}))
    argv = scenario.command("ralph", "acp", "--model", f"cassette:{path}")
    command = PipedCommand(argv=argv, cwd=scenario.repo, env=scenario.environ)
    turn = ProgramTurn(**{"prompt": "write new.txt", "folder": scenario.repo} | fields)
    return take_program_turn(AcpProtocol("default", "plan"), command, turn, listener)


@pytest.mark.slow
async def test_an_agent_of_the_sdk_asks_works_and_continues_in_another_process(scenario):
    """AL-24, BX-19: what we send is what the SDK's schemas accept, in each of its requests."""
    pytest.importorskip("acp")
    answers = Answers(allowed=True)
    end = await take_turn(scenario, answers, FIRST)
    assert (end.failure, end.denied) == (None, ())
    assert end.text.endswith("Done.")
    [question] = answers.asked
    assert (question.category, question.args["path"]) == ("file_write", str(scenario.repo / "new.txt"))
    assert (scenario.repo / "new.txt").read_text() == "one\n"
    assert {StartedSession, SaidText, StartedTool, EndedTool} <= set(answers.told)
    again = await take_turn(scenario, Answers(), [reply(1, "I go on.")], prompt="go on", session=end.session)
    assert (again.failure, again.session) == (None, end.session)
    assert again.text.endswith("I go on.")
    lost = await take_turn(scenario, Answers(), [], session="0" * 26)
    assert lost.failure == "session"


@pytest.mark.slow
async def test_an_agent_of_the_sdk_obeys_a_denial_and_a_cancellation(scenario):
    """BX-19"""
    pytest.importorskip("acp")
    end = await take_turn(scenario, Answers(), FIRST)
    assert (end.failure, end.denied) == (None, ("edit",))
    answers = NeverAnswers()
    turn = asyncio.create_task(take_turn(scenario, answers, FIRST))
    await answers.is_asked.wait()
    turn.cancel()
    with pytest.raises(asyncio.CancelledError):
        await turn
    assert not (scenario.repo / "new.txt").exists()


@pytest.mark.slow
async def test_an_agent_of_the_sdk_is_put_into_the_mode_that_only_reads(scenario):
    """BX-19"""
    pytest.importorskip("acp")
    answers = Answers(allowed=True)
    end = await take_turn(scenario, answers, FIRST, mode="read")
    assert (end.failure, answers.asked) == (None, [])
    assert not (scenario.repo / "new.txt").exists()
