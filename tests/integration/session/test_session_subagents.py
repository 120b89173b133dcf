"""A session with a user present: real subagents ask for approval, and get the answer."""

import os
import re
from contextlib import closing
from pathlib import Path

import pytest

from integration.session.builders import cassette, opened_session, session_options
from scaffold.agent.model_access import open_user_store
from scaffold.agent.subagents.process_pool import SubagentLimits
from scaffold.llm.transport import endpoint
from scaffold.policy.rule.ruleset import RuleSet
from scaffold.policy.rule.tool_rules import parse_rule
from scaffold.session.options import SubagentOptions, read_subagent_options
from scaffold.session.subagent_launcher import PROVIDER_VARIABLES, subagent_environment


def touches(name, *, turn):
    call = {"name": "shell", "args": {"command": f"touch out/{name}"}}
    return {"when": {"role": "agent", "action": "sub-1", "turn": turn}, "tool_calls": [call]}


def tape(folder, *entries):
    """Write a cassette: the session starts a subagent and waits for it; the subagent follows `entries`."""
    start = {"name": "subagent", "args": {"task": "touch them"}}
    wait = {"name": "subagent_status", "args": {"wait": True}}
    replies = [
        *entries,
        {"when": {"role": "agent", "action": "sub-1"}, "text": "touched"},
        {"when": {"role": "agent", "turn": 1}, "tool_calls": [start, wait]},
        {"when": {"role": "agent"}, "text": "over"},
    ]
    return cassette(folder / "tape.yaml", *replies)


@pytest.mark.slow
async def test_the_user_of_the_session_decides_for_its_subagents(home, tmp_path):
    """RA-11, RA-13: approvals are relayed to the parent: yes, no and always, each for the process that asked."""
    asked = []

    async def ask(question):
        asked.append((question.agent, question.tool, question.subject))
        return {"touch out/a": "allow", "touch out/b": "deny", "touch out/c": "always"}.get(question.subject, "allow")

    work = tmp_path / "work"
    (work / "out").mkdir(parents=True)  # at the top Landlock lets commands make nothing
    commands = ("a", "b", "c", "c", "d")
    model = tape(tmp_path, *(touches(name, turn=turn) for turn, name in enumerate(commands, 1)))
    rules = RuleSet(allow=(parse_rule("shell:touch out/d"),))
    with closing(open_user_store()) as store:
        async with opened_session(store, session_options(work, rules=rules), model, ask=ask) as session:
            finish = await session.say("go")
            [subagent] = session.peers.subagents()
    assert (finish.text, subagent.status, subagent.result) == ("over", "success", "touched")
    assert sorted(path.name for path in (work / "out").iterdir()) == ["a", "c", "d"]
    assert [(agent, subject) for agent, tool, subject in asked if tool == "shell"] == [
        ("sub-1", "touch out/a"),
        ("sub-1", "touch out/b"),
        ("sub-1", "touch out/c"),
    ]
    assert [tool for agent, tool, _ in asked if not agent] == ["subagent"]


async def test_a_subagent_may_use_another_model(home, tmp_path):
    """RA-11: the parent's by default; an invalid one is refused before anything starts."""
    work, model = tmp_path / "work", tape(tmp_path)
    other = tape(tmp_path / "other", {"when": {"role": "agent"}, "text": "I am another"})
    with closing(open_user_store()) as store:
        async with opened_session(store, session_options(work, rules=RuleSet(yolo=True)), model) as session:
            tools = {tool.name: tool for tool in session.peers.tools}
            for name in ("anthropic:claude-x", "cassette:/nowhere.yaml", "gibberish"):
                said = await tools["subagent"].run({"task": "x", "model": name})
                assert (said.failed, said.content.startswith("Not started: ")) == (True, True)
            await tools["subagent"].run({"task": "x", "model": other})
            await tools["subagent_status"].run({"wait": True})
            [subagent] = session.peers.subagents()
    assert (subagent.model, subagent.result) == (other, "I am another")
    assert subagent.usage.requests == 1


def test_the_options_of_a_subagent_round_trip(tmp_path):
    """RA-11: folder names that are not text, rules, limits and remembered approvals."""
    rules = RuleSet(
        categories={"shell": "deny"},
        allow=(parse_rule("shell:git *"),),
        always=frozenset({("shell", "make \udce9")}),
        yolo=True,
    )
    given = session_options(
        tmp_path / os.fsdecode(b"caf\xe9"),
        rules=rules,
        budget_usd=0.5,
        system_prompt="Be brief.",
        mode="plan",
        subagents=SubagentLimits(most=3, timeout_s=7.5),
    )
    charge = SubagentOptions(session=given, account="ann/x")
    assert read_subagent_options(charge.to_json()) == charge
    assert charge.to_json().isascii()


def test_variables_that_lead_to_a_model_reach_a_subagent():
    """RA-11: the same model answers as in the session."""
    named = set(re.findall(r'"([A-Z]+_[A-Z_]+)"', Path(endpoint.__file__).read_text()))
    assert named <= {"ANTHROPIC_VERSION", *PROVIDER_VARIABLES}


def test_a_subagent_inherits_only_variables_for_data_and_models():
    """RA-11: an allowlist."""
    passing = ("SCAFFOLD_HOME", "XDG_DATA_HOME", "OPENAI_API_KEY")
    given = dict.fromkeys((*passing, "AWS_SECRET_ACCESS_KEY", "PATH"), "x")
    assert given.keys() & subagent_environment(given).keys() >= {*passing}
    assert "AWS_SECRET_ACCESS_KEY" not in subagent_environment(given)
