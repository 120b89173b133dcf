"""What file tools changed, kept by turn in real files, and taken back."""

import os

import pytest
from inline_snapshot import snapshot

from scaffold.git.client.command_line import Git
from scaffold.session.file_history import MAX_TURNS, FileHistory
from scaffold.session.undo import undo_note, undo_text, undo_turn
from scaffold.session.working_tree import NO_CHANGE, start_of_changes, tool_changes, tree_changes
from scaffold.tools.catalog import builtin_tools
from scaffold.tools.content.safe_open import MAX_KEPT_BYTES
from scaffold.tools.workspace import Workspace


class Session:
    """The tools of one conversation in a folder, and its history."""

    def __init__(self, folder, root):
        self.root = root
        self.history = FileHistory(folder)
        workspace = Workspace(root, {}, replaces_unread=True)
        self.tools = {tool.name: self.history.watch(tool) for tool in builtin_tools(workspace)}

    async def call(self, tool, **args):
        answer = await self.tools[tool].run(args)
        assert not answer.failed, answer.content
        return answer

    async def write(self, path, content):
        return await self.call("write_file", path=path, content=content)

    def undo(self):
        return undo_turn(self.history, self.history.turns()[0], self.root)


def assert_as_before(path):
    """Require the bytes and the mode that `a.py` had first."""
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"one\r\ntwo\r\n", 0o750)


@pytest.fixture
def root(tmp_path):
    root = tmp_path / "work"
    root.mkdir()
    (root / "a.py").write_bytes(b"one\r\ntwo\r\n")
    (root / "a.py").chmod(0o750)
    return root


@pytest.fixture
def session(tmp_path, root):
    session = Session(tmp_path / "history", root)
    session.history.begin_turn("change\nthings")
    return session


async def test_every_file_tool_is_taken_back_at_once_with_bytes_and_mode(session, root):
    """RA-18: the first content of the turn counts, however often the turn changed the file."""
    await session.write("a.py", "three\n")
    await session.call("edit", path="a.py", old="three", new="four")
    await session.call("append_file", path="a.py", content="five\n")
    await session.call("apply_delta", path="a.py", operations=[{"operation": "delete", "start_line": 1}])
    await session.call("append_file", path="log", content="x\n")
    await session.call("append_file", path="log", content="y\n")
    await session.write("new/b.py", "b\n")
    report = session.undo()
    assert_as_before(root / "a.py")
    assert not (root / "log").exists()
    assert not (root / "new" / "b.py").exists()
    assert undo_text(report).split("\n") == snapshot(
        ['undone, of the turn "change things":', "  restored a.py", "  removed log, new/b.py"]
    )
    assert undo_note(report).startswith("[The user took back changes of yours with /undo.")
    assert session.history.turns() == []


async def test_what_a_patch_deleted_comes_back_with_its_mode(session, root):
    """RA-18."""
    await session.call("read_file", path="a.py")
    patch = ["*** Begin Patch", "*** Delete File: a.py", "*** Add File: b.py", "+new", "*** End Patch", ""]
    await session.call("apply_patch", input="\n".join(patch))
    assert not (root / "a.py").exists()
    report = session.undo()
    assert (report.names("restored"), report.names("removed")) == (["a.py"], ["b.py"])
    assert_as_before(root / "a.py")


async def test_turns_are_taken_back_one_after_another_by_another_process(session, root, tmp_path):
    """RA-18: what was kept outlives the session."""
    await session.write("a.py", "first\n")
    session.history.begin_turn("")
    await session.write("a.py", "second\n")
    session.history.begin_turn("a question, which changes nothing")
    again = Session(tmp_path / "history", root)
    assert undo_text(again.undo()).startswith("undone, of the last turn:")
    assert (root / "a.py").read_bytes() == b"first\r\n"
    assert 'turn "change things"' in undo_text(again.undo())
    assert (root / "a.py").read_bytes() == b"one\r\ntwo\r\n"


async def test_what_changed_since_is_left_alone_and_named(session, root):
    """RA-18: nobody's work is overwritten."""
    await session.write("a.py", "agent\n")
    await session.write("b.py", "agent\n")
    await session.write("c.py", "agent\n")
    await session.write("d.py", "agent\n")
    (root / "a.py").write_text("mine\n")
    (root / "b.py").unlink()
    (root / "d.py").unlink()
    (root / "d.py").symlink_to(root / "c.py")
    (root / "c.py").write_text("mine too\n")
    report = session.undo()
    assert [(file.name, file.effect) for file in report.files] == [
        ("a.py", "left"),
        ("b.py", "unchanged"),
        ("c.py", "left"),
        ("d.py", "left"),
    ]
    assert "not a.py: " in undo_text(report)
    assert (root / "a.py").read_text() == "mine\n"
    assert (root / "c.py").read_text() == "mine too\n"
    assert (root / "d.py").is_symlink()


