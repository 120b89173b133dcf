"""Programs that a repository configures never run; only git-lfs is trusted."""

import shlex
from pathlib import Path

import pytest

from builders import commit_all
from scaffold.core.errors import GitError
from scaffold.git.checkouts import worktree
from scaffold.git.checkouts.worktree_pool import WorktreePool
from scaffold.git.client.disabled_programs import disable_programs
from scaffold.git.commits import changed_paths, diff_text, listed_paths
from scaffold.git.refs import move, pin, resolve, work_ref
from scaffold.git.repository import checkout_status, open_repository
from scaffold.git.trees.merge import Conflicted, Merged, merge_commits

PROGRAMS = {
    "clean": "filter.mark.clean",
    "smudge": "filter.mark.smudge",
    "process": "filter.mark.process",
    "odd clean": "filter.odd=name.With.dots.clean",
    "odd smudge": "filter.odd=name.With.dots.smudge",
    "merge driver": "merge.mark.driver",
    "diff command": "diff.mark.command",
    "textconv": "diff.mark.textconv",
    "external diff": "diff.external",
    "monitor": "core.fsmonitor",
    "ssh": "core.sshCommand",
    "ask": "core.askPass",
    "editor": "core.editor",
    "sequence editor": "sequence.editor",
    "pager": "core.pager",
    "gpg": "gpg.program",
    "proxy": "core.gitProxy",
    "alternates": "core.alternateRefsCommand",
    "credentials": "credential.helper",
    "submodule update": "submodule.s.update",
    "upload": "remote.origin.uploadpack",
}
LFS = """#!/usr/bin/env python3
# Keeps content in a folder and hands out its hash instead.
import hashlib, os, pathlib, sys
store = pathlib.Path(os.environ["HOME"]) / "lfs"; store.mkdir(exist_ok=True)
def read():
    size = sys.stdin.buffer.read(4)
    if not size: sys.exit()
    return None if size == b"0000" else sys.stdin.buffer.read(int(size, 16) - 4)
def until_flush(): return list(iter(read, None))
def write(*lines):
    for line in lines: sys.stdout.buffer.write(b"%04x" % (len(line) + 4) + line)
    sys.stdout.buffer.write(b"0000"); sys.stdout.buffer.flush()
with open(os.path.expanduser("~/lfs-calls"), "a") as calls: calls.write(sys.argv[1] + "\\n")
if sys.argv[1] != "filter-process": sys.exit(1)
until_flush(); write(b"git-filter-server\\n", b"version=2\\n")
until_flush(); write(b"capability=clean\\n", b"capability=smudge\\n")
while True:
    command = until_flush()[0]; content = b"".join(until_flush())
    if command == b"command=clean\\n":
        name = hashlib.sha256(content).hexdigest(); (store / name).write_bytes(content); content = name.encode()
    else:
        content = (store / content.decode()).read_bytes()
    write(b"status=success\\n"); write(*[content[at:at + 60000] for at in range(0, len(content), 60000)]); write()
"""


@pytest.fixture
def ran(tmp_path):
    """The file into which every program that runs writes its name."""
    return tmp_path / "ran"


@pytest.fixture
def program(tmp_path, ran):
    """Create a program that records its run, then executes its arguments."""

    def make(name, then="cat"):
        path = tmp_path / "programs" / name.replace(" ", "-")
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\necho {shlex.quote(name)} >> {shlex.quote(str(ran))}\n{then}\n")
        path.chmod(0o755)
        return path

    return make


@pytest.fixture
def install_lfs(tmp_path, environ):
    """Put a stand-in for git-lfs on PATH, and have it called as `git lfs install` does."""

    def install(script):
        folder = tmp_path / "bin dir"
        folder.mkdir()
        (folder / "git-lfs").write_text(script)
        (folder / "git-lfs").chmod(0o755)
        environ["PATH"] = f"{folder}:{environ['PATH']}"

    return install


