"""`scaffold` without a command in a real terminal: a plan is made, accepted, and executed in the background."""

import sys

import pytest
import yaml

from support.planner_cassettes import add_planner, create_actions_call, create_goal_call, reply_entries
from support.scenario import action, put_before, text_entry, wait_until, write
from support.terminal import ARMED, CTRL_C, CTRL_D, IDLE, Screen


@pytest.fixture
def terminal(scenario):
    """Start `scaffold` in a terminal; it is ended with the test."""
    started = []

    def start(*args):
        env = {**scenario.environ, "TERM": "xterm-256color"}
        argv = [sys.executable, "-m", "scaffold", *args]
        started.append(Screen(argv, cwd=scenario.repo, env=env, columns=100, rows=50))
        return started[-1]

    yield start
    for each in started:
        each.stop()


def model(scenario, *said):
    """Return a model that talks like this, plans one action, and executes it."""
    hello = action("hello", effects=["hello_there"], check="test -f hello.txt")
    cassette = scenario.cassette(hello=[write("hello.txt", "hello\n")])
    put_before(cassette, *reply_entries(said, role="agent"), text_entry("agent", "As you see."))
    return add_planner(cassette, [create_goal_call("greeting", "hello_there"), create_actions_call("greeting", hello)])


EXECUTE = {"name": "execute_plan", "args": {"plan": "Greet the world in hello.txt."}}


@pytest.mark.slow
def test_a_plan_is_refined_accepted_and_executed_while_the_conversation_continues(scenario, terminal):
    """SC-18, SC-8, SC-19: a separate planner makes the plan; /goals and /tasks need no model."""
    screen = terminal("--model", model(scenario, "Shall it be in hello.txt?", EXECUTE, "It is on its way."))
    screen.wait_for(r"^scaffold, ")
    screen.wait_for(IDLE)
    screen.type_line("greet somebody")
    screen.wait_for(r"Shall it be in hello\.txt\?")
    screen.type_line("yes")
    screen.wait_for(r"draft +create_actions hello")
    screen.wait_for(r"hello -> hello_there")
    screen.wait_for(r"agents start working on it")
    screen.wait_for(ARMED)
    assert "always" not in screen.text, "each start is asked for"
    screen.answer("y")
    screen.wait_for(r"is running in the background")
    screen.wait_for(r"new conversation")
    assert wait_until(lambda: scenario.status()["run"]["status"] == "completed")
    screen.type_line("/goals")
    screen.wait_for(r"greeting: completed")
    screen.type_line("/tasks greeting")
    screen.wait_for(r"hello")
    screen.type_line("/tasks nowhere")
    screen.wait_for(r"has no goal `nowhere`")
    screen.send(CTRL_D)
    assert screen.wait_for_exit() == 0
    assert "scaffold status" in screen.text


@pytest.mark.slow
def test_the_agent_creates_a_goal_itself_which_starts_once_the_user_agrees(scenario, terminal):
    """SC-12, SC-17, SC-18: no planner is asked, and nothing starts before the question."""
    hello = action("hello", effects=["hello_there"], check="test -f hello.txt")
    start = {"name": "start_goal", "args": {"goal": "greeting"}}
    created = (create_goal_call("greeting", "hello_there"), create_actions_call("greeting", hello))
    screen = terminal("--model", model(scenario, *created, "Shall I start?", start, "Then not.", start))
    screen.wait_for(IDLE)
    screen.type_line("hello_there must hold: one action, hello.txt")
    screen.wait_for(r"Shall I start\?")
    status = scenario.status()
    assert [(each["name"], each["status"]) for each in status["goals"]] == [("greeting", "paused")]
    assert status["actions"][0]["attempts"] == []
    screen.type_line("yes")
    screen.wait_for(r"hello -> hello_there")
    screen.wait_for(ARMED)
    screen.answer("n")
    screen.wait_for(r"Then not\.")
    assert scenario.status()["run"]["status"] == "saved"
    screen.type_line("now")
    screen.wait_for(r"hello -> hello_there", times=2)
    screen.wait_for(ARMED)
    screen.answer("y")
    screen.wait_for(r"is running in the background")
    assert wait_until(lambda: scenario.status()["run"]["status"] == "completed")
    screen.send(CTRL_D)
    assert screen.wait_for_exit() == 0


@pytest.mark.slow
def test_a_declined_plan_is_saved_and_nothing_starts(scenario, terminal):
    """SC-18: no means later; the plan is stored as a run that `resume` starts."""
    screen = terminal("--model", model(scenario, EXECUTE, "Then not."))
    screen.wait_for(IDLE)
    screen.type_line("greet somebody")
    screen.wait_for(r"hello -> hello_there")
    screen.answer("n")
    screen.wait_for(r"Then not\.")
    status = scenario.status()
    assert (status["run"]["status"], status["actions"][0]["attempts"]) == ("saved", [])
    screen.send(CTRL_D)
    assert screen.wait_for_exit() == 0


@pytest.mark.slow
def test_commands_work_before_the_first_run_and_the_agent_cannot_write(scenario, terminal):
    """SC-18, SC-19: /help lists the session's own commands; tools that change files are missing."""
    screen = terminal("--model", model(scenario, write("sneaky.txt", "x"), "I cannot."))
    screen.wait_for(IDLE)
    screen.type_line("/help")
    screen.wait_for(r"/goals \[GOAL\] +the goals of the run")
    screen.type_line("/agents")
    screen.wait_for(r"There is no run yet")
    screen.type_line("write something")
    screen.wait_for(r"I cannot\.")
    assert not (scenario.repo / "sneaky.txt").exists()
    screen.type_line("/tools")
    screen.wait_for(r"execute_plan")
    screen.send(CTRL_D)
    assert screen.wait_for_exit() == 0


@pytest.mark.slow
def test_ctrl_c_stops_planning_cleanly_and_leaves_no_owner(scenario, terminal):
    """OR-5: the run is paused, and the session continues."""
    name = model(scenario, EXECUTE, "Stopped.")
    path = scenario.home / "cassette.yaml"
    content = yaml.safe_load(path.read_text())
    for reply in content["replies"]:
        if reply["when"].get("role") == "planner":
            reply["fault"] = {"kind": "hang", "times": 50}
    path.write_text(yaml.safe_dump(content))
    screen = terminal("--model", name)
    screen.wait_for(IDLE)
    screen.type_line("greet somebody")
    assert wait_until(lambda: (scenario.status()["run"] or {}).get("planning", False))
    screen.send(CTRL_C)
    screen.wait_for(r"stopped; the conversation is kept")
    assert scenario.status()["run"]["status"] == "paused"
    screen.send(CTRL_D)
    assert screen.wait_for_exit() == 0
