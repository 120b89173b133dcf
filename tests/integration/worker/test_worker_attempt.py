"""One attempt with a scripted model; everything else is real."""

import shutil

import pytest
from inline_snapshot import snapshot

from builders import commit_all
from scaffold.core.errors import GitError, StaleFence
from scaffold.core.states import Active
from scaffold.git import refs
from scaffold.git.checkouts import worktree
from scaffold.run.failures.attempt_end import AttemptEnd, end_attempt
from scaffold.worker.attempt_records import CandidateReady
from scaffold.worker.workspace.attempt_worktree import rescue_and_remove
from support.harness import AUTHOR, COMMITTER, DEAD_PROCESS, UNSANDBOXED, act, goal


async def begin(harness, *, check=None, **settings):
    """Own a run with one action; the agent and its check have no sandbox unless `sandbox` is given."""
    return await harness.own(goal("g", act("a", check=check)), **(UNSANDBOXED | settings))


async def under_way(harness, run, phase):
    """Return an attempt whose worker is gone, and git in its worktree, in which there is work."""
    attempt = await harness.queue(run, "a")
    path = harness.context.attempt_folder(run.id, attempt.id)
    git = await worktree.add(harness.context.repository, path, attempt.base_sha)
    await harness.sh("echo x > a", cwd=path)
    harness.claim(attempt, phase, worktree=str(path))
    return attempt, git


def rescued(harness, attempt):
    return refs.resolve(harness.context.git, refs.rescue_ref(attempt.id))


async def test_a_worker_submits_a_pinned_candidate_and_leaves_no_worktree(harness):
    """OR-1, AL-12, SC-11: claimed, done, checked, submitted with its answer; the user's checkout is untouched."""
    run = await begin(harness, check="test -f a", sandbox="auto")
    ending = await harness.work(run, "a", "echo x > a; echo dirt > ignored")
    (attempt,) = harness.attempts(run, "a")
    assert ending == CandidateReady(attempt.head_sha)
    assert (attempt.status, attempt.phase, attempt.worker) == ("claimed", "candidate", DEAD_PROCESS)
    assert attempt.result == "done with a"
    assert harness.statuses(run) == {"a": "landing"}
    assert await refs.resolve(harness.context.git, refs.work_ref(attempt.id)) == attempt.head_sha
    assert await harness.worktrees(spare=False) == 0
    assert sorted(path.name for path in harness.repo.iterdir()) == [".git", ".scaffold", "README", "list"]


async def test_failures_are_returned_to_the_same_attempt(harness):
    """AL-6: the failure is the next prompt; the second turn passes."""
    run = await begin(harness, check="grep -q two a")
    assert isinstance(await harness.work(run, "a", "echo one > a", "echo two > a"), CandidateReady)
    assert len(harness.attempts(run, "a")) == 1
    assert "The check `grep -q two a` failed" in (harness.repo / ".scaffold/logs/g/a.jsonl").read_text()


async def test_the_tier_limits_the_iterations(harness):
    """AL-6: after the last iteration the attempt has failed, and says why."""
    run = await begin(harness, check="test -f never", iterations=2)
    ending = await harness.work(run, "a", "echo 1 > a", "echo 2 > a", "touch never")
    assert isinstance(ending, AttemptEnd)
    assert ending.outcome == "contract_failed"
    assert ending.error.startswith("The check `test -f never` failed")
    (attempt,) = harness.attempts(run, "a")
    assert await harness.show(f"{attempt.head_sha}:a") == "2"
    assert await rescued(harness, attempt) == attempt.head_sha


async def test_a_turn_that_changes_nothing_ends_the_attempt(harness):
    run = await begin(harness, check="test -f never")
    ending = await harness.work(run, "a", "echo 1 > a", "echo 1 > a")
    unchanged = await harness.work(run, "a", "")
    assert ("`test -f never`" in ending.error, ending.error.endswith("\nThe agent said: done with a")) == (True, True)
    assert unchanged.error.splitlines() == snapshot(
        ["the agent said it was done, but nothing changed", "The agent said: done with a"]
    )


