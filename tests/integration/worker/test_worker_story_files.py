"""What a step's agent writes into its shared folder or asks for by the tool: not trusted, and not lost."""

import json
import os
import sqlite3
from contextlib import closing

import pytest

from fakes import RecordingModel, call_entry, cassette_model
from integration.worker.test_worker_approvals import carried_out, decide
from scaffold.core.states import Running
from scaffold.llm.cassette_model import CassetteEntry
from scaffold.orchestrator.owner.recovery.interrupted_run import release_attempt
from scaffold.run.shared_notes import MAX_BYTES
from scaffold.worker.attempt_records import CandidateReady
from support.harness import UNSANDBOXED, act, goal

KEY = "US-1/step-001"
TOKEN = "ghp_0123456789abcdefghijABCDEFGHIJ012345"
DONE = CassetteEntry(text="done\n\nSUMMARY\na\nb\nc")
SKIP = [{"operation": "skip", "target_step_id": "step-004", "reason": f"no need of {TOKEN}"}]
EDIT = ("edit_workflow", {"operations": SKIP})
ASK = ("ask_human", {"question": "Which word?"})
ROLES = ("planning", "architecture", "coding", "review", "final_review")


async def begin(harness, roles=ROLES, **settings):
    """Own a run with a story that has begun; its first step may edit the others."""
    steps = [
        act(
            f"US-1/step-{number:03d}",
            role=role,
            needs=[f"done:{number - 1}"] if number > 1 else [],
            effects=(f"done:{number}", *(["done:US-1"] if role == "final_review" else [])),
            parent="US-1",
            method="story",
            workspace="parent",
            files=("login.sql", "list"),
        )
        for number, role in enumerate(roles, 1)
    ]
    story = act("US-1", kind="compound", method="story", effects=("done:US-1",))
    run = await harness.own(goal("g", story, *steps, wants=["done:US-1"]), **(UNSANDBOXED | settings))
    harness.move(harness.action(run, "US-1"), Running())
    return run


def kept(harness):
    """Return the edit files in the projections, by their paths."""
    top = harness.context.projections.path / "workflow_edits"
    return {str(each.relative_to(top)): each.read_text() for each in top.rglob("*.json")}


def notes(harness, name="scratch_US-1.md"):
    path = harness.context.projections.path / name
    return path.read_text() if path.exists() else ""


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        'cd "$SCAFFOLD_SHARED_DIR"; rmdir workflow_edits; ln -s "{0}" workflow_edits',
        'mv "$SCAFFOLD_SHARED_DIR" "$SCAFFOLD_SHARED_DIR.old"; ln -s "{0}/.." "$SCAFFOLD_SHARED_DIR"',
    ],
)
async def test_a_link_in_place_of_a_folder_is_not_followed(harness, tmp_path, command):
    """DR-6, DR-7: nothing outside is read, copied or removed, and it is said."""
    outside = tmp_path / "outside" / "workflow_edits"
    outside.mkdir(parents=True)
    (outside / "US-1.json").write_text("[]")
    (outside / "package.json").write_text("{}")
    (outside.parent / "scratch.md").write_text("private\n")
    run = await begin(harness)
    assert isinstance(await harness.work(run, KEY, command.format(outside)), CandidateReady)
    assert sorted(each.name for each in outside.iterdir()) == ["US-1.json", "package.json"]
    assert (kept(harness), notes(harness, "scratch.md")) == ({}, "")
    assert "cannot be opened" in notes(harness)


async def test_the_tool_writes_no_file_and_its_last_call_counts(harness, tmp_path):
    """DR-6: a link in place of the edit file leads nowhere; secrets are neither stored nor copied."""
    target = tmp_path / "bashrc"
    target.write_text("mine")
    link = ("shell", {"command": f'ln -s {target} "$SCAFFOLD_SHARED_DIR/workflow_edits/US-1.json"'})
    first = ("edit_workflow", {"operations": [{**SKIP[0], "target_step_id": "step-002"}]})
    run = await begin(harness)
    model = RecordingModel(cassette_model(call_entry(1, link), call_entry(2, first), call_entry(3, EDIT), DONE))
    assert isinstance(await carried_out(harness, await harness.queue(run, KEY), model), CandidateReady)
    (attempt,) = harness.attempts(run, KEY)
    assert target.read_text() == "mine"
    assert [each["target_step_id"] for each in json.loads(attempt.edits)] == ["step-004"]
    assert TOKEN not in attempt.edits
    assert kept(harness) == {"US-1.json": attempt.edits}


