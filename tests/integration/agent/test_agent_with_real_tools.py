import os
from textwrap import dedent

from inline_snapshot import snapshot

from fakes import JournalList
from scaffold.agent.agent_spec import AgentRecords, AgentSpec
from scaffold.agent.prompts import system_prompt
from scaffold.agent.turn_loop import Agent
from scaffold.core.conversation import Caller
from scaffold.llm.model_factory import open_model
from scaffold.tools.catalog import builtin_tools
from scaffold.tools.workspace import Workspace
from support.fake_clock import FakeClock

CASSETTE = """
version: 1
replies:
  - when: {turn: 1}
    tool_calls:
      - {name: write_file, args: {path: greet.sh, content: "echo hello\\n"}}
      - {name: shell, args: {command: "sh greet.sh"}}
      - {name: write_file, args: {path: ../escape, content: "x"}}
  - when: {turn: 2, contains: "hello(.|\\n)*outside the workspace"}
    tool_calls: [{name: read_file, args: {path: greet.sh}}, {name: search_files, args: {pattern: hello}}]
  - when: {turn: 3, contains: "1\\techo hello"}
    text: "greet.sh says hello."
"""


class Free:
    """A budget without limits."""

    async def reserve(self, estimate):
        return ""

    def left_for(self, reservation):
        return None

    def set_tries(self, reservation, tries, estimate=None):
        pass

    def settle(self, reservation, usage):
        pass


class NoJitter:
    """Always the longest wait."""

    def uniform(self, a, b, /):
        return b


async def test_only_the_replies_are_recorded_and_everything_else_is_real(tmp_path):
    """BX-14, RA-4: each reply matches only if the tools before it really did their work."""
    tape = tmp_path / "tape.yaml"
    tape.write_text(dedent(CASSETTE))
    root = tmp_path / "work"
    root.mkdir()
    worker = Agent(
        model=open_model(f"cassette:{tape}", clock=FakeClock(), rng=NoJitter()),
        tools=builtin_tools(Workspace(root, {"PATH": os.environ["PATH"]})),
        brief=AgentSpec(caller=Caller(role="implementation", action="greet"), system=system_prompt("implementation")),
        records=AgentRecords(journal=JournalList(), budget=Free()),
    )
    finish = await worker.turn("Write a script that greets.")
    assert finish.text == snapshot("greet.sh says hello.")
    assert (root / "greet.sh").read_text() == "echo hello\n"
    assert not (tmp_path / "escape").exists()