async def test_what_somebody_else_changed_within_the_turn_is_left_alone(session, root):
    """RA-18: an edit of the user's between two changes of the agent is not lost."""
    await session.write("a.py", "agent\n")
    (root / "a.py").write_text("agent\nmine\n")
    await session.call("read_file", path="a.py")
    await session.call("edit", path="a.py", old="agent", new="agent again")
    report = session.undo()
    assert "not a.py: " in undo_text(report)
    assert (root / "a.py").read_text() == "agent again\nmine\n"


async def test_what_a_command_put_back_within_the_turn_loses_nothing(session, root):
    """RA-18: the content before the turn is known, so it can come back; a change that was not made is none."""
    await session.write("a.py", "agent\n")
    (root / "a.py").write_bytes(b"one\r\ntwo\r\n")
    await session.call("read_file", path="a.py")
    await session.write("a.py", "agent again\n")
    assert session.undo().names("restored") == ["a.py"]
    assert_as_before(root / "a.py")
    session.history.begin_turn("killed after the change was announced")
    await session.call("read_file", path="a.py")
    await session.write("a.py", "agent\n")
    (root / "a.py").write_bytes(b"one\r\ntwo\r\n")
    assert session.undo().names("unchanged") == ["a.py"]


async def test_a_file_that_was_deleted_and_made_anew_has_its_mode_again(session, root):
    """RA-18."""
    for text in ("one\r\ntwo\r\n", "new\n"):
        session.history.begin_turn(text)
        await session.call("read_file", path="a.py")
        await session.call("apply_patch", input="*** Begin Patch\n*** Delete File: a.py\n*** End Patch\n")
        await session.write("a.py", text)
        (root / "a.py").chmod(0o644)
        assert session.undo().names("restored") == ["a.py"]
        assert_as_before(root / "a.py")


async def test_a_turn_of_which_nothing_could_be_taken_back_stays(session, root):
    """RA-18: it can be taken back once the file is as the turn left it; a mode that somebody else set is kept."""
    await session.write("a.py", "agent\n")
    left = (root / "a.py").read_bytes()
    (root / "a.py").write_text("mine\n")
    (root / "a.py").chmod(0o700)
    assert undo_text(session.undo()).startswith('nothing was changed of the turn "change things":')
    (root / "a.py").write_bytes(left)
    assert session.undo().names("restored") == ["a.py"]
    assert (root / "a.py").stat().st_mode & 0o777 == 0o700


async def test_what_other_tools_may_have_changed_is_said(session):
    """RA-18: only what file tools changed is known."""
    await session.call("shell", command="true")
    await session.write("b.py", "agent\n")
    await session.call("shell", command="true")
    await session.call("python", code="pass")
    assert undo_text(session.undo()).endswith("not what shell, python may have changed: only file tools can be undone")


async def test_an_interrupted_undo_is_completed_by_the_next_one(session, root, tmp_path):
    """RA-18: the turn is forgotten last."""
    await session.write("a.py", "agent\n")
    await session.write("b.py", "agent\n")
    stored = next((tmp_path / "history" / "turns").iterdir())
    turn = stored.read_bytes()
    session.undo()
    (root / "b.py").write_bytes(b"agent\n")
    stored.write_bytes(turn)
    report = session.undo()
    assert [file.effect for file in report.files] == ["unchanged", "removed"]


async def test_damaged_files_of_the_history_harm_nothing(session, root, tmp_path):
    """RA-18: a turn that cannot be read is not undone, and a content that is not what it was is not written."""
    await session.write("a.py", "agent\n")
    (tmp_path / "history" / "turns" / "000009.json").write_text('{"number"')
    for content in (tmp_path / "history" / "contents").iterdir():
        content.write_text("something else")
    assert "no longer kept" in undo_text(session.undo())
    assert (root / "a.py").read_bytes() == b"agent\r\n"


async def test_a_message_of_any_bytes_keeps_no_tool_from_working(session, root):
    """RA-18: a terminal passes on what is no UTF-8, and control characters; a long message is cut visibly."""
    session.history.begin_turn("bad \udcff\x1b[2J " + "x" * 100)
    await session.write("b.py", "b\n")
    words = session.history.turns()[0].words
    assert (words[:14], words[-1], len(words)) == ("bad ?\\x1b[2J x", "…", 60)
    session.undo()
    assert not (root / "b.py").exists()


