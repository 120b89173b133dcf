"""Stories in steps: what one leaves for the next, edits of the steps by their agents, conflicts of whole stories."""

import asyncio
import json

import pytest
from inline_snapshot import snapshot
from msgspec import structs

from scaffold.core.proof.contract import Check, Contract
from scaffold.core.states import Completed, Failed, Running
from scaffold.git import refs
from scaffold.orchestrator.dispatch import queue_attempt
from scaffold.orchestrator.owner.recovery.interrupted_run import recover_run
from scaffold.orchestrator.user_control.execution_control import halt_run, retry_action
from scaffold.orchestrator.user_control.session_changes import revert_action
from scaffold.plan.source.task import SourceTask
from scaffold.plan.story.stories_goal import stories_goal
from scaffold.run.attempts.assignment import read_declaration
from scaffold.run.attempts.time_limit import attempt_timeout_s
from scaffold.store.run.story_records import RejectedEdits
from support.harness import UNSANDBOXED, act, goal, poll_until

SUMMARY = "SUMMARY\nlooked\nat\nit"
FINAL_REVIEWS = ("US-1/step-010", "US-2/step-010")
STEPS = [f"step-{number:03d}" for number in range(1, 11)]


def story(key="US-1", **fields):
    return SourceTask(id=key, title=f"Title of {key}", **fields)


def turns(key="US-1", *more, **commands):
    """Return the turns of the agents of a story, `step_005="command"` for each that does something."""
    steps = [*STEPS, *more]
    return {f"{key}/{each}": [commands.get(each.replace("-", "_"), "")] for each in steps}


def edit(*operations, key="US-1"):
    """Return a command that asks for edits of the story."""
    text = json.dumps([{"reason": "it is better", **each} for each in operations])
    return f"""printf '%s' '{text}' > "$SCAFFOLD_SHARED_DIR/workflow_edits/{key}.json" """


async def open_stories(harness, *stories, **settings):
    return await harness.open_run(stories_goal("prd", "", stories), **(UNSANDBOXED | settings))


def notes(harness, name):
    """Return notes, which are in the archive once their story is completed."""
    (place,) = [each for each in harness.context.projections.path.rglob(name) if "logs" not in each.parts]
    return place.read_text()


def state(harness, key="US-1"):
    return json.loads((harness.context.projections.path / "workflow_state.json").read_text())["stories"][key]


@pytest.mark.slow
async def test_a_story_lands_as_one_commit_and_its_state_is_written(harness):
    """DR-8, DR-11, DR-15: ten steps, one commit; the state has each step with its start and its notes."""
    run = await open_stories(harness, story())
    assert (await harness.run_to_end(run, **turns(step_005="echo six >> list"))).state == Completed()
    assert (await harness.sh(f"git log --format=%s {run.session_branch} -1")) == "feat(ralph): US-1 - Title of US-1"
    found = state(harness)
    assert (found["status"], found["agent_id"], found["depends_on"]) == ("completed", 1, [])
    assert [(each["id"], each["status"]) for each in found["steps"]] == [(each, "completed") for each in STEPS]
    coding, linting = found["steps"][4:6]
    assert coding["git_sha_at_start"] == run.base_sha != linting["git_sha_at_start"]
    assert coding["notes"].startswith("(The step wrote no summary; this is the end of its answer.)")
    happened = [each["action"] for each in found["history"]]
    assert (happened[0], happened[-1], happened.count("step_completed")) == ("story_claimed", "story_completed", 10)
    assert {each["agent_id"] for each in found["history"]} == {1}
    assert (harness.context.projections.path / "logs" / "US-1" / "step-005.jsonl").is_file()


def ends(harness, key="US-1"):
    """Return the history of a story without the beginnings of its steps: action and step."""
    entries = [each for each in state(harness, key)["history"] if each["action"] != "step_started"]
    return [(each["action"], each["step_id"]) for each in entries]


async def begun(harness, run):
    """Return an attempt at the first step of a run that is owned now."""
    run = await harness.take(run)
    harness.move(harness.action(run, "US-1"), Running())
    return await harness.queue(run, "US-1/step-001")


