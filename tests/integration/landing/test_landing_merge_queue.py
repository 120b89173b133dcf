"""Candidates that land on the session branch: real git, real checks."""

import sys

import pytest
from inline_snapshot import snapshot

from scaffold.core.errors import RepositoryError, StaleFence
from scaffold.core.plan import ActionSpec
from scaffold.core.proof.contract import Check, Contract, ExecutedLines
from scaffold.git import refs
from scaffold.landing.queue.merge_queue import MergeQueue
from scaffold.landing.queue.step_result import BatchLanded, BranchHeld, CandidateRefused
from support.harness import AUTHOR, COMMITTER, UNSANDBOXED, act, goal


async def begin(harness, *actions: ActionSpec, **settings):
    """Own a run of these actions; return it and its queue."""
    run = await harness.own(goal("g", *actions), **settings)
    return run, MergeQueue(harness.context, run)


@pytest.mark.slow
async def test_a_candidate_lands_as_one_commit_and_its_effect_becomes_a_fact(harness):
    """AL-12, BX-2, SC-4: a squash with the stored signatures and trailers; evidence in the same transaction."""
    run, queue = await begin(harness, act("a", check="test -f a", description="Make a.\n\nWell."))
    await harness.work(run, "a", "echo x > a; git add a; git commit -qm mine; echo y > b")
    landed = await queue.step()
    assert landed == BatchLanded(await harness.tip(run), tuple(each.id for each in harness.attempts(run, "a")))
    people = f"{AUTHOR.name} <{AUTHOR.email}>|{COMMITTER.name} <{COMMITTER.email}>"
    assert await harness.sh(f"git log -1 --format='%an <%ae>|%cn <%ce>' {run.session_branch}") == people
    message = await harness.sh(f"git log -1 --format=%B {run.session_branch}")
    assert message.strip() == f"Make a.\n\nWell.\n\nScaffold-Run: {run.id}\nScaffold-Action: a"
    assert await harness.sh(f"git rev-list --count {run.base_sha}..{run.session_branch}") == "1"
    (fact,) = harness.store.facts.for_goal(harness.action(run, "a").goal_id)
    assert (fact.assertion, fact.state, fact.strength, fact.commit, fact.paths) == (
        "a_done", "holds", "proven", landed.commit, ("a", "b"),
    )  # fmt: skip
    assert [each.command for each in fact.evidence] == ["test -f a"]
    assert harness.statuses(run) == {"a": "completed"}
    assert await refs.list_refs(harness.context.git, "refs/scaffold/") == {}
    assert harness.store.intents.open_of_run(run.id) == ()


@pytest.mark.slow
async def test_compatible_candidates_land_one_after_another(harness):
    """AL-13: merged in memory, in order of submission; the user's checkout is unchanged."""
    run, queue = await begin(harness, act("a"), act("b"))
    first, second = await harness.queue(run, "a"), await harness.queue(run, "b")
    await harness.run_attempt(second, {"b": ["sed -i s/three/THREE/ list"]})
    await harness.run_attempt(first, {"a": ["sed -i s/one/ONE/ list"]})
    assert isinstance(await queue.step(), BatchLanded)
    assert isinstance(await queue.step(), BatchLanded)
    assert await harness.landed(run) == ["b", "a"]
    assert await harness.show(f"{run.session_branch}:list") == "ONE\ntwo\nTHREE"
    assert await harness.sh("git status --porcelain -- list README") == ""
    await queue.close()
    assert await harness.worktrees(spare=False) == 0


@pytest.mark.slow
async def test_a_conflicting_candidate_is_returned_with_its_work_pinned(harness):
    """AL-13, BX-3, SC-20: a conflict does not count as a failure, and the next attempt sees both sides."""
    run, queue = await begin(harness, act("a"), act("b"))
    first, second = await harness.queue(run, "a"), await harness.queue(run, "b")
    await harness.run_attempt(first, {"a": ["sed -i s/two/A/ list; seq 5000 > more"]})
    await harness.run_attempt(second, {"b": ["sed -i s/two/B/ list; seq 5000 > also"]})
    await queue.step()
    refused = await queue.step()
    assert (refused.outcome, refused.why) == snapshot(
        ("conflict", "conflicts with work that landed earlier in list\n- list: no merge is known for this kind of file")
    )
    assert harness.statuses(run) == {"a": "completed", "b": "pending"}
    assert harness.store.actions.failures(harness.action(run, "b").id) == 0
    (lost,) = harness.attempts(run, "b")
    assert await refs.resolve(harness.context.git, refs.work_ref(lost.id)) == lost.head_sha
    again = await harness.queue(run, "b")
    assert again.base_sha == await harness.tip(run)
    assert again.briefing.startswith("Attempt 1 ")
    assert 0 < again.briefing.index("+B") < again.briefing.index("+A"), "its own change, then what landed"
    assert "5000" not in again.briefing


