"""Actions that may change the same files do not run at the same time; others start in their place."""

import pytest

from integration.orchestrator.test_orchestrator_slots import ends, starts
from scaffold.core.states import Paused
from scaffold.landing.queue.merge_queue import MergeQueue
from scaffold.landing.queue.step_result import BatchLanded
from scaffold.orchestrator.dispatch import slots_by_goal, why_held_back
from scaffold.orchestrator.supervisor.goal_view import read_goal_view
from scaffold.plan.collisions.layout import SourceLayout
from scaffold.plan.collisions.rules import MOST_OVERTAKEN
from scaffold.plan.decide import Dispatch, decide
from scaffold.run.source_layout import ensure_source_layout
from support.harness import act, goal


def reason(harness, run, key):
    held_back = why_held_back(harness.store, run, harness.action(run, key).id)
    return held_back and (held_back.rule, held_back.waits_for, held_back.path)


def decided(harness, run, name="g"):
    """Return the keys of the actions that the supervisor of a goal would start now."""
    (found,) = [each for each in harness.store.goals.for_run(run.id) if each.name == name]
    keys = {each.id: each.key for each in harness.store.actions.for_run(run.id)}
    commands = decide(read_goal_view(harness.store, run, found))
    assert all(isinstance(each, Dispatch) for each in commands)
    return [keys[each.action] for each in commands]


async def lands(harness, run):
    queue = MergeQueue(harness.context, run)
    assert isinstance(await queue.step(), BatchLanded)
    await queue.close()


@pytest.mark.slow
async def test_an_action_on_a_nested_path_waits_until_the_other_has_landed(harness):
    """AL-4: also while the work waits to land; whoever asks, as it is decided in the transaction that queues."""
    inner, outer = act("inner", files=("src/shop/a.txt",)), act("outer", files=("src/",))
    run = await harness.own(goal("g", inner, outer, act("free", files=("docs",))), agents=3)
    assert decided(harness, run) == ["inner", "free"]
    await harness.work(run, "inner", "mkdir -p src/shop; echo x > src/shop/a.txt")
    assert reason(harness, run, "outer") == ("path", ("inner",), "src/shop/a.txt")
    assert not await starts(harness, run, "outer")
    assert decided(harness, run) == ["free"]
    await lands(harness, run)
    assert reason(harness, run, "outer") is None
    assert decided(harness, run) == ["outer", "free"]
    assert await starts(harness, run, "outer")


async def test_the_view_looks_past_any_number_of_actions_that_are_held_back(harness):
    """AL-4: sixty wait for one, and the next one starts; a goal whose work is all held back is not stuck."""
    waiting = [act(f"w{n}", files=(f"src/a{n}",)) for n in range(60)]
    first = act("first", files=("src",))
    run = await harness.own(goal("g", first, *waiting, act("last")), agents=3, goal_agents=3)
    assert await starts(harness, run, "first")
    assert decided(harness, run) == ["last"]
    assert await starts(harness, run, "last")
    assert decided(harness, run) == []
    ends(harness, run, "first")
    assert decided(harness, run) == ["first"], "the others would collide with it"


async def test_a_goal_whose_ready_work_is_held_back_takes_no_slot_from_others(harness):
    """AL-4, SC-15: the slot goes to the next goal that can use it, and the one that waits is not charged."""
    first = goal("first", act("a", files=("src/x",)))
    second = goal("second", act("b", files=("src/x",)))
    run = await harness.own(first, second, goal("third", act("c")), agents=2)
    goals = {each.name: each.id for each in harness.store.goals.for_run(run.id)}
    assert slots_by_goal(harness.store, run) == {goals["first"]: 1, goals["third"]: 1}
    assert await starts(harness, run, "a")
    assert slots_by_goal(harness.store, run) == {goals["third"]: 1}
    assert decided(harness, run, "second") == []
    ends(harness, run, "a")
    assert slots_by_goal(harness.store, run) == {goals["second"]: 1, goals["third"]: 1}


async def test_nobody_is_held_back_by_an_action_without_files_or_once_the_user_turned_that_off(harness):
    """AL-4: unknown files are no reason to wait, nor is a review; `collisions: off` ends all rules."""
    review = act("r", files=("x",), role="code_review")
    run = await harness.own(goal("g", act("a"), act("b"), act("c", files=("x",)), review), agents=4, goal_agents=4)
    assert [await starts(harness, run, key) for key in "abcr"] == [True, True, True, True]
    same = [act(key, files=("x",)) for key in "de"]
    off = await harness.own(goal("h", *same), agents=3, collisions=False)
    assert [await starts(harness, off, key) for key in "de"] == [True, True]
    assert why_held_back(harness.store, off, harness.action(off, "d").id) is None


async def test_what_work_with_unknown_files_has_changed_is_in_the_way_of_others(harness):
    """AL-4: as soon as it is committed; until then nothing is known."""
    run = await harness.own(goal("g", act("a"), act("b", files=("list",)), act("c")), agents=3)
    attempt = await harness.queue(run, "a")
    assert reason(harness, run, "b") is None
    await harness.run_attempt(attempt, {"a": ["echo a >> list"]})
    assert reason(harness, run, "b") == ("forecast", ("a",), "list")
    assert reason(harness, run, "c") is None


