"""`scaffold live` in a real terminal: whole runs that nothing else steers, and what is left when it is killed."""

import os
import re
import signal
import sys
from pathlib import Path

import pytest

from support.scenario import COMMAND_S, action, plan_of, shell, wait_until, write
from support.terminal import ENTER, Screen

USAGE = 64
TAB = "\t"
ACTIONS = 200
TOLD = "mind the gap"
ALTERNATE, NORMAL = "\x1b[?1049h", "\x1b[?1049l"
IN_ORDER = r"(?s)^(?=.*(?<!-)icanon)(?=.*(?<!-)echo\b)"
"""What `stty -a` says of a terminal in which a shell can be used."""


@pytest.fixture
def live(scenario):
    """Start commands in terminals, and end them."""
    started = []

    def start(argv, columns=100, rows=30, **environ):
        env = {**scenario.environ, "TERM": "xterm-256color", **environ}
        started.append(Screen(argv, cwd=scenario.repo, env=env, columns=columns, rows=rows))
        return started[-1]

    yield start
    for screen in started:
        screen.stop()


def call_entry(step, **when):
    return {"when": when, "tool_calls": [step]}


def press_until(screen, keys, pattern):
    """Press keys again until this is shown: what they are about may not be there yet."""

    def is_shown():
        screen.read_for(0.2)
        return re.search(pattern, screen.text, re.MULTILINE)

    def is_shown_when_pressed():
        screen.send(keys)
        return wait_until(is_shown, 3)

    assert wait_until(is_shown_when_pressed), f"{pattern!r} was not shown:\n{screen.text}"


def type_command(screen, *words):
    screen.send(":")
    screen.wait_for(r"^scaffold$")
    screen.send(" ".join(words) + ENTER)


def run_words(scenario, *flags):
    return scenario.run_command(*flags)[3:]


@pytest.mark.parametrize("term", ["xterm", "dumb"])
def test_without_a_terminal_that_can_be_redrawn_it_says_what_to_use_instead(scenario, live, term):
    """AL-25: exit code 64, before anything is loaded."""
    if term == "dumb":
        screen = live(scenario.command("live"), TERM=term)
        assert screen.wait_for_exit() == USAGE
        assert "scaffold status --watch" in screen.text
    else:
        done = scenario.scaffold("live", code=USAGE)
        assert done.stderr.startswith("error: `scaffold live` needs a terminal")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=lambda number: number.name)
def test_whoever_kills_it_gets_the_terminal_back(scenario, live, number):
    """AL-25: out of the alternate screen, with echo and lines; no process of it is left."""
    screen = live(["bash", "--norc"], PS1="$ ")
    screen.send(f"{sys.executable} -m scaffold live; stty -a; echo ended" + ENTER)
    screen.wait_for(r"^no run yet")
    assert screen.raw.count(ALTERNATE) == 1
    (shown,) = children_of(screen.child.pid)
    processes = [shown, *children_of(shown)]
    os.kill(shown, number)
    screen.wait_for(r"^ended$")
    assert wait_until(lambda: screen.read() and screen.raw.rindex(NORMAL) > screen.raw.rindex(ALTERNATE))
    screen.send("clear; stty -a; echo again" + ENTER)
    screen.wait_for(r"^again$")
    assert re.search(IN_ORDER, screen.text)
    assert wait_until(lambda: not any(Path(f"/proc/{each}").exists() for each in processes))


def children_of(parent):
    return [int(pid) for pid in Path(f"/proc/{parent}/task/{parent}/children").read_text().split()]


@pytest.mark.slow
def test_a_whole_run_is_steered_in_live(scenario, live):
    """AL-25, BX-25: started, told, approved, answered, taken and reverted without leaving it."""
    scenario.configure(inbox={"wait_s": 60}, quality_gates={"test": "off"})
    scenario.plan(
        plan_of(
            shop=[
                action("store", effects=["stored"], check="test -s store.txt"),
                action("api", effects=["served"], needs=["stored"], check="grep -qx told api.txt"),
                action("ask", effects=["asked"], check="test -s ask.txt"),
            ]
        )
    )
    scenario.replies(
        call_entry(shell("echo stored > store.txt"), action="store", turn=1),
        call_entry(write("api.txt", "told\n"), action="api", turn=1, contains=TOLD),
        call_entry(write("api.txt", "untold\n"), action="api", turn=1),
        call_entry({"name": "ask_human", "args": {"question": "Which colour?"}}, action="ask", turn=1),
        call_entry(write("ask.txt", "red\n"), action="ask", turn=2, contains="red"),
        {"when": {}, "text": "done"},
    )
    screen = live(scenario.command("live"))
    screen.wait_for(r"^no run yet")
    type_command(screen, *run_words(scenario, "--sandbox", "off"))
    screen.wait_for(r"2 wait for you")
    press_until(screen, TAB, r"\[Plan\]")
    press_until(screen, "j", r"^> +· api")
    screen.send("s")
    screen.wait_for(r"^Message to api")
    screen.send(TOLD + ENTER)
    screen.wait_for(r"✓ no agent is working on api; its next attempt reads the message")
    press_until(screen, "n", r"^> .*approval +store")
    screen.send("a")
    screen.wait_for(r"✓ approved")
    press_until(screen, "n", r"^> .*question +ask")
    screen.send(ENTER)
    screen.wait_for(r"^Answer .* with any words")
    screen.send("red" + ENTER)
    screen.wait_for(r"✓ answered")
    screen.wait_for(r"✓ \w+ completed", seconds=COMMAND_S)
    assert sorted(scenario.landed_keys()) == ["api", "ask", "store"]
    press_until(screen, TAB, r"\[Stats\]")
    screen.send("m")
    screen.wait_for(r"to main\? y/n")
    screen.send("y")
    screen.wait_for(r"main is at")
    assert scenario.git("show", "main:api.txt") == "told\n"
    press_until(screen, TAB, r"\[Plan\]")
    screen.send("/")
    screen.wait_for(r"^search for")
    screen.send("api" + ENTER)
    screen.wait_for(r"^> +✓ api")
    screen.send("u")
    screen.wait_for(r"Revert api\?")
    screen.send("y")
    screen.wait_for(r"✓ reverted api")
    screen.send("q")
    assert screen.wait_for_exit() == 0
    assert scenario.status()["run"]["status"] == "paused"


