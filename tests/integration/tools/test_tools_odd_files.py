"""Special files, through every tool that touches files."""

import json
import os
import shutil
import stat
import tempfile
import unicodedata
from pathlib import Path

import pytest

from scaffold.tools.file.append import append_file
from scaffold.tools.file.apply_patch import apply_patch
from scaffold.tools.file.edit_lines import apply_delta, edit
from scaffold.tools.file.info import file_info
from scaffold.tools.file.read_write import list_dir, read_file, write_file
from scaffold.tools.search.search_files import search_files
from scaffold.tools.workspace import Workspace

NOBODY = 65534
MAKES = (read_file, write_file, append_file, edit, apply_delta, list_dir, file_info, search_files)
REST = {
    "write_file": {"content": "x"},
    "append_file": {"content": "x"},
    "apply_delta": {"operations": [{"operation": "delete", "start_line": 1}]},
    "search_files": {"pattern": "two"},
}
CHANGING = ("write_file", "append_file", "apply_delta")


@pytest.fixture
def call(root):
    """Run a tool by name on a path; the other arguments have defaults."""

    workspaces = {}

    async def call(name, path, folder=root, **args):
        workspace = workspaces.setdefault(folder, Workspace(folder, {}))
        tool = next(tool for tool in (make(workspace) for make in MAKES) if tool.name == name)
        return await tool.run(REST.get(name, {}) | args | {"path": path})

    return call


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"one\r\ntwo\r\nthree", b"one\r\nzw\xc3\xb6lf\r\nthree"),
        ("\ufeffone\ntwo\n".encode(), "\ufeffone\nzwölf\n".encode()),
        ("one\r\ntwo\r\n".encode("utf-16"), "one\r\nzwölf\r\n".encode("utf-16")),
        (b"\xfe\xff" + "one\ntwo\n".encode("utf-16-be"), b"\xfe\xff" + "one\nzwölf\n".encode("utf-16-be")),
        (b"# coding: latin-1 \xe9\ntwo\n", b"# coding: latin-1 \xe9\nzw\xf6lf\n"),
        (b"# coding: shift_jis\ntwo\n", None),
        (b"# coding: idna\ntwo\n", b"# coding: idna\nzw\xc3\xb6lf\n"),
        (b"one\ntwo\nold\rmac\r", b"one\nzw\xc3\xb6lf\nold\rmac\r"),
    ],
    ids=[
        "CRLF",
        "BOM",
        "UTF-16-LE",
        "UTF-16-BE",
        "declared",
        "declared otherwise",
        "no file's",
        "a last carriage return",
    ],
)
async def test_a_readable_file_can_be_changed_and_keeps_its_format(root, call, before, after):
    """RA-4."""
    (root / "a").write_bytes(before)
    (root / "a").chmod(0o751)
    assert "2\ttwo" in (await call("read_file", "a")).content
    change = {"operation": "replace", "start_line": 2, "content": "zwölf", "expected": "two"}
    output = await call("apply_delta", "a", operations=[change])
    assert output.failed == (after is None), output
    after = before if after is None else after
    assert ((root / "a").read_bytes(), stat.S_IMODE((root / "a").stat().st_mode)) == (after, 0o751)
    assert len(list(root.iterdir())) == 1


GUESSED = {
    "UTF-8 with a stray byte": "# naïve café\nx = 1\n".encode() + b"# trade \x99 mark\n",
    "UTF-8 with a mark and a stray byte": "\ufeff# naïve café\nx = 1\n".encode() + b"# trade \x99 mark\n",
    "latin-1": "# café\nx = 1\n".encode("latin-1"),
    "windows-1251": "# Привет\r\nx = 1\r\n".encode("cp1251"),
    "Shift-JIS": "# 名前=太郎\nx = 1\n".encode("shift_jis"),
    "GBK, in part like UTF-8": "# 联通 名字\nx = 1\n".encode("gbk"),
    "ISO-2022-JP": "# 名前=太郎\nx = 1\n".encode("iso2022_jp"),
    "Big5": "# 許功蓋\nx = 1".encode("big5"),
    "a private character like a shown byte": "# \uf799\nx = 1\n".encode() + b"\x99",
}


