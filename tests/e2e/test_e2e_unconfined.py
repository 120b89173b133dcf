"""The real commands on a machine without a sandbox: code of a repository runs after a yes to it, or not at all."""

import sys

import pytest

from support import fewer_sandboxes
from support.planner_cassettes import add_planner, create_actions_call, create_goal_call
from support.scenario import action, plan_of, write
from support.terminal import Screen

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="takes the sandbox away with seccomp")

ASKED = r"Run them with all your rights\? \[y/N\]"


@pytest.fixture
def scenario(scenario):
    """A project whose test leaves a mark outside of it, and a plan with a check that does, too."""
    mark = scenario.home / "mark"
    leave = f"import pathlib\npathlib.Path({str(mark)!r}).write_text('ran')\n"
    (scenario.repo / "pyproject.toml").write_text("[tool.pytest.ini_options]\n")
    (scenario.repo / "test_it.py").write_text(f"{leave}\n\ndef test_it():\n    pass\n")
    scenario.commit("A test")
    scenario.configure(sandbox={"mode": "auto"})
    scenario.plan(plan_of(docs=[action("guide", effects=["guide_written"], check="python3 test_it.py")]))
    scenario.cassette(guide=[write("GUIDE.md", "# Guide\n")])
    scenario.mark = mark
    return scenario


def unconfined(*argv):
    return [sys.executable, fewer_sandboxes.__file__, "none", *argv]


def run(scenario, *flags):
    """Return a run of the plan at level `none`, without an answer to anything but what `flags` say."""
    model = ("--model", f"cassette:{scenario.home / 'cassette.yaml'}", "--yolo")
    return unconfined(*scenario.command("run", "--plan", str(scenario.home / "plan.yaml"), *model, *flags))


@pytest.mark.slow
@pytest.mark.parametrize("trusted", [False, True])
def test_without_an_answer_nothing_of_a_repository_runs(scenario, trusted):
    """BX-9: `--yes` is none, whether the folder is trusted or not; nothing is stored."""
    if trusted:
        scenario.scaffold("trust", "--yes", code=0)
    refused = scenario.call(run(scenario, "--yes"), code=64).stderr
    assert "there is no sandbox, so the repository's code would run with all your rights" in refused
    assert ("`scaffold trust` this folder" in refused) is not trusted
    looked = scenario.call(unconfined(*scenario.command("doctor", "--gates")), code=1).stdout
    assert "nothing was run: there is no sandbox" in looked
    assert (
        "nothing was run: there is no sandbox"
        in scenario.call(unconfined(*scenario.command("init", "--yes")), code=0).stderr
    )
    written = action("guide", effects=["guide_written"], check="python3 test_it.py")
    steps = [create_goal_call("g", "guide_written"), create_actions_call("g", written)]
    model = add_planner(scenario.cassette(guide=["unused"], name="planner.yaml"), steps)
    plan = scenario.home / "written.yaml"
    scenario.call(unconfined(*scenario.command("plan", "write it", "--model", model, "-o", str(plan))), code=0)
    assert plan.read_text().startswith("# Its commands were not tried: there is no sandbox.\nversion: 1\n")
    assert (scenario.mark.exists(), scenario.stored("SELECT count(*) FROM run")) == (False, [(0,)])


@pytest.mark.slow
def test_a_yes_is_asked_for_once_a_run_and_shows_what_will_run(scenario):
    """BX-9: before the run exists; a resumed run does not ask again, another run does."""
    scenario.scaffold("trust", "--yes", code=0)
    for word, code in (("n", 64), ("y", 3)):
        screen = Screen(run(scenario), cwd=scenario.repo, env=scenario.environ, columns=100, rows=50)
        shown = screen.wait_for(ASKED)
        assert "pytest" in shown
        assert "check      python3 test_it.py" in shown
        assert scenario.stored("SELECT count(*) FROM run") == [(0,)]
        screen.type_line(word)
        if word == "y":
            screen.wait_for("Start\\?")
            screen.type_line("n")
        assert screen.wait_for_exit() == code, screen.text
    assert not scenario.mark.exists()
    scenario.call(unconfined(*scenario.command("resume", scenario.status()["run"]["id"])), code=0)
    assert scenario.mark.exists()
    assert "there is no sandbox" in scenario.call(run(scenario, "--yes", "--agents", "1"), code=64).stderr


@pytest.mark.slow
def test_the_sandbox_that_the_user_turns_off_is_a_yes_and_one_that_a_file_turns_off_is_none(scenario):
    """BX-9: not even a file that was trusted."""
    place = scenario.repo / ".scaffold" / "config.local.yaml"
    place.parent.mkdir()
    place.write_text("sandbox: {mode: 'off'}\n")
    assert "there is no sandbox" in scenario.call(run(scenario, "--yes", "--trust-once"), code=64).stderr
    scenario.call(run(scenario, "--yes", "--sandbox", "off"), code=0)
    assert scenario.mark.exists()


@pytest.mark.slow
def test_a_session_does_not_start_a_folders_hooks_and_servers_unasked(scenario):
    """BX-9: neither a one-shot nor `doctor`."""
    mark = scenario.mark
    (scenario.repo / ".claude").mkdir()
    hook = f'{{"hooks": {{"SessionStart": [{{"hooks": [{{"type": "command", "command": "touch {mark}"}}]}}]}}}}'
    (scenario.repo / ".claude" / "settings.json").write_text(hook)
    (scenario.repo / ".mcp.json").write_text(f'{{"mcpServers": {{"x": {{"command": "touch", "args": ["{mark}"]}}}}}}')
    scenario.scaffold("trust", "--yes", code=0)
    (scenario.home / "talk.yaml").write_text("version: 1\nreplies: [{when: {}, text: done}]\n")
    ralph = scenario.command("ralph", "-p", "go", "--model", f"cassette:{scenario.home}/talk.yaml")
    assert "there is no sandbox" in scenario.call(unconfined(*ralph), code=64).stderr
    assert "there is no sandbox" in scenario.call(unconfined(*scenario.command("doctor"))).stdout
    assert not mark.exists()
