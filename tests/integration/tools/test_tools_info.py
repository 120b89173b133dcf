import json
import os

import pytest

from scaffold.tools.file.info import file_info
from scaffold.tools.file.read_write import MAX_READ_BYTES
from scaffold.tools.workspace import Workspace


@pytest.fixture
def info(root):
    async def info(path):
        output = await file_info(Workspace(root, {})).run({"path": path})
        assert not output.failed, output
        return json.loads(output.content)

    return info


async def test_a_file_is_described_completely(root, info):
    """RA-4."""
    (root / "a").write_bytes(b"caf\xe9\ntwo")
    (root / "a").chmod(0o640)
    os.utime(root / "a", (1_700_000_000, 1_700_000_000))
    assert await info("a") == {
        "path": "a",
        "kind": "file",
        "size_bytes": 8,
        "modified": "2023-11-14T22:13:20Z",
        "mode": "0640",
        "encoding": "latin-1",
        "total_lines": 2,
    }


async def test_lines_are_counted_as_read_file_numbers_them(root, info):
    for data, encoding, lines in (
        (b"", "utf-8", 0),
        (b"a\n\n", "utf-8", 2),
        ("a\nö".encode("utf-8-sig"), "utf-8 with BOM", 2),
        ("\u0a00\u000a\u0a00x\n".encode("utf-16"), "utf-16-le with BOM", 2),
        (b"\0\n", None, None),
    ):
        (root / "a").write_bytes(data)
        known = await info("a")
        assert (data, known["encoding"], known["total_lines"]) == (data, encoding, lines)


@pytest.mark.parametrize("codec", ["utf-8", "utf-16"])
async def test_the_lines_of_a_long_file_are_counted_too(root, info, codec):
    """RA-4."""
    text = "one line\n" * (MAX_READ_BYTES // 9 + 1) + "the last"
    (root / "long").write_text(text, encoding=codec)
    known = await info("long")
    assert known["total_lines"] == text.count("\n") + 1
    assert known["size_bytes"] > MAX_READ_BYTES


async def test_links_are_described_and_not_followed(root, info):
    (root / "real").write_text("x")
    for name, target in {"in": "real", "out": "..", "dead": "none", "loop": "loop"}.items():
        (root / name).symlink_to(target)
    known = {name: await info(name) for name in ("in", "out", "dead", "loop")}
    assert {name: each["kind"] for name, each in known.items()} == dict.fromkeys(known, "link")
    assert {name: (each["target"], each["leads_to"]) for name, each in known.items()} == {
        "in": ("real", "file"),
        "out": ("..", "outside"),
        "dead": ("none", "nothing"),
        "loop": ("loop", "outside"),
    }


async def test_folders_and_special_files_have_no_lines(root, info):
    (root / "folder" / "inner").mkdir(parents=True)
    os.mkfifo(root / "pipe")
    assert (await info("folder"))["entries"] == 1
    assert (await info("."))["kind"] == "dir"
    assert (await info("folder/"))["kind"] == "dir"
    pipe = await info("pipe")
    assert pipe["kind"] == "other"
    assert "total_lines" not in pipe


async def test_an_undecodable_target_is_shown_escaped(root, info):
    (root / "link").symlink_to(os.fsdecode(b"to-\xff"))
    assert (await info("link"))["target"] == "to-\\udcff"


async def test_a_missing_or_outside_path_is_refused(root):
    for path, reason in {
        "none": "no file none",
        "..": "outside",
        "../x": "outside",
        ".git": "git",
        "a/.GIT/x": "git",
        "": "empty",
        "a\0": "NUL",
        "\ud800": "There is no",
    }.items():
        output = await file_info(Workspace(root, {})).run({"path": path})
        assert output.failed
        assert reason in output.content
