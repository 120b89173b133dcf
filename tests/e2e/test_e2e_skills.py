"""Skills, roles and commands in the real `ralph` and in a run."""

import json

import pytest

from support.scenario import action, calls_entry, plan_of, text_entry, write

SKILL = """---
name: tests
description: How tests are written here.
allowed-tools: Bash
---
Write them first, as in example.md.
"""
ROLE = """---
name: strict
description: A strict reviewer.
tools: Read, Write
model: opus
---
You are STRICT.
"""
COMMAND = """---
description: Look at a file
argument-hint: [file]
---
Look at $1. Branch: !`git branch --show-current`
"""


def load(name):
    return {"name": "load_skill", "args": {"name": name}}


@pytest.fixture
def claude(scenario):
    """The files of a project, which nobody trusts yet."""
    folder = scenario.repo / ".claude"
    for name, text in (
        ("skills/tests/SKILL.md", SKILL),
        ("skills/tests/example.md", "def test_x(): ..."),
        ("agents/strict.md", ROLE),
        ("commands/look.md", COMMAND),
    ):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def ralph(scenario, cassette, *args):
    command = scenario.command("ralph", *args, "--model", f"cassette:{cassette}", "--output-format", "stream-json")
    done = scenario.call(command, code=0)
    return [json.loads(line) for line in done.stdout.splitlines()], done.stderr


def results(events):
    return [event["content"] for event in events if event["type"] == "tool_result"]


@pytest.mark.slow
def test_a_skill_of_a_trusted_folder_is_read_when_it_is_needed_and_permits_nothing(scenario, claude):
    """RA-16."""
    calls = [load("tests"), {"name": "read_file", "args": {"path": ".claude/skills/tests/example.md"}}]
    calls += [write(".claude/skills/tests/SKILL.md", "x"), {"name": "shell", "args": {"command": "touch x"}}]
    cassette = scenario.replies(calls_entry("agent", *calls, turn=1), text_entry("agent"))
    events, said = ralph(scenario, cassette, "go")
    assert "There is no tool `load_skill`" in results(events)[0]
    assert "skills, roles, commands of this folder ignored: folder not trusted" in said
    scenario.scaffold("trust", "--yes")
    events, _ = ralph(scenario, cassette, "go")
    loaded, read, written, ran = results(events)
    assert "Write them first, as in example.md." in loaded
    assert "with SKILL.md, example.md" in loaded
    assert "def test_x" in read
    assert "protected (.claude/skills)" in written
    assert ran.startswith("Denied: ")
    assert (claude / "skills" / "tests" / "SKILL.md").read_text() == SKILL


@pytest.mark.slow
def test_a_subagent_with_a_role_has_its_instructions_and_its_tools_alone(scenario, claude):
    """RA-16: the subagent cannot call the shell, which its session could."""
    spawn = {"name": "subagent", "args": {"task": "review", "agent": "strict"}}
    wait = {"name": "subagent_status", "args": {"wait": True}}
    shell = {"name": "shell", "args": {"command": "echo hi"}}
    cassette = scenario.replies(
        calls_entry("agent", shell, action="sub-1", turn=1),
        text_entry("agent", "NARROWED", action="sub-1", contains="There is no tool `shell`"),
        text_entry("agent", "free", action="sub-1"),
        calls_entry("agent", spawn, turn=1),
        calls_entry("agent", wait, turn=2),
        text_entry("agent"),
    )
    scenario.scaffold("trust", "--yes")
    events, said = ralph(scenario, cassette, "go", "--yolo")
    assert "NARROWED" in results(events)[1]
    assert "the role strict works with this session's model" in str(events)
    assert said == ""


@pytest.mark.slow
def test_a_command_is_a_message_with_arguments_and_output(scenario, claude):
    """RA-18: in one shot, and listed by /help."""
    cassette = scenario.replies(
        text_entry("agent", "SEEN", contains=r"Look at a b\.py\. Branch: exit code 0 [^$]*main"), text_entry("agent")
    )
    scenario.scaffold("trust", "--yes")
    events, _ = ralph(scenario, cassette, "/look 'a b.py'")
    assert "SEEN" in [event.get("text") for event in events]
    assert "/look [file]" in scenario.scaffold("ralph", "/help").stdout


@pytest.mark.slow
def test_workers_have_the_skills_and_roles_of_the_start_of_their_run(scenario, claude):
    """RA-16: a skill that has changed since is read as it was; a role narrows the tools of its action."""
    scenario.commit("skills")
    scenario.scaffold("trust", "--yes")
    made = {**action("x", effects=["made"], check="test -f x.txt", files=["x.txt"]), "role": "strict"}
    scenario.plan(plan_of(x=[made]))
    steps = [load("tests"), {"name": "shell", "args": {"command": "echo hi"}}, write("x.txt", "x\n")]
    scenario.cassette(x=steps)
    scenario.run(code=3)
    (claude / "skills" / "tests" / "SKILL.md").write_text("changed")
    scenario.scaffold("resume", scenario.status()["run"]["id"], code=0)
    journal = scenario.journal("x", "x")
    assert "Write them first" in journal
    assert "There is no tool `shell`" in journal
