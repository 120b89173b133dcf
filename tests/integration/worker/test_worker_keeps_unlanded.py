"""What an attempt leaves is kept before its worktree is cleaned: ignored files, staged versions, abandoned commits."""

import stat

import pytest

from scaffold.git import refs
from scaffold.orchestrator.owner.recovery.interrupted_run import recover_run
from scaffold.orchestrator.upkeep.unlanded import list_archived, list_unlanded
from scaffold.run import ignored_archive
from scaffold.run.ignored_archive import archive_folder, restore_archive
from scaffold.worker.contract.checkout_files import ignore_projections
from scaffold.worker.workspace.attempt_worktree import open_workspace, rescue_again, rescue_and_remove
from support.harness import UNSANDBOXED, act, goal

IGNORED = "printf '%s\\n' .env '*.log' 'build/' 'data/' '.venv*/' > .gitignore; git add .; git commit -qm ignore"
MAKE = (
    'test "$1" && head -c 25000000 /dev/zero > big.log;'
    "echo TOKEN=$((6*7)) > .env; echo note > a.log;"
    "mkdir -p build data/deep .venv2; echo o > build/o; echo d > data/deep/d;"
    "echo home > .venv2/pyvenv.cfg; echo lib > .venv2/lib; ln -s /etc/passwd data/link; mkfifo data/pipe"
)
KEPT = (".env", "a.log", "data/deep/d")


async def ready(harness, *actions, **settings):
    (harness.repo / "make.sh").write_text(MAKE)
    await harness.sh(IGNORED)
    return await harness.own(goal("g", *(actions or (act("a", check="test -f a"),))), **settings)


def archived(harness):
    return list_archived(harness.context.repository.common_dir, harness.store)


def told_of(harness, run, text):
    """Return the notices with the text."""
    return [each for each in harness.notices(run) if text in each]


async def begun(harness, run, key="a"):
    """Return an attempt whose agent works, and its worktree."""
    attempt = await harness.queue(run, key)
    workspace = await open_workspace(harness.context, attempt)
    harness.claim(attempt, "executing", worktree=str(workspace.path))
    return harness.attempt(attempt.id), workspace.path