@pytest.mark.parametrize("alive", [False, True])
async def test_the_state_says_that_a_run_was_cancelled(harness, alive):
    """DR-8: written after the end, by the owner or by the command in its place; a step that never began says so."""
    run = await open_stories(harness, story())
    if alive:
        owner = await harness.recover_owner(run, {"US-1/step-001": ["sleep 30"]})
        ends_when = asyncio.create_task(owner.execute())
        await poll_until(lambda: [each.phase for each in harness.attempts(run, "US-1/step-001")] == ["executing"])
        owner.request_stop("cancelled")
        await ends_when
    else:
        await begun(harness, run)
        await halt_run(harness.context, harness.orphan(run), "cancel", timeout_s=0.1)
    found = state(harness)
    assert found["status"] == "failed"
    assert {each["status"] for each in found["steps"]} == {"cancelled"}
    assert ends(harness)[-1] == ("story_failed", None)
    assert [step for action, step in ends(harness) if action == "step_cancelled"] == STEPS


async def test_a_lost_step_fails_in_the_history_and_is_as_new_until_it_begins_again(harness):
    """DR-8, DR-12: with the error of the founding document; a pending step has nothing of its last attempt."""
    run = await open_stories(harness, story())
    attempt = await begun(harness, run)
    harness.claim(attempt)
    run = await harness.take(harness.orphan(run))
    await recover_run(harness.context, run)
    await halt_run(harness.context, harness.orphan(run), "stop", timeout_s=0.1)
    first = state(harness)["steps"][0]
    assert (first["status"], first["restart_count"]) == ("pending", 1)
    kept = ("started_at", "completed_at", "git_sha_at_start", "error", "log_file", "notes")
    assert {first[name] for name in kept} == {None}
    assert state(harness)["claimed_at"] is not None
    assert state(harness)["history"][-1]["details"] == snapshot({"error": "orchestrator restart — agent not found"})


async def test_the_file_is_that_of_the_newest_run_with_stories(harness):
    """DR-8: an older one, and one without stories, leave it alone."""
    old = await open_stories(harness, story())
    new = await open_stories(harness, story("US-9"))
    await harness.open_run(goal("plain", act("a")))
    await halt_run(harness.context, new, "cancel", timeout_s=0.1)
    assert state(harness, "US-9")["status"] == "failed"
    await halt_run(harness.context, old, "cancel", timeout_s=0.1)
    assert state(harness, "US-9")["status"] == "failed"


@pytest.mark.slow
async def test_agents_add_skip_reorder_and_split_steps(harness):
    """DR-5, DR-6: applied when the step ends; later steps run as the edited workflow says."""
    edits = edit(
        {"operation": "add_after", "target_step_id": "step-005", "new_steps": [{"type": "coding", "description": "B"}]},
        {"operation": "skip", "target_step_id": "step-009"},
        {"operation": "edit_description", "target_step_id": "step-005", "new_description": "A alone"},
        {
            "operation": "split",
            "target_step_id": "step-003",
            "replacement_steps": [{"type": "architecture", "description": each} for each in "xy"],
        },
    )
    run = await open_stories(harness, story())
    more = ("step-011", "step-012", "step-013")
    script = turns("US-1", *more, step_002=edits, step_005="echo a >> list", step_011="echo b >> list")
    assert (await harness.run_to_end(run, **script)).state == Completed()
    steps = [(each["id"], each["status"]) for each in state(harness)["steps"]]
    done = ["step-001", "step-002", "step-012", "step-013", "step-004", "step-005", "step-011", *STEPS[5:8]]
    assert steps == [*((each, "completed") for each in done), ("step-009", "skipped"), ("step-010", "completed")]
    assert state(harness)["steps"][5]["description"] == "A alone"
    assert await harness.show(f"{run.session_branch}:list") == "one\ntwo\nthree\na\nb"
    made = [each["details"] for each in state(harness)["history"] if each["action"] == "workflow_edit"]
    assert [each["operation"] for each in made] == ["add_after", "skip", "edit_description", "split"]
    begun = [each["step_id"] for each in state(harness)["history"] if each["action"] == "step_started"]
    assert begun == [*done, "step-010"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "said"),
    [
        (edit({"operation": "skip", "target_step_id": "step-010"}), "which cannot be skipped"),
        ("echo '[{' > $RALPH_SHARED_DIR/workflow_edits/US-1.json", "None of them was applied"),
        ("printf '\\377' > $RALPH_SHARED_DIR/workflow_edits/US-1.json", "it is not UTF-8 text"),
        ("ln -s /etc/passwd $RALPH_SHARED_DIR/workflow_edits/US-1.json", "cannot be opened"),
        (edit({"operation": "skip", "target_step_id": "step-003"}, key="US-2"), "is for another story"),
    ],
)
async def test_a_bad_edit_changes_nothing_and_its_reason_is_in_the_notes(harness, command, said):
    """DR-5, DR-6: the story goes on, and the next step reads why."""
    run = await open_stories(harness, story())
    script = turns(step_002=command, step_005="echo six >> list")
    assert (await harness.run_to_end(run, **script)).state == Completed()
    assert said in notes(harness, "scratch_US-1.md")
    assert {each["status"] for each in state(harness)["steps"]} == {"completed"}


