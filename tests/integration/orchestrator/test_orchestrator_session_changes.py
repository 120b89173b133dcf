"""`revert`, `rebase` and `land` between owners: what they record is what the branch has."""

from pathlib import Path

import msgspec
import pytest
from inline_snapshot import snapshot

from scaffold.core.errors import GitError, ScaffoldError, UsageError
from scaffold.core.landing.branch_move import BranchMove
from scaffold.core.states import Active, Failed, Paused, Pending, Running, Saved
from scaffold.git import refs
from scaffold.landing.facts.landing_record import session_tip
from scaffold.landing.facts.stale_facts import dependent_facts
from scaffold.landing.queue.merge_queue import BatchLanded, MergeQueue
from scaffold.landing.taking.base_branch import BranchPlace, advance, find_branch
from scaffold.landing.taking.land import LandWish, place_of, prepare, require_place, settle_moves, sign_work, take
from scaffold.landing.taking.remake import CommitStyle
from scaffold.landing.taking.revert import find_interrupted
from scaffold.landing.taking.user_programs import require_own_programs
from scaffold.orchestrator.owner.run_lease import release_run
from scaffold.orchestrator.user_control.session_changes import rebase_run, revert_action
from scaffold.policy.trust_decision import FolderConfig, TrustStatus
from scaffold.views.changes.taken_work import read_taken
from support.harness import act, goal

CHECKED = "test -f list"
UNKNOWN = TrustStatus(FolderConfig(Path("/"), "", ()), "unknown")
WISH = LandWish(how="ff", message="{request}")


async def landed(harness, *specs, **commands):
    """Land the actions in order and release the run; return it."""
    run = await harness.own(*specs)
    queue = MergeQueue(harness.context, run)
    for key, command in commands.items():
        with harness.store.transaction():
            for each in harness.store.actions.for_run(run.id):
                if each.kind == "compound" and isinstance(each.state, Pending):
                    harness.store.actions.move(each.id, Running())
        await harness.work(run, key, command)
        step = await queue.step()
        assert isinstance(step, BatchLanded), step
    release_run(harness.store, run)
    return harness.store.runs.get(run.id)


def two_actions():
    return goal("g", act("a", check=CHECKED), act("b", check=CHECKED))


async def commit_on_base(harness, command):
    await harness.sh(f"{command}; git add -A; git commit -qm theirs")


@pytest.mark.slow
async def test_work_that_the_new_base_has_already_has_no_commit_of_its_own(harness):
    """BX-2: no attempt gets a foreign commit, `revert` refuses it, and only commits that were made are counted.

    `land --only` makes no commit for it either.
    """
    run = await landed(harness, two_actions(), a="echo x > a", b="echo y > b")
    await commit_on_base(harness, "echo y > b")
    assert (await prepare(harness.context, run, only(harness, run, "b"))).is_taken
    done = await rebase_run(harness.context, run)
    assert ([each.action for each in done.carried], [each.action for each in done.in_base]) == (["a"], ["b"])
    assert harness.attempts(run, "b")[-1].head_sha is None
    assert harness.attempts(run, "a")[-1].head_sha == done.commit
    tip = await harness.tip(run)
    with pytest.raises(UsageError, match="in the base"):
        await revert_action(harness.context, run, harness.action(run, "b"))
    assert await harness.tip(run) == tip
    run = harness.store.runs.get(run.id)
    assert [each.action for each in (await prepare(harness.context, run, WISH)).commits] == ["a"]


@pytest.mark.slow
async def test_work_that_other_work_has_already_is_not_told_as_part_of_the_base(harness):
    """BX-2: what removed it conflicts and is left out, so that it changes nothing; the base never had it."""
    three = goal("g", *(act(each, check=CHECKED) for each in "abc"))
    run = await landed(harness, three, a="echo x > x", b="rm x; echo ours > z", c="echo x > x")
    await commit_on_base(harness, "echo theirs > z")
    done = await rebase_run(harness.context, run)
    assert ([each.action for each in done.carried], done.in_base, done.open_again) == (["a"], (), ("b", "c"))


@pytest.mark.slow
async def test_a_base_with_all_of_the_work_is_not_told_as_one_on_which_nothing_landed(harness):
    """BX-2: all of it is taken already."""
    run = await landed(harness, two_actions(), a="echo x > a", b="echo y > b")
    await commit_on_base(harness, "echo x > a; echo y > b")
    done = await rebase_run(harness.context, run)
    assert (done.carried, len(done.in_base), done.commit) == ((), 2, done.base)
    run = harness.store.runs.get(run.id)
    assert (await prepare(harness.context, run, WISH)).is_taken


