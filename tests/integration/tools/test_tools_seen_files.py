"""What a conversation may do to files that it has not read, or that changed since."""

import codecs
from pathlib import Path

import pytest

from scaffold.agent.toolbox import Toolbox
from scaffold.core.conversation import ToolCall
from scaffold.tools.catalog import builtin_tools
from scaffold.tools.content.seen_files import KEPT_FILES, SeenFiles
from scaffold.tools.workspace import Workspace


class Conversation:
    """One agent's calls in a folder; `reply` runs the calls of one reply."""

    def __init__(self, root, **settings):
        workspace = Workspace(root, {}, **settings)
        self.seen = workspace.seen
        self._toolbox = Toolbox(builtin_tools(workspace))

    async def reply(self, *calls):
        batch = self._toolbox.batch([ToolCall(f"{n}", name, args) for n, (name, args) in enumerate(calls)])
        await batch.run()
        return batch.results

    async def call(self, name, **args):
        (result,) = await self.reply((name, args))
        return result


@pytest.fixture
def agent(tmp_path):
    return Conversation(tmp_path)


def operation(line, content, **more):
    return {"operation": "replace", "start_line": line, "content": content, **more}


def delta(path, *operations):
    return "apply_delta", {"path": path, "operations": list(operations)}


CHANGES = {
    "write_file": {"content": "mine\n"},
    "append_file": {"content": "mine\n"},
    "edit": {"old": "two", "new": "mine"},
    "apply_delta": {"operations": [operation(2, "mine", expected="two")]},
}


async def test_no_tool_changes_a_file_that_changed_since_it_was_read(tmp_path, agent):
    """RA-4, RA-14: the user's edit is shown instead, and the next call may build on it."""
    for name, change in CHANGES.items():
        file = tmp_path / name
        file.write_text("one\ntwo\n")
        await agent.call("read_file", path=name)
        file.write_text("one\ntwo\nthe user's\n")
        refused = await agent.call(name, path=name, **change)
        assert (name, refused.failed, file.read_text()) == (name, True, "one\ntwo\nthe user's\n")
        assert refused.content.splitlines()[-1] == "+3\tthe user's"
        assert not (await agent.call(name, path=name, **change)).failed
        assert "mine" in file.read_text()


async def test_an_agents_own_changes_are_known_to_it(tmp_path, agent):
    for name, change in CHANGES.items():
        (tmp_path / name).write_text("one\ntwo\n")
        await agent.call("read_file", path=name)
        assert not (await agent.call(name, path=name, **change)).failed
        assert not (await agent.call("append_file", path=name, content="more\n")).failed


async def test_a_file_with_the_same_content_has_not_changed(tmp_path, agent):
    file = tmp_path / "a"
    file.write_text("one\n")
    await agent.call("read_file", path="a")
    file.unlink()
    file.write_text("one\n")
    assert not (await agent.call("write_file", path="a", content="two\n")).failed


async def test_a_deleted_file_is_created_only_when_that_is_known(tmp_path, agent):
    file = tmp_path / "a"
    file.write_text("one\n")
    await agent.call("read_file", path="a")
    file.unlink()
    refused = await agent.call("write_file", path="a", content="two\n")
    assert (refused.failed, file.exists()) == (True, False)
    assert not (await agent.call("write_file", path="a", content="two\n")).failed


async def test_a_file_never_read_is_not_replaced_as_a_whole(tmp_path, agent):
    """RA-4, RA-14: but in a worker's own worktree it is."""
    (tmp_path / "a").write_text("one\n")
    (tmp_path / "empty").touch()
    refused = await agent.call("write_file", path="a", content="two\n")
    assert refused.content.startswith("a exists and was not read in this conversation; nothing was written.")
    assert (tmp_path / "a").read_text() == "one\n"
    assert not (await agent.call("write_file", path="empty", content="two\n")).failed
    assert not (await agent.call("edit", path="a", old="one", new="two")).failed
    assert not (await Conversation(tmp_path, replaces_unread=True).call("write_file", path="a", content="3")).failed


