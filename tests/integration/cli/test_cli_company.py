"""A session whose user is there: real subagents ask for consent, and hear the answer."""

import os
import re
from contextlib import closing
from pathlib import Path

import pytest
import yaml

from scaffold.agent.crew import Limits
from scaffold.cli.models import open_user_store
from scaffold.cli.order import Charge, Order, read_charge
from scaffold.cli.session import opened_session
from scaffold.cli.sitting import sitting
from scaffold.cli.staff import PROVIDERS, agent_environment
from scaffold.cli.telling import Plain
from scaffold.host.identity import own_identity
from scaffold.llm import endpoint
from scaffold.policy.gate import Rules
from scaffold.policy.rules import parse_rule


def order(cwd, **fields):
    given = {"max_turns": 9, "budget_usd": None, "stream": True, "own_prompt": None, "rules": Rules(), **fields}
    return Order(cwd=cwd, home=cwd, **given)


def touches(name, *, turn):
    call = {"name": "shell", "args": {"command": f"touch {name}"}}
    return {"when": {"role": "agent", "action": "sub-1", "turn": turn}, "tool_calls": [call]}


def tape(folder, *entries):
    """Write a cassette: the session starts a subagent and waits for it, the subagent does what `entries` say."""
    start = {"name": "subagent", "args": {"task": "touch them"}}
    wait = {"name": "subagent_status", "args": {"wait": True}}
    replies = [
        *entries,
        {"when": {"role": "agent", "action": "sub-1"}, "text": "touched"},
        {"when": {"role": "agent", "turn": 1}, "tool_calls": [start, wait]},
        {"when": {"role": "agent"}, "text": "over"},
    ]
    path = folder / "tape.yaml"
    path.write_text(yaml.safe_dump({"version": 1, "replies": replies}))
    return f"cassette:{path}"


async def test_the_user_of_the_session_is_asked_for_its_subagents(home, tmp_path):
    """RA-11, RA-13: approvals are proxied to the parent: yes, no and always, each for the process that asked."""
    asked = []

    async def ask(question):
        asked.append((question.agent, question.tool, question.subject))
        return {"touch a": "allow", "touch b": "deny", "touch c": "always"}.get(question.subject, "allow")

    work = tmp_path / "work"
    work.mkdir()
    commands = ("a", "b", "c", "c", "d")
    model = tape(tmp_path, *(touches(name, turn=turn) for turn, name in enumerate(commands, 1)))
    rules = Rules(allow=(parse_rule("shell:touch d"),))
    with (
        closing(open_user_store()) as store,
        sitting(store, None, cwd=str(work), model=model, title="t", me=own_identity()) as seat,
    ):
        async with opened_session(order(work, rules=rules), seat, Plain(live=False), ask=ask) as session:
            finish = await session.say("go")
            [subagent] = session.company.roster()
    assert (finish.text, subagent.status, subagent.result) == ("over", "success", "touched")
    assert sorted(path.name for path in work.iterdir()) == ["a", "c", "d"]
    assert [(agent, subject) for agent, tool, subject in asked if tool == "shell"] == [
        ("sub-1", "touch a"),
        ("sub-1", "touch b"),
        ("sub-1", "touch c"),
    ]
    assert [tool for agent, tool, _ in asked if not agent] == ["subagent"]


async def test_a_subagent_may_have_another_model(home, tmp_path):
    """RA-11: the parent's by default; one that cannot answer is refused before anything is started."""
    work = tmp_path / "work"
    work.mkdir()
    model = tape(tmp_path)
    (tmp_path / "other").mkdir()
    other = tape(tmp_path / "other", {"when": {"role": "agent"}, "text": "I am another"})
    with (
        closing(open_user_store()) as store,
        sitting(store, None, cwd=str(work), model=model, title="t", me=own_identity()) as seat,
    ):
        async with opened_session(order(work, rules=Rules(yolo=True)), seat, Plain(live=False)) as session:
            tools = {tool.name: tool for tool in session.company.tools}
            for name in ("anthropic:claude-x", "cassette:/nowhere.yaml", "gibberish"):
                said = await tools["subagent"].run({"task": "x", "model": name})
                assert (said.failed, said.content.startswith("Not started: ")) == (True, True)
            await tools["subagent"].run({"task": "x", "model": other})
            await tools["subagent_status"].run({"wait": True})
            [subagent] = session.company.roster()
    assert (subagent.model, subagent.result) == (other, "I am another")
    assert subagent.usage.requests == 1


def test_what_is_handed_down_reads_back_to_the_letter(tmp_path):
    """RA-11: folders whose names are no text, rules, limits and all that was allowed once and for all."""
    rules = Rules(
        categories={"shell": "deny"},
        allow=(parse_rule("shell:git *"),),
        always=frozenset({("shell", "make \udce9")}),
        yolo=True,
    )
    given = order(
        tmp_path / os.fsdecode(b"caf\xe9"),
        rules=rules,
        budget_usd=0.5,
        own_prompt="Be brief.",
        mode="plan",
        subagents=Limits(most=3, timeout_s=7.5),
    )
    charge = Charge(order=given, account="ann/x")
    assert read_charge(charge.written()) == charge
    assert charge.written().isascii()


def test_all_that_names_a_way_to_a_model_reaches_a_subagent():
    """RA-11: the same model answers as in the session."""
    named = set(re.findall(r'"([A-Z]+_[A-Z_]+)"', Path(endpoint.__file__).read_text()))
    assert named <= {"ANTHROPIC_VERSION", *PROVIDERS}


@pytest.mark.parametrize(
    ("name", "passes"),
    [("SCAFFOLD_HOME", True), ("XDG_DATA_HOME", True), ("OPENAI_API_KEY", True), ("AWS_SECRET_ACCESS_KEY", False)],
)
def test_a_subagents_process_gets_the_way_to_data_and_models_and_nothing_else(name, passes):
    """RA-11: an allow-list."""
    assert (name in agent_environment({name: "x", "PATH": "/bin"})) is passes
