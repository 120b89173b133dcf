import os

import pytest

from scaffold.core.conversation import ToolCall
from scaffold.core.tool import Tool, ToolOutput
from scaffold.tools.catalog import builtin_tools
from scaffold.tools.content.seen_files import SeenFiles
from scaffold.tools.read_cache import ReadCache, with_read_cache
from scaffold.tools.workspace import Workspace

ANSWER = ToolOutput("content")


@pytest.fixture
def root(tmp_path):
    (tmp_path / "a").write_text("one")
    (tmp_path / "b").write_text("two")
    os.utime(tmp_path / "a", ns=(5, 5))
    return tmp_path


@pytest.fixture
def cache(root):
    return ReadCache(root, most=2)


def read(path="a", name="read_file", **args):
    return ToolCall("id", name, {"path": path, **args})


def keep(cache, call, output=ANSWER):
    cache.keep(call, output, cache.version(call))


def test_a_result_is_cached_for_equal_calls_only(cache):
    """RA-19."""
    keep(cache, read())
    assert cache.find(read()) == ANSWER
    assert cache.find(read("./a")) is None
    assert cache.find(read(start_line=1)) is None
    assert cache.find(read(name="file_info")) is None


@pytest.mark.parametrize("change", ["time", "size", "another file", "gone", "link", "time put back"])
def test_a_cached_result_expires_when_the_file_changes(cache, root, change):
    """RA-19."""
    keep(cache, read())
    match change:
        case "time":
            os.utime(root / "a", ns=(6, 6))
        case "size":
            (root / "a").write_text("longer")
            os.utime(root / "a", ns=(5, 5))
        case "another file":
            (root / "a").rename(root / "was")
            (root / "a").write_text("uno")
            os.utime(root / "a", ns=(5, 5))
        case "gone":
            (root / "a").unlink()
        case "link":
            (root / "a").unlink()
            (root / "a").symlink_to("b")
        case "time put back":
            (root / "a").write_text("uno")
            os.utime(root / "a", ns=(5, 5))
    assert cache.find(read()) is None


def test_a_file_that_changes_while_it_is_read_is_not_cached(cache, root):
    version = cache.version(read())
    (root / "a").write_text("meanwhile")
    cache.keep(read(), ANSWER, version)
    assert cache.find(read()) is None


def test_a_result_that_failed_or_depends_on_several_files_is_not_cached(cache):
    for call in (read("none"), read("../x"), read(name="shell"), ToolCall("id", "read_file", {"path": 1})):
        keep(cache, call)
        assert (call, cache.find(call)) == (call, None)
    keep(cache, read(), ToolOutput("no", failed=True))
    assert cache.find(read()) is None


def test_only_the_most_recently_used_results_are_cached(cache):
    keep(cache, read())
    keep(cache, read("b"))
    cache.find(read())
    keep(cache, read(start_line=1))
    assert cache.find(read()) == ANSWER
    assert cache.find(read("b")) is None


@pytest.fixture
def seen():
    return SeenFiles()


@pytest.fixture
def tools(root, seen):
    """Real tools with a cache, and the number of real reads."""
    reads = []

    def counting(tool):
        async def run(args):
            reads.append(args["path"])
            return await tool.run(args)

        return Tool(**{name: getattr(tool, name) for name in Tool.__struct_fields__} | {"run": run})

    workspace = Workspace(root, {"PATH": os.environ["PATH"]}, seen=seen)
    built_in = builtin_tools(workspace)
    named = [counting(tool) if tool.name == "read_file" else tool for tool in built_in]
    return {tool.name: tool for tool in with_read_cache(named, root, seen)}, reads


async def test_an_unchanged_file_is_not_read_again(tools):
    """RA-19: other kinds of calls in between do not matter."""
    made, reads = tools
    first = await made["read_file"].run({"path": "a"})
    await made["list_dir"].run({"path": "."})
    await made["search_files"].run({"pattern": "one"})
    assert await made["read_file"].run({"path": "a"}) == first
    assert reads == ["a"]


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("write_file", {"path": "a", "content": "uno"}),
        ("apply_delta", {"path": "a", "operations": [{"operation": "replace", "start_line": 1, "content": "uno"}]}),
        ("shell", {"command": "printf uno > a; touch -d @0.000000005 a"}),
        ("python", {"code": "import os; open('a', 'w').write('uno'); os.utime('a', ns=(5, 5))"}),
    ],
)
async def test_changes_by_our_tools_are_seen_by_the_next_read(tools, root, name, args):
    """RA-19: even if size and time are the same."""
    made, _ = tools
    assert "one" in (await made["read_file"].run({"path": "a"})).content
    output = await made[name].run(args)
    assert not output.failed, output.content
    os.utime(root / "a", ns=(5, 5))
    assert "uno" in (await made["read_file"].run({"path": "a"})).content


async def test_after_a_compaction_a_file_is_read_again(tools, seen, root):
    """RA-10, RA-19: so that the conversation knows its lines."""
    made, reads = tools
    await made["read_file"].run({"path": "a"})
    seen.forget_lines()
    for _ in range(2):
        await made["read_file"].run({"path": "a"})
    assert reads == ["a", "a"]
    assert seen.knows_lines(root / "a")


async def test_any_tool_that_may_write_clears_the_cache(tools):
    """RA-19: a tool of a user, or of a server, writes unobserved."""
    made, reads = tools
    await made["read_file"].run({"path": "a"})
    await made["shell"].run({"command": "true"})
    await made["read_file"].run({"path": "a"})
    assert reads == ["a", "a"]