async def test_a_replaced_file_keeps_its_encoding_and_line_endings(tmp_path, agent):
    """RA-4."""
    rows = [
        (b"one\r\ntwo\r\n", "1\n2\n", b"1\r\n2\r\n"),
        (b"one\r\ntwo\r\n", "1\r\n2", b"1\r\n2\r\n"),
        (b"one\n", "1", b"1\n"),
        (b"one", "1", b"1"),
        (b"one", "1\n", b"1\n"),
        (codecs.BOM_UTF8 + b"one\n", "\u00f6\n", codecs.BOM_UTF8 + "\u00f6\n".encode()),
        (codecs.BOM_UTF8 + b"one\n", "\ufeff1\n", codecs.BOM_UTF8 + b"1\n"),
        (codecs.BOM_UTF16_LE + "one\n".encode("utf-16-le"), "1\n", codecs.BOM_UTF16_LE + "1\n".encode("utf-16-le")),
        (b"caf\xe9\n", "caf\u00e9s\n", b"caf\xe9s\n"),
    ]
    for before, content, after in rows:
        (tmp_path / "a").write_bytes(before)
        (tmp_path / "a").chmod(0o640)
        await agent.call("read_file", path="a")
        assert not (await agent.call("write_file", path="a", content=content)).failed
        assert (before, content, (tmp_path / "a").read_bytes()) == (before, content, after)
        assert (tmp_path / "a").stat().st_mode & 0o777 == 0o640
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


async def test_calls_of_one_reply_count_lines_from_before_it(tmp_path, agent):
    """RA-4: two edits in one reply overwrote a line."""
    file = tmp_path / "a"
    file.write_text("".join(f"{n}\n" for n in range(1, 9)))
    await agent.call("read_file", path="a")
    results = await agent.reply(
        delta("a", operation(2, "two\nand more")),
        delta("a", {"operation": "delete", "start_line": 4}),
        ("edit", {"path": "a", "old": "5\n", "new": "five\nof them\n"}),
        delta("a", operation(7, "seven", expected="7"), {"operation": "insert", "start_line": 9, "content": "nine"}),
    )
    assert [result.failed for result in results] == [False] * 4
    assert file.read_text().split() == ["1", "two", "and", "more", "3", "five", "of", "them", "6", "seven", "8", "nine"]
    # In the next reply they count from what the file is now.
    await agent.reply(delta("a", operation(1, "one")), delta("a", {"operation": "delete", "start_line": 9}))
    assert file.read_text().split() == ["one", "two", "and", "more", "3", "five", "of", "them", "6", "seven", "nine"]


async def test_two_edits_of_the_same_line_in_one_reply_are_refused(tmp_path, agent):
    (tmp_path / "a").write_text("one\ntwo\n")
    await agent.call("read_file", path="a")
    first, second = await agent.reply(delta("a", operation(2, "2")), delta("a", operation(2, "zwei")))
    assert (first.failed, second.failed) == (False, True)
    assert "line 2" in second.content
    assert (tmp_path / "a").read_text() == "one\n2\n"


async def test_a_very_long_file_is_known_by_its_version(tmp_path, agent):
    file = tmp_path / "a"
    file.write_text("x" * 99 + "\n" * 11_000_000)
    await agent.call("read_file", path="a", end_line=1)
    assert not (await agent.call("append_file", path="a", content="y\n")).failed
    with file.open("a") as more:
        more.write("z\n")
    refused = await agent.call("append_file", path="a", content="y\n")
    assert refused.content.endswith("what it contains now. Read it again.")


async def test_after_a_compaction_lines_are_changed_by_number_only_after_reading_them(tmp_path, agent):
    """RA-4, RA-10: their numbers are no longer shown; `expected`, exact text and whole files need none."""
    for name in ("read", "written", "appended", "expected", "edited", "replaced"):
        (tmp_path / name).write_text("one\ntwo\n")
        await agent.call("read_file", path=name)
    await agent.call("write_file", path="written", content="one\ntwo\n")
    agent.seen.forget_lines()
    by_number = {"operations": [operation(2, "2")]}
    refused = await agent.call("apply_delta", path="read", **by_number)
    assert "shortened" in refused.content
    assert (await agent.call("apply_delta", path="written", **by_number)).failed
    fine = [
        await agent.call("apply_delta", path="expected", operations=[operation(2, "2", expected="two")]),
        await agent.call("edit", path="edited", old="two", new="2"),
        await agent.call("append_file", path="appended", content="three\n"),
        await agent.call("write_file", path="replaced", content="2\ntwo\n"),
    ]
    assert [result.failed for result in fine] == [False] * 4
    # A part that was shown is not the whole file; one that was written as a whole is.
    later = {
        name: await agent.call("apply_delta", path=name, **by_number) for name in ("edited", "appended", "replaced")
    }
    assert [result.failed for result in later.values()] == [True, True, False]
    for name in ("read", "edited", "appended"):
        await agent.call("read_file", path=name)
        assert not (await agent.call("apply_delta", path=name, **by_number)).failed


