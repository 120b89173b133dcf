"""Copies of folders."""

import asyncio
import contextlib
import os
import stat

import pytest

from scaffold.host.contained_path import ContainedPath
from scaffold.host.tree_copy import copy_beneath, move_beneath


async def copied(source, target, **options):
    """Copy one path to another."""
    place, copy = [ContainedPath(path.parent, path.name) for path in (source, target)]
    await copy_beneath(place, copy, **options)


@pytest.fixture
def source(tmp_path):
    folder = tmp_path / "source"
    (folder / "deep" / "er").mkdir(parents=True)
    (folder / "deep" / "er" / "empty").touch()
    (folder / "tool").write_bytes(os.urandom(300_000))
    (folder / "tool").chmod(0o4755)
    os.utime(folder / "tool", ns=(1_000_000_001, 2_000_000_002))
    (folder / "ümläut\n").write_text("name")
    os.link(folder / "tool", folder / "same tool")
    (folder / "link").symlink_to("deep/er")
    (folder / "dangling").symlink_to("nowhere")
    os.mkfifo(folder / "pipe")
    return folder


async def test_files_links_modes_and_times_are_the_same_in_the_copy(source, tmp_path):
    copy = tmp_path / "copy"
    await copied(source, copy)
    status = (copy / "tool").stat()
    assert (copy / "tool").read_bytes() == (source / "tool").read_bytes()
    assert (stat.S_IMODE(status.st_mode), status.st_mtime_ns) == (0o755, 2_000_000_002)
    assert [str((copy / name).readlink()) for name in ("link", "dangling")] == ["deep/er", "nowhere"]
    names = sorted(str(path.relative_to(copy)) for path in copy.rglob("*"))
    assert names == ["dangling", "deep", "deep/er", "deep/er/empty", "link", "same tool", "tool", "ümläut\n"]


async def test_writing_to_a_copy_does_not_change_the_original(source, tmp_path):
    """No hard links: agents write to their copies."""
    copy, before = tmp_path / "copy", (source / "tool").read_bytes()
    await copied(source, copy)
    (copy / "tool").write_text("mine")
    assert [path.stat().st_nlink for path in (copy / "tool", copy / "same tool")] == [1, 1]
    assert (source / "tool").read_bytes() == (copy / "same tool").read_bytes() == before


async def test_a_copy_of_a_read_only_folder_can_be_deleted(tmp_path):
    source = tmp_path / "source"
    (source / "module").mkdir(parents=True)
    (source / "module" / "code").write_text("code")
    (source / "module").chmod(0o555)
    await copied(source, tmp_path / "copy")
    assert stat.S_IMODE((tmp_path / "copy" / "module").stat().st_mode) == 0o755
    (source / "module").chmod(0o755)


async def test_a_single_file_is_copied_too_without_overwriting(source, tmp_path):
    await copied(source / "tool", tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == (source / "tool").read_bytes()
    with pytest.raises(FileExistsError):
        await copied(source / "tool", tmp_path / "copy")


async def test_links_are_rewritten_as_requested(source, tmp_path):
    (source / "deep" / "inner").symlink_to("er")
    await copied(source, tmp_path / "copy", led=lambda folder, leads: f"{folder} {leads}")
    assert str((tmp_path / "copy" / "link").readlink()) == " deep/er"
    assert str((tmp_path / "copy" / "deep" / "inner").readlink()) == "deep/ er"


async def test_a_link_is_copied_and_never_followed(source, tmp_path):
    """BX-9: what is copied may be a link that a program put there, to what the program may not read."""
    copy = tmp_path / "copy"
    await copied(source / "link", copy)
    assert str(copy.readlink()) == "deep/er"
    for name in ("link/empty", "deep/../tool", "..", str(source / "tool")):
        with pytest.raises(OSError, match=r"symbolic link|not a name"):
            await copy_beneath(ContainedPath(source, name), ContainedPath(tmp_path, "other"))
    (tmp_path / "out").symlink_to(source)
    for place in ("out/new", "../new", "/new", ".."):
        with pytest.raises(OSError, match=r"symbolic link|not a name"):
            await copy_beneath(ContainedPath(source, "tool"), ContainedPath(tmp_path, place))
        with pytest.raises(OSError, match=r"symbolic link|not a name"):
            move_beneath(ContainedPath(source, "tool"), ContainedPath(tmp_path, place))
    assert (sorted(path.name for path in tmp_path.iterdir()), (source / "new").exists()) == (
        ["copy", "out", "source"],
        False,
    )


async def test_more_folders_in_each_other_than_can_be_open_are_an_error(tmp_path):
    """A program that is set up could make them, and must not end the process that copies."""
    (tmp_path / "source" / "/".join("d" * 300)).mkdir(parents=True)
    with pytest.raises(OSError, match="200 folders in each other"):
        await copied(tmp_path / "source", tmp_path / "copy")


async def test_a_cancelled_copy_is_never_used(tmp_path, eventually):
    source, copy = tmp_path / "source", tmp_path / "copy"
    for number in range(40):
        (source / str(number)).mkdir(parents=True)
        for other in range(50):
            (source / str(number) / str(other)).touch()
    work = asyncio.create_task(copied(source, copy))
    await eventually(copy.exists)
    work.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await work
    there = sum(1 for _ in copy.rglob("*"))
    await asyncio.get_running_loop().shutdown_default_executor()  # a thread that still copied would end here
    assert there == sum(1 for _ in copy.rglob("*")) < 2_040
