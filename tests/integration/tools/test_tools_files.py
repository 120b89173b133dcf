import codecs
import os
import sys
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from scaffold.policy.path.containment import Refusal
from scaffold.tools.catalog import builtin_tools
from scaffold.tools.file.read_write import MAX_ENTRIES, MAX_LINES, decode_file
from scaffold.tools.workspace import MAX_ANSWER_CHARS, ReadablePath, Workspace, resolve_writable


@pytest.fixture
def call(root):
    """Run a tool by name."""
    tools = {tool.name: tool for tool in builtin_tools(Workspace(root, {}))}

    async def call(name, **args):
        return await tools[name].run(args)

    return call


async def test_a_file_is_read_with_line_numbers_total_and_range(root, call):
    """RA-4."""
    (root / "a.txt").write_bytes("one\r\ntwo\n\nvier ö".encode())
    output = await call("read_file", path="a.txt")
    assert output.content == "a.txt: total_lines 4, range 1-4\n1\tone\n2\ttwo\n3\t\n4\tvier ö"
    assert not output.failed


async def test_a_range_includes_both_ends_and_is_refused_outside_the_file(root, call):
    """RA-4: where the range is reversed, the length of the file has nothing to do with it."""
    (root / "a").write_text("a\nb\nc\n")
    ranges = ((2, None), (None, 1), (2, 2), (3, 99), (4, None), (3, 2))
    answers = [await call("read_file", path="a", **given_range(*each)) for each in ranges]
    assert [answer.content for answer in answers] == snapshot(
        [
            """\
a: total_lines 3, range 2-3
2	b
3	c\
""",
            """\
a: total_lines 3, range 1-1
1	a\
""",
            """\
a: total_lines 3, range 2-2
2	b\
""",
            """\
a: total_lines 3, range 3-3
3	c\
""",
            "a has 3 lines; ask for a range inside 1-3.",
            "`end_line` 2 is before `start_line` 3; give the lower number first.",
        ]
    )
    assert [answer.failed for answer in answers] == [False] * 4 + [True] * 2


def given_range(start, end):
    return {name: line for name, line in (("start_line", start), ("end_line", end)) if line is not None}


async def test_a_long_file_can_be_read_in_adjoining_pieces(root, call):
    (root / "long").write_text("".join(f"{n}\n" for n in range(1, MAX_LINES + 6)))
    first = await call("read_file", path="long")
    assert first.content.endswith(f"... continue with start_line {MAX_LINES + 1}")
    rest = await call("read_file", path="long", start_line=MAX_LINES + 1)
    assert f"range {MAX_LINES + 1}-{MAX_LINES + 5}" in rest.content
    assert "go on" not in rest.content


async def test_wide_lines_are_shortened(root, call):
    (root / "wide").write_text(("x" * 5_000 + "\n") * 100)
    output = await call("read_file", path="wide")
    assert len(output.content) < MAX_ANSWER_CHARS + 3_000
    assert "3000 more characters" in output.content
    assert "start_line" in output.content


async def test_an_empty_file_is_reported_as_empty(root, call):
    (root / "empty").touch()
    output = await call("read_file", path="empty")
    assert "total_lines 0" in output.content
    assert not output.failed


async def test_a_binary_file_is_refused_with_an_alternative(root, call):
    (root / "folder").mkdir()
    (root / "picture").write_bytes(b"\x89PNG\0\0")
    os.mkfifo(root / "pipe")
    ways_out = {
        "folder": "use list_dir",
        "none": "find it with glob",
        "picture": "binary",
        "pipe": "a pipe",
        "../out": "outside the workspace",
        ".git/config": "belongs to git",
    }
    for path, way_out in ways_out.items():
        output = await call("read_file", path=path)
        assert output.failed, path
        assert way_out in output.content


async def test_text_is_decoded_and_an_unusual_encoding_is_reported(root, call):
    """RA-4."""
    notes = {
        "vier ö".encode(): "",
        "vier ö".encode("utf-8-sig"): ", encoding utf-8 with BOM",
        codecs.BOM_UTF16_LE + "vier ö".encode("utf-16-le"): ", encoding utf-16-le with BOM",
        codecs.BOM_UTF16_BE + "vier ö".encode("utf-16-be"): ", encoding utf-16-be with BOM",
        "vier ö".encode("latin-1"): ", encoding latin-1 (guessed: it is not UTF-8)",
    }
    for data, note in notes.items():
        (root / "a").write_bytes(data)
        output = await call("read_file", path="a")
        assert output.content == f"a: total_lines 1, range 1-1{note}\n1\tvier ö"


