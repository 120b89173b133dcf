"""Patches of several files: all or nothing, and nobody's work is overwritten."""

import codecs
import os

import pytest
from inline_snapshot import snapshot

from scaffold.agent.toolbox import Toolbox
from scaffold.core.conversation import ToolCall
from scaffold.policy.path.containment import Refusal
from scaffold.tools.catalog import builtin_tools
from scaffold.tools.content.safe_open import read_whole
from scaffold.tools.file.apply_patch import PlannedFile, change_files
from scaffold.tools.workspace import Workspace


class Conversation:
    def __init__(self, root, **settings):
        self._toolbox = Toolbox(builtin_tools(Workspace(root, {"PATH": os.environ["PATH"]}, **settings)))

    async def call(self, name, **args):
        batch = self._toolbox.batch([ToolCall("1", name, args)])
        await batch.run()
        return batch.results[0]

    async def patch(self, *lines):
        return await self.call("apply_patch", input="\n".join(("*** Begin Patch", *lines, "*** End Patch")))


@pytest.fixture
def agent(tmp_path):
    return Conversation(tmp_path)


def contents(root):
    return {path.name: path.read_text() for path in sorted(root.rglob("*")) if path.is_file()}


async def test_a_patch_changes_several_files(tmp_path, agent):
    """RA-4."""
    (tmp_path / "app.py").write_text("import os\n\ndef f():\n    return 1\n")
    (tmp_path / "old.txt").write_text("old\n")
    (tmp_path / "gone.txt").touch()
    result = await agent.patch(
        "*** Update File: app.py",
        "@@ def f():",
        "-    return 1",
        "+    return 2",
        "*** Add File: sub/new.txt",
        "+one",
        "+two",
        "*** Update File: old.txt",
        "*** Move to: sub/moved.txt",
        "-old",
        "+new",
        "*** Delete File: gone.txt",
    )
    assert not result.failed, result
    assert contents(tmp_path) == {
        "app.py": "import os\n\ndef f():\n    return 2\n",
        "new.txt": "one\ntwo\n",
        "moved.txt": "new\n",
    }
    assert result.content == snapshot(
        "app.py changed, lines: +1 -1\n@@ -2,3 +2,3 @@\n \n def f():\n-    return 1\n+    return 2\n"
        "sub/new.txt created: 2 lines.\n"
        "old.txt changed, lines: +1 -1\n@@ -1,1 +1,1 @@\n-old\n+new\nold.txt moved to sub/moved.txt.\n"
        "gone.txt deleted."
    )


REASONS = {
    ("*** Update File: b", "-absent", "+x"): "\nabsent\n",
    ("*** Update File: none", "-a", "+x"): "no file none",
    ("*** Add File: b", "+x"): "b exists",
    ("*** Delete File: b",): "not read",
    ("*** Update File: b", "*** Move to: a"): "b cannot be moved",
    ("*** Add File: ../out", "+x"): "outside",
    ("*** Add File: .git/config", "+x"): "git",
    ("*** Update File: b", "*** Move to: .env"): "protected (.env*)",
    ("*** Update File: link", "*** Move to: c"): "symbolic link",
    ("*** Delete File: link",): "symbolic link",
    ("*** Delete File: folder",): "a folder",
    ("*** Add File: folder", "+x"): "a folder",
    ("*** Update File: ./a", "-a", "+y"): "twice",
    ("*** Update File: binary", "-a", "+y"): "binary file",
    ("*** Rename File: b",): "Line 5",
}
"""What the answer names of each part that does not fit."""


async def test_if_one_part_does_not_fit_nothing_is_changed(tmp_path, agent):
    """RA-4, RA-14."""
    (tmp_path / "a").write_text("a\n")
    (tmp_path / "b").write_text("b\n")
    (tmp_path / "binary").write_bytes(b"a\0")
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("a")
    before = contents(tmp_path)
    for wrong, reason in REASONS.items():
        result = await agent.patch("*** Update File: a", "-a", "+x", *wrong)
        assert result.failed
        assert reason in result.content
        assert (wrong, contents(tmp_path), len(list(tmp_path.iterdir()))) == (wrong, before, 5)


async def test_everything_that_is_wrong_is_told_at_once(tmp_path, agent):
    (tmp_path / "a").write_text("a\n")
    result = await agent.patch("*** Update File: a", "-x", "+y", "*** Delete File: none")
    assert result.content == snapshot("""\
a: These lines do not occur:
x
Read the file to see what it contains.

There is no file none; find it with glob or list_dir.
Nothing was changed.\
""")


@pytest.mark.parametrize(
    "part", [("*** Update File: a", "-one", "+1"), ("*** Add File: a", "+1"), ("*** Delete File: a",)]
)
async def test_a_file_that_changed_since_it_was_read_is_left_alone(tmp_path, agent, part):
    """RA-4, RA-14: what changed is shown, and the next call may build on that."""
    (tmp_path / "a").write_text("one\n")
    (tmp_path / "b").write_text("b\n")
    await agent.call("read_file", path="a")
    (tmp_path / "a").write_text("one\nthe user's\n")
    refused = await agent.patch("*** Update File: b", "-b", "+c", *part)
    assert refused.failed
    assert "+2\tthe user's" in refused.content
    assert contents(tmp_path) == {"a": "one\nthe user's\n", "b": "b\n"}
    assert not (await agent.patch("*** Update File: b", "-b", "+c", *part)).failed