async def test_a_step_does_not_begin_while_another_is_open_in_its_worktree(harness):
    """DR-10: even if the order of the steps were lost."""
    run = await open_stories(harness, story(), agents=2)
    await begun(harness, run)
    run, second = harness.store.runs.get(run.id), harness.action(run, "US-1/step-002")
    with harness.store.transaction():
        harness.store.actions.arrange(structs.replace(second, preconditions=()))
    assert await queue_attempt(harness.context, run, second.goal_id, second.id) is None


async def test_the_steps_of_a_story_share_the_files_that_one_was_granted(harness):
    """DR-2, AL-9: the final review answers for what the coding step was allowed to change."""
    run = await open_stories(harness, story(), story("US-2"))
    with harness.store.transaction():
        coding = harness.action(run, "US-1/step-005")
        harness.store.file_grants.add(coding.id, ["test_old.py"], by="human", reason="the task asks for it")
    declared = {key: read_declaration(harness.store, harness.action(run, key)).files for key in FINAL_REVIEWS}
    assert declared == {"US-1/step-010": ("test_old.py",), "US-2/step-010": ()}


async def test_a_killed_owner_leaves_no_rejection_without_its_note(harness):
    """DR-5, DR-12: why edits were rejected is stored with their rejection, and noted once by whoever goes on."""
    run = await open_stories(harness, story())
    attempt = await begun(harness, run)
    run = await harness.take(harness.orphan(run))
    edits = '[{"operation": "skip"}]'
    for count in (1, 2):
        with harness.store.transaction():
            harness.store.refused_edits.add(attempt.id, RejectedEdits(why="## Rejected\n- because", edits=edits))
        await recover_run(harness.context, run)
        assert notes(harness, "scratch_US-1.md") == "## Rejected\n- because\n", f"recovery {count}"
    assert harness.store.refused_edits.for_run(run.id) == ()
    (kept,) = (harness.context.projections.path / "workflow_edits" / "failed").iterdir()
    assert kept.read_text() == edits


@pytest.mark.slow
async def test_a_step_begins_again_without_what_it_changed(harness):
    """DR-4, DR-9: its work is pinned and kept as a patch; the fourth restart fails the story."""
    run = await open_stories(harness, story())
    again = edit({"operation": "restart", "target_step_id": "step-005", "new_description": "Better."})
    once = f"if grep -q x ~/x; then echo good >> list; else echo x > ~/x; echo bad >> list; {again}; fi"
    script = turns(step_005=once)
    assert (await harness.run_to_end(run, **script)).state == Completed()
    assert await harness.show(f"{run.session_branch}:list") == "one\ntwo\nthree\ngood"
    step = state(harness)["steps"][4]
    assert (step["restart_count"], step["description"]) == (1, "Better.")
    assert "+bad" in (harness.context.projections.path / "restarts" / "US-1-step-005-1.diff").read_text()