@pytest.mark.slow
@pytest.mark.parametrize("command", ["touch a; sh make.sh", "sh make.sh large"], ids=["landing", "failing"])
async def test_ignored_files_are_kept_as_private_files_and_never_as_objects(harness, tmp_path, command):
    """BX-3, BX-10: before the checks clean the worktree; what tools make again is left out, links and pipes too.

    What is too large is told, and keeps no secret from being kept.
    """
    run = await ready(harness, iterations=1)
    await harness.work(run, "a", command)
    assert ["keep.ignored_mb" in each for each in told_of(harness, run, "big.log (25.0 MB)")] == [True] * (
        "large" in command
    )
    (archive,) = archived(harness)
    assert archive.files == KEPT
    folder = archive_folder(harness.context.repository.common_dir, archive.attempt).path
    assert (folder / ".env").read_text() == "TOKEN=42\n"
    assert stat.S_IMODE((folder / ".env").stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == stat.S_IMODE(folder.parent.stat().st_mode) == 0o700
    everything = await harness.sh("git cat-file --batch --batch-all-objects --buffer | strings")
    assert "TOKEN=42" not in everything
    assert restore_archive(harness.context.repository.common_dir, archive.attempt, tmp_path / "back") == KEPT
    assert (tmp_path / "back" / "data" / "deep" / "d").read_text() == "d\n"


@pytest.mark.slow
async def test_a_later_version_of_an_ignored_file_replaces_the_earlier_one(harness):
    """BX-3: also where a file has become a folder."""
    run = await ready(harness, iterations=2)
    await harness.work(
        run, "a", "touch b; echo 1 > a.log; echo old > x.log", "touch a; echo 2 > a.log; mkdir x.log; echo in > x.log/y"
    )
    (archive,) = archived(harness)
    folder = archive_folder(harness.context.repository.common_dir, archive.attempt).path
    assert archive.files == ("a.log", "x.log/y")
    assert (folder / "a.log").read_text() == "2\n"


@pytest.mark.parametrize("broken", ["", "rm -rf .git"], ids=["", "damaged"])
async def test_a_file_that_cannot_be_kept_is_told_and_blocks_neither_the_pin_nor_others(harness, broken):
    """BX-3: what stands in its way there, or a full disk; a name of the greatest length is no reason."""
    run = await ready(harness)
    attempt, path = await begun(harness, run)
    long = "l" * 251 + ".log"
    await harness.sh(f"echo 1 > {long}; mkdir sub; echo 2 > sub/x.log; echo 3 > z.log; echo w > w; {broken}", path)
    folder = archive_folder(harness.context.repository.common_dir, attempt.id).path
    folder.mkdir(parents=True)
    (folder / "sub").symlink_to("sub")
    pinned = await rescue_and_remove(harness.context, run, attempt.id)
    assert await harness.sh(f"git show {pinned}:w") == "w"
    assert {*archived(harness)[0].files} - {"sub"} == {long, "z.log"}
    assert len(told_of(harness, run, "sub/x.log (0.0 MB)")) == 1


async def test_ignored_files_that_git_does_not_list_are_told_and_end_nothing(harness):
    """BX-3"""
    run = await ready(harness)
    attempt, _ = await begun(harness, run)
    await ignored_archive.archive_ignored(
        harness.context, run, attempt, harness.context.git, env={"GIT_DIR": "/no/such/repository"}
    )
    assert told_of(harness, run, f"ignored files of attempt {attempt.id} will be lost with its worktree")


@pytest.mark.slow
async def test_of_very_many_files_secrets_and_single_ones_are_looked_at_first(harness):
    """BX-3: the rest is counted and told."""
    run = await ready(harness)
    attempt, path = await begun(harness, run)
    most = ignored_archive.MOST_LOOKED_AT
    await harness.sh(f"mkdir data; seq -f data/%g {most} | xargs touch; echo k > data/x.key; touch a.log", path)
    await rescue_and_remove(harness.context, run, attempt.id)
    (archive,) = archived(harness)
    assert {"a.log", "data/x.key"} <= {*archive.files}
    assert told_of(harness, run, f"2 that were not looked at, beyond the first {most}")


@pytest.mark.slow
async def test_versions_that_were_staged_in_a_turn_are_pinned_before_all_files_are_staged(harness):
    """BX-3: each turn's; what is staged as it is in the worktree needs no pin."""
    actions = act("a", check="test -f a"), act("b", check="test -f b")
    run = await ready(harness, *actions, iterations=2, **UNSANDBOXED)
    await harness.work(run, "a", "echo 1 > s; git add s; echo 2 > s", "echo 3 > s; git add s; echo 4 > s; touch a")
    await harness.work(run, "b", "echo 1 > b; git add b; echo 2 > c")
    (first,), (second,) = harness.attempts(run, "a"), harness.attempts(run, "b")
    keep = refs.keep_ref(first.id)
    assert await harness.sh(f"git show {keep}:s") == "3"
    assert await harness.sh(f"git show {keep}^:s") == "1"
    assert await refs.resolve(harness.context.git, refs.keep_ref(second.id)) is None


async def test_staged_versions_and_abandoned_commits_are_pinned(harness):
    """BX-3: neither is in the files of the worktree."""
    run = await ready(harness)
    attempt, path = await begun(harness, run)
    await harness.sh(
        "echo one > f; git add f; git commit -qm lost; git reset -q --hard HEAD^;"
        "echo staged > s; git add s; echo edited > s; echo new > n",
        path,
    )
    pinned = await rescue_and_remove(harness.context, run, attempt.id)
    show = harness.sh
    assert await show(f"git show {pinned}:s") == "edited"
    assert await show(f"git show {pinned}:n") == "new"
    keep = refs.keep_ref(attempt.id)
    assert await show(f"git show {keep}:s") == "staged"
    assert await show(f"git show {keep}^:f") == "one"
    (work,) = await list_unlanded(harness.context.git, harness.store)
    assert work.also == (await show(f"git rev-parse {keep}"))
    assert not path.exists()


async def test_work_that_changed_nothing_is_not_listed(harness):
    """DR-9: the last step of a story pins its commit, whatever it did."""
    run = await ready(harness)
    attempt, path = await begun(harness, run)
    await refs.pin(harness.context.git, refs.work_ref(attempt.id), attempt.base_sha)
    assert await list_unlanded(harness.context.git, harness.store) == ()
    await harness.sh("echo new > n; git add n; git commit -qm n", path)
    head = await harness.sh("git rev-parse HEAD", path)
    await refs.pin(harness.context.git, refs.work_ref(attempt.id), head)
    (work,) = await list_unlanded(harness.context.git, harness.store)
    assert work.files == ("n",)


async def test_the_agents_own_commits_are_in_the_history_of_what_is_pinned(harness):
    """BX-3, DR-9: the patch against the base has them, and new files, too."""
    run = await ready(harness)
    ignore_projections(harness.context)
    attempt, path = await begun(harness, run)
    await harness.sh("echo one > f; git add f; git commit -qm mine; echo two > g; printf 'a\\0b' > bin", path)
    await recover_run(harness.context, run)
    pinned = harness.attempt(attempt.id).head_sha
    assert (await harness.sh(f"git log --format=%s {run.base_sha}..{pinned}")).splitlines()[-1] == "mine"
    assert await harness.sh("git for-each-ref refs/scaffold/keep/") == ""
    patch = harness.repo / ".scaffold" / "restarts" / "g-a-1.diff"
    assert stat.S_IMODE(patch.stat().st_mode) == 0o600
    await harness.sh(f"git worktree add -q --detach ../again {run.base_sha}")
    again = harness.repo.parent / "again"
    assert await harness.sh(f"git apply '{patch}'; cat f g; wc -c < bin", again) == "one\ntwo\n3"


async def test_work_that_fails_for_good_leaves_its_patch_in_failures(harness):
    """DR-9"""
    run = await ready(harness, iterations=1, attempts=1)
    await harness.work(run, "a", "echo wrong > b")
    assert harness.action(run, "a").state.__class__.__name__ == "Failed"
    assert "+wrong" in (harness.repo / ".scaffold" / "failures" / "g-a.diff").read_text()


async def test_each_change_that_a_reviewer_makes_is_pinned(harness):
    """BX-3: a second one on top of the first."""
    run = await ready(harness)
    attempt, path = await begun(harness, run)
    first = await rescue_of(harness, run, attempt, path, "echo one > f")
    second = await rescue_of(harness, run, attempt, path, "rm f; echo two > g")
    assert await harness.sh(f"git show {second}:g") == "two"
    assert await harness.sh(f"git rev-parse {second}^") == first
    assert await refs.resolve(harness.context.git, refs.rescue_ref(attempt.id)) == second


async def rescue_of(harness, run, attempt, path, change):
    await harness.sh(change, path)
    return await rescue_again(harness.context, run, attempt.id)


@pytest.mark.slow
async def test_the_log_of_an_earlier_attempt_is_not_taken_for_the_next_ones(harness):
    """BX-3: worktrees are reused."""
    run = await ready(harness, act("a", check="test -f a"), act("b", check="false"), iterations=1)
    await harness.work(run, "a", "touch a")
    await harness.work(run, "b", "touch b")
    assert await harness.sh("git for-each-ref refs/scaffold/keep/") == ""