@pytest.mark.slow
async def test_candidates_that_pass_alone_must_pass_together(harness):
    """AL-13: the contract runs on the very tree that lands; a failure is the action's own, and is reported."""
    run, queue = await begin(harness, act("a", check="! test -f a || ! test -f b"), act("b", check="! test -f a"))
    first, second = await harness.queue(run, "a"), await harness.queue(run, "b")
    await harness.run_attempt(first, {"a": ["echo x > a"]})
    await harness.run_attempt(second, {"b": ["echo x > b"]})
    await queue.step()
    before = await harness.tip(run)
    refused = await queue.step()
    assert isinstance(refused, CandidateRefused)
    assert refused.outcome == "contract_failed"
    assert await harness.tip(run) == before
    assert harness.store.actions.failures(harness.action(run, "b").id) == 1
    briefing = (await harness.queue(run, "b")).briefing
    assert "The check `! test -f a` failed" in briefing
    assert "+x" in briefing, "what landed meanwhile"


@pytest.mark.slow
async def test_a_check_that_hangs_during_landing_is_a_timeout(harness):
    slow = Check(command='test -n "$SCAFFOLD_ATTEMPT" || sleep 60', timeout_s=1.5)
    run, queue = await begin(harness, act("a", contract=Contract(commands=(slow,))), **UNSANDBOXED)
    await harness.work(run, "a", "echo x > a")
    refused = await queue.step()
    assert isinstance(refused, CandidateRefused)
    assert refused.outcome == "timeout"


@pytest.mark.slow
async def test_a_landing_takes_over_what_the_workers_checks_executed(harness):
    """BX-5: it is measured once, where the work was done."""
    (harness.repo / "calc.py").write_text("def add(a, b):\n    return a + b\n")
    await harness.sh("git add -A; git commit -qm calc")
    run, queue = await begin(harness, act("a", check=f"{sys.executable} -c 'import calc; calc.sub'"))
    await harness.work(run, "a", "printf '\\n\\ndef sub(a, b):\\n    return a - b\\n' >> calc.py")
    assert isinstance(await queue.step(), BatchLanded)
    (fact,) = harness.store.facts.for_goal(harness.action(run, "a").goal_id)
    assert (fact.strength, [each.code for each in fact.doubts]) == ("weak", ["not_executed"])
    (attempt,) = harness.attempts(run, "a")
    assert attempt.verification.executed_lines == ExecutedLines(total=1, executed=0)
    await queue.close()


@pytest.mark.slow
async def test_a_landing_without_a_contract_is_a_weak_fact(harness):
    """BX-5: a change by itself is weak evidence and marked so."""
    run, queue = await begin(harness, act("a"))
    await harness.work(run, "a", "echo x > a")
    assert isinstance(await queue.step(), BatchLanded)
    (fact,) = harness.store.facts.for_goal(harness.action(run, "a").goal_id)
    assert (fact.strength, [each.code for each in fact.doubts]) == ("weak", ["no_contract"])
    assert [(each.kind, each.exit_code) for each in fact.evidence] == [("change", None)]


@pytest.mark.slow
async def test_a_doubt_that_only_the_worker_looks_for_stays_with_the_fact(harness):
    """BX-5: the landing does not empty functions again."""
    run, queue = await begin(harness, act("a", contract=Contract(commands=(Check(command="python3 test_a.py"),))))
    await harness.work(run, "a", "printf 'def f():\\n    return 1\\n' > a.py; echo 'import a; a.f()' > test_a.py")
    assert isinstance(await queue.step(), BatchLanded)
    (fact,) = harness.store.facts.for_goal(harness.action(run, "a").goal_id)
    assert [each.text for each in fact.doubts] == snapshot(["the checks also pass if f does nothing"])