@pytest.mark.slow
async def test_a_fourth_restart_fails_the_story(harness):
    """DR-4, DR-9: rejected, and the story fails; its dependants are blocked."""
    run = await open_stories(harness, story(), story("US-2", depends_on=("US-1",)))
    again = edit({"operation": "restart", "target_step_id": "step-002", "new_description": "Better."})
    ending = await harness.run_to_end(run, **(turns(step_002=f"echo bad >> list; {again}") | turns("US-2")))
    assert isinstance(ending.state, Failed)
    assert [each.outcome for each in harness.attempts(run, "US-1/step-002")] == ["restarted"] * 3 + ["executor_failed"]
    assert [state(harness, key)["status"] for key in ("US-1", "US-2")] == ["failed", "blocked"]
    # The run ends with it, but not before the last patch is written.
    assert "+bad" in (harness.context.projections.path / "failures" / "US-1-step-002.diff").read_text()


@pytest.mark.slow
async def test_a_final_review_that_adds_steps_runs_again_after_them(harness):
    """DR-5: what it changed stays."""
    more = edit(
        {"operation": "add_after", "target_step_id": "step-009", "new_steps": [{"type": "coding", "description": "C"}]}
    )
    run = await open_stories(harness, story())
    script = turns("US-1", "step-011", step_005="echo a >> list", step_011="echo c >> list")
    script["US-1/step-010"] = [f"if grep -q c list; then true; else echo b >> list; {more}; fi"]
    assert (await harness.run_to_end(run, **script)).state == Completed()
    assert await harness.show(f"{run.session_branch}:list") == "one\ntwo\nthree\na\nb\nc"
    assert [each["id"] for each in state(harness)["steps"]][-2:] == ["step-011", "step-010"]
    assert len(await harness.landed(run)) == 1


@pytest.mark.slow
async def test_a_final_review_whose_edits_are_rejected_lands(harness):
    """DR-5, DR-6: rejected, noted, landed; its work is that of the steps before it, and their pin stays."""
    run = await open_stories(harness, story())
    script = turns(step_005="echo a >> list", step_010=edit({"operation": "skip", "target_step_id": "step-001"}))
    assert (await harness.run_to_end(run, **script)).state == Completed()
    assert [each.outcome for each in harness.attempts(run, "US-1/step-010")] == ["landed"]
    assert "step-001" in notes(harness, "scratch_US-1.md")
    assert not [*harness.context.projections.path.glob("restarts/*")]
    assert await refs.list_refs(harness.context.git, refs.work_ref("")) == {}


@pytest.mark.slow
async def test_a_conflict_inserts_a_step_that_resolves_it(harness):
    """DR-11: before the final review, which runs again on what was resolved."""
    run = await open_stories(harness, story(), story("US-2"), agents=2)
    wait = f'while [ -z "$(git log --oneline {run.session_branch} | grep US-1)" ]; do sleep 0.1; done'
    resolve = "grep -v '^[<=>][<=>]' list > kept; mv kept list"
    script = turns(step_005="echo six >> list") | turns(
        "US-2", "step-011", step_005=f"echo seven >> list; {wait}", step_011=resolve
    )
    assert (await harness.run_to_end(run, **script)).state == Completed()
    lines = (await harness.show(f"{run.session_branch}:list")).splitlines()
    assert sorted(lines) == ["one", "seven", "six", "three", "two"]
    steps = [(each["id"], each["type"]) for each in state(harness, "US-2")["steps"]]
    assert steps[-2:] == [("step-011", "rebase_resolve"), ("step-010", "final_review")]
    assert len(await harness.landed(run)) == 2
    assert await harness.sh("git for-each-ref refs/scaffold") == ""


@pytest.mark.slow
async def test_agents_share_notes_and_each_story_has_its_own(harness):
    """DR-7: lines of all agents are in the prompts of the steps after them; a completed story's are archived."""
    run = await open_stories(harness, story(), story("US-2", depends_on=("US-1",)))
    write = 'cd "$SCAFFOLD_SHARED_DIR"; echo all-{0} >> scratch.md; echo own >> scratch_{0}.md'
    script = turns(step_001=write.format("US-1"), step_005="echo six >> list")
    script |= turns("US-2", step_001=write.format("US-2"), step_005="echo seven >> list")
    assert (await harness.run_to_end(run, **script)).state == Completed()
    assert notes(harness, "scratch.md").splitlines() == ["all-US-1", "all-US-2"]
    archive = harness.context.projections.path / "archive" / run.id
    assert sorted(each.name for each in archive.iterdir()) == ["scratch_US-1.md", "scratch_US-2.md"]
    assert notes(harness, "scratch_US-1.md").splitlines() == ["own"]
    log = (harness.context.projections.path / "logs" / "US-2" / "step-001.jsonl").read_text()
    assert "all-US-1" in log