async def test_a_change_from_outside_does_not_bring_lines_back(tmp_path, agent):
    """RA-14: what changed is shown, the rest of the file is not."""
    (tmp_path / "a").write_text("one\ntwo\n")
    await agent.call("read_file", path="a")
    agent.seen.forget_lines()
    (tmp_path / "a").write_text("one\ntwo\nthe user's\n")
    first = await agent.call("apply_delta", path="a", operations=[operation(2, "2")])
    second = await agent.call("apply_delta", path="a", operations=[operation(2, "2")])
    assert (first.failed, first.content.splitlines()[-1]) == (True, "+3\tthe user's")
    assert (second.failed, "shortened" in second.content) == (True, True)


async def test_a_resumed_conversation_knows_that_lines_are_not_shown(tmp_path, agent):
    """RA-10: stored with the compaction, for short and for very long files."""
    (tmp_path / "a").write_text("one\n")
    (tmp_path / "long").write_text("x" * 99 + "\n" * 11_000_000)
    for name in ("a", "long"):
        await agent.call("read_file", path=name, end_line=1)
    agent.seen.forget_lines()
    resumed = continued(tmp_path, agent)
    for name in ("a", "long"):
        assert resumed.seen.knows(tmp_path / name)
        assert not resumed.seen.knows_lines(tmp_path / name)
    assert (await resumed.call("apply_delta", path="a", operations=[operation(1, "1")])).failed
    assert not (await resumed.call("write_file", path="a", content="mine\n")).failed


def continued(root, earlier):
    """Return the conversation as the next process finds it: with what the last one stored."""
    stored = {path: version for path, version in earlier.seen.take_changes().items() if version is not None}
    return Conversation(root, seen=SeenFiles(stored))


async def test_a_resumed_conversation_knows_what_it_has_read(tmp_path, agent):
    """RA-4, RA-10: if it is unchanged, it need not be read again."""
    for name in ("read", "changed", "unread"):
        (tmp_path / name).write_text("one\n")
    await agent.call("read_file", path="read")
    await agent.call("read_file", path="changed")
    await agent.call("write_file", path="written", content="one\n")
    (tmp_path / "changed").write_text("two\n")
    resumed = continued(tmp_path, agent)
    written = [await resumed.call("write_file", path=name, content="mine\n") for name in ("read", "written")]
    assert [result.failed for result in written] == [False, False]
    refused = await resumed.call("write_file", path="changed", content="mine\n")
    unread = await resumed.call("write_file", path="unread", content="mine\n")
    assert (refused.failed, unread.failed) == (True, True)
    assert refused.content.endswith("Read it again.")
    assert "not read" in unread.content


async def test_a_resumed_conversation_knows_a_very_long_file_by_its_version(tmp_path, agent):
    file = tmp_path / "a"
    file.write_text("x" * 99 + "\n" * 11_000_000)
    await agent.call("read_file", path="a", end_line=1)
    assert not (await continued(tmp_path, agent).call("append_file", path="a", content="y\n")).failed
    assert (await continued(tmp_path, agent).call("write_file", path="a", content="y\n")).failed


@pytest.mark.slow
async def test_what_is_deleted_or_pushed_out_is_forgotten(tmp_path, agent):
    for number in range(KEPT_FILES + 1):
        await agent.call("write_file", path=f"{number}", content="x")
    await agent.call("apply_patch", input="*** Begin Patch\n*** Delete File: 7\n*** End Patch")
    changes = agent.seen.take_changes()
    assert {Path(path).name for path, version in changes.items() if version is None} == {"0", "7"}
    assert agent.seen.take_changes() == {}


def test_versions_of_a_newer_program_are_ignored(tmp_path):
    known = SeenFiles({str(tmp_path / "a"): "sha3:ab", str(tmp_path / "b"): "1 2", str(tmp_path / "c"): "ab"})
    assert [known.knows(tmp_path / name) for name in "abc"] == [False, False, True]
