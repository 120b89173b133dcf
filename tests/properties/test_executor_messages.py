"""Whatever a program says in its protocol, its turn ends in an ordinary way."""

import copy
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scaffold.executors.acp import AcpProtocol
from scaffold.executors.claude import Claude
from scaffold.executors.codex import CodexProtocol
from scaffold.executors.pi import Pi
from scaffold.executors.port import PermissionAnswer, PermissionQuestion, ProgramEvent, ProgramTurn
from scaffold.executors.program_lines import ProgramBroken

STREAMS = Path(__file__).parents[1] / "integration/executors/streams"
PROGRAMS = {"claude": Claude, "pi": Pi, "codex": CodexProtocol, "acp": lambda: AcpProtocol("default", "plan")}
JUNK = (None, 7, -1, 1e300, True, "x", "", "id1", [], [1], [{}], {}, {"a": [1]}, {"type": "diff", "path": 7})


class Said:
    """The lines of a program that has written these messages, and has ended then."""

    def __init__(self, messages: list[Any]) -> None:
        self.messages = messages

    async def send(self, message: Any) -> None:
        msgspec.json.encode(message)

    async def receive(self) -> Any:
        if not self.messages:
            raise ProgramBroken("it ended")
        return self.messages.pop(0)


class Hears:
    """A listener that allows every other call, and can store all that it hears."""

    def __init__(self) -> None:
        self.asked = 0

    def hear(self, event: ProgramEvent, /) -> None:
        msgspec.json.encode(event)

    async def permit(self, question: PermissionQuestion, /) -> PermissionAnswer:
        msgspec.json.encode(question)
        self.asked += 1
        return PermissionAnswer(self.asked % 2 == 0)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the paths to all values within a message."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, part in inner for place in places(part, (*path, key)))][not path :]


@pytest.mark.parametrize("program", PROGRAMS)
@settings(max_examples=40)
@given(data=st.data())
async def test_a_turn_ends_as_a_value_or_a_broken_program_whatever_one_message_says(program, data):
    """AL-24"""
    stream = data.draw(st.sampled_from(sorted((STREAMS / program).glob("*.txt"))))
    messages = [json.loads(step[2:]) for step in stream.read_text().splitlines() if step.startswith("< ")]
    for number in data.draw(st.lists(st.integers(0, len(messages) - 1), min_size=1, max_size=3)):
        *path, last = data.draw(st.sampled_from(places(messages[number])))
        part = messages[number]
        for key in path:
            part = part[key]
        part[last] = copy.deepcopy(data.draw(st.sampled_from(JUNK)))
    end = await PROGRAMS[program]().converse(
        Said(messages), ProgramTurn(prompt="Fix it", folder=Path("/work")), Hears()
    )
    msgspec.json.encode(end)
    assert end.failure is None or end.why or end.text
