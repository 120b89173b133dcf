"""What is mounted in a sandbox: never a path that an earlier or a concurrent command could have replaced."""

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from scaffold.host.sandbox import bubblewrap
from scaffold.host.sandbox.confinement import Confinement, SandboxSpec
from scaffold.host.sandbox.launch import prepare_launch
from scaffold.host.sandbox.mounts import plan_mounts

PATH_SOURCES = {"--bind", "--ro-bind", "--dev-bind", "--bind-try", "--ro-bind-try", "--dev-bind-try", "--symlink"}
OUTSIDE_SOURCES = {"/", "/dev/null"}


async def test_a_folder_planted_for_shared_memory_is_not_mounted(said, zone, tmp_path, listing):
    """BX-9, RA-14: a link in the temporary folder once made the user's home writable to the next command."""
    (tmp_path / "home").mkdir()
    await said(f"rm -rf $TMPDIR/shm; ln -s {tmp_path}/home $TMPDIR/shm; ls -l $TMPDIR")
    told = await said("ls -A /dev/shm; touch /dev/shm/planted && echo touched")
    assert told == "touched\n"
    assert listing(tmp_path / "home") == []


async def test_shared_memory_is_limited_and_gone_with_its_command(said):
    """BX-9"""
    size = await said("echo left > /dev/shm/left; df --output=size --block-size=1 /dev/shm | tail -1")
    assert int(size) == bubblewrap.SHARED_MEMORY_BYTES
    assert "left" not in await said("ls -A /dev/shm")


async def test_links_planted_in_every_folder_of_a_command_lead_nowhere(said, zone, workspace, tmp_path, listing):
    """BX-9, RA-14: whatever the next command mounts, it is not what the last one pointed to."""
    victim = tmp_path / "victim"
    (victim / "hooks").mkdir(parents=True)
    (victim / "key").write_text("canary")
    before = listing(victim)
    await said(
        f"for each in shm cache tmp; do rm -rf $TMPDIR/$each; ln -s {victim} $TMPDIR/$each; done;"
        f"for each in deep .claude node_modules; do ln -s {victim} $each; done"
    )
    told = await said(
        "cat /dev/shm/key $TMPDIR/*/key */key .claude/key; for d in /dev/shm $TMPDIR/* *; do touch $d/x; done"
    )
    assert "canary" not in told
    assert listing(victim) == before


async def test_a_folder_that_is_replaced_by_a_link_before_the_mount_is_not_mounted(zone, workspace, env, tmp_path):
    """BX-9, RA-14: a command that still runs could do that at the right moment."""
    (workspace / "sub").mkdir()
    (workspace / "sub" / "key").write_text("canary")
    pinned = structs.replace(zone, hidden=(workspace / "sub" / "key",))
    plan = plan_mounts(pinned)
    assert workspace / "sub" in [mount.path for mount in plan.mounts]
    (workspace / "sub").rename(workspace / "old")
    (workspace / "sub").symlink_to(tmp_path)
    (tmp_path / "key").touch()
    launch = prepare_launch(SandboxSpec("bubblewrap", pinned, program="/bin/true"), ["true"], workspace, env)
    with pytest.raises(PermissionError, match="cannot mount"), launch:
        pass


names = st.sampled_from(["a", "b", ".git", "link", ".env"])
places = st.lists(names, max_size=3).map("/".join)
layouts = st.lists(st.tuples(places, st.sampled_from(["folder", "file", "link"])), max_size=8)


@settings(max_examples=150, deadline=None)
@given(layouts, *[st.lists(places, max_size=3)] * 4)
@pytest.mark.slow
def test_no_source_of_a_mount_lies_below_a_writable_folder(
    tmp_path_factory, layout, writable, protected, hidden, readable
):
    """BX-9, RA-14: of all confinements, on all disks: what is mounted was opened before, without following a link."""
    top = tmp_path_factory.mktemp("layout").resolve()
    for folder in ("ws", "elsewhere/a", "elsewhere/b"):
        (top / folder).mkdir(parents=True)
    for place, kind in layout:
        _make(top / "ws" / place, kind, target=top / "elsewhere")
    confinement = Confinement(
        writable=(top / "ws", *(top / "ws" / place for place in writable)),
        temporary=top / "temporary",
        protected=tuple(top / "ws" / place for place in protected if place),
        hidden=tuple(top / "ws" / place for place in hidden if place),
        readable=tuple(top / "ws" / place for place in readable),
    )
    try:
        with prepare_launch(SandboxSpec("bubblewrap", confinement, program="/bin/true"), ["true"], top, {}) as launch:
            words = launch.argv[: launch.argv.index("--")]
            assert {source for option, source in pairwise(words) if option in PATH_SOURCES} <= OUTSIDE_SOURCES
            for end in launch.passed:
                found = Path(f"/proc/self/fd/{end.fileno()}").readlink()
                assert not found.is_relative_to(top / "elsewhere")
    except PermissionError:
        return  # a link is in the way: nothing is mounted, and nothing runs


def _make(path: Path, kind: str, *, target: Path) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if kind == "folder":
            path.mkdir()
        elif kind == "file":
            path.touch(exist_ok=False)
        else:
            path.symlink_to(target)
    except OSError:
        return  # the place is taken already
