"""Tasks that land are marked in their list, in the commit that lands them: real git, real checks."""

import pytest
from inline_snapshot import snapshot

from integration.landing.builders import interrupted_landing
from scaffold.core.ids import Commit
from scaffold.core.run_settings import WriteBack
from scaffold.git import refs
from scaffold.git.commits import commit_tree, tree_of
from scaffold.landing.facts.landing_record import resolve_intent
from scaffold.landing.queue.merge_queue import MergeQueue
from scaffold.landing.queue.step_result import BatchLanded, CandidateRefused
from scaffold.landing.taking.land import LandWish, prepare
from scaffold.landing.taking.rebase import plan_rebase
from scaffold.landing.taking.revert import changed_by, move_session_branch, plan_revert
from scaffold.run.task_list import own_changed_paths, own_fingerprint
from support.harness import AUTHOR, COMMITTER, act, goal

PLACE = "specs/my list.md"
LIST = "# Tasks\r\n\n- [ ] T001 one\n- [ ] T002 two\n- [-] T003 three\n  <!-- kept -->\n- [ ] T004 four\n"
LISTED = WriteBack(path=PLACE, format="spec-kit", tracked=True)
KEYS = ("T001", "T002", "T003", "T004")


def task(key, **fields):
    return act(key, check=f"test -f {key}", **fields)


def marked(*keys, text=LIST):
    for key in keys:
        text = text.replace(f"[ ] {key}", f"[x] {key}").replace(f"[-] {key}", f"[x] {key}")
    return text


@pytest.fixture
async def run(harness):
    return await begin(harness, *map(task, KEYS))


async def begin(harness, *actions):
    (harness.repo / "specs").mkdir()
    (harness.repo / PLACE).write_bytes(LIST.encode())
    await harness.sh("git add -A; git commit -qm list")
    return await harness.own(goal("g", *actions), write_back=LISTED)


async def candidates(harness, run, **commands):
    """Make a candidate of each task, all of them on the same base."""
    attempts = [await harness.queue(run, key) for key in commands]
    for attempt, (key, command) in zip(attempts, commands.items(), strict=True):
        await harness.run_attempt(attempt, {key: [command]})


async def land_all(harness, run):
    queue, steps = MergeQueue(harness.context, run), []
    while harness.store.attempts.ids_waiting_to_land(run.id):
        steps.append(await queue.step())
    await queue.close()
    return steps


async def listed(harness, run, at=""):
    return (await harness.context.git("cat-file", "blob", f"{at or run.session_branch}:{PLACE}")).out.decode()


async def user_commits(harness, branch, text):
    """Commit another version of the list to a branch, as its user."""
    await harness.sh(f"git worktree add -q ../user {branch}")
    place = harness.repo.parent / "user" / PLACE
    if text is None:
        place.unlink()
    else:
        place.write_bytes(text.encode())
    await harness.sh("git commit -qam edited; git worktree remove --force .", harness.repo.parent / "user")


@pytest.mark.slow
async def test_tasks_that_land_together_are_marked_each_by_its_own_commit(harness, run):
    """DR-1, AL-13: in adjacent lines, on one base; the tree that was proven lands, and no fact depends on the list."""
    keys = KEYS[:3]
    await candidates(harness, run, **{key: f"echo x > {key}" for key in keys})
    assert max(len(each.attempts) for each in await land_all(harness, run)) > 1
    assert await listed(harness, run) == marked(*keys)
    landed = await harness.landed(run)
    for number, key in enumerate(landed):
        commit = f"{run.session_branch}~{len(landed) - 1 - number}"
        assert await listed(harness, run, commit) == marked(*landed[: number + 1])
        (fact,) = [each for each in harness.store.facts.for_goal(harness.action(run, key).goal_id)
                   if each.assertion == f"{key}_done"]  # fmt: skip
        assert (fact.strength, fact.paths) == ("proven", (key,))
    assert (harness.repo / PLACE).read_bytes() == LIST.encode()
    assert await harness.sh("git status --porcelain -- specs README list") == ""
    assert harness.notices(run) == []


@pytest.mark.slow
async def test_what_agents_mark_themselves_does_no_harm_and_does_not_count(harness, run):
    """DR-1: neither for a task that has not landed, nor as a change, nor as a conflict with another's mark."""
    claim = "sed -i 's/\\[.\\] T/[X] T/' 'specs/my list.md'"
    noted = "sed -i 's/T002 two/T002 two, and more/' 'specs/my list.md'"
    await candidates(
        harness, run, T001=f"{claim}; echo x > T001", T002=f"{noted}; echo x > T002", T003=f"{claim}; echo x > T003"
    )
    assert all(isinstance(each, BatchLanded) for each in await land_all(harness, run))
    assert await listed(harness, run) == marked("T001", "T002", "T003").replace("T002 two", "T002 two, and more")
    paths = {fact.assertion: fact.paths for fact in harness.store.facts.for_goal(harness.action(run, "T001").goal_id)}
    assert paths == {"T001_done": ("T001",), "T002_done": ("T002", PLACE), "T003_done": ("T003",)}


@pytest.mark.slow
async def test_a_candidate_that_changed_nothing_but_marks_is_empty(harness):
    """BX-5: so it is refused, as one that changed nothing at all, and its task stays open."""
    run = await begin(harness, act("T001"))
    await candidates(harness, run, T001="sed -i 's/\\[ \\] T001/[x] T001/' 'specs/my list.md'")
    (refused,) = await land_all(harness, run)
    assert isinstance(refused, CandidateRefused)
    assert await listed(harness, run) == LIST


