"""Faults of the machine: a step that meets one is repeated, and no work pays for it."""

import asyncio
import errno
import os

import pytest
from inline_snapshot import snapshot
from msgspec import structs

from builders import run_ready_tasks
from scaffold.core.errors import GitError, PermanentGitError, StaleFence, StoreError, StoreReadOnly, StoreUnavailable
from scaffold.core.proof.gates import Baseline, CheckEnvironment
from scaffold.orchestrator.owner.watch.faults import FAULT_S, MAX_WAIT_S, OUTAGE_S, FaultRepeater
from scaffold.orchestrator.owner.watch.machine_watch import MAX_LOCKED_S, MIN_FREE_BYTES, MachineWatch
from scaffold.verify.environment.golden import ENVIRONMENTS, RECORD, EnvironmentUse, GoldenRecord, write_record
from support.fake_clock import FakeClock
from support.harness import act, goal

GIT = GitError("`git merge-tree` failed: bad object", "Retry.")
AWAY = StoreUnavailable("the server cannot be reached", "Start it.")
FLOOR = 500_000_000
FULL = OSError(errno.ENOSPC, "No space left on device")


class Failing:
    """A task that fails with `error` until `until_s`, then ends."""

    def __init__(self, clock, error, until_s):
        self.clock = clock
        self.error = error
        self.until_s = until_s
        self.tries = []

    async def __call__(self):
        self.tries.append(self.clock.monotonic())
        if self.clock.monotonic() < self.until_s:
            raise self.error


async def repeated(harness, task, clock):
    """Run the task on a clock that only the test moves; return the notices."""
    run = await harness.own(goal("g", act("a")))
    repeater = FaultRepeater(structs.replace(harness.context, clock=clock), run)
    running = asyncio.create_task(repeater.run(task))
    await run_ready_tasks()
    while not running.done():
        clock.advance(1.0)
        await run_ready_tasks()
    await running
    return harness.notices(run)


@pytest.mark.parametrize(("error", "lasts_s"), [(GIT, 30.0), (AWAY, 300.0), (FULL, 1_500.0)], ids=["git", "db", "disk"])
async def test_a_fault_that_passes_costs_only_time(harness, error, lasts_s):
    """AL-27, BX-23: a PostgreSQL restart of five minutes, `gc --prune=now` in the middle of a landing, a full disk."""
    clock = FakeClock()
    task = Failing(clock, error, lasts_s)
    told = await repeated(harness, task, clock)
    assert clock.monotonic() < lasts_s + MAX_WAIT_S + 1
    assert len(task.tries) < lasts_s / MAX_WAIT_S + 8
    assert len(told) == 1


async def test_a_fault_that_stays_is_raised(harness):
    for error, limit_s in ((GIT, FAULT_S), (AWAY, OUTAGE_S), (OSError(errno.EMFILE, "Too many open files"), FAULT_S)):
        clock = FakeClock()
        with pytest.raises(type(error)):
            await repeated(harness, Failing(clock, error, 1e9), clock)
        assert limit_s - MAX_WAIT_S - 1 <= clock.monotonic() <= limit_s + 1, error


async def test_what_does_not_pass_is_raised_at_once(harness):
    permanent = (
        PermanentGitError("a ref", "Mend it."),
        StoreReadOnly("the store", "Mend it."),
        OSError(errno.EROFS, "x"),
    )
    for error in (StaleFence("another owner", "Stop."), StoreError("corrupt", "Restore."), KeyError("x"), *permanent):
        clock = FakeClock()
        with pytest.raises(type(error)):
            await repeated(harness, Failing(clock, error, 1e9), clock)
        assert clock.monotonic() == 0, error


async def test_a_full_disk_is_told_once_the_database_has_room_for_it(harness):
    """AL-27: it may be on that disk, and whoever waits for room is woken nevertheless."""
    run = await harness.own(goal("g", act("a")))
    free, woken = [0], []
    disk = MachineWatch(harness.context, run, lambda: woken.append(True), free=lambda _: free[0])
    harness.store._connection.driver.read_only = "no room"
    with pytest.raises(StoreUnavailable):
        disk.look()
    assert disk.full
    harness.store._connection.driver.read_only = None
    disk.look()
    assert [text.partition(",")[0] for text in harness.notices(run)] == snapshot(["the disk is full"])
    free[0] = FLOOR
    harness.store._connection.driver.read_only = "no room"
    with pytest.raises(StoreUnavailable):
        disk.look()
    assert (disk.full, woken) == (False, [True])