@pytest.mark.slow
@pytest.mark.parametrize("change", ["revert", "rebase"])
async def test_a_failed_run_can_be_resumed_after_its_branch_was_changed(harness, change):
    """BX-1: its failed goals and actions are open again, as after `retry`."""
    run = await landed(harness, two_actions(), a="echo x > a")
    failed = harness.action(run, "b")
    with harness.store.transaction():
        harness.store.actions.move(failed.id, Failed("tried"))
        harness.store.goals.move(failed.goal_id, Failed("an action failed"))
        harness.store.runs.move(run.id, Failed("a goal failed"))
    if change == "revert":
        await revert_action(harness.context, run, harness.action(run, "a"))
    else:
        await commit_on_base(harness, "echo z > c")
        await rebase_run(harness.context, run)
    assert isinstance(harness.store.runs.get(run.id).state, Paused)
    assert [type(each.state) for each in harness.store.goals.for_run(run.id)] == [Paused]
    assert harness.statuses(run)["b"] == "pending"


async def test_a_run_without_landed_work_is_refused_before_anything_moves(harness):
    """BX-2: a saved run, and one that has only begun; neither is told that a branch no longer exists."""
    run = await harness.open_run(two_actions())
    with harness.store.transaction():
        harness.store.runs.move(run.id, Saved())
    with pytest.raises(UsageError, match="has not started"):
        await rebase_run(harness.context, harness.store.runs.get(run.id))
    with harness.store.transaction():
        harness.store.runs.move(run.id, Active())
    await commit_on_base(harness, "echo z > c")
    before = await harness.sh("git for-each-ref")
    with pytest.raises(UsageError, match="nothing has landed"):
        await rebase_run(harness.context, harness.store.runs.get(run.id))
    assert await harness.sh("git for-each-ref") == before
    assert harness.store.branch_moves.for_run(run.id) == ()


@pytest.mark.slow
async def test_an_action_that_was_reverted_is_not_taken(harness):
    """BX-2: it has landed once, and is open again."""
    run = await landed(harness, two_actions(), a="echo x > a", b="echo y > b")
    await revert_action(harness.context, run, harness.action(run, "b"))
    run = harness.store.runs.get(run.id)
    with pytest.raises(UsageError, match="cannot be taken"):
        await prepare(harness.context, run, LandWish(how="ff", message="", only=harness.action(run, "b")))


@pytest.mark.slow
async def test_a_child_builds_on_what_its_compound_needs(harness):
    """BX-1: so its facts are checked again after a revert, and not before that holds again."""
    run = await landed(
        harness,
        goal(
            "g",
            act("a", check=CHECKED),
            act("c", kind="compound", needs=["a_done"], check=None, effects=("b_done",)),
            act("b", parent="c", check=CHECKED),
            wants=["b_done"],
        ),
        a="echo x > a",
        b="echo y > b",
    )
    assert [each.action.key for each in dependent_facts(harness.store, harness.action(run, "a"))] == ["b"]
    comes_along = (await prepare(harness.context, run, only(harness, run, "b"))).commits
    assert [each.action for each in comes_along] == ["a", "b"]
    done = await revert_action(harness.context, run, harness.action(run, "a"))
    assert [each.action.key for each in done.stale] == ["b"]
    assert harness.store.facts.unchecked_stale_of_run(run.id) == ()
    assert harness.store.facts.unchecked_stale(harness.action(run, "b").goal_id) == ()


@pytest.mark.slow
async def test_the_options_of_the_users_merges_do_not_keep_the_branch_from_moving(harness):
    """AL-12: `branch.NAME.mergeOptions` cannot turn a fast-forward into a squash."""
    run = await landed(harness, two_actions(), a="echo x > a")
    await harness.sh("git config branch.main.mergeOptions '--squash --autostash'")
    old, new = await refs.resolve(harness.context.git, "main"), await session_tip(harness.context, run)
    await advance(harness.context.repository, BranchPlace(where="here"), "main", old=old, new=new)
    assert await refs.resolve(harness.context.git, "main") == new
    assert await harness.sh("git status --porcelain --untracked-files=no") == ""


@pytest.mark.slow
async def test_a_pull_request_has_the_whole_branch_although_its_last_part_was_taken_alone(harness):
    """AL-14: with commits that are made again for it, too."""
    run = await landed(harness, two_actions(), a="echo x > a", b="echo y > b")
    await take(harness.context, run, await prepare(harness.context, run, only(harness, run, "b")))
    signed_off = LandWish(how="pr", message="", style=CommitStyle(sign_off=True))
    assert [each.action for each in (await prepare(harness.context, run, signed_off)).commits] == ["a", "b"]


def only(harness, run, key):
    return LandWish(how="ff", message="", only=harness.action(run, key))


async def test_git_runs_no_program_that_only_an_untrusted_folder_names(harness):
    """TR-1: outside of the sandbox, with the user's environment; the refusal names the setting."""
    for name in ("gpg.program", "credential.https://x.helper", "url.ext::evil.insteadOf"):
        await require_own_programs(harness.context, UNKNOWN)
        await harness.sh(f"git config --global {name} mine")
        await require_own_programs(harness.context, UNKNOWN)
        await harness.sh(f"git config {name} evil")
        with pytest.raises(ScaffoldError, match=f"`{name.lower()}`"):
            await require_own_programs(harness.context, UNKNOWN)
        await require_own_programs(harness.context, msgspec.structs.replace(UNKNOWN, state="trusted"))
        await harness.sh(f"git config --unset {name}; git config --global --unset {name}")


