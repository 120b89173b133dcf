"""How many git processes an attempt and its landing take, counted by a git that logs its calls."""

import shlex
import shutil

import pytest

from builders import machine_sandbox
from scaffold.landing.queue.merge_queue import MergeQueue
from scaffold.landing.queue.step_result import BatchLanded
from support.harness import Harness, act, goal

MOST = 6
MOST_OF_AN_ATTEMPT = 9
UNCHANGED = "status"
"""What shows that a worktree is as if it had just been checked out; otherwise it is made so, before it is proven."""
OPENING = ["version", "rev-parse"]
LANDING_PROVEN = ["merge-tree", "commit-tree", "diff-tree", "update-ref"]


@pytest.fixture
def log(tmp_path, monkeypatch):
    """The file that logs every call of git."""
    real, log, folder = shutil.which("git"), tmp_path / "calls", tmp_path / "counting"
    folder.mkdir()
    (folder / "git").write_text(f'#!/bin/sh\necho "$1" >> {shlex.quote(str(log))}\nexec {real} "$@"\n')
    (folder / "git").chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=":")
    return log


@pytest.fixture
async def harness(tmp_path, log):
    made = await Harness.build(tmp_path)
    yield made
    made.store.close()


async def landings(harness, log, count, **contract):
    """Work on actions at the same time, let all of them land, and return the calls of git of each step."""
    keys = [f"{'abc'[count - 1]}{number}" for number in range(count)]
    run = await harness.own(goal("g", *(act(key, **contract) for key in keys)), agents=len(keys))
    queue = MergeQueue(harness.context, run)
    attempts = [await harness.queue(run, key) for key in keys]
    for key, attempt in zip(keys, attempts, strict=True):
        await harness.run_attempt(attempt, {key: [f"echo x > {key}"]})
    calls = []
    while harness.store.attempts.waiting_to_land(run.id):
        log.unlink()
        assert isinstance(await queue.step(), BatchLanded)
        calls.append(log.read_text().split())
    await queue.close()
    return calls


async def test_a_landing_whose_checks_run_nothing_takes_at_most_five_git_processes(harness, log):
    """Without a check to run, no worktree is made."""
    (only,) = await landings(harness, log, 1, check=None)
    # The first landing reads the tip and its tree; the ones after it know them.
    assert [call for call in only if call not in {"config", "rev-parse", "rev-list"}] == LANDING_PROVEN


@pytest.mark.slow
async def test_each_candidate_that_lands_with_others_takes_at_most_six_git_processes(harness, log):
    """AL-13: its paths, its merge and its commit, and what its checks read; the branch moves once for all."""
    two, three = [await landings(harness, log, count, check=None) for count in (2, 3)]
    assert sum(map(len, three)) - sum(map(len, two)) <= MOST
    assert [step.count("update-ref") for step in three] == [1, 1], (
        "the first is proven already, the others land at once"
    )


@pytest.mark.slow
async def test_a_landing_of_work_that_was_proven_as_it_lands_takes_four_git_processes(harness, log):
    """AL-13: nothing is checked out, and nothing runs."""
    if (await machine_sandbox()).level == "none":
        pytest.skip("without a sandbox it is proven again")
    first, *_ = await landings(harness, log, 1, check="test -f a0")
    assert [call for call in first if call not in {"config", "rev-parse", "rev-list"}] == LANDING_PROVEN


async def test_an_attempt_in_a_used_worktree_takes_at_most_nine_git_processes(harness, log):
    """From its worktree to its candidate, without its verification, submodules and filters.

    One lists the settings of git, also because logins among them are kept from commands.
    """
    # A command would be repeated, each time in a checkout that is cleaned again.
    run = await harness.own(goal("g", act("a"), act("b")))
    first = await harness.queue(run, "a")
    await harness.run_attempt(first, {"a": ["echo x > a"]})
    second = await harness.queue(run, "b")
    log.unlink()
    await harness.run_attempt(second, {"b": ["echo x > b"]})
    opened, calls = log.read_text().split()[: len(OPENING)], log.read_text().split()[len(OPENING) :]
    assert opened == OPENING, "a worker that was not forked opens the repository itself: its version, and its location"
    # Which lines changed, among what links there are; which paths is known since they were committed.
    # Before its command, in case the attempt is cut off in it; before its commit, of what is new, staged or ignored.
    assert calls.count(UNCHANGED) == 3
    proving, paths = [UNCHANGED, "diff-tree", "ls-tree"], ["commit-tree", "diff-tree"]
    assert all(" ".join(each) in " ".join(calls) for each in (proving, paths))
    assert len(calls) - len(proving) - 2 <= MOST_OF_AN_ATTEMPT, " ".join(calls)
