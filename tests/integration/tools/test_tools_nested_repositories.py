"""Repositories that a sandboxed command makes inside the user's checkout."""

import asyncio
import contextlib
import os
import shutil

import pytest

from builders import bubblewrap_or_skip
from scaffold.host.child_environment import child_environment
from scaffold.host.process.command_runner import run_command
from scaffold.host.sandbox.confinement import SandboxSpec
from scaffold.host.sandbox.landlock.sandboxed_command import unsupported_reason
from scaffold.policy.command_sandbox import SandboxInputs
from scaffold.policy.sandbox_profile import workspace_profile
from scaffold.tools.command.shell import python, shell
from scaffold.tools.file.read_write import write_file
from scaffold.tools.nested_repositories import NestedRepositories, move_aside
from scaffold.tools.workspace import Workspace
from support.harness import poll_until
from support.samples import folder_until_exit

CANARY = "git config core.fsmonitor 'touch {ran}; true'; git config filter.x.clean 'touch {ran}; cat'"


async def git(folder, *args):
    """Run git as the user would, with whatever programs are configured."""
    named = ("-c", "user.name=x", "-c", "user.email=x@example.invalid", "-c", "protocol.file.allow=always")
    done = await run_command(["git", *named, *args], cwd=folder, env=child_environment(os.environ), timeout_s=30)
    assert done.exit_code == 0, done
    return done.stdout.decode()


@pytest.fixture
async def checkout(tmp_path):
    """A checkout with the submodule `lib`, the user's own clone `vendor/own`, and the gitlink `bare`."""
    if not SAMPLES:
        SAMPLES.append(await make_sample(folder_until_exit()))
    return shutil.copytree(SAMPLES[0], tmp_path / "work", symlinks=True)


SAMPLES = []
"""The checkout of this process that tests get copies of."""


async def make_sample(folder):
    top, inner = folder / "work", folder / "inner"
    for folder in (top, inner):
        folder.mkdir()
        await git(folder, "init", "-q")
    (inner / "o").write_text("1\n")
    await git(inner, "add", ".")
    await git(inner, "commit", "-qm", "inner")
    await git(top, "submodule", "--quiet", "add", str(inner), "lib")
    await git(
        top, "update-index", "--add", "--cacheinfo", f"160000,{(await git(inner, 'rev-parse', 'HEAD')).strip()},bare"
    )
    await git(top, "commit", "-qm", "all")
    await git(top, "clone", "-q", str(inner), "vendor/own")
    (top / "bare").mkdir()
    return top


@pytest.fixture(params=["bubblewrap", "landlock"])
async def workspace(request, checkout, tmp_path):
    """The checkout with the sandbox of a session, at each level of Linux."""
    if request.param == "bubblewrap":
        program = (await bubblewrap_or_skip()).program
    elif reason := unsupported_reason():
        pytest.skip(reason)
    else:
        program = ""
    temporary = tmp_path / "temporary"
    profile = workspace_profile(SandboxInputs(root=checkout, home=tmp_path / "home", temporary=temporary), os.environ)
    return Workspace(
        checkout,
        child_environment(os.environ),
        sandbox=SandboxSpec(
            request.param, profile, program=program, known=frozenset(path.name for path in checkout.iterdir())
        ),
        nested=NestedRepositories(checkout, besides=temporary),
    )


async def call(tool, **args):
    return (await tool.run(args)).content


async def test_a_bare_repository_that_a_command_makes_is_no_longer_one(workspace, checkout, tmp_path):
    """BX-9: a prompt would run what it names as soon as the user enters the folder."""
    ran = tmp_path / "ran"
    named = f"git config core.bare false; git config core.worktree $PWD; {CANARY.format(ran=ran)}"
    said = await call(shell(workspace), command=f"cd bare; git init -q --bare made; cd made; {named}; ls")
    assert "HEAD.refused-1" in said
    await git(checkout / "bare" / "made", "status")
    assert not ran.exists()