async def test_secrets_in_edit_files_are_removed(harness):
    """DR-6, SC-32: in those that are used, and in the copies of others."""
    run = await begin(harness)
    text = json.dumps(SKIP)
    write = f"""cd "$SCAFFOLD_SHARED_DIR/workflow_edits"; echo '{text}' > US-1.json; echo '{TOKEN}' > US-2.json"""
    assert isinstance(await harness.work(run, KEY, write), CandidateReady)
    (attempt,) = harness.attempts(run, KEY)
    assert "step-004" in attempt.edits
    assert TOKEN not in attempt.edits + str(kept(harness))
    assert len(kept(harness)) == 2


@pytest.mark.parametrize("folder", ["", "sandbox/"])
async def test_what_a_killed_agent_wrote_for_others_is_kept(harness, folder):
    """DR-6, DR-7, BX-15: edits and notes, once; its conversation goes on without the commands that wrote them."""
    run = await begin(harness)
    attempt = await harness.queue(run, KEY)
    harness.claim(attempt, "executing")
    shared = harness.context.temporary(run.id, attempt.id) / f"{folder}shared"
    (shared / "workflow_edits").mkdir(parents=True)
    (shared / "workflow_edits/US-1.json").write_text(json.dumps(SKIP))
    (shared / "scratch_US-1.md").write_text("known\nlearned\n")
    projections = harness.context.projections.path
    projections.mkdir(exist_ok=True)
    (projections / "scratch_US-1.md").write_text("known\n")
    for _ in range(2):  # again after a second kill
        await release_attempt(harness.context, run, harness.attempt(attempt.id), outcome="lost", error="killed")
    (ended,) = harness.attempts(run, KEY)
    assert [each["target_step_id"] for each in json.loads(ended.edits)] == ["step-004"]
    assert notes(harness) == "known\nlearned\n"
    assert not shared.exists()


async def test_edits_asked_for_by_the_tool_are_stored_before_the_turn_ends(harness):
    """DR-6, BX-15: so that a kill does not lose them."""
    run, stored = await begin(harness), []

    class Looking(RecordingModel):
        async def reply(self, *args, **options):
            stored.append(harness.attempts(run, KEY)[0].edits)
            return await super().reply(*args, **options)

    model = Looking(cassette_model(call_entry(1, EDIT), DONE))
    assert isinstance(await carried_out(harness, await harness.queue(run, KEY), model), CandidateReady)
    assert [each and "step-004" in each for each in stored] == [None, True]


@pytest.mark.slow
async def test_notes_are_only_added_to(harness):
    """DR-7: an agent that empties or removes its copy removes nothing of what others wrote; repeated lines are kept."""
    run = await begin(harness, iterations=3)
    shared = harness.context.projections.path / "scratch.md"
    shared.parent.mkdir(exist_ok=True)
    shared.write_text("one\n```\n")
    refused = "git checkout -q --orphan x; git commit -qm x; echo x > x"
    turns = (
        f'rm -rf "$SCAFFOLD_SHARED_DIR"; {refused}',
        f'mkdir "$SCAFFOLD_SHARED_DIR"; echo two > "$SCAFFOLD_SHARED_DIR/scratch.md"; {refused}',
        rf'printf "\`\`\`\nthree\n" >> "$SCAFFOLD_SHARED_DIR/scratch.md"; {refused}',
    )
    await harness.work(run, KEY, *turns)
    assert shared.read_text().startswith("one\n```\ntwo\n```\nthree\n")


async def test_names_that_are_no_text_and_many_foreign_files_do_no_harm(harness):
    """DR-6: some are kept, and the step ends well."""
    run = await begin(harness)
    folder = 'cd "$SCAFFOLD_SHARED_DIR/workflow_edits"'
    command = rf"{folder}; touch $(printf 'a\377').json; i=0; while [ $i -lt 40 ]; do touch x$i.json; i=$((i+1)); done"
    assert isinstance(await harness.work(run, KEY, command), CandidateReady)
    assert len(kept(harness)) == 20
    assert len(notes(harness).splitlines()) == 20