async def everything(repo, sh, tmp_path, people):
    """Run every git operation that we use."""
    at = await open_repository(repo.root, environ=repo.git.environ)
    head = (await checkout_status(at)).head
    pool = WorktreePool(at, tmp_path / "attempts")
    slot = await pool.take("a1", head)
    (slot.git.cwd / "a").write_text("1\n2\n3\nfour\n")
    (slot.git.cwd / "new").write_text("new\n")
    ours = await commit_all(slot.git, "ours", **people)
    await pin(at.git, work_ref("a1"), ours)
    await worktree.restore(slot.git, head)
    (slot.git.cwd / "a").write_text("one\n2\n3\n")
    theirs = await commit_all(slot.git, "theirs", **people)
    merged = await merge_commits(at.git, ours, theirs)
    await diff_text(at.git, head, ours, limit_bytes=10000)
    await changed_paths(at.git, head, ours)
    await listed_paths(at.git, ours)
    await move(at.git, "refs/heads/session", new=ours, old=None)
    await pool.give_back("a1")
    await pool.take("a2", theirs)
    await worktree.remove(at, tmp_path / "attempts" / "a2")
    return merged


@pytest.mark.parametrize("included", [False, True], ids=["configured", "included"])
async def test_no_configured_program_of_a_repository_ever_runs(repo, sh, program, ran, tmp_path, people, included):
    """BX-9: filters, drivers, monitors, transports, helpers; by committed and other attributes."""
    place = tmp_path / "more settings"
    where = f"-f '{place}'" if included else ""
    for name, setting in PROGRAMS.items():
        await sh(f"git config {where} {shlex.quote(setting)} {shlex.quote(str(program(name)))}")
    if included:
        await sh(f"git config include.path '{place}'")
    await sh(
        "printf '* merge=mark diff=mark\\na filter=mark\\n' > .git/info/attributes;"
        "echo 'new filter=odd=name.With.dots' > .gitattributes;"
        "echo '* text' >> .gitattributes; git -c core.fsmonitor=false add .gitattributes;"
        "git -c core.fsmonitor=false -c core.editor=true commit -qm attributes"
    )
    ran.unlink(missing_ok=True)
    assert isinstance(await everything(repo, sh, tmp_path, people), Merged)
    assert not ran.exists(), ran.read_text()


def test_a_hook_that_the_configuration_names_is_turned_off():
    """BX-9: since git 2.54 hooks need no file."""
    listing = b"file:.git/config\0hook.a.b.command\nevil\0file:.git/config\0hook.jobs\n2\0"
    assert disable_programs(listing, Path("/repo"), "/bin").settings == (("hook.a.b.enabled", "false"),)


async def test_the_marker_programs_run_with_plain_git(repo, sh, program, ran):
    """The test above can fail."""
    await sh(f"git config filter.mark.smudge '{program('smudge')}'; echo 'a filter=mark' > .git/info/attributes")
    await sh("rm a; git checkout -q a")
    assert ran.read_text() == "smudge\n"


@pytest.mark.parametrize("later", ["repository", "worktree"])
async def test_a_program_configured_later_never_runs_either(repo, head, sh, program, ran, tmp_path, later):
    """BX-9: an agent may run `git config`."""
    git = await worktree.add(repo, tmp_path / "w", head)
    flag = "" if later == "repository" else "--worktree"
    await sh("git config extensions.worktreeConfig true", cwd=git.cwd)
    await worktree.reset_and_clean(git, head)
    await sh(f"echo 'a filter=mark' > .git/info/attributes; rm '{git.cwd}/a'")
    await sh(f"git config {flag} filter.mark.smudge '{program('smudge')}'", cwd=git.cwd)
    await worktree.reset_and_clean(git, head)
    assert (git.cwd / "a").read_text() == "1\n2\n3\n"
    assert not ran.exists()