async def test_a_bare_repository_of_the_user_is_protected(workspace, checkout):
    """BX-9: it stays as it is."""
    await git(checkout / "bare", "init", "-q", "--bare", "own.git")
    before = (checkout / "bare" / "own.git" / "config").read_text()
    await call(shell(workspace), command="cd bare/own.git; echo '[core]' >> config; rm HEAD; mv config old")
    assert (checkout / "bare" / "own.git" / "config").read_text() == before
    assert (checkout / "bare" / "own.git" / "HEAD").exists()


@pytest.mark.parametrize(
    "paths", [("HEAD", "objects/a", "refs/a"), ("refs/a", "objects/a", "HEAD"), ("commondir", "HEAD")]
)
async def test_file_tools_complete_no_bare_repository(tmp_path, paths):
    """BX-9, RA-14"""
    write = write_file(Workspace(tmp_path, {}))
    answers = [await write.run({"path": f"made/{path}", "content": "x"}) for path in (*paths, "other")]
    assert [answer.failed for answer in answers] == [False] * (len(paths) - 1) + [True, False]


@pytest.mark.slow
async def test_a_repository_that_a_command_makes_is_moved_aside_with_a_word(workspace, checkout, tmp_path):
    """BX-9: the user's own `git status` would run what it names; in the temporary folder it may stay."""
    ran = tmp_path / "ran"
    said = await call(
        shell(workspace),
        command=f"cd bare; git init -q; {CANARY.format(ran=ran)}; cd $TMPDIR; git init -q mine; ls mine -A",
    )
    assert ("--- bare/.git" in said, ".git.refused-1" in said) == (True, True)
    assert (checkout / "bare" / ".git.refused-1" / "config").is_file()
    assert (tmp_path / "temporary" / "mine" / ".git").is_dir()
    await git(checkout, "status")
    assert not ran.exists()
    code = "import os; os.makedirs('bare/x'); open('bare/x/.git', 'w').write('gitdir: /nowhere')"
    moved = await call(python(workspace), code=code)
    assert ("bare/x/.git" in moved, ".git.refused-1" in moved) == (True, True)
    assert "moved" not in await call(shell(workspace), command="ls -A bare")


async def test_what_was_there_before_is_neither_changed_nor_moved(workspace, checkout, tmp_path):
    """BX-9: the git folders of submodules, and clones of the user's own."""
    before = [(checkout / name).read_bytes() for name in ("lib/.git", "vendor/own/.git/config", ".git/config")]
    own = "echo gitdir: /tmp > lib/.git; rm -rf lib/.git; mv lib gone; mv vendor/own/.git vendor/own/x;"
    said = await call(
        shell(workspace), command=f"{own} echo x >> vendor/own/.git/config; git -C vendor/own config a.b c; ls -A"
    )
    assert "moved" not in said
    assert [(checkout / name).read_bytes() for name in ("lib/.git", "vendor/own/.git/config", ".git/config")] == before
    assert sorted(path.name for path in (checkout / "vendor" / "own" / ".git").iterdir() if path.name == "x") == []


async def test_a_clone_of_the_user_s_between_two_commands_stays(workspace, checkout):
    await call(shell(workspace), command="true")
    await git(checkout, "init", "-q", "vendor/later")
    assert "moved" not in await call(shell(workspace), command="echo x > vendor/own/new")
    assert (checkout / "vendor" / "later" / ".git").is_dir()


@pytest.mark.slow
async def test_a_repository_of_a_cancelled_command_is_moved_aside_too(workspace, checkout):
    work = asyncio.create_task(call(shell(workspace), command="git init -q bare/made; touch made; sleep 30"))
    await poll_until((checkout / "made").exists)
    work.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await work
    assert (checkout / "bare" / "made" / ".git.refused-1" / "config").exists()
    assert not (checkout / "bare" / "made" / ".git").exists()


async def test_a_repository_behind_a_link_is_not_touched(checkout, tmp_path):
    """BX-3: also if a folder becomes a link after the search; it leads to the user's other repositories."""
    other = tmp_path / "other" / ".git"
    other.mkdir(parents=True)
    (checkout / "link").symlink_to(other.parent)
    found = NestedRepositories(checkout, besides=tmp_path / "temporary").find()
    assert {str(path.relative_to(checkout)) for path in found} == {"lib/.git", "vendor/own/.git"}
    assert "refused" not in move_aside(checkout / "link" / ".git", checkout)
    assert other.is_dir()