@pytest.mark.slow
async def test_the_same_change_twice_lands_once(harness):
    """BX-2: the second merge is empty, and proves nothing."""
    run, queue = await begin(harness, act("a"), act("b"))
    first, second = await harness.queue(run, "a"), await harness.queue(run, "b")
    await harness.run_attempt(first, {"a": ["echo x > same"]})
    await harness.run_attempt(second, {"b": ["echo x > same"]})
    await queue.step()
    refused = await queue.step()
    assert isinstance(refused, CandidateRefused)
    assert "nothing changed" in refused.why
    assert await harness.landed(run) == ["a"]


@pytest.mark.slow
async def test_nothing_lands_while_the_branch_is_checked_out(harness, tmp_path):
    """AL-12: a branch checked out anywhere is never moved; a folder that is gone does not count."""
    run, queue = await begin(harness, act("a"))
    await harness.work(run, "a", "echo x > a")
    await harness.sh(f"git worktree add -q '{tmp_path}/mine' {run.session_branch}")
    assert await queue.step() == BranchHeld(tmp_path / "mine")
    assert harness.statuses(run) == {"a": "landing"}
    await harness.sh(f"rm -r '{tmp_path}/mine'")
    assert isinstance(await queue.step(), BatchLanded)


@pytest.mark.slow
async def test_a_branch_checked_out_during_the_checks_is_not_moved(harness, tmp_path):
    mine = tmp_path / "mine"
    take = f'test -n "$SCAFFOLD_ATTEMPT" || test -d {mine} || git worktree add -q {mine} session-$SCAFFOLD_RUN'
    run, queue = await begin(harness, act("a", check=take), **UNSANDBOXED)
    await harness.work(run, "a", "echo x > a")
    assert await queue.step() == BranchHeld(mine)
    assert await harness.tip(run) == run.base_sha


@pytest.mark.slow
async def test_a_branch_that_moves_during_the_checks_is_merged_again(harness):
    """BX-2: compare-and-swap; the loser merges and checks again."""
    move = (
        'test -n "$SCAFFOLD_ATTEMPT" || test -f moved || git update-ref refs/heads/session-$SCAFFOLD_RUN '
        "$(git commit-tree -p HEAD~1 -m theirs $(git rev-parse moved^{tree}))"
    )
    await harness.sh("git checkout -qb moved; echo x > moved; git add moved; git commit -qm m; git checkout -q main")
    run, queue = await begin(harness, act("a", check=move), **UNSANDBOXED)
    await harness.work(run, "a", "echo x > a")
    assert isinstance(await queue.step(), BatchLanded)
    assert await harness.sh(f"git log --format=%s {run.base_sha}..{run.session_branch}") == "Do a.\ntheirs"
    assert await harness.sh(f"git ls-tree --name-only {run.session_branch}") == "README\na\nlist\nmoved"
    assert harness.store.intents.open_of_run(run.id) == ()


@pytest.mark.slow
async def test_a_branch_that_never_stops_moving_returns_the_candidate(harness):
    move = (
        'test -n "$SCAFFOLD_ATTEMPT" || git update-ref refs/heads/session-$SCAFFOLD_RUN '
        "$(date +%N | git commit-tree -p HEAD~1 HEAD~1^{tree})"
    )
    run, queue = await begin(harness, act("a", check=move), **UNSANDBOXED)
    await harness.work(run, "a", "echo x > a")
    refused = await queue.step()
    assert isinstance(refused, CandidateRefused)
    assert refused.outcome == "conflict"
    assert "kept moving" in refused.why
    assert harness.statuses(run) == {"a": "pending"}


@pytest.mark.slow
async def test_a_refuted_precondition_refuses_the_candidate(harness):
    """SC-4: preconditions are checked once more before the branch moves."""
    run, queue = await begin(harness, act("a"), act("b", needs=["a_done"]))
    await harness.work(run, "a", "echo x > a")
    await queue.step()
    await harness.work(run, "b", "echo x > b")
    before = await harness.tip(run)
    with harness.store.transaction():
        harness.store.facts.invalidate(harness.action(run, "a").goal_id, "a_done", "refuted")
    refused = await queue.step()
    assert refused == CandidateRefused("conflict", snapshot("what it builds on no longer holds: a_done"))
    assert await harness.tip(run) == before
    assert harness.statuses(run)["b"] == "pending"
    assert harness.store.intents.open_of_run(run.id) == ()


