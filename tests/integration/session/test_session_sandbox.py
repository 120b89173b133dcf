"""The sandbox of a session of `ralph`, wherever it starts."""

import os
from pathlib import Path

import pytest
from inline_snapshot import snapshot
from msgspec import structs

from builders import bubblewrap_or_skip, git, make_repository, sandbox_or_skip
from scaffold.core.errors import TrustError
from scaffold.core.run_settings import SandboxSettings
from scaffold.host.sandbox.landlock import sandboxed_command as landlock
from scaffold.session.shell_sandbox import missing_sandbox_notice, session_sandbox
from scaffold.tools.command.shell import describe_sandbox, shell
from scaffold.tools.workspace import Workspace


@pytest.fixture
def home(tmp_path, monkeypatch):
    folder = tmp_path.resolve() / "home"
    monkeypatch.setenv("SCAFFOLD_HOME", str(folder / "scaffold"))
    folder.mkdir()
    return folder


@pytest.fixture
def repository(tmp_path):
    return make_repository(tmp_path.resolve() / "repository")


@pytest.fixture
def head(repository):
    return git(repository, "rev-parse", "HEAD")


@pytest.fixture
def linked(repository, tmp_path):
    folder = tmp_path.resolve() / "linked"
    git(repository, "worktree", "add", "--quiet", str(folder))
    return folder


@pytest.fixture
def walls(home):
    """Return the sandbox of a session that starts in a folder; skip the test if there is none."""

    async def found(folder: Path, mode="auto"):
        sandbox = await session_sandbox(SandboxSettings(mode=mode), folder, home, conversation="one")
        if sandbox is None:
            found = await sandbox_or_skip()
            pytest.fail(f"{found.level} works on this machine, but the session runs without a sandbox")
        return sandbox

    return found


@pytest.fixture
def said(walls):
    """Run a command in a folder as a session there would, and return its output."""

    async def answer(folder: Path, command: str, **changes):
        workspace = Workspace(folder, {"PATH": os.environ["PATH"]}, sandbox=await walls(folder), **changes)
        return (await shell(workspace).run({"command": command})).content

    return answer


@pytest.mark.parametrize("level", ["bubblewrap", "landlock"])
async def test_git_reads_its_settings_in_a_home_whose_other_dot_entries_are_hidden(
    walls, repository, home, head, level, monkeypatch
):
    """BX-9, RA-14: at every level, wherever the home is; git fails if it cannot read its settings."""
    if level == "landlock" and (problem := landlock.unsupported_reason()):
        pytest.skip(problem)
    monkeypatch.setenv("HOME", str(home))
    (home / ".gitconfig").write_text("[user]\n\tname = Ann Example\n[include]\n\tpath = ~/.gitconfig.local\n")
    (home / ".gitconfig.local").write_text("[user]\n\temail = ann@example.invalid\n")
    for name in (".newcli/session", "other/deep/.env"):
        (home / name).parent.mkdir(parents=True)
        (home / name).write_text("canary")
    sandbox = structs.replace(await (await walls(repository)).spec(), level=level)
    if level == "bubblewrap":
        await bubblewrap_or_skip()
    place = Workspace(repository, {"PATH": os.environ["PATH"], "HOME": str(home)}, sandbox=sandbox)
    script = "git log --format=%H; git config --global --includes --list; cat ~/.newcli/* ~/other/deep/.env"
    answer = (await shell(place).run({"command": script})).content
    assert [text for text in (head, "Ann Example", "ann@example.invalid") if text not in answer] == []
    assert "canary" not in answer


async def test_in_a_subfolder_git_works_and_secrets_above_are_hidden(said, repository, head):
    """BX-9, RA-14: also below a system temporary folder, which is otherwise empty."""
    (repository / "a" / "b").mkdir(parents=True)
    (repository / ".env").write_text("canary one")
    (repository / "a" / ".env").write_text("canary two")
    (repository / "c").mkdir()
    (repository / "c" / ".env").write_text("canary three")
    answer = await said(repository / "a" / "b", "git log --format=%H; cat ../.env ../../.env ../../c/.env; touch ../no")
    assert head in answer
    assert "canary" not in answer
    assert not (repository / "a" / "no").exists()


async def test_git_works_in_a_linked_worktree_of_a_repository_elsewhere(said, repository, linked, head):
    """BX-9"""
    answer = await said(linked, "git status --short; git log --format=%H; git config a.b c")
    assert head in answer
    assert "[a]" not in (repository / ".git" / "config").read_text()


