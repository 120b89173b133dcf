"""Files of any length, and stored output of commands, through the tools that read."""

import asyncio
import json
import os
import resource
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from scaffold.tools.command.shell import shell
from scaffold.tools.file.edit_lines import apply_delta
from scaffold.tools.file.info import file_info
from scaffold.tools.file.line_reader import CHUNK_BYTES
from scaffold.tools.file.read_write import MAX_LINE_CHARS, MAX_READ_BYTES, list_dir, read_file, write_file
from scaffold.tools.search.search_files import search_files
from scaffold.tools.workspace import Workspace

LINES = MAX_READ_BYTES // 10


@pytest.fixture(scope="module")
def long_content():
    """More than a million lines, `000000001` and so on."""
    return "".join(f"{n:09}\n" for n in range(1, LINES + 11)).encode()


@pytest.fixture
def root(root, long_content):
    """A folder with a long file."""
    (root / "long").write_bytes(long_content)
    yield root
    for file in root.iterdir():
        file.unlink()


@pytest.fixture
def outputs(tmp_path):
    return tmp_path / "cache" / "outputs"


@pytest.fixture
def call(root, outputs):
    """Run a tool by name, in a workspace with a readable folder of outputs."""
    workspace = Workspace(root, {"PATH": os.environ["PATH"]}, readable=(outputs,))
    makes = (read_file, write_file, list_dir, file_info, search_files, apply_delta)
    tools = {tool.name: tool for tool in (shell(workspace, outputs), *(make(workspace) for make in makes))}

    async def call(name, **args):
        return await tools[name].run(args)

    return call


def grown():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


@pytest.mark.slow
@pytest.mark.parametrize("codec", ["utf-8", "utf-8-sig", "utf-16", "latin-1"])
async def test_any_range_of_a_long_file_is_read_with_the_total(root, call, codec):
    """RA-4."""
    text = "".join(f"größe {n:09}\r\n" for n in range(1, LINES + 1))
    (root / "long").write_bytes(text.encode(codec))
    output = await call("read_file", path="long", start_line=LINES - 1)
    head, *lines = output.content.splitlines()
    assert head.startswith(f"long: total_lines {LINES}, range {LINES - 1}-{LINES}")
    assert lines == [f"{n}\tgröße {n:09}" for n in (LINES - 1, LINES)]
    middle = await call("read_file", path="long", start_line=500_000, end_line=500_001)
    assert middle.content.splitlines()[1:] == ["500000\tgröße 000500000", "500001\tgröße 000500001"]


async def test_a_long_file_without_a_range_is_read_from_its_beginning(call):
    output = await call("read_file", path="long")
    head, first, *_, last = output.content.splitlines()
    assert head == f"long: total_lines {LINES + 10}, range 1-2000"
    assert (first, last) == snapshot(
        ("1\t000000001", "... continue with start_line 2001, or find lines with search_files")
    )


async def test_a_range_beyond_a_long_file_is_refused_with_its_length(call):
    output = await call("read_file", path="long", start_line=LINES + 11)
    assert output.failed
    assert f"1-{LINES + 10}" in output.content