async def test_a_superseded_owner_moves_nothing(harness):
    """BX-8: fences on every landing."""
    run, queue = await begin(harness, act("a"))
    await harness.work(run, "a", "echo x > a")
    harness.orphan(run)
    with pytest.raises(StaleFence):
        await queue.step()
    assert await harness.tip(run) == run.base_sha
    assert harness.statuses(run) == {"a": "landing"}


@pytest.mark.slow
async def test_names_that_are_not_utf_8_land_and_conflict_like_others(harness):
    run, queue = await begin(harness, act("a"), act("b"))
    first, second = await harness.queue(run, "a"), await harness.queue(run, "b")
    odd = "\"$(printf 'caf\\351\\nbar')\""
    await harness.run_attempt(first, {"a": [f"echo a > {odd}"]})
    await harness.run_attempt(second, {"b": [f"echo b > {odd}"]})
    assert isinstance(await queue.step(), BatchLanded)
    (fact,) = harness.store.facts.for_goal(harness.action(run, "a").goal_id)
    assert fact.paths == ("caf\\udce9\nbar",)
    refused = await queue.step()
    assert refused.outcome == "conflict"
    assert refused.why.startswith("conflicts with work that landed earlier in caf\udce9\nbar\n")


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{}, UNSANDBOXED], ids=["default", "unsandboxed"])
async def test_no_candidate_sees_the_caches_of_another_ones_checks(harness, settings):
    """BX-4, BX-5: what one candidate's tests write there could influence the next."""
    left = '"${TMPDIR:?}/left"'
    check = f'test -n "$SCAFFOLD_ATTEMPT" || {{ test ! -e {left} && touch {left}; }}'
    run, queue = await begin(harness, act("a", check=check), act("b", check=f"{check} && true"), **settings)
    first, second = await harness.queue(run, "a"), await harness.queue(run, "b")
    await harness.run_attempt(first, {"a": ["echo x > a"]})
    await harness.run_attempt(second, {"b": ["echo x > b"]})
    while harness.store.attempts.waiting_to_land(run.id):
        assert isinstance(await queue.step(), BatchLanded)
    assert harness.facts(run) == {"a_done", "b_done"}
    await queue.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    "ruin", ["rm .git; git init -q; git commit -q --allow-empty -m x", "echo gitdir: /nowhere > .git"]
)
async def test_a_queue_survives_damage_to_its_worktree_by_checks(harness, ruin):
    ruin = f'test -n "$SCAFFOLD_ATTEMPT" || {{ {ruin}; }}'
    run, queue = await begin(
        harness, act("a", check=ruin), act("b", check="test ! -e junk && test -f a"), **UNSANDBOXED
    )
    first, second = await harness.queue(run, "a"), await harness.queue(run, "b")
    await harness.run_attempt(first, {"a": ["echo x > a"]})
    await harness.run_attempt(second, {"b": ["echo x > b; echo x > a"]})
    assert isinstance(await queue.step(), BatchLanded)
    assert isinstance(await queue.step(), BatchLanded)
    await queue.close()
    assert await harness.worktrees(spare=False) == 0


@pytest.mark.slow
async def test_a_rewritten_or_deleted_branch_is_noticed_before_a_landing(harness):
    """BX-2: landed commits must stay reachable, or facts would be wrong."""
    run, queue = await begin(harness, act("a"), act("b"))
    await harness.work(run, "a", "echo x > a")
    landed = await queue.step()
    await harness.work(run, "b", "echo x > b")
    for change, fix in ((f"-f {run.session_branch} {run.base_sha}", "--force "), (f"-D {run.session_branch}", "")):
        await harness.sh(f"git branch {change}")
        with pytest.raises(RepositoryError) as caught:
            await queue.step()
        assert f"git branch {fix}{run.session_branch} {landed.commit}" in caught.value.fix
    await harness.sh(f"git branch -f {run.session_branch} {landed.commit}")
    assert isinstance(await queue.step(), BatchLanded)