@pytest.mark.parametrize("lie", ["gitdir: {0}", "gitdir: {1}"])
async def test_a_git_file_that_leads_to_no_repository_exposes_nothing(said, tmp_path, home, lie):
    """BX-9, RA-14: it may have come with an archive, to expose a key."""
    keys, folder = home / ".ssh", tmp_path.resolve() / "unpacked"
    fake = folder / "fake"
    for each in (keys, fake):
        each.mkdir(parents=True)
    (keys / "id_rsa").write_text("canary")
    (fake / "HEAD").write_text("ref: refs/heads/main\n")
    (fake / "commondir").write_text(f"{keys}\n")
    (folder / ".git").write_text(lie.format(keys, fake) + "\n")
    assert "canary" not in await said(folder, f"cat {keys}/id_rsa; echo over")


async def test_a_conversation_sees_its_own_outputs_and_none_of_others(said, repository, home):
    """BX-9, RA-14: worktrees and temporary folders of other agents are in the same cache."""
    for name in ("runs/other/attempts/a/work.py", "outputs/two/output.txt", "outputs/one/output.txt"):
        path = home / "scaffold" / "cache" / name
        path.parent.mkdir(parents=True)
        path.write_text(f"of {name}\n")
    cache = home / "scaffold" / "cache"
    answer = await said(repository, f"cat {cache}/outputs/one/*.txt; cat {cache}/*/*/*.txt {cache}/*/*/*/*/*.py")
    assert "of outputs/one" in answer
    assert "of outputs/two" not in answer
    assert "of runs" not in answer


async def test_a_secret_added_by_the_user_is_hidden_from_the_next_command(walls, repository):
    """BX-9, RA-14: also one from before the first command, for which the sandbox is built."""
    place = Workspace(repository, {"PATH": os.environ["PATH"]}, sandbox=await walls(repository))
    tool = shell(place)
    (repository / "deep").mkdir()
    for path in (repository / ".env", repository / "deep" / ".env"):
        path.write_text("canary")
        assert "canary" not in (await tool.run({"command": "cat .env deep/.env; echo over"})).content


@pytest.mark.parametrize("folder", ["/", "/proc/sys", "/dev"])
async def test_a_system_folder_cannot_be_a_confined_workspace(folder, home):
    """BX-9: no sandbox holds a process that may change /proc. Commands ask first, as without a sandbox."""
    assert await session_sandbox(SandboxSettings(), Path(folder), home, conversation="one") is None
    with pytest.raises(TrustError):
        await session_sandbox(SandboxSettings(mode="require"), Path(folder), home, conversation="one")


async def test_a_user_is_warned_of_a_missing_sandbox_unless_it_is_turned_off(home):
    """BX-9"""
    notice = await missing_sandbox_notice(SandboxSettings(), Path("/"))
    assert (notice or "").split("; ") == snapshot(
        [
            "no sandbox: the workspace contains the system's own files",
            "commands can access everything you can. To get one, start in a subfolder.",
        ]
    )
    assert await missing_sandbox_notice(SandboxSettings(mode="off"), Path("/")) is None


async def test_a_model_is_told_the_limits_of_the_weaker_level(walls, repository):
    """BX-9: otherwise it would keep trying to create a file where none can be created."""
    strong = structs.replace(await (await walls(repository)).spec(), level="bubblewrap")
    weak = structs.replace(strong, level="landlock")
    assert "with write_file" in describe_sandbox(weak, has_broker=False)
    assert "write_file" not in describe_sandbox(weak, has_broker=True)
    assert "write_file" not in describe_sandbox(strong)
    open_top = structs.replace(weak, confinement=structs.replace(weak.confinement, protected=()))
    assert "write_file" not in describe_sandbox(open_top, has_broker=False)
    assert "127.0.0.1" in describe_sandbox(open_top, has_broker=False)
    assert "127.0.0.1" not in describe_sandbox(open_top, has_broker=True)


async def test_a_world_writable_folder_is_not_shown_for_a_planted_repository(said, tmp_path):
    """BX-9: such as /tmp itself, with the files of all other programs."""
    common = tmp_path.resolve() / "common"
    (common / "mine").mkdir(parents=True)
    (common / ".git").mkdir()
    (common / "theirs").write_text("canary")
    common.chmod(0o1777)
    assert "canary" not in await said(common / "mine", "cat ../theirs; echo over")
