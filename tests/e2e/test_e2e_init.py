"""`init` as a user types it: it looks, asks, tries the commands once in a worktree that never stays, asks, writes."""

import json
import os
import shutil
import signal
import subprocess
import sys
from contextlib import suppress

import pytest
import yaml
from inline_snapshot import snapshot

from support.scenario import COMMAND_S, wait_until
from support.terminal import ENTER, Screen

PYPROJECT = "[project]\nname = 'calc'\nversion = '1'\n\n[tool.pytest.ini_options]\n\n[tool.mypy]\n"
FILES = {
    "calc.py": "def add(a, b):\n    return a + b\n",
    "tests/test_calc.py": "from calc import add\n\n\ndef test_add():\n    assert add(1, 2) == 3\n",
    "pyproject.toml": PYPROJECT,
    "tox.ini": "[testenv]\ncommands =\n  pytest tests\n  no-such-linter .\n  mypy\n",
}
WAITING = "import pathlib, time\n\n\ndef test_long():\n    pathlib.Path('out').mkdir()\n    time.sleep(600)\n"


@pytest.fixture
def scenario(scenario):
    scenario.configure()
    for name, text in FILES.items():
        path = scenario.repo / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    scenario.commit("The project")
    return scenario


def state_of(repo):
    """Everything in the checkout besides git's own files."""
    return {str(path.relative_to(repo)): path.read_bytes() for path in repo.rglob("*") if is_own(path, repo)}


def is_own(path, repo):
    return path.is_file() and ".git" not in path.relative_to(repo).parts and path.name != ".scaffold.yaml"


def init(scenario, *args, code=0):
    done = scenario.scaffold("init", *args)
    assert done.returncode == code, done.stdout + done.stderr
    return done


def nothing_left(scenario):
    """Whether no worktree and no temporary file of a trial is there."""
    folders = [scenario.cache / name for name in ("trials", "t")]
    left = [path for folder in folders if folder.is_dir() for path in folder.iterdir()]
    return not left and len(scenario.git("worktree", "list").splitlines()) == 1


@pytest.mark.slow
def test_with_yes_the_commands_are_tried_and_what_can_judge_is_set(scenario):
    """AL-28: unasked with `--yes`; the checkout is not touched, and no worktree stays."""
    before = state_of(scenario.repo)
    done = init(scenario, "--yes")
    assert "test       python3 -m pytest -q tests\n               tox.ini:3 runs `pytest tests`\n" in done.stdout
    assert "✓ test       passes: 1 passed" in done.stdout
    head = scenario.git("rev-parse", "HEAD")[:8]
    comment = done.stdout.partition("\n# ")[2].partition("version: 1")[0].replace("\n# ", " ")
    assert comment == f"Its command was run once at {head}, before the work: passes: 1 passed.\n"
    settings = yaml.safe_load((scenario.repo / ".scaffold.yaml").read_text())
    assert settings["quality_gates"]["test"] == "python3 -m pytest -q tests"
    assert state_of(scenario.repo) == before
    assert nothing_left(scenario)


def test_without_a_terminal_and_without_yes_nothing_runs(scenario):
    """AL-28: commands of a repository are shown, never run silently."""
    (scenario.repo / "tests" / "test_calc.py").write_text("open('/dev/full', 'w').write('x' * 9999)\n")
    scenario.commit("It would fail")
    done = init(scenario)
    assert "✓ test" not in done.stdout
    assert "nothing was run: `scaffold init --yes`" in done.stderr
    assert yaml.safe_load((scenario.repo / ".scaffold.yaml").read_text()) is None, "only comments"
    assert not (scenario.cache / "trials").exists()


@pytest.mark.slow
def test_a_configuration_is_not_overwritten_even_with_yes(scenario):
    """AL-28: only `--force`, or a yes to the question, replaces it."""
    file = scenario.repo / ".scaffold.yaml"
    file.write_text("tier: scout\n")
    assert "was not changed" in init(scenario, "--yes").stderr
    assert file.read_text() == "tier: scout\n"
    init(scenario, "--yes", "--force")
    assert "quality_gates" in yaml.safe_load(file.read_text())


@pytest.mark.slow
def test_the_json_tells_where_each_command_is_from_and_what_it_gave(scenario):
    found = json.loads(init(scenario, "--yes", "--json").stdout)
    checks = {each["name"]: each for each in found["checks"]}
    assert checks["test"]["from"] == {"path": "tox.ini", "says": "runs `pytest tests`", "line": 3}
    assert (checks["test"]["result"]["verdict"], checks["test"]["result"]["text"]) == ("passes", "1 passed")
    assert (found["tried"], found["written"], found["problem"]) == (True, True, "")
    assert found["commit"] == scenario.git("rev-parse", "HEAD").strip()


