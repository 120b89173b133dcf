"""How many git processes a landing takes, counted by a git that writes down how it is called."""

import shlex
import shutil

import pytest

from fakes import House, act, goal
from scaffold.landing.queue import Landed, MergeQueue

MOST = 6
CHECKING = ["diff-tree", "ls-tree"]
"""What verifying itself asks of git: what has changed, and what there is."""


@pytest.fixture
def log(tmp_path, monkeypatch):
    """The file in which every call of git is written down."""
    real, log, folder = shutil.which("git"), tmp_path / "calls", tmp_path / "counting"
    folder.mkdir()
    (folder / "git").write_text(f'#!/bin/sh\necho "$1" >> {shlex.quote(str(log))}\nexec {real} "$@"\n')
    (folder / "git").chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=":")
    return log


@pytest.fixture
async def house(tmp_path, log):
    made = await House.build(tmp_path)
    yield made
    made.store.close()


async def landings(house, log, **contract):
    """Land two candidates side by side and return the calls of git that each took."""
    run = await house.own(goal("g", act("a", **contract), act("b", **contract)))
    queue = MergeQueue(house.site, run)
    first, second = await house.queue(run, "a"), await house.queue(run, "b")
    await house.carry_attempt_out(first, {"a": ["echo x > a"]})
    await house.carry_attempt_out(second, {"b": ["echo x > b"]})
    calls = []
    for _ in range(2):
        log.unlink()
        assert isinstance(await queue.step(), Landed)
        calls.append(log.read_text().split())
    await queue.close()
    return calls


async def test_a_landing_whose_checks_run_nothing_takes_six_git_processes_at_most(house, log):
    """No worktree is made where nothing runs."""
    first, second = await landings(house, log, check=None)
    assert second == ["merge-tree", "commit-tree", "diff-tree", "update-ref", "diff-tree"]
    assert len(first) <= MOST + 1, "the first one reads settings, too"


async def test_a_landing_without_what_its_checks_take_takes_six_git_processes_at_most(house, log):
    """Its worktree included."""
    _, second = await landings(house, log, check="true")
    assert second == ["merge-tree", "commit-tree", "clean", "checkout", *CHECKING, "update-ref", "diff-tree"]
    assert len(second) - len(CHECKING) <= MOST