@pytest.mark.parametrize("before", GUESSED.values(), ids=GUESSED)
async def test_a_guessed_encoding_is_kept_and_never_written_with(root, call, before):
    """RA-4: no tool adds a character to such a file, and what stays is the same byte for byte."""
    (root / "a").write_bytes(before)
    shown = (await call("read_file", "a")).content
    assert "guessed: it is not UTF-8" in shown
    first = shown.split("\n")[1].partition("\t")[2]
    plain = await call("edit", "a", old="x = 1", new="x = 2")
    assert not plain.failed, plain
    assert (root / "a").read_bytes() == (now := before.replace(b"x = 1", b"x = 2"))
    lines = [{"operation": "replace", "start_line": 1, "content": first + " more", "expected": first}]
    assert not (await call("apply_delta", "a", operations=lines)).failed, "what is in it may be written again"
    assert (root / "a").read_bytes().replace(b" more", b"") == now
    now = (root / "a").read_bytes()
    for added in ("é", "Ж", "名", "\uf7ff"):
        adding = (
            call("edit", "a", old="x = 2", new=f"x = 2{added}"),
            call("append_file", "a", content=added),
            call("write_file", "a", content=f"x = 2 {added * 9}\n"),
            call("apply_delta", "a", operations=[{"operation": "insert", "start_line": 1, "content": added}]),
        )
        for output in [await each for each in adding]:
            assert output.failed
            assert "is not known" in output.content
            assert "iconv" in output.content
    assert (root / "a").read_bytes() == now
    assert not (await call("write_file", "a", content="plain\n")).failed


@pytest.mark.parametrize("data", ["x\n".encode("utf-16-le"), "x\n".encode("utf-32"), b"\0\1"])
async def test_what_cannot_be_read_as_text_is_not_replaced_by_text(root, data):
    """RA-4."""
    (root / "a").write_bytes(data)
    workspace = Workspace(root, {}, replaces_unread=True)
    output = await write_file(workspace).run({"path": "a", "content": "new\n"})
    assert (output.failed, "Delete it first" in output.content) == (True, True)
    patch = "*** Begin Patch\n*** Add File: a\n+new\n*** End Patch"
    assert (await apply_patch(workspace).run({"input": patch})).failed
    assert (root / "a").read_bytes() == data


async def test_a_name_in_another_normal_form_is_the_same_file(root, call):
    """RA-4: macOS stores names decomposed, and models write them composed."""
    composed, decomposed = (unicodedata.normalize(form, "réné/résumé.txt") for form in ("NFC", "NFD"))
    (root / decomposed).parent.mkdir()
    (root / decomposed).write_text("one\n")
    assert "1\tone" in (await call("read_file", composed)).content
    for tool, args in {
        "edit": {"old": "one", "new": "two"},
        "append_file": {"content": "three\n"},
        "write_file": {"content": "four\n"},
    }.items():
        output = await call(tool, composed, **args)
        assert not output.failed, output
    assert [path.read_text() for path in root.rglob("*.txt")] == ["four\n"]
    (root / composed).parent.mkdir()
    (root / composed).write_text("other\n")
    assert "1\tother" in (await call("read_file", composed)).content, "both exist: the name is exact"
    assert (root / decomposed).read_text() == "four\n"


async def test_the_loss_of_a_hard_link_is_said(root, call):
    """RA-4."""
    (root / "a").write_text("one\n")
    os.link(root / "a", root / "b")
    assert "hard link" not in (await call("read_file", "a")).content
    output = await call("edit", "a", old="one", new="two")
    assert "1 other name (hard links), which keep the former content" in output.content
    assert (root / "b").read_text() == "one\n"
    assert "hard link" not in (await call("edit", "a", old="two", new="three")).content
    os.link(root / "a", root / "c")
    assert "hard links" in (await call("write_file", "a", content="four\n")).content


async def test_text_is_not_appended_to_half_a_character(root, call):
    (root / "a").write_bytes(b"\xff\xfeo\0n")
    output = await call("append_file", "a")
    assert output.failed
    assert "an incomplete character" in output.content
    assert (root / "a").read_bytes() == b"\xff\xfeo\0n"


@pytest.mark.parametrize("tool", ["read_file", *CHANGING])
async def test_pipes_and_devices_are_refused_without_blocking(root, call, tool):
    """RA-4."""
    os.mkfifo(root / "pipe")
    assert (await call(tool, "pipe")).failed
    assert (await call(tool, "null", folder=Path("/dev"))).failed
    assert stat.S_ISFIFO((root / "pipe").lstat().st_mode)


