"""Runs without any model: a program of others plans, drafts the contract, does the work and criticises it."""

import json

import pytest

from support.acting_program import call, edit, install_programs, run, say, write_script
from support.scenario import action, wait_until

DRILL = {
    "word draft by final": [edit("note.txt", "a final\n")],
    "sh mark.sh": [run("sh mark.sh")],
    "sh work.sh": [run("sh work.sh")],
}
"""What the program does in its drill: it asks, and obeys."""


def greeting():
    """Return the steps of a planner of two actions, of which the first one has no contract yet."""
    hello = action("hello", effects=["hello"], check="true")
    del hello["contract"]
    actions = [hello, action("world", needs=["hello"], effects=["world"], check="grep -q world world.txt")]
    return [
        call("goap_create_goal", name="greet", description="Greet.", goal_state=["hello", "world"]),
        call("goap_create_actions", goal="greet", actions=actions),
    ]


@pytest.fixture
def programs(scenario):
    """A user who has a program and its login, no key and no model."""
    folder = install_programs(scenario.home.parent / "programs")
    scenario.environ["PATH"] = f"{folder}:{scenario.environ['PATH']}"
    scenario.configure(executors={"default": "claude"})
    return scenario


def write_steps(scenario, planner):
    contract = json.dumps({"commands": [{"command": "grep -q hello hello.txt"}]})
    drafted = say(f"It is this:\n```json\n{contract}\n```")
    return write_script(
        scenario.home,
        "claude",
        **DRILL,
        **{
            "Plan the request": planner,
            "Write the contract of this task": [drafted],
            "Now that you can see the work": [drafted],
            "Critique the change": [say("Fine.\nTotal: 9/9\nDONE")],
            "Your task: hello": [
                call("file_item", title="Say it louder", description="With an exclamation mark."),
                edit("hello.txt", "hello\n"),
                say("Said hello."),
            ],
            "Your task: world": [edit("world.txt", "world\n"), say("Said world.")],
        },
    )


def prompts(own):
    return [json.loads(line) for line in (own / "prompts.txt").read_text().splitlines()]


@pytest.mark.slow
def test_a_program_alone_plans_works_and_judges(programs):
    """AL-20, AL-24: through the tools, contracts and the queue of every run; nothing asks for a key or a model."""
    own = write_steps(programs, [*greeting(), say("Two actions.")])
    done = programs.scaffold("run", "greet the world", "--yes", code=0)
    assert "executor claude 99.1" in done.stderr
    assert programs.landed_keys() == ["hello", "world"]
    assert programs.stored("SELECT title FROM work_item") == [("Say it louder",)]
    roles = dict(programs.stored("SELECT role, sum(requests) FROM booking GROUP BY role"))
    assert set(roles) == {"planner", "drafter", "implementation", "critic"}
    # The draft and its refinement are two conversations, and no one had to be asked twice.
    assert len(prompts(own)) == len({session for session, _ in prompts(own)})


@pytest.mark.slow
def test_a_run_whose_owner_is_killed_while_a_program_plans_goes_on_in_its_conversation(programs):
    """AL-20, AL-24: the program ends with the owner; what it had proposed is proposed again, but not asked for."""
    hangs = programs.home / ".claude" / "hangs"
    goal, actions = greeting()
    own = write_steps(programs, [goal, {"do": "hang", "path": str(hangs)}, actions, say("Two actions.")])
    owner = programs.start(programs.command("run", "greet the world", "--yes"))
    assert wait_until(lambda: hangs.exists() and hangs.read_text())
    owner.kill()
    owner.wait()
    assert wait_until(lambda: not programs.processes())
    assert programs.stored("SELECT name FROM goal") == []
    programs.scaffold("resume", code=0)
    assert programs.landed_keys() == ["hello", "world"]
    assert programs.stored("SELECT outcome FROM planning_turn ORDER BY started_at") == [("lost",), ("done",)]
    (session,) = {each for each, prompt in prompts(own) if "Plan the request" in prompt}
    _, told = [prompt for each, prompt in prompts(own) if each == session]
    assert "Go on with your task where you stopped" in told
    # What it had used is not forgotten, though it never said how much.
    assert programs.stored("SELECT sum(requests) FROM booking WHERE role = 'planner'") == [(2,)]