@pytest.mark.slow
async def test_a_failed_step_fails_its_story_and_the_others_go_on(harness):
    """DR-9, DR-10, DR-13: at the first failure; its patch is kept, all agents read of it, what needs it is blocked."""
    stories = [story(), story("US-2", depends_on=("US-1",)), story("US-3")]
    run = await open_stories(harness, *stories, iterations=1)
    broken = "git checkout -q --orphan x; git commit -qm x; echo six >> list"
    script = turns(step_005=broken) | turns("US-2") | turns("US-3", step_005="echo x > new")
    assert isinstance((await harness.run_to_end(run, **script)).state, Failed)
    assert [state(harness, f"US-{n}")["status"] for n in (1, 2, 3)] == ["failed", "blocked", "completed"]
    assert len(harness.attempts(run, "US-1/step-005")) == 1
    assert "US-1/step-005 failed" in notes(harness, "scratch.md")
    assert (harness.context.projections.path / "failures" / "US-1-step-005.diff").is_file()


@pytest.mark.slow
async def test_a_failed_story_goes_on_at_the_step_that_failed(harness):
    """DR-17: with what was recorded before it."""
    run = await open_stories(harness, story(), iterations=1)
    broken = "if ! grep -q x ~/x; then echo x > ~/x; git checkout -q --orphan x; git commit -qm x; fi; echo b >> list"
    script = turns(step_004="echo a >> list", step_005=broken)
    assert isinstance((await harness.run_to_end(run, **script)).state, Failed)
    retry_action(harness.store, harness.store.runs.get(run.id), harness.action(run, "US-1/step-005"))
    assert (await harness.run_to_end(harness.store.runs.get(run.id), **script)).state == Completed()
    assert await harness.show(f"{run.session_branch}:list") == "one\ntwo\nthree\na\nb"
    assert [len(harness.attempts(run, f"US-1/{each}")) for each in STEPS] == [1, 1, 1, 1, 2, 1, 1, 1, 1, 1]


async def test_each_step_has_the_time_of_its_type(harness):
    """DR-2."""
    run = await open_stories(harness, story())
    minutes = [attempt_timeout_s(run, harness.action(run, f"US-1/{each}")) / 60 for each in STEPS]
    assert minutes == [15, 10, 10, 10, 30, 5, 20, 10, 10, 15]


@pytest.mark.slow
async def test_a_step_added_after_an_ended_one_is_the_next(harness):
    """DR-3, DR-10: one step at a time in a story's worktree, whatever its agents edit."""
    late = edit(
        {"operation": "add_after", "target_step_id": "step-001", "new_steps": [{"type": "coding", "description": "L"}]}
    )
    run = await open_stories(harness, story(), agents=3)
    script = turns("US-1", "step-011", step_005=f"echo a >> list; {late}", step_011="echo b >> list; sleep 1")
    assert (await harness.run_to_end(run, **script)).state == Completed()
    begun = [each["step_id"] for each in state(harness)["history"] if each["action"] == "step_started"]
    assert begun == [*STEPS[:5], "step-011", *STEPS[5:]]
    assert await harness.show(f"{run.session_branch}:list") == "one\ntwo\nthree\na\nb"