@pytest.mark.slow
async def test_what_is_kept_is_private_and_bounded(session, root, tmp_path):
    """RA-18: only the user can read it; the oldest turns go, and long contents are not kept."""
    (root / "long").write_text("x" * (MAX_KEPT_BYTES + 1))
    await session.call("append_file", path="long", content="y")
    await session.write("a.py", "0\n")
    report = session.undo()
    assert [(file.name, file.effect) for file in report.files] == [("long", "left"), ("a.py", "restored")]
    for number in range(MAX_TURNS + 3):
        session.history.begin_turn(str(number))
        await session.write("b.py", f"{number}\n")
    history = tmp_path / "history"
    assert len(session.history.turns()) == MAX_TURNS
    assert len(list((history / "contents").iterdir())) <= MAX_TURNS + 1
    assert history.stat().st_mode & 0o077 == 0
    assert all(path.stat().st_mode & 0o077 == 0 for path in history.rglob("*"))


async def test_a_full_disk_stops_no_tool(session, root, tmp_path):
    """RA-18: without a history, files are written all the same."""
    (tmp_path / "history").write_text("in the way")
    await session.write("a.py", "agent\n")
    assert (root / "a.py").read_bytes() == b"agent\r\n"
    assert session.history.turns() == []
    workers = {tool.name: tool for tool in builtin_tools(Workspace(root, {}))}
    assert not (await workers["write_file"].run({"path": "b", "content": "x"})).failed, "workers have no history"


async def test_a_file_outside_the_directory_is_left(session, root, tmp_path):
    """RA-18: a conversation resumed elsewhere changes nothing in its former directory."""
    await session.write("a.py", "agent\n")
    (tmp_path / "other").mkdir()
    report = undo_turn(session.history, session.history.turns()[0], tmp_path / "other")
    assert report.names("restored") == []
    assert (root / "a.py").read_bytes() == b"agent\r\n"


async def test_outside_git_the_difference_is_what_the_tools_changed(session, root):
    """RA-18: since the first turn, or by the last one."""
    assert await tree_changes(await start_of_changes(root), session.history, root) == NO_CHANGE
    await session.write("a.py", "one\nthree\n")
    await session.call("shell", command="true")
    session.history.begin_turn("more")
    await session.write("a.py", "one\nfour\n")
    await session.write("b.bin", "x\n")
    (root / "b.bin").write_bytes(b"\0\1")
    whole = await tree_changes(await start_of_changes(root), session.history, root)
    assert "a.py  +1 -1\n 1\tone\n-2\ttwo\n+2\tfour" in whole
    assert "\nb.bin: changed" in whole
    assert whole.endswith("what shell may have changed is not shown")
    turn = tool_changes(session.history.turns()[:1], session.history, root)
    assert "-2\tthree\n+2\tfour" in turn
    assert "shell" not in turn


async def test_in_git_the_difference_is_that_of_the_working_tree(session, root):
    """RA-18: also what was committed since the session began; untracked files are named."""
    git = Git(root, environ=os.environ)
    as_user = ("-c", "user.name=U", "-c", "user.email=u@example.org", "commit", "-qam")
    await git("init", "-q")
    empty = await start_of_changes(root)
    assert "untracked: a.py" in await tree_changes(empty, session.history, root)
    await git("add", ".")
    await git(*as_user, "x")
    start = await start_of_changes(root)
    assert await tree_changes(start, session.history, root) == NO_CHANGE
    (root / "a.py").write_text("changed\n")
    await git(*as_user, "y")
    (root / "new file ").write_text("x")
    text = await tree_changes(start, session.history, root)
    assert text.startswith(f"since commit {start.commit[:10]}:\ndiff --git a/a.py b/a.py")
    assert "+changed" in text
    assert text.endswith('untracked: "new file "')


async def test_the_difference_is_whole_whatever_git_is_configured_to_show(session, root):
    """RA-18: in a folder below the top, too."""
    git = Git(root, environ=os.environ)
    await git("init", "-q")
    await git("add", ".")
    await git("-c", "user.name=U", "-c", "user.email=u@example.org", "commit", "-qm", "x")
    for setting in ("diff.relative", "color.diff", "diff.noprefix"):
        await git("config", setting, "always" if "color" in setting else "true")
    (root / "below").mkdir()
    (root / "a.py").write_text("changed\n")
    text = await tree_changes(await start_of_changes(root / "below"), session.history, root / "below")
    assert "+changed" in text.split("\n")
