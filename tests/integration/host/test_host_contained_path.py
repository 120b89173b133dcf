"""Paths in a folder where others may have put links."""

import os
import socket
from pathlib import Path

import pytest

from scaffold.host.contained_path import ContainedPath

LEADS_OUT = (
    "../outside/file",
    "/etc/hostname",
    "a/../../outside/file",
    "..",
    ".",
    "a//b",
    "a\0b",
    "\ud800",
    "x" * 5_000,
)


@pytest.fixture
def outside(tmp_path):
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "file").write_bytes(b"mine")
    return folder


@pytest.fixture
def top(tmp_path):
    folder = tmp_path / "top"
    folder.mkdir()
    return ContainedPath(folder)


def require_refused(path: ContainedPath, why: str, *, deleted: bool = False) -> None:
    """Try everything that changes a path; what is `deleted` itself is nothing outside."""
    for change in (lambda: path.write(b"ours"), lambda: path.append(b"ours"), *([] if deleted else [path.delete])):
        with pytest.raises(OSError, match=why):
            change()


def test_files_are_written_appended_to_read_listed_and_deleted(top):
    (top / "a" / "b.json").write(b"{}")
    (top / "a/log").append(b"one")
    (top / "a/log").append(b"two")
    assert (top / "a/log").read(100) == b"one\ntwo\n"
    assert (top / "a/log").read(3) == "the file is larger than 3 bytes"
    assert (top / "b").read(3) == "the file is missing"
    assert [path.name for path, _ in top.entries()] == ["a", "a/b.json", "a/log"]
    (top / "a/log").delete()
    (top / "a/log").delete()
    (top / "a").delete()
    assert [*top.entries()] == []


@pytest.mark.parametrize("name", LEADS_OUT)
def test_a_name_that_could_lead_out_is_refused(top, outside, name):
    """BX-9: no name of a record or a repository leads to another folder."""
    (top.top / "a").mkdir()
    assert "the file cannot be opened" in str((top / name).read(100))
    require_refused(top / name, "not a name below this folder")
    assert not (top / name).is_writable()
    assert (outside / "file").read_bytes() == b"mine"
    assert (top.top / "a").is_dir()


def test_the_folder_itself_is_never_deleted(top):
    require_refused(top, "not a name below this folder")
    assert top.top.is_dir()


@pytest.mark.parametrize("depth", [0, 1, 2])
def test_a_link_at_any_depth_is_refused_with_its_name(top, outside, depth):
    """BX-9: neither the file nor a folder on the way may be a link."""
    parts = ["a", "b", "file"]
    place = top.top.joinpath(*parts[:depth])
    place.mkdir(parents=True, exist_ok=True)
    (place / parts[depth]).symlink_to(outside / "file" if depth == 2 else outside)
    (outside / "b").mkdir()
    (outside / "b" / "file").write_bytes(b"mine")
    before = sorted(outside.rglob("*"))
    path = top / "a/b/file"
    require_refused(path, "a symbolic link", deleted=depth == 2)
    with pytest.raises(OSError, match="a symbolic link") as refused:
        path.write(b"ours")
    assert refused.value.filename == str(place / parts[depth])
    assert isinstance(path.read(100), str)
    assert not path.is_writable()
    assert (outside / "file").read_bytes() == (outside / "b" / "file").read_bytes() == b"mine"
    assert sorted(outside.rglob("*")) == before


def test_a_link_is_deleted_and_not_what_it_leads_to(top, outside):
    (top.top / "link").symlink_to(outside)
    (top / "link").delete()
    assert not (top.top / "link").is_symlink()
    assert (outside / "file").read_bytes() == b"mine"


def test_listing_does_not_follow_links(top, outside):
    (top.top / "link").symlink_to(outside)
    (top / "a/file").write(b"")
    assert [path.name for path, _ in top.entries()] == ["a", "link", "a/file"]
    assert [*(top / "link").entries()] == []


def test_pipes_sockets_and_folders_are_no_files(top):
    os.mkfifo(top.top / "pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        os.chdir(top.top)  # a socket's path may not be long
        listening.bind("socket")
        require_refused(top / "pipe", "a named pipe", deleted=True)
        require_refused(top / "socket", "a socket", deleted=True)
    (top.top / "socket").chmod(0)
    require_refused(top / "socket" / "x", "a command in a sandbox is using it")
    (top.top / "folder").mkdir()
    for name in ("pipe", "socket", "folder"):
        assert isinstance((top / name).read(100), str)
        assert not (top / name).is_writable()
    with pytest.raises(IsADirectoryError):
        (top / "folder").append(b"x")


def test_a_file_with_another_name_outside_is_not_appended_to_but_replaced(top, outside):
    (top.top / "log").hardlink_to(outside / "file")
    assert not (top / "log").is_writable()
    with pytest.raises(OSError, match="several names"):
        (top / "log").append(b"ours")
    (top / "log").write(b"ours")
    assert (outside / "file").read_bytes() == b"mine"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_what_belongs_to_another_user_is_not_changed(top):
    (top / "a/file").write(b"")
    os.chown(top.top / "a", 4_321, -1)
    require_refused(top / "a" / "file", "owned by another user")
    assert (top / "a" / "file").read(100) == b""
    # In a container, a user's checkout may be worked at by root.
    os.chown(top.top, 4_321, -1)
    (top / "a" / "file").write(b"ours")


def test_a_file_that_is_missing_is_writable_if_the_nearest_folder_is(top):
    assert (top / "a/b/file").is_writable()
    assert [*top.entries()] == []
    (top / "a/b/file").append(b"x")
    assert (top / "a/b/file").is_writable()
    assert not (top / "a/b").is_writable()


def test_a_new_file_is_private_and_another_keeps_its_mode(top):
    (top.top / "script").touch(mode=0o755)
    for name in ("script", "new"):
        (top / name).write(b"x")
    assert [status.st_mode & 0o777 for _, status in top.entries()] == [0o600, 0o755]


def test_a_failed_write_leaves_the_old_file_and_nothing_else(top):
    class Broken:
        def read(self, _size: int) -> bytes:
            raise OSError("the disk")

    (top / "file").write(b"old")
    with pytest.raises(OSError, match="the disk"):
        (top / "file").write(Broken())
    assert [path.name for path, _ in top.entries()] == ["file"]
    assert (top / "file").read(10) == b"old"


def test_a_link_above_the_folder_is_the_users_own(tmp_path, top):
    (tmp_path / "link").symlink_to(top.top)
    (ContainedPath(Path(tmp_path, "link")) / "file").write(b"x")
    assert (top / "file").read(10) == b"x"


def test_a_folder_that_becomes_a_link_meanwhile_is_not_followed(top, outside):
    """BX-9: what was looked at is what is changed."""
    (top / "a/file").write(b"ours")
    with (top / "a").opened() as folder:
        (top.top / "a").rename(top.top / "b")
        (top.top / "a").symlink_to(outside)
        os.unlink("file", dir_fd=folder)
    assert (outside / "file").read_bytes() == b"mine"