async def test_files_left_by_checks_are_not_part_of_the_work(harness):
    run = await begin(harness, check="touch made; echo changed > list; grep -q 2 a")
    await harness.work(run, "a", "echo 1 > a", "echo 2 > a")
    (attempt,) = harness.attempts(run, "a")
    assert await harness.sh(f"git diff --name-only {attempt.base_sha} {attempt.head_sha}") == "a"


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [pytest.param({"sandbox": "auto"}, id="default"), pytest.param({}, id="unsandboxed", marks=pytest.mark.slow)],
)
async def test_the_checks_of_each_commit_have_a_new_temporary_folder_and_cache(harness, settings):
    """AL-9: also without a sandbox. The checks of the first commit leave a file in both, and fail."""
    left = ('"${TMPDIR:?}/left"', '"${XDG_CACHE_HOME:?}/left"')
    check = " && ".join(f"test ! -e {path} && touch {path}" for path in left)
    run = await begin(harness, check=f"{check} && test -f a", **settings)
    assert isinstance(await harness.work(run, "a", "echo x > b", "echo x > a"), CandidateReady)
    assert not harness.context.temporary(run.id, harness.attempts(run, "a")[0].id).exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        "echo x > a; git add a; git commit -qm mine",
        "git checkout -qb mine; echo x > a; git add a; git commit -qm mine",
        "git checkout -qb mine; echo x > a",
        "echo x > a; git add a; touch $(git rev-parse --git-dir)/index.lock",
        "printf x > a; printf y > \"$(printf 'caf\\351\\nbar')\"",
    ],
    ids=["commits", "commits on a branch", "checks a branch out", "leaves a lock", "odd names"],
)
async def test_an_agent_may_use_git_freely(harness, command):
    """We commit; agents may, but need not."""
    run = await begin(harness, sandbox="auto")
    assert isinstance(await harness.work(run, "a", command), CandidateReady)
    (attempt,) = harness.attempts(run, "a")
    assert "a" in (await harness.sh(f"git diff --name-only {attempt.base_sha} {attempt.head_sha}")).split()
    assert await harness.tip(run) == attempt.base_sha


async def test_removing_everything_is_a_change_too(harness):
    run = await begin(harness, check="test ! -e list")
    assert isinstance(await harness.work(run, "a", "rm -r *"), CandidateReady)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("broken", "expected"),
    [
        ("git init -q sub; echo x > sub/a", "another git repository in sub"),
        ("git checkout -q --orphan new; echo x > a", "`git rev-list"),
        ("git checkout -q --orphan new; echo x > a; git add a; git commit -qm new", "HEAD does not contain"),
    ],
    ids=["nested repository", "unborn branch", "no history"],
)
async def test_uncommittable_work_is_returned_to_the_agent(harness, broken, expected):
    """It may repair in the same attempt what it did to git."""
    run = await begin(harness)
    mended = "rm -rf sub; git checkout -qf --detach main; echo x > a"
    assert isinstance(await harness.work(run, "a", broken, mended), CandidateReady)
    assert expected in (harness.repo / ".scaffold/logs/g/a.jsonl").read_text()


@pytest.mark.slow
@pytest.mark.parametrize(
    "ruin",
    [
        "git init -q sub; echo y > sub/b",
        "git init -q sub; cd sub; echo y > b; git add b; git commit -qm b; git init -q deeper; echo z > deeper/c",
        'git checkout -q --orphan new; touch "$(git rev-parse --git-dir)/index.lock"; rm .git',
        'rm "$(git rev-parse --git-dir)/HEAD"',
    ],
    ids=["unborn inside", "repositories inside", "locked and orphaned", "no HEAD"],
)
async def test_no_work_is_lost_whatever_was_done_to_git(harness, tmp_path, ruin):
    """BX-3, AL-19: whatever the state of the worktree, its files are pinned before it is removed."""
    run = await begin(harness)
    script = tmp_path / "ruin.sh"  # its name is all that the policy gets to see
    script.write_text(ruin)
    ending = await harness.work(run, "a", f"echo x > a; sh {script}")
    assert isinstance(ending, AttemptEnd)
    (attempt,) = harness.attempts(run, "a")
    assert attempt.head_sha == await rescued(harness, attempt)
    files = (await harness.sh(f"git ls-tree -r --name-only {attempt.head_sha}")).split("\n")
    assert {"a", "list", "README"} <= set(files)
    assert "sub" not in ruin or "sub/b" in files
    assert "deeper" not in ruin or "sub/deeper/c" in files
    assert await harness.worktrees(spare=False) == 0
    assert harness.statuses(run) == {"a": "pending"}


