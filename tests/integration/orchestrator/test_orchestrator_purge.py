"""Purging while other processes still tidy up."""

import threading
from pathlib import Path

from scaffold.git import refs
from scaffold.host.user_dirs import UserDirs
from scaffold.orchestrator.upkeep.state_removal import Purge, folder_size
from support.harness import act, goal


async def test_a_ref_that_vanishes_after_the_survey_does_not_stop_the_purge(harness, tmp_path):
    """Another process, such as a second purge, may delete it; what is gone needs no removal."""
    run = await harness.own(goal("g", act("a")))
    head = (await harness.sh("git rev-parse HEAD")).strip()
    gone, left = f"{refs.REF_PREFIX}other/gone", f"{refs.REF_PREFIX}other/left"
    for ref in (gone, left):
        await refs.pin(harness.context.git, ref, head)
    harness.orphan(run)

    class Overtaken(Purge):
        async def plan_purge(self):
            items = await Purge.plan_purge(self)
            await refs.delete(self.repository.git, gone, old=head)
            return items

    home = tmp_path / "elsewhere"
    purge = Overtaken(
        repository=harness.context.repository,
        dirs=UserDirs(home / "config", home / "data", harness.context.cache),
        context=harness.context,
        unlanded=False,
        everything=False,
    )
    items = await purge.execute()
    assert {item.name for item in items if item.removed} >= {gone, left}
    assert await refs.list_refs(harness.context.git, refs.REF_PREFIX) == {}
    assert not (harness.repo / ".git" / "scaffold").exists()


def test_files_that_vanish_while_a_folder_is_measured_count_nothing(tmp_path):
    (tmp_path / "kept").write_bytes(b"four")
    over = threading.Event()

    def tidy_up(names: list[Path]) -> None:
        while not over.is_set():
            for name in names:
                name.write_bytes(b"")
            for name in names:
                name.unlink()

    tidying = threading.Thread(target=tidy_up, args=([tmp_path / f"gone-{at}" for at in range(200)],))
    tidying.start()
    try:
        assert {folder_size(tmp_path) for _ in range(300)} == {4}
    finally:
        over.set()
        tidying.join()