async def test_a_missing_object_is_not_fetched(repo, sh, program, ran):
    await sh(f"git remote add origin 'ext::{program('fetch')}'; git config protocol.allow always")
    with pytest.raises(GitError, match="partial clone"):
        await repo.git("fetch", "origin")
    assert not ran.exists()


async def test_git_s_own_merge_driver_replaces_a_configured_one(repo, head, sh, program, ran, tmp_path, people):
    """Even one that would always be content: a conflict stays a conflict."""
    await sh(
        f"git config merge.mine.driver '{program('driver', 'exit 0')}'; echo 'a merge=mine' > .git/info/attributes"
    )
    git = await worktree.add(repo, tmp_path / "w", head)
    sides = []
    for line in ("x", "y"):
        await worktree.restore(git, head)
        (git.cwd / "a").write_text(f"{line}\n2\n3\n")
        sides.append(await commit_all(git, line, **people))
    assert isinstance(await merge_commits(repo.git, *sides), Conflicted)
    assert not ran.exists()


async def test_a_path_that_needs_a_filter_is_refused_by_name(repo, sh, program, ran, tmp_path):
    await sh(
        f"git config filter.crypt.smudge '{program('crypt')}'; git config filter.crypt.clean '{program('crypt')}';"
        "git config filter.crypt.required true; echo 'a filter=crypt' > .gitattributes; git add .; git commit -qm crypt"
    )
    ran.unlink(missing_ok=True)
    with pytest.raises(GitError, match=r"^a in .*`crypt`") as caught:
        await worktree.add(repo, tmp_path / "w", await resolve(repo.git, "HEAD"))
    assert "filter.crypt.required" in caught.value.fix
    assert not ran.exists()


@pytest.mark.slow
async def test_lfs_is_the_only_trusted_filter(repo, sh, environ, install_lfs, tmp_path, people):
    """Whatever program the settings name: the git-lfs on PATH runs."""
    install_lfs(LFS)
    await sh(
        "git config filter.lfs.process 'git-lfs filter-process'; git config filter.lfs.required true;"
        "echo '*.bin filter=lfs' > .gitattributes; head -c 100000 /dev/zero > big.bin; git add .; git commit -qm lfs;"
        "git config filter.lfs.process 'touch evil; false'; git config filter.lfs.smudge 'touch evil; cat'"
    )
    at = await open_repository(repo.root, environ=environ)
    head = (await checkout_status(at)).head
    git = await worktree.add(at, tmp_path / "w", head)
    assert (git.cwd / "big.bin").read_bytes() == bytes(100000)
    (git.cwd / "big.bin").write_bytes(b"x" * 70000)
    work = await commit_all(git, "bigger", **people)
    assert len((await at.git("cat-file", "blob", f"{work}:big.bin")).out) < 200
    await worktree.reset_and_clean(git, head)
    await worktree.reset_and_clean(git, work)
    assert (git.cwd / "big.bin").read_bytes() == b"x" * 70000
    assert not (git.cwd / "evil").exists()
    assert set((tmp_path / "home" / "lfs-calls").read_text().split()) == {"filter-process"}


@pytest.mark.parametrize("why", ["not installed", "extended"])
async def test_an_untrusted_lfs_is_refused(repo, sh, environ, install_lfs, program, ran, tmp_path, why):
    if why == "extended":
        install_lfs(LFS)
        await sh(f"git config lfs.extension.x.clean '{program('extension')}'")
    filled = "process 'git-lfs filter-process'" if why == "extended" else "clean cat"
    await sh(
        f"git config filter.lfs.{filled}; git config filter.lfs.required true;"
        "echo '*.bin filter=lfs' > .gitattributes; echo big > big.bin; git add .; git commit -qm lfs"
    )
    at = await open_repository(repo.root, environ=environ)
    with pytest.raises(GitError, match=r"big\.bin .*`lfs`") as caught:
        await worktree.add(at, tmp_path / "w", (await checkout_status(at)).head)
    assert "install git-lfs" in caught.value.fix
    assert not ran.exists()