async def test_pipes_and_devices_are_not_searched(root, call):
    os.mkfifo(root / "pipe")
    for folder, path in ((root, "pipe"), (Path("/dev"), "zero")):
        output = await call("search_files", path, folder=folder)
        assert output.content == "total_matches_found 0, matched_files 0"


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs files that the system makes up")
async def test_files_without_a_size_are_readable(call):
    process = Path(f"/proc/{os.getpid()}")
    output = await call("read_file", "status", folder=process)
    assert f"Pid:\t{os.getpid()}" in output.content
    known = json.loads((await call("file_info", "status", folder=process)).content)
    assert known["size_bytes"] == 0
    assert known["total_lines"] > 10


@pytest.fixture
def open_root(root):
    """A folder that an unprivileged user can work in; the test runs as that user."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o777)
    was = os.geteuid()
    if was == 0:
        os.seteuid(NOBODY)
    yield folder
    os.seteuid(was)
    shutil.rmtree(folder)  # noqa: TID251


@pytest.mark.parametrize("mode", [0o444, 0o000])
async def test_a_file_without_write_permission_is_not_changed(open_root, call, mode):
    """RA-4: although its folder would allow it to be replaced."""
    place = open_root / "a"
    place.write_text("one\ntwo\n")
    place.chmod(mode)
    before = place.stat()
    for tool in CHANGING:
        output = await call(tool, "a", folder=open_root)
        assert output.failed, tool
    after = place.stat()
    assert (after.st_ino, after.st_mode, after.st_size) == (before.st_ino, before.st_mode, before.st_size)
    assert after.st_mtime_ns == before.st_mtime_ns, "it may be read, so the time of the last access says nothing"
    assert [entry.name for entry in open_root.iterdir()] == ["a"]


async def test_an_unreadable_path_is_refused_with_the_reason(open_root, call):
    (open_root / "folder").mkdir()
    (open_root / "folder" / "a").write_text("two")
    (open_root / "b").write_text("two")
    (open_root / "b").chmod(0)
    (open_root / "folder").chmod(0)
    for tool, path in (
        ("read_file", "b"),
        ("read_file", "folder/a"),
        ("list_dir", "folder"),
        ("search_files", "folder/a"),
        ("file_info", "folder/a"),
    ):
        output = await call(tool, path, folder=open_root)
        assert output.failed, tool
        assert "Permission denied" in output.content
    assert json.loads((await call("file_info", "b", folder=open_root)).content)["encoding"] is None
    found = await call("search_files", ".", folder=open_root)
    assert found.content == "total_matches_found 0, matched_files 0"
    (open_root / "folder").chmod(0o700)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to another user")
async def test_a_replaced_file_keeps_its_owner(root, call):
    (root / "a").write_text("one\ntwo\n")
    os.chown(root / "a", NOBODY, NOBODY)
    (root / "a").chmod(0o4755)
    await call("apply_delta", "a")
    status = (root / "a").stat()
    assert (status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode)) == (NOBODY, NOBODY, 0o4755)


ODD_NAMES = {"new\nline": '"new\\nline"', os.fsdecode(b"in\xffvalid"): '"in\\udcffvalid"', "\x1b[31m": '"\\u001b[31m"'}


@pytest.mark.slow
@pytest.mark.parametrize(("name", "shown"), ODD_NAMES.items(), ids=["line break", "invalid UTF-8", "escape"])
async def test_an_unusual_name_is_taken_literally(root, call, name, shown):
    """RA-4: such names are shown in quotes."""
    (root / name).write_text("two\n")
    (root / "link").symlink_to(name)
    listed = (await call("list_dir", ".")).content.splitlines()
    assert len(listed) == 3
    assert {line.partition("Z ")[2] for line in listed[1:]} == {shown, f"link -> {shown}"}
    for pattern in ("two", "t(w)+o"):
        found = await call("search_files", ".", pattern=pattern)
        assert found.content.splitlines() == ["total_matches_found 1, matched_files 1", shown, "1: two"]
    assert (await call("read_file", name)).content.endswith("\n1\ttwo")
    await call("write_file", name, content="new")
    assert (root / name).read_text() == "new\n"
