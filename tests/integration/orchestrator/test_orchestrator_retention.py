"""What is kept of the past for a while, and what only `purge` removes."""

import os
from datetime import timedelta

import pytest
from inline_snapshot import snapshot
from msgspec import structs

from scaffold.core.run_settings import KeepSettings
from scaffold.core.states import Failed
from scaffold.git import refs
from scaffold.host.clock import SystemClock
from scaffold.host.user_dirs import UserDirs
from scaffold.landing.queue.merge_queue import BatchLanded, MergeQueue
from scaffold.orchestrator.owner.run_end import cancel_run, finish_run
from scaffold.orchestrator.upkeep.run_cleanup import clean_up
from scaffold.orchestrator.upkeep.state_removal import Purge
from scaffold.orchestrator.upkeep.unlanded import list_archived, list_unlanded
from scaffold.run.failures.rescue_diff import write_failure_diffs
from scaffold.run.ignored_archive import archive_folder
from scaffold.worker.contract.checkout_files import ignore_projections
from support.harness import UNSANDBOXED, act, goal

KEEP = KeepSettings(days=30, logs_mb=1)


class Later(SystemClock):
    """A clock that is ahead."""

    def __init__(self, days):
        self.days = days

    def now(self):
        return super().now() + timedelta(days=self.days)


@pytest.fixture
async def past(harness):
    """A run in which `good` landed and `bad` failed; both left an ignored file."""
    await harness.sh("echo '*.log' > .gitignore; git add .; git commit -qm ignore")
    ignore_projections(harness.context)
    plan = goal("g", act("good", check="test -f good"), act("bad", check="false"))
    run = await harness.own(plan, attempts=1, iterations=1, **UNSANDBOXED)
    for key in ("good", "bad"):
        await harness.work(run, key, f"touch {key}; echo x > x.log")
    queue = MergeQueue(harness.context, run)
    assert isinstance(await queue.step(), BatchLanded)
    await queue.close()
    harness.move(harness.goal(run), Failed("`bad` failed"))
    finish_run(harness.store, run, "done")
    (good,), (bad,) = harness.attempts(run, "good"), harness.attempts(run, "bad")
    await refs.pin(harness.context.git, refs.keep_ref(good.id), run.base_sha)
    await refs.pin(harness.context.git, refs.keep_ref(bad.id), run.base_sha)
    (harness.repo / ".scaffold" / "reports").mkdir(exist_ok=True)
    for name in (run.id, "r"):
        (harness.repo / ".scaffold" / "reports" / f"{name}.html").write_text("report")
    return good, bad


async def cleaned(harness, days, *, dry=False):
    context = structs.replace(harness.context, clock=Later(days))
    return {step.kind for step in await clean_up(context, dry=dry, keep=KEEP) if step.verdict == "removed"}


@pytest.mark.slow
async def test_only_what_is_old_and_has_landed_goes(harness, past):
    """BX-3, AL-15: logs, reports and patches go by age; never what has not landed, or what is beside it."""
    good, bad = past
    assert await cleaned(harness, 29) <= {"folder", "worktree"}
    planned = await cleaned(harness, 31, dry=True)
    assert planned == {"logs", "patches"}
    assert await cleaned(harness, 31) == planned
    assert await cleaned(harness, 31) == set()
    assert len(list_archived(harness.context.repository.common_dir, harness.store)) == 2
    left = await refs.list_refs(harness.context.git, refs.REF_PREFIX)
    assert set(left) == {refs.rescue_ref(bad.id), refs.keep_ref(bad.id), refs.keep_ref(good.id)}
    reports = harness.repo / ".scaffold" / "reports"
    assert [path.name for path in reports.iterdir()] == ["r.html"], "no run has written it"


@pytest.mark.usefixtures("past")
@pytest.mark.slow
async def test_nothing_of_a_run_that_has_not_ended_goes(harness):
    """BX-3: journals and patches are of an action, not of a run."""
    run = await harness.own(goal("h", act("a")))
    logs = harness.repo / ".scaffold" / "logs"
    made = [logs / "h" / "a.jsonl", logs / "gates" / run.id / "x.log", harness.repo / ".scaffold/failures/h-a.diff"]
    for path in made:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bytes(600_000))
    await cleaned(harness, 31)
    assert [path.exists() for path in made] == [True] * 3
    cancel_run(harness.store, harness.store.runs.get(run.id))
    await cleaned(harness, 31)
    assert [path.exists() for path in made] == [False] * 3


@pytest.mark.slow
async def test_purge_keeps_what_an_attempt_has_beside_the_work_that_landed(harness, past):
    """BX-3: its abandoned commits and its ignored files, unless `--unlanded` is given."""
    good, bad = past
    pins = {refs.keep_ref(good.id), refs.keep_ref(bad.id), refs.rescue_ref(good.id), refs.rescue_ref(bad.id)}
    await refs.pin(harness.context.git, refs.rescue_ref(good.id), good.head_sha)
    await refs.pin(harness.context.git, refs.work_ref(good.id), good.head_sha)
    dirs = UserDirs(cache=harness.context.cache, data=harness.context.cache, config=harness.context.cache)
    purge = Purge(
        repository=harness.context.repository, dirs=dirs, context=harness.context, unlanded=False, everything=False
    )
    items = {item.name: item for item in await purge.plan_purge() if item.kind in {"ref", "ignored"}}
    kept = {name for name, item in items.items() if not item.removed}
    assert kept == pins | {str(archive_folder(harness.context.repository.common_dir, each.id)) for each in past}
    assert items[refs.work_ref(good.id)].removed
    assert all(item.removed for item in await structs.replace(purge, unlanded=True).plan_purge() if item.name in kept)
    found = {each.ref: each.why for each in await list_unlanded(harness.context.git, harness.store)}
    assert found[refs.rescue_ref(good.id)] == snapshot("its other work landed")


@pytest.mark.slow
async def test_the_oldest_logs_go_first_where_all_are_too_large(harness, past):
    """BX-3: not those of the last day, which a run may be writing, and not those of others."""
    logs = harness.repo / ".scaffold" / "logs"
    names = ("g/good.jsonl", "g/bad.jsonl", f"gates/{past[0].run_id}/old.log", "app/old.jsonl")
    for age, name in enumerate(names):
        (logs / name).parent.mkdir(parents=True, exist_ok=True)
        (logs / name).write_bytes(bytes(600_000))
        at = SystemClock().now().timestamp() - age * 2 * 86_400
        os.utime(logs / name, (at, at))
    assert "logs" in await cleaned(harness, 0)
    assert [(logs / name).exists() for name in names] == [True, False, False, True]


async def test_the_patch_of_an_earlier_failure_is_replaced_if_the_process_of_a_later_one_was_killed(harness):
    """DR-9: the file is there, but of the attempt before the retry; one of this attempt stays."""
    ignore_projections(harness.context)
    run = await harness.own(goal("g", act("bad", check="false")), attempts=1, iterations=1, **UNSANDBOXED)
    await harness.work(run, "bad", "echo later > bad")
    patch = harness.repo / ".scaffold" / "failures" / "g-bad.diff"
    assert "+later" in patch.read_text()
    began = harness.attempts(run, "bad")[0].started_at.timestamp()
    for at, kept in ((began - 60, False), (began + 60, True)):
        patch.write_text("+earlier")
        os.utime(patch, (at, at))
        await write_failure_diffs(harness.context, run)
        assert ("+earlier" in patch.read_text()) is kept
