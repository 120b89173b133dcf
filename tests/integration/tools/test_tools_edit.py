import os

import pytest
from inline_snapshot import snapshot

from scaffold.tools.arguments import argument_problems
from scaffold.tools.file.edit_lines import apply_delta
from scaffold.tools.file.read_write import read_file
from scaffold.tools.workspace import MAX_ANSWER_CHARS, Workspace


@pytest.fixture
def edit(root):
    """Edit a file with operations that match the schema."""
    workspace = Workspace(root, {})
    tool = apply_delta(workspace)
    read = read_file(workspace)

    async def edit(path, *operations, after_reading=False):
        if after_reading:
            assert not (await read.run({"path": path})).failed
        args = {"path": path, "operations": list(operations)}
        assert argument_problems(tool, args) is None
        return await tool.run(args)

    return edit


def replace(line, content, **more):
    return {"operation": "replace", "start_line": line, "content": content, **more}


async def test_lines_are_edited_and_the_diff_is_shown(root, edit):
    """RA-4."""
    (root / "a").write_text("one\ntwo\nthree\n")
    output = await edit("a", replace(2, "zwei", expected="two"))
    assert (root / "a").read_text() == "one\nzwei\nthree\n"
    assert output.content == "a changed, lines: +1 -1\n@@ -1,3 +1,3 @@\n one\n-two\n+zwei\n three"


async def test_a_match_that_ignores_white_space_is_refused(root, edit):
    """RA-4."""
    (root / "a").write_text("\tone\n")
    output = await edit("a", replace(1, "uno", expected="one"))
    assert output.failed
    assert (root / "a").read_text() == "\tone\n"


async def test_without_expected_lines_the_file_must_have_been_read(root, edit):
    """RA-4: line numbers of a file that was not read are guesses."""
    (root / "a").write_text("one\n")
    output = await edit("a", replace(1, "uno"))
    assert output.content == snapshot("a was not read in this conversation: read it first, or give `expected`.")
    assert not (await edit("a", replace(1, "uno"), after_reading=True)).failed


async def test_long_lines_are_cut_in_the_answer(root, edit):
    """RA-4: a generated file may have one line of a million characters."""
    (root / "a").write_text("x" * 100_000 + "\n")
    answer = (await edit("a", replace(1, "y" * 100_000), after_reading=True)).content
    assert answer.splitlines()[2:] == [
        f"{line} ... 99501 more characters" for line in ("-" + "x" * 499, "+" + "y" * 499)
    ]
    assert (root / "a").read_text() == "y" * 100_000 + "\n"


async def test_an_uneditable_file_is_refused_and_not_changed(root, edit):
    (root / "text").write_text("one\n")
    (root / "latin").write_bytes(b"caf\xe9\n")
    (root / "binary").write_bytes(b"\0")
    (root / "folder").mkdir()
    os.mkfifo(root / "pipe")
    refused = {
        ("text", "x", "other"): "`expected` does not match",
        ("latin", "€", "caf\xe9"): "is not known",
        ("binary", "x", ""): "binary",
        ("folder", "x", ""): "list_dir",
        ("pipe", "x", ""): "a pipe",
        ("none", "x", ""): "no file none",
        ("../out", "x", ""): "outside",
        (".git/config", "x", ""): "belongs to git",
        ("text", "\ud800", "one"): "surrogate",
    }
    for (path, content, expected), reason in refused.items():
        output = await edit(path, replace(1, content, expected=expected))
        assert output.failed, path
        assert reason in output.content, path
    assert (root / "text").read_text() == "one\n"
    assert (root / "latin").read_bytes() == b"caf\xe9\n"
    assert (await edit("text")).failed


class Meanwhile(list):
    """Operations that change the file before they are executed."""

    def __init__(self, operations, change):
        super().__init__(operations)
        self._change = change

    def __iter__(self):
        self._change()
        return super().__iter__()


async def test_a_file_that_changes_during_the_edit_is_not_overwritten(root):
    """RA-4: a file that changes while edited."""
    (root / "a").write_text("one\ntwo\n")
    operations = Meanwhile([replace(1, "uno", expected="one")], lambda: (root / "a").write_text("theirs\n"))
    output = await apply_delta(Workspace(root, {})).run({"path": "a", "operations": operations})
    assert output.failed
    assert "Read it again" in output.content
    assert (root / "a").read_text() == "theirs\n"
    assert len(list(root.iterdir())) == 1


async def test_a_large_diff_is_shortened(root, edit):
    (root / "a").write_text("x\n")
    output = await edit("a", replace(1, "line of text\n" * 10_000), after_reading=True)
    assert len(output.content) < MAX_ANSWER_CHARS + 200
    assert output.content.startswith("a changed, lines: +10000 -1")
