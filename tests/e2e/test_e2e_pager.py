"""Long output goes through the user's pager."""

import sys

import pytest

from support.scenario import action, plan_of
from support.terminal import Screen

MARK = "sed s/^/paged:/"
KEYS = [f"number-{n:02}" for n in range(60)]


@pytest.fixture
def saved(scenario):
    """A saved run of many actions."""
    scenario.plan(plan_of(texts=[action(key, effects=[f"{key}_done"], check="true") for key in KEYS]))
    scenario.cassette(nothing=["done"])
    scenario.run(code=3)
    return scenario


@pytest.fixture
def shown(saved):
    """Run a command in a terminal of 80 by 24 and return what it wrote."""

    def show(*args, **environ):
        env = {**saved.environ, "TERM": "xterm-256color", "NO_COLOR": "1", **environ}
        argv = [sys.executable, "-m", "scaffold", *args]
        screen = Screen(argv, cwd=saved.repo, env={name: value for name, value in env.items() if value is not None})
        try:
            assert screen.wait_for_exit() == 0
        finally:
            screen.stop()
        return screen.raw

    return show


@pytest.mark.slow
def test_output_longer_than_the_terminal_goes_through_the_pager(shown):
    """SC-19: GIT_PAGER counts before PAGER; all of it arrives."""
    paged = shown("tasks", PAGER=MARK)
    assert all(f"paged:  · pending {key}" in paged for key in KEYS)
    assert "again:" in shown("tasks", PAGER=MARK, GIT_PAGER="sed s/^/again:/")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("args", "environ"),
    [
        (("runs",), {}),
        (("--no-pager", "tasks"), {}),
        (("tasks", "--json"), {}),
        (("tasks",), {"PAGER": ""}),
        (("tasks",), {"PAGER": "a-program-that-is-missing -x"}),
        (("tasks",), {"TERM": "dumb"}),
        (("tasks",), {"CI": "1"}),
    ],
)
def test_the_terminal_gets_the_output_itself(shown, args, environ):
    """SC-19: what fits, JSON, no pager or none that can be run: all is printed."""
    printed = shown(*args, **{"PAGER": MARK, **environ})
    assert "paged:" not in printed
    assert (KEYS[-1] in printed) == (args != ("runs",))


@pytest.mark.slow
def test_the_setting_turns_the_pager_off(shown, saved):
    saved.configure(pager="off")
    assert "paged:" not in shown("tasks", PAGER=MARK)


@pytest.mark.slow
def test_in_a_pipe_there_is_no_pager(saved):
    saved.environ["PAGER"] = MARK
    done = saved.scaffold("tasks")
    assert "paged:" not in done.stdout
    assert KEYS[-1] in done.stdout
