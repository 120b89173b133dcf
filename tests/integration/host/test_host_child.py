"""Children that live as long as their parent."""

import os
import signal
import sys
from pathlib import Path

import pytest

from scaffold.core.errors import ScaffoldError
from scaffold.host.process.child import kill_orphan, start_child
from scaffold.host.process_identity import is_alive, own_identity

PARENT = """
import asyncio, os, pathlib, sys
from scaffold.host.process.child import kill_orphan, start_child
async def main():
    here = pathlib.Path.cwd()
    argv = [sys.executable, "-c", os.environ["CHILD"]]
    child = await start_child(argv, cwd=here, env=os.environ, log=here / "child.log")
    await child.wait()
asyncio.run(main())
"""
CHILD = """
import os, pathlib, signal
from scaffold.host.process.async_runner import watch_lifeline
watch_lifeline()
helper = os.posix_spawnp("sleep", ["sleep", "60"], os.environ)
pathlib.Path("helper.pid").write_text(f"{helper}\\n")
pathlib.Path("child.pid").write_text(f"{os.getpid()}\\n")
while True: signal.pause()
"""


@pytest.fixture
def child(tmp_path, env):
    async def begin(script):
        return await start_child(["sh", "-c", script], cwd=tmp_path, env=env, log=tmp_path / "logs" / "child.log")

    return begin


async def test_both_outputs_of_a_child_are_appended_to_its_log(child, tmp_path):
    for _ in range(2):
        assert await (await child("echo out; echo err >&2; exit 4")).wait() == 4
    assert (tmp_path / "logs" / "child.log").read_text() == "out\nerr\n" * 2


async def test_a_child_leads_its_own_session_and_has_an_identity(child):
    one = await child("sleep 60")
    assert os.getsid(one.identity.pid) == one.identity.pid
    assert is_alive(one.identity)
    one.kill()
    assert await one.wait() == -signal.SIGKILL
    assert not is_alive(one.identity)


async def test_a_killed_child_takes_its_process_group_with_it(child, tmp_path, process_in, eventually):
    """BX-17"""
    one = await child("sleep 60 & echo $! > helper.pid; wait")
    helper = await process_in(tmp_path / "helper.pid")
    assert is_alive(helper)
    one.kill()
    await one.wait()
    await eventually(lambda: not is_alive(helper))
    assert not is_alive(helper)


async def test_a_child_may_exit_cleanly_within_its_grace_period(child, tmp_path, eventually):
    one = await child("trap 'exit 7' TERM; touch ready; sleep 60 & wait")
    await eventually((tmp_path / "ready").exists)
    assert await one.end(grace_s=10) == 7


async def test_a_child_that_does_not_end_is_killed_after_its_grace_period(child, tmp_path, eventually):
    one = await child("trap '' TERM; touch ready; while :; do sleep 60; done")
    await eventually((tmp_path / "ready").exists)
    assert await one.end(grace_s=0.1) == -signal.SIGKILL


async def test_ending_a_child_that_has_ended_is_no_error(child):
    one = await child("exit 3")
    assert await one.wait() == 3
    one.terminate()
    one.kill()
    assert await one.end(grace_s=0.1) == 3


async def test_a_child_and_its_helpers_end_when_their_parent_is_killed(tmp_path, env, process_in, eventually):
    """BX-17"""
    parent = await start_child(
        [sys.executable, "-c", PARENT], cwd=tmp_path, env=env | {"CHILD": CHILD}, log=tmp_path / "parent.log"
    )
    child, helper = await process_in(tmp_path / "child.pid"), await process_in(tmp_path / "helper.pid")
    assert is_alive(child)
    assert is_alive(helper)
    os.kill(parent.identity.pid, signal.SIGKILL)
    await parent.wait()
    await eventually(lambda: not is_alive(child) and not is_alive(helper), within_s=2)


async def test_a_child_may_handle_the_end_of_its_lifeline(tmp_path, env, eventually):
    script = (
        "import os, pathlib, signal\n"
        "from scaffold.host.process.async_runner import watch_lifeline\n"
        "watch_lifeline(lambda: (pathlib.Path('cut').touch(), os._exit(9)))\n"
        "while True: signal.pause()\n"
    )
    one = await start_child([sys.executable, "-c", script], cwd=tmp_path, env=env, log=tmp_path / "log")
    one._lifeline.close()
    assert await one.wait() == 9
    assert (tmp_path / "cut").exists()


async def test_a_child_of_a_dead_parent_is_ended_with_its_group(child, tmp_path, process_in, eventually):
    """BX-17"""
    one = await child("sleep 60 & echo $! > helper.pid; wait")
    helper = await process_in(tmp_path / "helper.pid")
    await kill_orphan(one.identity)
    assert not is_alive(one.identity)
    await eventually(lambda: not is_alive(helper))
    await kill_orphan(one.identity)
    await one.wait()


async def test_a_child_that_leads_no_group_is_ended_too(child, tmp_path, process_in):
    """BX-17"""
    one = await child("sleep 60 & echo $! > helper.pid; wait")
    helper = await process_in(tmp_path / "helper.pid")
    assert os.getpgid(helper.pid) != helper.pid
    await kill_orphan(helper)
    assert not is_alive(helper)
    assert is_alive(one.identity) or await one.wait() == 0, "its group is not ours to end"
    one.kill()
    await one.wait()


async def test_a_child_that_cannot_be_ended_is_named():
    """With a timeout of zero nothing is signalled, so the test can use its own process."""
    ours = own_identity()
    with pytest.raises(ScaffoldError, match=f"process {ours.pid} is still running 0 s") as caught:
        await kill_orphan(ours, timeout_s=0)
    assert str(ours.pid) in caught.value.fix


def count_descriptors():
    return len(list(Path("/dev/fd").iterdir()))


async def test_a_child_that_cannot_start_leaves_no_descriptor_open(tmp_path):
    open_before = count_descriptors()
    for argv, log in ((["sleep", "1"], tmp_path), (["no-such-program"], tmp_path / "log")):
        with pytest.raises(OSError, match="directory"):
            await start_child(argv, cwd=tmp_path, env=os.environ, log=log)
    assert count_descriptors() == open_before