async def test_binary_bytes_are_never_shown(root, call):
    for data in (b"\x89PNG\r\n\x1a\n", b"text\0", b"\xff\xfe\0", "x".encode("utf-32"), b"\x7fELF\x02\xff"):
        (root / "a").write_bytes(data)
        output = await call("read_file", path="a")
        assert (data, output.failed, "binary" in output.content) == (data, True, True)


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="needs a file that nobody can read from its start")
def test_an_unreadable_file_is_refused_with_the_reason():
    process = Path("/proc/self").resolve()
    refusal = decode_file(ReadablePath(process, process / "mem"), "mem")
    assert isinstance(refusal, Refusal)
    assert "mem" in refusal.reason


async def test_a_file_is_created_with_its_folders_and_the_umask_mode(root, call):
    """RA-4."""
    output = await call("write_file", path="new/deep/a.py", content="x = 'ö'\ny = 2\n")
    written = root / "new" / "deep" / "a.py"
    assert written.read_bytes() == "x = 'ö'\ny = 2\n".encode()
    assert output.content == "new/deep/a.py created: 15 bytes, 2 lines."
    (root / "plain").touch()
    assert written.stat().st_mode == (root / "plain").stat().st_mode


async def test_writing_through_a_link_changes_its_target(root, call):
    (root / "real").write_text("old")
    (root / "link").symlink_to("real")
    await call("read_file", path="link")
    await call("write_file", path="link", content="new")
    assert (root / "link").is_symlink()
    assert (root / "real").read_text() == "new"


def test_the_environment_that_scaffold_runs_from_is_not_written():
    """BX-9: an agent could otherwise add code to the next command of Scaffold."""
    environment = Path(sys.prefix).resolve()
    workspace = Workspace(environment.parent, {})
    assert isinstance(resolve_writable(workspace, f"{environment.name}/lib/site-packages/more.pth"), Refusal)
    assert not isinstance(resolve_writable(workspace, "another/lib/site-packages/more.pth"), Refusal)


async def test_a_forbidden_path_is_not_written(root, call):
    (root / "folder").mkdir()
    (root / "file").write_text("here")
    refused = {
        "folder": "not a regular file",
        "file/below": "File system error",
        "../out": "outside the workspace",
        ".git/hooks/pre-commit": "belongs to git",
        "n" * 300: "File system error",
    }
    for path, reason in refused.items():
        output = await call("write_file", path=path, content="x")
        assert output.failed, path
        assert reason in output.content
    output = await call("write_file", path="half", content="\ud800")
    assert output.failed
    assert sorted(entry.name for entry in root.iterdir()) == ["file", "folder"]
    assert not (root.parent / "out").exists()


async def test_a_folder_is_listed_by_name_with_kind_size_and_time(root, call):
    """RA-4."""
    (root / "b.txt").write_text("four")
    (root / "a").mkdir()
    (root / "c").symlink_to("b.txt")
    (root / ".git").mkdir()
    for name in ("a", "b.txt"):
        os.utime(root / name, (1_700_000_000, 1_700_000_000))
    os.utime(root / "c", (1_700_000_000, 1_700_000_000), follow_symlinks=False)
    output = await call("list_dir", path=".")
    assert output.content.splitlines() == [
        ".: 3 entries",
        "dir - 2023-11-14T22:13:20Z a/",
        "file 4 2023-11-14T22:13:20Z b.txt",
        "link 5 2023-11-14T22:13:20Z c -> b.txt",
    ]


async def test_a_long_listing_is_shortened(root, call):
    for n in range(MAX_ENTRIES + 3):
        (root / f"{n:05}").touch()
    output = await call("list_dir", path=".")
    lines = output.content.splitlines()
    assert len(lines) == MAX_ENTRIES + 2
    assert lines[-1].startswith("... 3 more")


async def test_a_path_that_is_no_folder_inside_is_not_listed(root, call):
    (root / "file").touch()
    assert [(await call("list_dir", path=path)).failed for path in ("file", "none", "..")] == [True] * 3


async def test_a_folder_like_one_that_does_not_exist_is_proposed(root, call):
    (root / "source").mkdir()
    (root / "source" / "a").touch()
    answer = await call("list_dir", path="sources")
    assert (answer.failed, answer.content.endswith(" source?")) == (True, True)


async def test_the_workspace_itself_is_not_a_file(root, call):
    """RA-4: a helpful error, not an exception."""
    for tool, args in (
        ("read_file", {}),
        ("write_file", {"content": "a"}),
        ("append_file", {"content": "a"}),
        ("apply_delta", {"operations": [{"operation": "delete", "start_line": 1}]}),
    ):
        output = await call(tool, path=".", **args)
        assert output.failed
        assert "a folder" in output.content or "Is a directory" in output.content
    assert list(root.iterdir()) == []


@pytest.mark.parametrize("tool", ["write_file", "append_file"])
async def test_a_home_or_folder_path_does_not_become_a_file(root, call, tool):
    """RA-4: removing a folder named `~` is dangerous."""
    for path in ("~", "~/notes.txt", "new/", "new/folder/"):
        output = await call(tool, path=path, content="a")
        assert (path, output.failed, list(root.iterdir())) == (path, True, [])
    assert not (await call(tool, path="./~notes", content="a")).failed