async def test_a_worktree_that_is_rebasing_the_branch_is_named_without_a_command_that_disturbs_it(harness):
    """AL-12: git would move the branch at the end of the rebase."""
    await harness.sh("git switch -qc other; git worktree add -q ../busy main; cd ../busy; git switch -q main")
    await harness.sh("cd ../busy; echo x > x; git add x; git commit -qm x; git rebase -q --exec false HEAD^ || true")
    place = await find_branch(harness.context.repository, "main", "HEAD", [], again="")
    assert "is unfinished in" in place.obstacle
    assert "busy" in place.obstacle
    assert place.fix == snapshot("Finish or abort it, then try again.")


@pytest.mark.slow
async def test_the_lease_is_kept_while_the_branch_is_changed(harness):
    """BX-8: otherwise another process would take the run over in the middle of a long rebase."""
    run = await landed(harness, two_actions(), a="echo x > a")
    await commit_on_base(harness, "echo z > c")
    beats = harness.store.runs.get(run.id).heartbeat_at
    assert await rebase_run(harness.context, run) is not None
    now = harness.store.runs.get(run.id)
    assert (now.owner, now.heartbeat_at != beats) == (None, True)


@pytest.mark.slow
async def test_a_move_whose_commit_git_has_deleted_did_not_happen(harness):
    """BX-15: a process died before the branch moved, and `git gc` came later."""
    run = await landed(harness, two_actions(), a="echo x > a")
    tip = await refs.resolve(harness.context.git, run.session_branch)
    gone = BranchMove(
        id="m", run_id=run.id, purpose="ff", branch="main", head=tip, old=tip, new="1" * 40, created_at=run.created_at
    )
    with harness.store.transaction(durable=True):
        harness.store.branch_moves.add(gone)
        harness.store.branch_moves.add(msgspec.structs.replace(gone, id="n", purpose="revert"))
    await find_interrupted(harness.context, run)
    await settle_moves(harness.context, run)
    assert harness.store.branch_moves.open_of_run(run.id) == ()


@pytest.mark.slow
async def test_nothing_is_signed_before_the_work_is_really_taken(harness):
    """AL-14: not for a question that is answered with no, nor for a place where the branch cannot move."""
    run = await landed(harness, two_actions(), a="echo x > a")
    log = harness.repo.parent / "signed"
    await harness.sh(f"printf '#!/bin/sh\necho >> {log}\nexit 1\n' > ../gpg; chmod +x ../gpg")
    await harness.sh('git config gpg.program "$PWD/../gpg"')
    wish = LandWish(how="ff", message="", style=CommitStyle(sign=True))
    work = await prepare(harness.context, run, wish)
    await require_place(harness.context, run, work)
    assert ([each.action for each in work.commits], log.exists()) == (["a"], False)
    with pytest.raises(GitError, match="could not sign"):
        await sign_work(harness.context, run, wish, work)
    assert log.exists()


@pytest.mark.slow
async def test_no_command_is_printed_that_takes_commits_before_they_are_signed(harness):
    """AL-14: nor commits that no ref keeps; the command that signs them is the one to repeat."""
    run = await landed(harness, two_actions(), a="echo x > a")
    await harness.sh("git switch -qc other; git worktree add -q ../theirs main")
    wish = LandWish(how="ff", message="")
    plain = await place_of(harness.context, run, await prepare(harness.context, run, wish))
    assert f"merge --ff-only {run.session_branch}" in plain.fix
    for unsigned in (LandWish(how="ff", message="", style=CommitStyle(sign=True)), LandWish(how="squash", message="m")):
        work = await prepare(harness.context, run, unsigned)
        place = await place_of(harness.context, run, work)
        assert f"theirs' && scaffold land {run.id} --{work.how}`" in place.fix.replace("theirs &&", "theirs' &&")
        assert work.new[:7] not in place.fix


@pytest.mark.slow
async def test_work_that_the_user_has_undone_is_not_told_as_taken(harness):
    """BX-2: git says whether the branch has it, so the undo that `land` prints counts."""
    run = await landed(harness, two_actions(), a="echo x > a")
    old = await refs.resolve(harness.context.git, "main")
    await take(harness.context, run, await prepare(harness.context, run, WISH))
    git, store = harness.context.git, harness.store
    assert [each.branch for each in (await read_taken(git, store, run)).moves] == ["main"]
    assert (await read_taken(git, store, run)).whole
    await harness.sh(f"git reset -q --keep {old}")
    found = await read_taken(git, store, run)
    assert (found.moves, found.whole) == ((), False)