@pytest.mark.parametrize("size", [50_000_000, pytest.param(1_000_000_000, marks=pytest.mark.slow)])
async def test_a_line_of_any_length_is_not_kept_in_memory(root, call, size):
    """RA-4."""
    with (root / "line").open("wb") as file:
        for _ in range(size // 1_000_000):
            file.write(b"x" * 1_000_000)
        file.write(b"\nneedle\n")
    before = grown()
    output = await call("read_file", path="line")
    assert output.content.splitlines()[1:] == [
        f"1\t{'x' * MAX_LINE_CHARS} ... {size - MAX_LINE_CHARS} more characters",
        "2\tneedle",
    ]
    assert json.loads((await call("file_info", path="line")).content)["total_lines"] == 2
    found = await call("search_files", pattern="needle")
    assert found.content.splitlines() == ["total_matches_found 1, matched_files 1", "line", "2: needle"]
    assert grown() - before < 60_000


@pytest.mark.slow
async def test_long_files_are_searched_with_context(call):
    """RA-4."""
    output = await call("search_files", pattern="000999999|001000010", context_lines=1, max_matches=2)
    assert output.content.splitlines() == [
        "total_matches_found 2, matched_files 1",
        "long",
        "999998- 000999998",
        "999999: 000999999",
        "1000000- 001000000",
        "--",
        "1000009- 001000009",
        "1000010: 001000010",
    ]


@pytest.mark.slow
@pytest.mark.parametrize("number", [CHUNK_BYTES // 10, CHUNK_BYTES // 10 + 1])
async def test_the_context_of_a_match_is_complete_at_chunk_boundaries(call, number):
    """RA-4."""
    output = await call("search_files", pattern=f"{number:09}", context_lines=2)
    shown = [f"{n}{':' if n == number else '-'} {n:09}" for n in range(number - 2, number + 3)]
    assert output.content.splitlines()[2:] == shown


async def test_a_long_file_is_not_edited(root, call):
    before = (root / "long").read_bytes(), (root / "long").stat().st_mtime_ns
    output = await call("apply_delta", path="long", operations=[{"operation": "delete", "start_line": 1}])
    assert output.failed
    assert "use shell" in output.content
    assert ((root / "long").read_bytes(), (root / "long").stat().st_mtime_ns) == before


async def test_a_long_binary_file_is_not_shown(root, call):
    (root / "binary").write_bytes(b"\0" * (MAX_READ_BYTES + 1))
    output = await call("read_file", path="binary")
    assert output.failed
    assert "binary file" in output.content


@pytest.mark.slow
async def test_stored_output_can_be_read_searched_and_listed(call, outputs):
    """RA-4."""
    output = await call("shell", command="seq 1 2000000")
    file = output.content.splitlines()[-1].partition(" are in ")[2]
    assert Path(file).parent == outputs
    read = await call("read_file", path=file, start_line=1_999_999)
    assert read.content == f"{file}: total_lines 2000000, range 1999999-2000000\n1999999\t1999999\n2000000\t2000000"
    for pattern in ("1234567$", "12345(67)+"):
        found = await call("search_files", pattern=pattern, path=file)
        assert found.content.splitlines() == ["total_matches_found 1, matched_files 1", file, "1234567: 1234567"]
    listed = await call("list_dir", path=str(outputs))
    assert Path(file).name in listed.content
    known = json.loads((await call("file_info", path=file)).content)
    assert (known["kind"], known["total_lines"]) == ("file", 2_000_000)


async def test_additional_readable_folders_are_never_written(call, outputs):
    outputs.mkdir(parents=True)
    (outputs / "a").write_text("one\n")
    for tool, args in (
        ("write_file", {"content": "x"}),
        ("apply_delta", {"operations": [{"operation": "delete", "start_line": 1}]}),
    ):
        refused = await call(tool, path=str(outputs / "a"), **args)
        assert refused.failed
        assert "outside the workspace" in refused.content
    assert (outputs / "a").read_text() == "one\n"


async def test_no_path_leads_out_of_an_additional_readable_folder(call, outputs, tmp_path):
    outputs.mkdir(parents=True)
    (tmp_path / "secret").write_text("secret")
    (outputs / "link").symlink_to(tmp_path / "secret")
    (outputs / "folder").symlink_to(tmp_path)
    for path in ("link", "folder/secret", "../../secret"):
        for tool in ("read_file", "list_dir"):
            output = await call(tool, path=f"{outputs}/{path}")
            assert output.failed
            assert "outside the workspace" in output.content
    assert (await call("read_file", path="../cache/outputs/link")).failed
    found = await call("search_files", pattern="secret", path=str(outputs))
    assert found.content == "total_matches_found 0, matched_files 0"


@pytest.fixture
def sparse(root):
    """A file too long to read to its end: ten lines, and a terabyte of zeros."""
    with (root / "sparse").open("wb") as file:
        file.write(b"x" * 999 + b"\n" + b"x\n" * 9 + b"x" * 9_000)
        file.truncate(1 << 40)


@pytest.mark.parametrize(("path", "time_limit_s"), [("long", 0.0), ("short", 0.0), ("sparse", 0.3)])
async def test_a_long_search_is_stopped_at_its_timeout(root, sparse, path, time_limit_s):
    """RA-4: a tool that would never end."""
    (root / "short").write_text("one\n")
    tool = search_files(Workspace(root, {}), time_limit_s=time_limit_s)
    output = await tool.run({"pattern": "plain", "path": path})
    assert output.failed
    assert f"took more than {time_limit_s:g} s" in output.content


@pytest.mark.slow
async def test_a_file_too_long_to_count_in_time_is_reported_as_such(root, sparse):
    """RA-4."""
    read = read_file(Workspace(root, {}), time_limit_s=0.3)
    head, *lines = (await read.run({"path": "sparse", "start_line": 2, "end_line": 3})).content.splitlines()
    assert (head, lines) == snapshot(("sparse: total_lines more than 11, range 2-3", ["2\tx", "3\tx"]))
    later = await read.run({"path": "sparse", "start_line": 12})
    assert (later.failed, "11 lines" in later.content) == (True, True)
    said = json.loads((await file_info(Workspace(root, {}), time_limit_s=0.3).run({"path": "sparse"})).content)
    assert (said["encoding"], said["total_lines"]) == ("utf-8", None)


async def test_a_file_of_which_nothing_was_read_in_time_is_not_called_empty(root):
    output = await read_file(Workspace(root, {}), time_limit_s=0.0).run({"path": "long"})
    assert (output.failed, "0 lines" in output.content) == (True, True)


@pytest.mark.slow
async def test_a_cancelled_read_ends(call, sparse):
    """RA-19."""
    running = asyncio.create_task(call("read_file", path="sparse"))
    await asyncio.sleep(0.2)
    assert not running.done()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    async with asyncio.timeout(5):
        await asyncio.get_running_loop().shutdown_default_executor()
