"""A run in a real pseudo-terminal, where its agents' questions are asked and answered."""

import signal

import pytest

from support.scenario import action, plan_of, shell, wait_until, write
from support.terminal import CTRL_C, CTRL_D, ENTER, PROMPT, Screen, reply

pytestmark = pytest.mark.slow
MAKE = "echo made > made.txt"
NO_SANDBOX = ("--yes", "--sandbox", "off")
WAITS, STOPPED = 3, 130


@pytest.fixture
def scenario(scenario):
    scenario.configure(inbox={"wait_s": 60})
    return scenario


@pytest.fixture
def terminal(scenario):
    """Return a function that starts a command in a terminal."""
    started = []

    def start(argv, **environ):
        env = {**scenario.environ, "TERM": "xterm-256color", **environ}
        started.append(Screen(argv, cwd=scenario.repo, env=env, rows=50))
        return started[-1]

    yield start
    for screen in started:
        screen.stop()


def one_that_asks(scenario, *steps):
    scenario.plan(plan_of(g=[action("make", effects=["made"], check="test -s made.txt")]))
    scenario.cassette(make=[*(steps or (shell(MAKE),))])


def ask(question, *options):
    return {"name": "ask_human", "args": {"question": question, "options": list(options)}}


def inbox_states(scenario):
    return [each["state"] for each in scenario.inbox("--all")]


def test_an_approval_is_asked_in_the_run_and_given_there(scenario, terminal):
    """BX-13: as `scaffold inbox` shows it; the same attempt continues."""
    one_that_asks(scenario)
    screen = terminal(scenario.run_command(*NO_SANDBOX))
    reply(screen, "y" + ENTER)
    assert screen.wait_for_exit() == 0, screen.text
    assert f"│ {MAKE}" in screen.text
    assert "approved" in screen.text
    assert scenario.outcomes() == ["landed"]
    assert [(each["state"], each["scope"]) for each in scenario.inbox("--all")] == [("approved", "call")]


@pytest.mark.parametrize("word", ["action", "goal", "run"])
def test_an_approval_can_hold_for_a_part_of_the_run(scenario, terminal, word):
    """BX-13: the second equal request is not asked."""
    one_that_asks(scenario, shell(MAKE), shell(MAKE))
    screen = terminal(scenario.run_command(*NO_SANDBOX))
    reply(screen, word + ENTER)
    assert screen.wait_for_exit() == 0, screen.text
    assert [(each["state"], each["scope"]) for each in scenario.inbox("--all")] == [("approved", word)]


def test_a_rejection_with_its_reason_reaches_the_agent(scenario, terminal):
    """BX-13."""
    one_that_asks(scenario, shell(MAKE), write("made.txt", "written\n"))
    screen = terminal(scenario.run_command(*NO_SANDBOX))
    reply(screen, "no, because: use the file tools" + ENTER)
    assert screen.wait_for_exit() == 0, screen.text
    assert "a human rejected it: use the file tools" in scenario.journal("g", "make")


def test_questions_are_asked_one_after_another(scenario, terminal):
    """BX-13: what else happens is shown after the answer, and text of an agent cannot draw."""
    keys = ("left", "right")
    scenario.plan(plan_of(g=[action(key, effects=[f"{key}_made"], check=f"test -s {key}.txt") for key in keys]))
    said = "Which \x1b[31m\u202eword?"
    scenario.cassette(**{key: [ask(f"{said} {key}"), write(f"{key}.txt", "x\n")] for key in keys})
    screen = terminal(scenario.run_command("--yes"))
    assert wait_until(lambda: screen.read() and len(scenario.inbox()) == len(keys))
    screen.wait_for(PROMPT)
    assert screen.text.count("Type your answer") == 1
    reply(screen, "the first" + ENTER)
    screen.wait_for("Type your answer", times=2)
    reply(screen, "the second" + ENTER)
    assert screen.wait_for_exit() == 0, screen.text
    assert "\\x1b[31m\\x202eword?" in screen.text
    assert "\u202e" not in screen.raw
    assert sorted(each["answer"] for each in scenario.inbox("--all")) == ["the first", "the second"]


def test_pasted_lines_are_one_answer(scenario, terminal):
    """BX-13: the second line does not answer the next question."""
    one_that_asks(scenario, ask("Which words?"), shell(MAKE))
    screen = terminal(scenario.run_command(*NO_SANDBOX))
    reply(screen, "made" + ENTER + "y" + ENTER)
    reply(screen, "y" + ENTER)
    assert screen.wait_for_exit() == 0, screen.text
    assert [each["answer"] for each in scenario.inbox("--all")] == ["made\ny", None]


def test_what_is_typed_before_the_question_is_no_answer(scenario, terminal):
    """BX-13."""
    typed = scenario.out / "typed"
    check = f"test -s first.txt && until test -e {typed}; do sleep 0.05; done"
    first = action("first", effects=["begun"], check=check)
    scenario.plan(plan_of(g=[first, action("make", needs=["begun"], effects=["made"], check="test -s made.txt")]))
    scenario.cassette(first=[write("first.txt", "x\n")], make=[shell(MAKE)])
    screen = terminal(scenario.run_command(*NO_SANDBOX))
    screen.wait_for("start    first")
    screen.send("y" + ENTER)
    screen.wait_for("^y$")
    typed.touch()
    screen.wait_for(PROMPT)
    reply(screen, "nonsense" + ENTER)
    assert inbox_states(scenario) == ["open"]
    screen.wait_for("Not a valid answer")
    reply(screen, "y" + ENTER)
    assert screen.wait_for_exit() == 0, screen.text