@pytest.mark.slow
def test_a_killed_owner_is_shown_and_the_run_resumed(scenario, live):
    """AL-25, SC-17: the screen goes on by itself; space continues the run."""
    scenario.plan(plan_of(g=[action("make", effects=["made"], check="test -s made.txt")]))
    scenario.cassette(make=[shell("echo begun > begun; sleep 60")])
    screen = live(scenario.command("live"))
    screen.wait_for(r"^no run yet")
    type_command(screen, *run_words(scenario))
    screen.wait_for(r"running +make#1", seconds=COMMAND_S)
    (owner,) = [each["pid"] for each in scenario.json("agents", "--json")["agents"] if each["role"] == "orchestrator"]
    kill_with_restarter(owner)
    screen.wait_for(r"^■ \w+ interrupted", seconds=COMMAND_S)
    press_until(screen, " ", r"^… resume")
    press_until(screen, "S", r"^Stop run")
    screen.send("y")
    screen.wait_for(r"^■ \w+ paused", seconds=COMMAND_S)
    screen.send("q")
    assert screen.wait_for_exit() == 0
    assert {each["status"] for each in scenario.status()["actions"]} == {"pending"}


def kill_with_restarter(owner):
    """Kill an owner and the process that would start the next one."""
    parent = int(Path(f"/proc/{owner}/stat").read_text().rpartition(")")[2].split()[1])
    assert parent > 1
    os.kill(parent, signal.SIGKILL)
    os.kill(owner, signal.SIGKILL)


def approve_until(screen, pattern, *, seconds):
    """Approve what waits until this is shown."""

    def is_shown():
        if re.search(r"\d waits? for you", screen.text):
            screen.send("n")
            screen.read_for(0.5)
            screen.send("a")
        screen.read_for(1)
        return re.search(pattern, screen.text, re.MULTILINE)

    assert wait_until(is_shown, seconds), screen.text


@pytest.mark.slow
@pytest.mark.timeout(2_400)
def test_a_run_of_200_actions_is_steered_only_by_live(scenario, live):
    """AL-25, BX-25: paused and resumed on the way; ten approvals; taken at the end."""
    scenario.configure(inbox={"wait_s": 600}, quality_gates={"test": "off"})
    keys = [f"a{number:03}" for number in range(ACTIONS)]
    asks = keys[::20]
    scenario.plan(plan_of(g=[action(key, effects=[f"{key}_made"], check=f"test -s {key}.txt") for key in keys]))
    steps = {key: shell(f"echo x > {key}.txt") if key in asks else write(f"{key}.txt", "x\n") for key in keys}
    scenario.replies(
        *(call_entry(step, action=key, turn=1) for key, step in steps.items()), {"when": {}, "text": "done"}
    )
    screen = live(scenario.command("live"))
    screen.wait_for(r"^no run yet")
    type_command(screen, *run_words(scenario, "--sandbox", "off", "--agents", "4"))
    screen.wait_for(r"waits? for you", seconds=COMMAND_S)
    screen.send(" ")
    screen.wait_for(r"pausing", seconds=COMMAND_S)
    screen.send(" ")
    screen.wait_for(r"goes on", seconds=COMMAND_S)
    approve_until(screen, r"^✓ \w+ completed", seconds=1_800)
    assert sum(item["state"] == "approved" for item in scenario.inbox("--all")) == len(asks)
    assert len(scenario.landed_keys()) == ACTIONS
    press_until(screen, TAB, r"\[Stats\]")
    screen.send("m")
    screen.wait_for(r"to main\? y/n")
    screen.send("y")
    screen.wait_for(r"main is at", seconds=COMMAND_S)
    screen.send("q")
    assert screen.wait_for_exit() == 0
    assert scenario.git("ls-tree", "--name-only", "main").count(".txt") == ACTIONS