async def test_without_room_in_the_notes_the_user_is_told_of_unused_edits(harness):
    """DR-6, DR-7: nothing is dropped silently."""
    run = await begin(harness)
    harness.context.projections.path.mkdir(exist_ok=True)
    (harness.context.projections.path / "scratch_US-1.md").write_text("x" * (MAX_BYTES - 1) + "\n")
    await harness.work(run, KEY, 'echo x > "$SCAFFOLD_SHARED_DIR/workflow_edits/US-2.json"')
    assert any("`US-2.json`" in each for each in harness.notices(run))


async def test_edits_of_a_step_that_failed_are_kept_apart(harness):
    """DR-6, DR-9: also those of a turn that did not end."""
    run = await begin(harness, iterations=1)
    broken = "git checkout -q --orphan x; git commit -qm x; echo six >> list"
    write = f"""echo '{json.dumps(SKIP)}' > "$SCAFFOLD_SHARED_DIR/workflow_edits/US-1.json"; {broken}"""
    assert (await harness.work(run, KEY, write)).outcome != "waiting"
    (attempt,) = harness.attempts(run, KEY)
    assert list(kept(harness)) == [f"failed/{attempt.id}-US-1.json"]
    assert "step-004" in attempt.edits


async def test_a_turn_that_waited_keeps_its_edits_and_its_shared_folder(harness):
    """BX-13, DR-6: the next attempt has them, and reads its own folder's path in the conversation."""
    run = await begin(harness, yolo=False, inbox_wait_s=0.05)
    first = await harness.queue(run, KEY)
    model = RecordingModel(cassette_model(call_entry(1, EDIT), call_entry(2, ASK)))
    ending = await carried_out(harness, first, model)
    assert ending.outcome == "waiting", ending.error
    assert list(kept(harness)) == ["US-1.json"]
    decide(harness, ending.item, "answered", answer="made")
    second = await harness.queue(run, KEY)
    model = RecordingModel(cassette_model(DONE))
    assert isinstance(await carried_out(harness, second, model), CandidateReady)
    assert harness.attempt(second.id).edits == harness.attempt(first.id).edits is not None
    old, new = (os.fspath(harness.context.temporary(run.id, each.id)) for each in (first, second))
    told = repr(model.requests[0].messages)
    assert f"{new}/shared/scratch.md" in told
    assert f"{old}/shared" not in told


@pytest.mark.slow
async def test_a_merge_that_waited_for_a_human_goes_on(harness):
    """BX-13, DR-11: with what it merged, and the conversation about it."""
    run = await begin(harness, ("rebase_resolve", "final_review"), yolo=False, inbox_wait_s=0.05)
    ending = await carried_out(
        harness, await harness.queue(run, KEY), RecordingModel(cassette_model(call_entry(1, ASK)))
    )
    decide(harness, ending.item, "answered", answer="made")
    model = RecordingModel(cassette_model(DONE))
    ending = await carried_out(harness, await harness.queue(run, KEY), model)
    assert isinstance(ending, CandidateReady)
    assert "# The merge" in repr(model.requests[0].messages)
    assert await harness.sh(f"git log -1 --format=%s {ending.head}") == f"Merge what landed into {KEY}"
    assert f"{KEY} continues where attempt 1 waited for you." in harness.notices(run)


@pytest.mark.slow
async def test_a_change_that_waited_for_approval_keeps_its_edits(harness):
    """AL-9, DR-6: nothing is asked of the agent again, so they are taken from the attempt that waited."""
    run = await begin(harness, ("final_review",), yolo=False, planner=True, allow=("shell:cp",), inbox_wait_s=0.0)
    ending = await harness.work(run, KEY, "cp README login.sql")
    assert ending.outcome == "waiting", ending.error
    with closing(sqlite3.connect(harness.repo / ".git/scaffold/state.db")) as raw, raw:
        raw.execute("UPDATE attempt SET edits = '[]'")
    decide(harness, ending.item, "approved")
    assert isinstance(await harness.work(run, KEY), CandidateReady)
    assert [each.edits for each in harness.attempts(run, KEY)] == ["[]", "[]"]