@pytest.mark.slow
def test_a_gate_that_cannot_judge_says_what_is_missing(scenario):
    """AL-28: no tests, a missing program; both stay comments in the configuration, and `doctor` repeats them."""
    (scenario.repo / "tests" / "test_calc.py").write_text("import calc\n\nX = 'def test'\n")
    (scenario.repo / "conftest.py").write_text("")
    (scenario.repo / "Makefile").write_text("lint:\n\tno-such-program\n")
    scenario.commit("No tests left")
    done = init(scenario, "--yes")
    assert "✗ test       ran nothing: no tests were collected" in done.stdout
    plan = done.stdout.partition("save it as plan.yaml:")[2].partition("\nNext\n")[0]
    assert plan.strip().startswith("# Without the project's tests, which\n# were run once at ")
    assert "commands" not in yaml.safe_load(plan)["goals"][0]["actions"][0]["contract"]
    settings = yaml.safe_load((scenario.repo / ".scaffold.yaml").read_text()) or {}
    assert "test" not in settings.get("quality_gates", {})
    shown = {each["name"]: each for each in json.loads(scenario.scaffold("doctor", "--json").stdout)["checks"]}
    assert (shown["gate test"]["status"], shown["gate test"]["message"]) == snapshot(
        ("warn", "ran nothing: no tests were collected")
    )


@pytest.mark.slow
def test_doctor_tries_the_gates_only_when_asked(scenario):
    """AL-28: it says of each gate whether it can judge here."""
    before = {each["name"]: each for each in json.loads(scenario.scaffold("doctor", "--json").stdout)["checks"]}
    assert before["gate test"]["message"] == snapshot("`python3 -m pytest -q tests`, not tried yet")
    done = scenario.scaffold("doctor", "--gates", "--json")
    after = {each["name"]: each for each in json.loads(done.stdout)["checks"]}
    assert after["gate test"]["message"].startswith("passes: 1 passed (tried ")
    assert nothing_left(scenario)


@pytest.fixture
def terminal(scenario):
    started = []

    def start(*args, columns=80):
        argv = [sys.executable, "-P", "-m", "scaffold", *args]
        env = {**scenario.environ, "TERM": "xterm-256color"}
        started.append(Screen(argv, cwd=scenario.repo, env=env, columns=columns, rows=50))
        return started[-1]

    yield start
    for each in started:
        each.stop()


@pytest.mark.slow
def test_at_a_terminal_it_asks_before_it_runs_and_before_it_writes(scenario, terminal):
    """AL-28: a yes to each; lines fit the terminal."""
    screen = terminal("init")
    screen.wait_for(r"Run these commands once, in a sandbox|Run these commands once, WITHOUT")
    screen.wait_for(r"\[y/N\]:")
    assert not (scenario.cache / "trials").exists()
    screen.send(f"y{ENTER}")
    screen.wait_for(r"Write this to")
    assert not (scenario.repo / ".scaffold.yaml").exists()
    screen.send(f"y{ENTER}")
    assert screen.wait_for_exit() == 0
    assert "passes: 1 passed" in screen.text
    assert "wrote" in screen.text
    assert yaml.safe_load((scenario.repo / ".scaffold.yaml").read_text())["quality_gates"]["test"]


def test_a_no_runs_nothing_and_writes_nothing(scenario, terminal):
    screen = terminal("init")
    screen.wait_for(r"\[y/N\]:")
    screen.send(ENTER)
    screen.wait_for(r"Write this to")
    screen.send(f"n{ENTER}")
    assert screen.wait_for_exit() == 0
    assert not (scenario.repo / ".scaffold.yaml").exists()
    assert nothing_left(scenario)


@pytest.mark.slow
def test_an_existing_configuration_is_shown_as_a_difference_and_kept_by_default(scenario, terminal):
    file = scenario.repo / ".scaffold.yaml"
    file.write_text("tier: scout\n")
    screen = terminal("init")
    screen.wait_for(r"\[y/N\]:")
    screen.send(ENTER)
    screen.wait_for(r"^-tier: scout")
    screen.wait_for(r"Replace it, as shown")
    screen.send(ENTER)
    assert screen.wait_for_exit() == 0
    assert file.read_text() == "tier: scout\n"


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_no_worktree_stays_however_it_is_ended(scenario, how):
    """AL-28: the worktree is removed whatever happens, by a process beside it if need be."""
    process = start_waiting(scenario)
    process.send_signal(how)
    process.wait(timeout=COMMAND_S)
    assert wait_until(lambda: nothing_left(scenario))


@pytest.mark.slow
def test_what_two_killed_processes_leave_is_found_and_removed(scenario):
    """AL-28: after a power cut, `doctor` names the worktree, and `doctor --fix` or the next `init` removes it."""
    process = start_waiting(scenario)
    for pid in scenario.processes():
        with suppress(ProcessLookupError):  # it ended with the one before it
            os.kill(pid, signal.SIGKILL)
    process.wait(timeout=COMMAND_S)
    shutil.rmtree(next((scenario.cache / "trials").iterdir()), ignore_errors=True)  # as if killed during the removal
    assert not nothing_left(scenario)
    assert "trial" in scenario.scaffold("doctor").stdout
    scenario.scaffold("doctor", "--fix")
    assert nothing_left(scenario)


def start_waiting(scenario):
    """Start `init --yes` and return its process once its test is running."""
    (scenario.repo / "tests" / "test_calc.py").write_text(WAITING)
    scenario.commit("A test that takes long")
    argv = [sys.executable, "-P", "-m", "scaffold", "init", "--yes"]
    process = subprocess.Popen(argv, cwd=scenario.repo, env=scenario.environ, stderr=subprocess.DEVNULL)
    assert wait_until(lambda: list((scenario.cache / "trials").glob("*/out"))), "the test did not start"
    return process