@pytest.mark.slow
async def test_the_list_of_the_branch_is_edited_whatever_its_user_made_of_it(harness, run):
    """DR-1: lines that they added, moved or marked stay; one that they removed is told."""
    theirs = "intro\n" + LIST.replace("- [ ] T002 two\n", "").replace("T001 one", "T001 first")
    theirs = theirs.replace("[ ] T004", "[x] T004") + "- [ ] T005 new\n"
    await user_commits(harness, run.session_branch, theirs)
    await candidates(harness, run, T001="echo x > T001", T002="echo x > T002")
    await land_all(harness, run)
    assert await listed(harness, run) == theirs.replace("[ ] T001", "[x] T001")
    assert harness.notices(run) == snapshot(
        ["T002 has landed and is not marked as done: specs/my list.md does not have exactly one task `T002` any more"]
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("theirs", "why"),
    [
        pytest.param(None, "is not a text file", id="gone"),
        pytest.param("nothing\n", "cannot be read", id="unreadable", marks=pytest.mark.slow),
    ],
)
async def test_work_lands_without_its_mark_if_the_list_is_none_any_more(harness, run, theirs, why):
    """DR-1: the list is never a reason to refuse work."""
    await user_commits(harness, run.session_branch, theirs)
    await candidates(harness, run, T001="echo x > T001")
    (landed,) = await land_all(harness, run)
    assert isinstance(landed, BatchLanded)
    assert [why in text for text in harness.notices(run)] == [True]


@pytest.mark.slow
async def test_a_revert_takes_the_mark_back_and_leaves_those_beside_it(harness, run):
    """BX-1: with the mark that the task had before; the list is no change of the revert."""
    await candidates(harness, run, **{key: f"echo x > {key}" for key in ("T002", "T003", "T004")})
    await land_all(harness, run)
    move = await plan_revert(harness.context, run, harness.action(run, "T003"))
    assert await changed_by(harness.context, run, move) == ("T003",)
    await move_session_branch(harness.context, run, move)
    assert await listed(harness, run) == marked("T002", "T004")


@pytest.mark.slow
async def test_work_is_carried_over_to_a_base_on_which_the_list_was_edited(harness, run):
    """SC-20: lines beside the marks, and marks of the user's."""
    await candidates(harness, run, **{key: f"echo x > {key}" for key in ("T001", "T003")})
    await land_all(harness, run)
    theirs = marked("T004", text=LIST.replace("T002 two", "T002 two, edited"))
    (harness.repo / PLACE).write_bytes(theirs.encode())
    await harness.sh("git commit -qam edited")
    move = await plan_rebase(harness.context, run)
    assert [each.action for each in move.commits] == await harness.landed(run)
    assert await listed(harness, run, move.new) == marked("T001", "T003", text=theirs)


@pytest.mark.slow
async def test_an_action_is_taken_alone_with_its_own_mark(harness, run):
    """AL-22: a list in which each landing marks its task makes no action need another."""
    await candidates(harness, run, **{key: f"echo x > {key}" for key in ("T001", "T002", "T003")})
    await land_all(harness, run)
    last = harness.action(run, (await harness.landed(run))[-1])
    work = await prepare(harness.context, run, LandWish(how="ff", only=last, message=""))
    assert await listed(harness, run, work.new) == marked(last.key)
    assert [each.action for each in work.commits] == [last.key]


@pytest.mark.slow
async def test_a_landing_that_died_is_recorded_without_the_list(harness, run):
    """BX-2: what it changed is read from its commit, and its mark is none of it."""
    await candidates(harness, run, T001="echo x > T001")
    git, (attempt,) = harness.context.git, harness.attempts(run, "T001")
    await harness.sh(f"git worktree add -q --detach ../made {attempt.head_sha}")
    made = harness.repo.parent / "made"
    (made / PLACE).write_bytes(marked("T001").encode())
    await harness.sh("git commit -qam marked", made)
    tree = await tree_of(git, Commit(await harness.sh("git rev-parse HEAD", made)))
    new = await commit_tree(git, tree, parents=[run.base_sha], message="m", author=AUTHOR, committer=COMMITTER)
    intent = await interrupted_landing(harness, run, "T001", new)
    await refs.move(git, intent.ref, new=new, old=run.base_sha)
    assert await resolve_intent(harness.context, run, intent) == "recorded"
    (fact,) = harness.store.facts.for_goal(harness.action(run, "T001").goal_id)
    assert fact.paths == ("T001",)
    assert await own_changed_paths(git, None, run.base_sha, new) == ("T001", PLACE)
    assert await own_fingerprint(git, LISTED, run.base_sha, new) == await own_fingerprint(
        git, LISTED, run.base_sha, attempt.head_sha
    )


@pytest.mark.slow
async def test_what_keeps_a_lane_from_a_collection_goes_with_it(harness, run):
    """BX-2: the commit, and the one that it is compared with."""
    await candidates(harness, run, T001="echo x > T001", T002="echo x > T002")
    queue = MergeQueue(harness.context, run)
    queue._line.pins_commits = True
    while harness.store.attempts.ids_waiting_to_land(run.id):
        await queue.step()
    await queue.close()
    assert await refs.list_refs(harness.context.git, refs.LANE_PREFIX) == {}
    assert await listed(harness, run) == marked("T001", "T002")
