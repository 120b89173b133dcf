"""What starting an input means: a new run, an interrupted one, or one that runs already."""

import asyncio
import threading
from collections import Counter
from contextlib import closing

import pytest

from builders import make_settings
from scaffold.core.plan import Plan
from scaffold.host.process_identity import identify, own_identity
from scaffold.orchestrator.owner.run_end import finish_run
from scaffold.orchestrator.owner.run_lease import take_over_run
from scaffold.orchestrator.user_control.open_run import (
    RunExecutedElsewhere,
    RunInput,
    RunOpened,
    RunTakenOver,
    start_run_once,
)
from support.harness import act, goal, open_context

INIT = identify(1)


def work(source="the plan"):
    return RunInput(request="the plan", source=source, plan=Plan(goals=(goal("g", act("a")),)))


def settings(harness, **changes):
    return make_settings(repository=str(harness.repo), model="script", **changes)


async def opened_by_another(harness):
    """Store a run that another living process executes."""
    started = await start_run_once(harness.context, work(), settings(harness))
    with harness.store.transaction():
        harness.store.runs.take(started.run.id, INIT, expected_fence=started.run.fence)
    return started.run


async def test_a_new_input_opens_a_run_that_this_process_owns_and_the_same_one_is_that_run(harness):
    """AL-27: nobody can take it for an interrupted one before it is claimed. BX-8: started twice, it is one run."""
    started = await start_run_once(harness.context, work(), settings(harness))
    assert isinstance(started, RunOpened)
    assert harness.store.runs.get(started.run.id) == started.run
    assert started.run.owner == own_identity()
    assert [each.name for each in harness.store.goals.for_run(started.run.id)] == ["g"]
    run = await opened_by_another(harness)
    again = await start_run_once(harness.context, work(), settings(harness))
    assert isinstance(again, RunExecutedElsewhere)
    assert (again.run.id, again.run.owner) == (run.id, INIT)


async def test_another_input_settings_commit_or_branch_is_another_run(harness):
    known = {(await opened_by_another(harness)).id}
    for source, changes, command in (
        ("another plan", {}, "true"),
        ("the plan", {"agents": 7}, "true"),
        ("the plan", {}, "git switch -q -c other"),
        ("the plan", {}, "git commit -q --allow-empty -m more"),
    ):
        await harness.sh(command)
        again = await start_run_once(harness.context, work(source), settings(harness, **changes))
        assert isinstance(again, RunOpened), (source, changes, command)
        known.add(again.run.id)
    assert len(known) == 5


async def test_an_interrupted_run_of_the_same_input_is_taken_over(harness):
    """AL-27: whatever the settings; the caller gives it those of the command."""
    run = harness.orphan(await opened_by_another(harness))
    again = await start_run_once(harness.context, work(), settings(harness, agents=7))
    assert isinstance(again, RunTakenOver)
    assert (again.run.id, again.run.fence, again.run.owner) == (run.id, run.fence + 1, own_identity())


async def test_a_run_that_has_ended_or_is_paused_is_not_continued(harness):
    run = await opened_by_another(harness)
    harness.orphan(run)
    finish_run(harness.store, take_over_run(harness.context, run.id), "paused")
    again = await start_run_once(harness.context, work(), settings(harness))
    assert isinstance(again, RunOpened)
    assert again.run.id != run.id


@pytest.mark.slow
async def test_of_many_that_start_an_input_at_once_one_opens_the_run(harness):
    """BX-8: decided in one transaction; each thread has a connection of its own."""
    rounds, starters = 12, 3
    barrier = threading.Barrier(starters)
    results = []

    async def start_all():
        context = await open_context(harness.repo, cache=harness.context.cache, environ=harness.context.environ)
        with closing(context.store):
            for number in range(rounds):
                barrier.wait()
                results.append((number, await start_run_once(context, work(f"plan {number}"), settings(harness))))

    await asyncio.wait(
        [asyncio.ensure_future(asyncio.to_thread(lambda: asyncio.run(start_all()))) for _ in range(starters)]
    )
    assert len(results) == rounds * starters
    opened = Counter(number for number, started in results if isinstance(started, RunOpened))
    assert opened == dict.fromkeys(range(rounds), 1)
    for number in range(rounds):
        assert len({started.run.id for at, started in results if at == number}) == 1