@pytest.mark.slow
@pytest.mark.parametrize(
    "ruin",
    ["rm .git", "rm .git; git init -q; git add .; git commit -qm mine", "rm .git; mkdir .git"],
    ids=["no .git", "another .git", "a bare folder"],
)
async def test_work_is_handed_in_whatever_a_worktree_s_git_says(harness, tmp_path, ruin):
    """BX-3, BX-9: the registration counts that was made with the worktree."""
    run = await begin(harness)
    script = tmp_path / "ruin.sh"
    script.write_text(ruin)
    assert isinstance(await harness.work(run, "a", f"echo x > a; sh {script}"), CandidateReady)
    (attempt,) = harness.attempts(run, "a")
    assert await harness.sh(f"git diff --name-only {run.base_sha} {attempt.head_sha}") == "a"


@pytest.mark.slow
async def test_a_deleted_worktree_is_a_failure_that_can_be_retried(harness):
    run = await begin(harness, check="test -f a", sandbox="auto")
    assert (await harness.work(run, "a", 'echo x > a; rm -rf "$PWD"')).outcome == "contract_failed"
    assert await harness.worktrees(spare=False) == 0
    assert isinstance(await harness.work(run, "a", "echo x > a"), CandidateReady)


@pytest.mark.slow
async def test_a_deadline_ends_the_attempt_and_pins_its_work(harness):
    """BX-3: in the middle of a command."""
    run = await begin(harness, attempt_timeout_s=3.0)  # on a busy machine one second may pass before the command starts
    ending = await harness.work(run, "a", "echo x > a; sleep 60")
    assert ending == AttemptEnd("timeout", "not finished after 3 s")
    (attempt,) = harness.attempts(run, "a")
    assert await harness.show(f"{attempt.head_sha}:a") == "x"


@pytest.mark.slow
async def test_a_deadline_applies_while_the_work_is_checked(harness):
    run = await begin(harness, check="sleep 60", attempt_timeout_s=1.0)
    assert (await harness.work(run, "a", "echo x > a")).outcome == "timeout"
    assert harness.statuses(run) == {"a": "pending"}


async def test_without_budget_no_request_starts_and_no_failure_is_counted(harness):
    """SC-20: an exhausted budget does not count as the action's own failure."""
    run = await begin(harness, budget_usd=1.5)
    ending = await harness.work(run, "a", "echo x > a", "", "", usd=1.0)
    assert isinstance(ending, CandidateReady), "two requests: the second began with 1.0 spent"
    other = await begin(harness, budget_usd=0.5)
    assert (await harness.work(other, "a", "echo x > a", usd=1.0)).outcome == "budget"
    assert harness.store.actions.failures(harness.action(other, "a").id) == 0
    assert harness.statuses(other) == {"a": "pending"}


@pytest.mark.slow
async def test_an_action_has_three_own_failures(harness):
    """SC-20: the third fails it, and its dependents are blocked; AL-19: with the reason."""
    run = await harness.own(goal("g", act("a", check="false"), act("b", needs=["a_done"])))
    for number in (1, 2, 3):
        assert harness.statuses(run) == {"a": "pending", "b": "pending"}, number
        await harness.work(run, "a", "echo x > a")
    assert harness.statuses(run) == {"a": "failed", "b": "blocked"}
    assert harness.action(run, "b").state.reason == f"dependency_failed:{harness.action(run, 'a').id}"


async def test_an_attempt_ended_by_another_process_writes_nothing_more(harness):
    """BX-8: the fence of a worker."""
    run = await begin(harness)
    attempt = await harness.queue(run, "a")
    end_attempt(harness.store, run, attempt.id, AttemptEnd("lost", "overtaken"))
    with pytest.raises(StaleFence):
        await harness.run_attempt(attempt, {"a": ["echo x > a"]})
    assert harness.attempt(attempt.id).outcome == "lost"


async def test_a_worker_cannot_end_an_attempt_it_has_submitted(harness):
    """BX-2: a candidate belongs to the owner, whatever happens to its worker."""
    run = await begin(harness)
    await harness.work(run, "a", "echo x > a")
    (attempt,) = harness.attempts(run, "a")
    with pytest.raises(StaleFence, match="submitted its candidate"):
        end_attempt(harness.store, run, attempt.id, AttemptEnd("executor_failed", "a late crash"), fence=attempt.fence)
    assert harness.attempts(run, "a") == (attempt,)
    assert harness.statuses(run) == {"a": "landing"}


async def test_a_superseded_owner_ends_no_attempt(harness):
    """BX-8: the fence of an owner."""
    run = await begin(harness)
    attempt = await harness.queue(run, "a")
    harness.orphan(run)
    with pytest.raises(StaleFence):
        end_attempt(harness.store, run, attempt.id, AttemptEnd("lost", "a stale owner"))
    assert harness.attempt(attempt.id).status == "queued"