@pytest.mark.slow
@pytest.mark.parametrize(
    "second",
    [
        {"operation": "skip", "target_step_id": "step-005"},
        {
            "operation": "split",
            "target_step_id": "step-005",
            "replacement_steps": [{"type": "coding", "description": each} for each in "xy"],
        },
    ],
    ids=["skip", "split"],
)
async def test_a_step_that_begins_again_cannot_be_changed_besides(harness, second):
    """DR-5: all of it is rejected, and the story goes on."""
    again = {"operation": "restart", "target_step_id": "step-005", "new_description": "Better."}
    run = await open_stories(harness, story())
    script = turns(step_005=f"echo a >> list; {edit(again, second)}")
    assert (await harness.run_to_end(run, **script)).state == Completed()
    assert [len(harness.attempts(run, f"US-1/{each}")) for each in STEPS] == [1] * 10
    assert "`restart`" in notes(harness, "scratch_US-1.md")


@pytest.mark.slow
async def test_a_step_that_was_executed_can_be_replaced(harness):
    """DR-5: it began again behind another one, which replaces it; what it did stays on record."""
    order = ["step-003", "step-002", *STEPS[3:]]
    moved = edit(
        {"operation": "restart", "target_step_id": "step-002", "new_description": "Later."},
        {"operation": "reorder", "new_order": order},
    )
    split = edit(
        {
            "operation": "split",
            "target_step_id": "step-002",
            "replacement_steps": [{"type": "planning", "description": each} for each in "xy"],
        }
    )
    run = await open_stories(harness, story())
    script = turns("US-1", "step-011", "step-012", step_002=moved, step_003=split, step_005="echo a >> list")
    assert (await harness.run_to_end(run, **script)).state == Completed()
    assert [each.outcome for each in harness.attempts(run, "US-1/step-002")] == ["restarted"]
    assert harness.statuses(run)["US-1/step-002"] == "skipped"


@pytest.mark.slow
async def test_a_final_review_with_failing_checks_can_add_steps(harness):
    """DR-5: the steps come before its checks."""
    (harness.repo / "check").write_text("grep -q good list\n")
    await harness.sh("git add -A; git commit -qm check")
    more = edit(
        {"operation": "add_after", "target_step_id": "step-009", "new_steps": [{"type": "coding", "description": "C"}]}
    )
    goal = stories_goal("prd", "", [story()])
    final = structs.replace(goal.actions[-1], contract=Contract(commands=(Check(command="sh check"),)))
    run = await harness.open_run(structs.replace(goal, actions=(*goal.actions[:-1], final)), **UNSANDBOXED)
    script = turns("US-1", "step-011", step_005="echo bad >> list", step_011="echo good >> list")
    script["US-1/step-010"] = [f"grep -q good list || {{ {more}; }}"]
    assert (await harness.run_to_end(run, **script)).state == Completed()
    assert [each.outcome for each in harness.attempts(run, "US-1/step-010")] == ["recorded", "landed"]


@pytest.mark.slow
async def test_a_reverted_story_is_worked_again_from_its_first_step(harness):
    """DR-3, DR-17: on the branch as it is now, in the order that was edited, also once git has forgotten that work."""
    late = edit(
        {"operation": "add_after", "target_step_id": "step-001", "new_steps": [{"type": "review", "description": "L"}]}
    )
    run = await open_stories(harness, story())
    said = 'echo "it is bad" >> "$SCAFFOLD_SHARED_DIR/scratch_US-1.md"; '
    script = turns("US-1", "step-011", step_005=f"{said} echo bad >> list; {late}")
    assert (await harness.run_to_end(run, **script)).state == Completed()
    run = harness.store.runs.get(run.id)
    await revert_action(harness.context, run, harness.action(run, "US-1/step-010"))
    await harness.sh("git reflog expire --expire=now --all; git gc -q --prune=now")
    assert set(harness.statuses(run).values()) == {"running", "pending"}
    assert (harness.context.projections.path / "scratch_US-1.md").read_text() == "it is bad\n", (
        "its agents read them again"
    )
    script = turns("US-1", "step-011", step_005="echo good >> list")
    ending = await harness.run_to_end(harness.store.runs.get(run.id), **script)
    assert ending.state == Completed()
    begun = [each["step_id"] for each in state(harness)["history"] if each["action"] == "step_started"]
    assert begun[len(STEPS) + 1 :] == ["step-001", "step-011", *STEPS[1:]]
    assert await harness.show(f"{run.session_branch}:list") == "one\ntwo\nthree\ngood"