@pytest.mark.parametrize("keys", [CTRL_D, "later" + ENTER])
def test_a_question_is_left_for_later(scenario, terminal, keys):
    """BX-13: it stays in the inbox and is not asked again here; another `resume` asks it, and the run goes on."""
    scenario.configure(inbox={"wait_s": 1})
    one_that_asks(scenario)
    screen = terminal(scenario.run_command(*NO_SANDBOX))
    reply(screen, keys)
    assert screen.wait_for_exit() == WAITS, screen.text
    assert screen.text.count("yes, once") == 1
    assert inbox_states(scenario) == ["open"]
    screen = terminal(scenario.command("resume"))
    reply(screen, "y" + ENTER)
    assert screen.wait_for_exit() == 0, screen.text


def test_a_worker_waits_while_its_question_is_asked(scenario, terminal):
    """BX-13, BX-17: longer than `inbox.wait_s`; a terminal that was killed holds nothing."""
    scenario.configure(inbox={"wait_s": 1})
    one_that_asks(scenario)
    scenario.run("--sandbox", "off", "--yes", "--detach", code=0)
    screen = terminal(scenario.command("attach"))
    screen.wait_for(PROMPT)
    screen.read_for(4)
    assert scenario.status()["actions"][0]["status"] == "running"
    screen.child.kill(signal.SIGKILL)
    assert wait_until(lambda: scenario.status()["run"]["status"] == "paused")
    assert scenario.outcomes() == ["waiting"]
    scenario.wait_for_end()


def test_a_question_that_is_decided_elsewhere_disappears(scenario, terminal):
    """BX-13: with a note; what was typed so far is gone."""
    one_that_asks(scenario)
    screen = terminal(scenario.run_command(*NO_SANDBOX))
    screen.wait_for(PROMPT)
    screen.send("no, beca")
    (item,) = scenario.inbox()
    scenario.scaffold("approve", item["id"], code=0)
    screen.wait_for(f"approval {item['id']} was approved elsewhere")
    assert screen.wait_for_exit() == 0, screen.text
    assert scenario.outcomes() == ["landed"]


def test_attach_asks_too(scenario, terminal):
    """BX-13, AL-27: of two terminals the first answer counts, the other one says so; Ctrl-C stops only the asking."""
    one_that_asks(scenario)
    scenario.run("--sandbox", "off", "--yes", "--detach", code=0)
    screens = [terminal(scenario.command("attach")) for _ in range(3)]
    for screen in screens:
        screen.wait_for(PROMPT)
    screens[0].send(CTRL_C)
    assert screens[0].wait_for_exit() == 0
    assert "stays in the inbox" in screens[0].text
    reply(screens[1], "y" + ENTER)
    screens[2].wait_for("was approved elsewhere")
    assert [screen.wait_for_exit() for screen in screens[1:]] == [0, 0]
    scenario.wait_for_end()


def test_ctrl_c_stops_the_run_as_without_a_question(scenario, terminal):
    """BX-13, RA-19: the question stays in the inbox."""
    one_that_asks(scenario)
    screen = terminal(scenario.run_command(*NO_SANDBOX))
    screen.wait_for(PROMPT)
    screen.send("no, " + CTRL_C)
    assert screen.wait_for_exit() == STOPPED, screen.text
    assert "stopping: nothing new starts" in screen.text
    assert "stays in the inbox" in screen.text
    assert scenario.status()["run"]["status"] == "paused"


def test_a_terminal_that_is_closed_leaves_the_question_open(scenario, terminal):
    """BX-13, BX-15: the run is paused, the question stays."""
    one_that_asks(scenario)
    screen = terminal(scenario.run_command(*NO_SANDBOX))
    screen.wait_for(PROMPT)
    screen.close()
    scenario.wait_for_end()
    assert inbox_states(scenario) == ["open"]


def test_a_terminal_without_escape_sequences_gets_none(scenario, terminal):
    """BX-13, RA-18."""
    one_that_asks(scenario)
    screen = terminal(scenario.run_command(*NO_SANDBOX), TERM="dumb", NO_COLOR="1")
    reply(screen, "y" + ENTER)
    assert screen.wait_for_exit() == 0, screen.text
    assert "\x1b" not in screen.raw


def test_nothing_is_asked_of_a_program(scenario, terminal):
    """BX-13: neither with `--json` nor with standard input or output redirected."""
    scenario.configure(inbox={"wait_s": 1})
    one_that_asks(scenario)
    argv = scenario.run_command(*NO_SANDBOX, "--json")
    screen = terminal(argv)
    assert screen.wait_for_exit() == WAITS
    assert "answer:" not in screen.text
    for more in ("</dev/null", "| cat"):
        screen = terminal(["sh", "-c", f"{' '.join(scenario.command('resume'))} {more}"])
        screen.wait_for_exit()
        assert "answer:" not in screen.text


def test_a_job_in_the_background_does_not_touch_the_terminal(scenario, terminal):
    """BX-13: it is not stopped by the shell; in the foreground it asks."""
    one_that_asks(scenario)
    screen = terminal(["bash", "--norc", "-i"], PS1="$ ")
    screen.wait_for(r"\$$")
    screen.send(" ".join(scenario.run_command(*NO_SANDBOX)) + " &" + ENTER)
    assert wait_until(lambda: screen.read() and scenario.inbox())
    screen.send("echo fre''e" + ENTER)
    screen.wait_for("^free$")
    assert "yes, once" not in screen.text
    screen.send("fg" + ENTER)
    reply(screen, "y" + ENTER)
    screen.wait_for("landed 1 action")
    screen.send("exit" + ENTER)
    screen.wait_for_exit()