async def test_a_full_disk_lets_nothing_start_and_says_so(harness):
    """AL-27: it goes on when there is room."""
    run = await harness.own(goal("g", act("a")))
    free, woken = [MIN_FREE_BYTES - 1], []
    disk = MachineWatch(harness.context, run, lambda: woken.append(True), free=lambda _: free[0])
    disk.look()
    disk.look()
    assert (disk.full, woken, harness.store.runs.get(run.id).waits_for) == snapshot((True, [], "room on the disk"))
    free[0] = FLOOR
    disk.look()
    assert (disk.full, woken, harness.store.runs.get(run.id).waits_for) == (False, [True], "")
    assert [text.partition(",")[0] for text in harness.notices(run)] == snapshot(
        ["the disk is full", "there is room on the disk again"]
    )


async def test_below_the_floor_unused_caches_go_first_and_then_new_work_waits(harness):
    """BX-3: what runs goes on, and the environment that a run uses stays."""
    run = await harness.own(goal("g", act("a")))
    environments = harness.context.cache / ENVIRONMENTS
    for name in ("old", "used"):
        write_record(environments / name, GoldenRecord("top", ()))
    os.utime(environments / "old" / RECORD, (0, 0))
    room = {2: FLOOR - 1, 1: FLOOR - 1}
    left = lambda: len([*environments.glob(f"*/{RECORD}")])  # noqa: E731
    disk = MachineWatch(harness.context, run, lambda: None, free=lambda _: room[left()])
    disk.look()
    assert (disk.full, disk.waits_for, left()) == snapshot((False, "room on the disk", 1))
    room[1] = FLOOR
    disk.look()
    assert (disk.waits_for, left()) == ("", 1)


async def test_the_environment_that_a_live_run_uses_is_never_deleted(harness):
    """BX-3: after the machine slept, too, when its last use was noted long ago."""
    run = await harness.own(goal("g", act("a")))
    environments = harness.context.cache / ENVIRONMENTS
    write_record(environments / "own", GoldenRecord("top", ()))
    os.utime(environments / "own" / RECORD, (0, 0))
    used = EnvironmentUse()
    used.note(environments, CheckEnvironment(fingerprint="", shown=(str(environments / "own"),)))
    os.utime(environments / "own" / RECORD, (0, 0))
    disk = MachineWatch(harness.context, run, lambda: None, free=lambda _: FLOOR - 1)
    disk.look()
    assert (environments / "own" / RECORD).exists(), "held by a process that lives, of whatever repository"
    used.close()
    disk.look()
    assert not (environments / "own" / RECORD).exists()


async def test_the_use_of_the_own_environment_is_noted_before_anything_is_deleted(harness):
    """BX-3"""
    run = await harness.own(goal("g", act("a")))
    environments = harness.context.cache / ENVIRONMENTS
    write_record(environments / "own", GoldenRecord("top", ()))
    shown = CheckEnvironment(fingerprint="", shown=(str(environments / "own"),))
    with harness.store.transaction():
        harness.store.baselines.hold(run.id, Baseline(environment=shown, runs=()), "tree")
    os.utime(environments / "own" / RECORD, (0, 0))
    disk = MachineWatch(harness.context, run, lambda: None, free=lambda _: FLOOR - 1)
    disk.look()
    os.utime(environments / "own" / RECORD, (0, 0))
    disk.look()
    assert (environments / "own" / RECORD).exists()
    disk.close()


async def test_a_lock_that_a_killed_git_left_lets_nothing_start_and_says_so(harness):
    """AL-27: no ref can be deleted meanwhile, so each attempt would be paid for and lost."""
    run = await harness.own(goal("g", act("a")))
    clock, woken = FakeClock(), []
    watch = MachineWatch(structs.replace(harness.context, clock=clock), run, lambda: woken.append(True))
    lock = harness.context.repository.common_dir / "packed-refs.lock"
    lock.touch()
    watch.look()
    clock.advance(MAX_LOCKED_S - 1)
    watch.look()
    assert watch.waits_for == ""
    clock.advance(1)
    watch.look()
    assert (watch.waits_for, harness.store.runs.get(run.id).waits_for) == ("a lock of git",) * 2
    lock.unlink()
    watch.look()
    assert (watch.waits_for, woken, harness.store.runs.get(run.id).waits_for) == ("", [True], "")
    told = harness.notices(run)
    assert told[0].startswith(f"git has locked its refs, by {lock}: nothing new starts until it is gone.")
    assert told[1] == snapshot("the lock of git is gone")