async def test_an_error_with_undecodable_bytes_can_be_stored(harness):
    run = await begin(harness)
    attempt = await harness.queue(run, "a")
    end_attempt(harness.store, run, attempt.id, AttemptEnd("lost", "caf\udce9"))
    assert harness.attempt(attempt.id).error == "caf\\udce9"


async def test_pinned_work_is_not_overwritten_by_a_half_removed_worktree(harness):
    """BX-3: killed between pin and removal."""
    run = await begin(harness)
    attempt, git = await under_way(harness, run, "executing")
    await refs.pin(harness.context.git, refs.rescue_ref(attempt.id), attempt.base_sha)
    assert await rescue_and_remove(harness.context, run, attempt.id) == attempt.base_sha
    assert not git.cwd.exists()
    assert isinstance(run.state, Active)


async def test_work_is_pinned_from_its_worktree_even_if_the_repository_has_moved(harness):
    """BX-3: worktrees are in a folder named after the repository's location."""
    run = await begin(harness)
    attempt = await harness.queue(run, "a")
    path = harness.context.cache / "runs" / "before" / attempt.id
    await worktree.add(harness.context.repository, path, attempt.base_sha)
    await harness.sh("echo x > a", cwd=path)
    harness.claim(attempt, "executing", worktree=str(path))
    assert await rescue_and_remove(harness.context, run, attempt.id) is not None
    assert await harness.show(f"{refs.rescue_ref(attempt.id)}:a") == "x"


async def test_work_that_is_temporarily_absent_from_its_worktree_is_pinned_as_committed(harness):
    """BX-3, BX-15: killed while its tests ran on the base."""
    run = await begin(harness)
    attempt, git = await under_way(harness, run, "verifying")
    work = await commit_all(git, "work", author=AUTHOR, committer=COMMITTER)
    await refs.pin(harness.context.git, refs.work_ref(attempt.id), work)
    await worktree.restore(git, attempt.base_sha)
    assert await rescue_and_remove(harness.context, run, attempt.id) == work
    assert not git.cwd.exists()


async def test_work_that_was_judged_is_pinned_with_what_its_agent_has_done_since(harness):
    """BX-3: what was pinned for the checks of an earlier version does not replace it."""
    run = await begin(harness)
    attempt, git = await under_way(harness, run, "executing")
    judged = await commit_all(git, "work", author=AUTHOR, committer=COMMITTER)
    await refs.pin(harness.context.git, refs.work_ref(attempt.id), judged)
    await harness.sh("echo later > b", cwd=git.cwd)
    pinned = await rescue_and_remove(harness.context, run, attempt.id)
    assert [await harness.show(f"{pinned}:{name}") for name in ("a", "b")] == ["x", "later"]
    assert await refs.resolve(harness.context.git, refs.work_ref(attempt.id)) is None


@pytest.fixture
def killed(tmp_path, monkeypatch):
    """A file: the first git that reads a tree while it exists finds the lock of a killed process."""
    mark, folder = tmp_path / "killed", tmp_path / "programs"
    folder.mkdir()
    lock = f'[ ! -e "{mark}" ] || {{ rm "{mark}"; : > "$GIT_INDEX_FILE.lock"; }}'
    (folder / "git").write_text(
        f'#!/bin/sh\ncase "$*" in *read-tree*) {lock};; esac\nexec {shutil.which("git")} "$@"\n'
    )
    (folder / "git").chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=":")
    return mark


@pytest.mark.slow
async def test_work_is_pinned_after_a_rescue_in_which_git_was_killed(killed, harness):
    """BX-3, BX-15: the remaining lock does not stop the next one."""
    run = await begin(harness)
    attempt, _ = await under_way(harness, run, "executing")
    killed.touch()
    with pytest.raises(GitError, match=r"the lock .* exists"):
        await rescue_and_remove(harness.context, run, attempt.id)
    assert await rescue_and_remove(harness.context, run, attempt.id) is not None
    assert await harness.show(f"{refs.rescue_ref(attempt.id)}:a") == "x"


async def test_a_half_checked_out_worktree_is_not_taken_for_work(harness):
    """Killed during the checkout: missing files were not deleted by the agent."""
    run = await begin(harness)
    attempt = await harness.queue(run, "a")
    path = harness.context.attempt_folder(run.id, attempt.id)
    await harness.sh(f"git worktree add -q --detach --no-checkout '{path}' main")
    assert await rescue_and_remove(harness.context, run, attempt.id) is None
    assert await harness.worktrees(spare=False) == 0
