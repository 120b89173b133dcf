import os

import pytest

from scaffold.core.conversation import ToolCall
from scaffold.core.tool import ToolOutput
from scaffold.tools.reads import ReadCache

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


def test_an_answer_is_kept_for_equal_calls_alone(cache):
    """RA-19."""
    keep(cache, read())
    assert cache.find(read()) == ANSWER
    assert cache.find(read("./a")) is None
    assert cache.find(read(start_line=1)) is None
    assert cache.find(read(name="file_info")) is None


@pytest.mark.parametrize("change", ["time", "size", "another file", "gone", "link"])
def test_an_answer_is_void_once_the_file_is_another(cache, root, change):
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
    assert cache.find(read()) is None


def test_a_file_that_changes_while_it_is_read_is_not_kept(cache, root):
    version = cache.version(read())
    (root / "a").write_text("meanwhile")
    cache.keep(read(), ANSWER, version)
    assert cache.find(read()) is None


@pytest.mark.parametrize(
    "call", [read("none"), read("../x"), read(name="shell"), ToolCall("id", "read_file", {"path": 1})]
)
def test_what_depends_on_more_than_one_file_is_not_kept(cache, call):
    keep(cache, call)
    assert cache.find(call) is None


def test_a_failed_answer_is_not_kept(cache):
    keep(cache, read(), ToolOutput("no", failed=True))
    assert cache.find(read()) is None


def test_only_the_latest_used_answers_are_kept(cache):
    keep(cache, read())
    keep(cache, read("b"))
    cache.find(read())
    keep(cache, read(start_line=1))
    assert cache.find(read()) == ANSWER
    assert cache.find(read("b")) is None
