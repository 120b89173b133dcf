import os
import stat
import struct
import sys

import pytest

from scaffold.policy.path.containment import Refusal
from scaffold.tools.content.safe_open import FileContent, open_file, open_folder, read_whole, replace_file

NOBODY = 0xFFFFFFFF


@pytest.fixture
def root(tmp_path):
    folder = tmp_path / "work"
    (folder / "sub").mkdir(parents=True)
    (folder / "sub" / "a").write_text("old")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "a").write_text("secret")
    return folder


def read(root, limit_bytes=100):
    return read_whole(root, root / "sub" / "a", "sub/a", limit_bytes=limit_bytes)


def swap_folder(root):
    (root / "sub").rename(root / "was")
    (root / "sub").symlink_to("../outside")


def test_a_link_created_after_the_check_is_not_followed(root):
    (root / "sub" / "a").unlink()
    (root / "sub" / "a").symlink_to("../../outside/a")
    assert isinstance(read(root), Refusal)
    refusal = replace_file(root, root / "sub" / "a", b"x", "sub/a", origin=None)
    assert isinstance(refusal, Refusal)
    with pytest.raises(OSError, match="symbolic links"), open_file(root, root / "sub" / "a", os.O_WRONLY):
        pass
    assert (root.parent / "outside" / "a").read_text() == "secret"


def test_a_folder_replaced_by_a_link_outside_is_not_entered(root):
    swap_folder(root)
    assert isinstance(read(root), Refusal)
    with pytest.raises(OSError, match="a symbolic link"):
        replace_file(root, root / "sub" / "a", b"x", "sub/a", origin=None)
    with pytest.raises(OSError, match="a symbolic link"), open_folder(root, root / "sub"):
        pass
    assert (root.parent / "outside" / "a").read_text() == "secret"


def test_a_file_replaced_by_a_pipe_does_not_block(root):
    (root / "sub" / "a").unlink()
    os.mkfifo(root / "sub" / "a")
    assert isinstance(read(root), Refusal)
    assert isinstance(replace_file(root, root / "sub" / "a", b"x", "sub/a", origin=None), Refusal)


@pytest.mark.parametrize("change", ["content", "size", "another file", "gone"])
def test_a_file_that_changed_since_it_was_read_is_not_overwritten(root, change):
    place = root / "sub" / "a"
    os.utime(place, ns=(1, 1))
    content = read(root)
    assert isinstance(content, FileContent)
    match change:
        case "content":
            place.write_text("new")
        case "size":
            place.write_text("longer")
            os.utime(place, ns=(1, 1))
        case "another file":
            place.rename(root / "was")
            place.write_text("old")
            os.utime(place, ns=(1, 1))
        case "gone":
            place.unlink()
    before = place.read_text() if place.exists() else None
    refusal = replace_file(root, place, b"mine", "sub/a", origin=content.origin)
    assert isinstance(refusal, Refusal)
    assert "Read it again" in refusal.reason
    assert (place.read_text() if place.exists() else None) == before
    assert [entry.name for entry in (root / "sub").iterdir()] == ([] if before is None else ["a"])


ACCESS_LIST = struct.pack(
    "<I" + "HHI" * 5, 2, *(1, 6, NOBODY), *(2, 4, 4321), *(4, 0, NOBODY), *(16, 4, NOBODY), *(32, 0, NOBODY)
)
"""Access for the owner and for user 4321."""


@pytest.mark.skipif(sys.platform != "linux", reason="only there Python can set them")
@pytest.mark.parametrize(("name", "value"), [("user.note", b"x"), ("system.posix_acl_access", ACCESS_LIST)])
def test_extended_attributes_are_kept(root, name, value):
    """RA-4: access control lists are such."""
    file = root / "sub" / "a"
    try:
        os.setxattr(file, name, value)
    except OSError as error:
        pytest.skip(f"not on this file system: {error}")
    mode = file.stat().st_mode
    assert replace_file(root, file, b"new", "sub/a", origin=read(root).origin) is None
    assert os.getxattr(file, name) == value
    assert (file.read_bytes(), file.stat().st_mode) == (b"new", mode)


def test_an_unchanged_version_is_replaced_with_its_mode(root):
    place = root / "sub" / "a"
    place.chmod(0o4751)
    content = read(root)
    assert isinstance(content, FileContent)
    assert replace_file(root, place, b"mine", "sub/a", origin=content.origin) is None
    assert place.read_bytes() == b"mine"
    assert stat.S_IMODE(place.stat().st_mode) == 0o4751


def test_a_file_above_the_limit_is_not_read(root):
    assert isinstance(read(root, limit_bytes=3), FileContent)
    refusal = read(root, limit_bytes=2)
    assert isinstance(refusal, Refusal)
    assert "more than 2 bytes" in refusal.reason