@pytest.mark.slow
async def test_work_that_is_done_again_waits_for_what_it_would_conflict_with(harness):
    """AL-4: its last work and the running one are merged in memory; without a conflict it starts."""
    run = await harness.own(goal("g", act("a"), act("b"), act("c")), agents=3)
    for key, command in (("a", "sed -i s/one/uno/ list"), ("b", "sed -i s/three/tre/ list"), ("c", "echo 1 > list")):
        attempt = await harness.queue(run, key)
        await harness.run_attempt(attempt, {key: [command]})
        if key != "a":
            ends(harness, run, key, "conflict")
    assert not await starts(harness, run, "c")
    assert reason(harness, run, "c") == ("forecast", ("a",), "list")
    assert "c" not in decided(harness, run)
    assert await starts(harness, run, "b")


@pytest.mark.slow
async def test_what_has_changed_a_file_that_many_landings_changed_runs_alone(harness):
    """AL-4: more than three landings make a hotspot, also for work whose files are unknown."""
    again = [act(f"a{n}", files=("list",)) for n in range(4)]
    run = await harness.own(goal("g", *again, act("b"), act("c"), act("d", files=("list",))), agents=3)
    for n in range(4):
        await harness.work(run, f"a{n}", f"echo {n} > list")
        await lands(harness, run)
        assert harness.store.scheduling.hotspots(run.id) == (("list",) if n == 3 else ())
    await harness.run_attempt(await harness.queue(run, "b"), {"b": ["sed -i '1i top' list"]})
    ends(harness, run, "b", "conflict")
    await harness.run_attempt(await harness.queue(run, "c"), {"c": ["echo end >> list"]})
    assert reason(harness, run, "b") == ("hotspot", ("c",), "list")
    assert reason(harness, run, "d") == ("hotspot", ("c",), "list")


async def test_no_more_agents_than_the_setting_says_work_in_one_package(harness):
    """AL-4: the members of a workspace are the directories; what was handed in is at work no more."""
    await harness.sh("mkdir -p packages/api packages/web; touch packages/api/package.json packages/web/package.json")
    await harness.sh('echo \'{"workspaces": ["packages/*"]}\' > package.json; git add -A; git commit -qm workspace')
    keys = {"a": "api/a", "b": "api/b", "c": "api/c", "d": "web/d"}
    run = await harness.own(
        goal("g", *(act(key, files=(f"packages/{at}",)) for key, at in keys.items())), agents=4, goal_agents=4
    )
    await ensure_source_layout(harness.context, run)
    await ensure_source_layout(harness.context, run)
    assert decided(harness, run) == ["a", "b", "d"]
    for key in "ab":
        await harness.queue(run, key)
    assert reason(harness, run, "c") == ("directory", ("a", "b"), "packages/api")
    await harness.run_attempt(harness.attempts(run, "a")[-1], {"a": ["mkdir -p packages/api; echo x > packages/api/a"]})
    assert reason(harness, run, "c") is None


async def test_a_broken_workspace_file_is_told_once_and_ignored(harness):
    """AL-4: the repository's other files say where the source is."""
    await harness.sh("mkdir api web; touch api/a web/b")
    told = {}
    for text in ("{", "[]", '{"workspaces": 7}', '"' * 3):
        (harness.repo / "package.json").write_text(text)
        await harness.sh("git add -A; git commit -qm broken")
        run = await harness.own(goal("g", act("a")))
        for _ in range(2):
            await ensure_source_layout(harness.context, run)
        assert harness.store.scheduling.layout(run.id) == SourceLayout(folders=("api", "web"))
        told[text] = sum("package.json" in notice for notice in harness.notices(run))
    assert told == {"{": 1, "[]": 0, '{"workspaces": 7}': 0, '"' * 3: 1}


async def test_no_stream_of_others_starves_an_action(harness):
    """AL-4: once others have overtaken it four times, those that it would wait for start no more."""
    small = [act(f"s{n}", files=(f"src/{n}",)) for n in range(9)]
    run = await harness.own(goal("g", act("whole", files=("src",)), *small), agents=2)
    await harness.queue(run, "s0")
    with harness.store.transaction():
        harness.store.scheduling.hold_back(run.id, [harness.action(run, "whole").id])
    for n in range(1, MOST_OVERTAKEN + 1):
        assert await starts(harness, run, f"s{n}"), "one at a time, and the one before it ends"
        ends(harness, run, f"s{n - 1}")
    assert reason(harness, run, "s7") == ("turn", ("whole",), "src/7")
    assert not await starts(harness, run, "s7")
    ends(harness, run, f"s{MOST_OVERTAKEN}")
    assert decided(harness, run) == ["whole"]
    # A goal that starts nothing keeps nothing free.
    with harness.store.transaction():
        (the_goal,) = harness.store.goals.for_run(run.id)
        harness.store.goals.move(the_goal.id, Paused("a break"))
    assert reason(harness, run, "s7") is None