async def test_its_own_changes_are_known_to_the_conversation(tmp_path, agent):
    """RA-4: no file has to be read again, and one that it deleted may be created."""
    (tmp_path / "a").write_text("one\ntwo\n")
    (tmp_path / "b").touch()
    await agent.call("read_file", path="a")
    assert not (await agent.patch("*** Update File: a", "*** Move to: c", "-one", "+1")).failed
    assert not (await agent.patch("*** Delete File: b", "*** Add File: a", "+new")).failed
    operation = {"operation": "replace", "start_line": 1, "content": "eins"}
    assert not (await agent.call("apply_delta", path="c", operations=[operation])).failed
    assert not (await agent.patch("*** Delete File: c", "*** Add File: b", "+x")).failed
    assert contents(tmp_path) == {"a": "new\n", "b": "x\n"}


async def test_in_a_workers_own_worktree_files_need_not_be_read(tmp_path):
    """RA-4."""
    (tmp_path / "a").write_text("a\n")
    (tmp_path / "b").write_text("b\n")
    worker = Conversation(tmp_path, replaces_unread=True)
    assert not (await worker.patch("*** Add File: a", "+x", "*** Delete File: b")).failed
    assert contents(tmp_path) == {"a": "x\n"}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (codecs.BOM_UTF8 + "ö\r\nb".encode(), codecs.BOM_UTF8 + "ä\r\nb".encode()),
        (codecs.BOM_UTF16_LE + "ö\nb".encode("utf-16-le"), codecs.BOM_UTF16_LE + "ä\nb".encode("utf-16-le")),
        ("ö\nb\n".encode(), "ä\nb\n".encode()),
    ],
)
async def test_encoding_line_endings_and_mode_are_kept(tmp_path, agent, before, after):
    """RA-4: also in a file that is moved."""
    for moved in (("*** Move to: c",), ()):
        (tmp_path / "a").write_bytes(before)
        (tmp_path / "a").chmod(0o751)
        result = await agent.patch("*** Update File: a", *moved, "-ö", "+ä", " b")
        assert not result.failed, result
        file = tmp_path / ("c" if moved else "a")
        assert (file.read_bytes(), file.stat().st_mode & 0o777) == (after, 0o751)
    assert {file.name for file in tmp_path.iterdir()} == {"a", "c"}


async def test_other_white_space_at_the_ends_of_lines_is_told_and_kept(tmp_path, agent):
    """RA-4."""
    (tmp_path / "a").write_text("one  \ntwo\n")
    result = await agent.patch("*** Update File: a", " one", "-two", "+2")
    assert (tmp_path / "a").read_text() == "one  \n2\n"
    assert result.content == snapshot("""\
a changed, lines: +1 -1
@@ -1,2 +1,2 @@
 one  \n\
-two
+2
The lines from 1 on matched except for white space at their ends; those that stay were not changed.\
""")


async def test_a_patch_run_as_a_command_is_answered_with_the_tool(tmp_path, agent):
    """RA-4: GPT models often do that."""
    command = "apply_patch <<'EOF'\n*** Begin Patch\n*** Add File: a\n+x\n*** End Patch\nEOF"
    result = await agent.call("shell", command=command)
    assert result.failed
    assert result.content.endswith("call the tool apply_patch with the patch as `input`.")
    assert "call the tool" not in (await agent.call("shell", command="missing; echo apply_patch")).content


def planned(root, name, after):
    path = root / name
    before = read_whole(root, path, name, limit_bytes=100) if path.exists() else None
    return PlannedFile(path=path, shown=name, before=before, after=after)


def test_a_failure_in_the_middle_restores_what_was_changed(tmp_path):
    """RA-4, RA-14: somebody changes the last file after all were checked."""
    for name in ("a", "b", "last"):
        (tmp_path / name).write_text(name)
        (tmp_path / name).chmod(0o640)
    plan = [planned(tmp_path, "b", None), planned(tmp_path, "a", b"x"), planned(tmp_path, "new", b"y")]
    plan.append(planned(tmp_path, "last", None))
    (tmp_path / "last").write_text("somebody's")
    assert isinstance(change_files(tmp_path, plan), Refusal)
    assert contents(tmp_path) == {"a": "a", "b": "b", "last": "somebody's"}
    assert {file.stat().st_mode & 0o777 for file in tmp_path.iterdir()} == {0o640}


def test_a_file_that_appears_meanwhile_is_not_replaced(tmp_path):
    """RA-14."""
    plan = [planned(tmp_path, "a", b"mine")]
    (tmp_path / "a").write_text("somebody's")
    assert isinstance(change_files(tmp_path, plan), Refusal)
    assert contents(tmp_path) == {"a": "somebody's"}


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everything")
def test_a_file_that_is_not_writable_is_not_deleted(tmp_path):
    (tmp_path / "a").write_text("a")
    (tmp_path / "a").chmod(0o444)
    assert isinstance(change_files(tmp_path, [planned(tmp_path, "a", None)]), Refusal)
