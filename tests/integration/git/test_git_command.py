"""The git command."""

import asyncio
import os

import pytest
from inline_snapshot import snapshot

from scaffold.core.errors import GitError, PermanentGitError
from scaffold.git.client.answer_cache import MAX_KEPT
from scaffold.git.client.command_errors import git_failure
from scaffold.git.client.command_line import Git
from scaffold.host.process.command_runner import CommandResult

FLAKY_GIT = """#!/bin/sh
echo x >> "$HOME/calls"
if [ "$(wc -l < "$HOME/calls")" -lt 3 ]; then {first}; fi
echo done
"""


@pytest.fixture
def flaky(tmp_path, environ):
    """A git that fails in a given way the first two times."""

    def make(first):
        programs = tmp_path / "programs"
        programs.mkdir()
        program = programs / "git"
        program.write_text(FLAKY_GIT.format(first=first))
        program.chmod(0o755)
        (tmp_path / "top").mkdir(exist_ok=True)
        return Git(tmp_path / "top", environ=environ | {"PATH": f"{programs}:{environ['PATH']}"})

    return make


@pytest.fixture
def counting(tmp_path, environ):
    """The environment of a git that echoes its arguments, and counts its calls."""
    programs = tmp_path / "programs"
    programs.mkdir()
    program = programs / "git"
    program.write_text('#!/bin/sh\necho x >> "$HOME/calls"\necho "$@"\n')
    program.chmod(0o755)
    return environ | {"PATH": f"{programs}:{environ['PATH']}"}


def calls(environ, tmp_path):
    return len((tmp_path / "home" / "calls").read_text().splitlines())


async def test_a_result_has_exit_code_and_output(repo):
    answer = await repo.git("rev-parse", "--is-inside-work-tree")
    assert (answer.exit_code, answer.out, answer.line) == (0, b"true\n", "true")


async def test_an_unexpected_exit_names_the_command_the_folder_and_the_reason(repo):
    with pytest.raises(GitError) as caught:
        await repo.git("cat-file", "-p", "nonsense")
    for named in ("git cat-file -p nonsense", str(repo.root), "Not a valid"):
        assert named in caught.value.what
    assert "\n" not in caught.value.what


async def test_git_gets_neither_keys_nor_variables_of_another_repository(repo, environ, tmp_path):
    strange = environ | {"GIT_DIR": "/nowhere", "GIT_INDEX_FILE": "/nowhere/index", "ANTHROPIC_API_KEY": "secret"}
    seen = (await Git(repo.root, environ=strange)("-c", "alias.env=!env", "env")).out
    assert b"/nowhere" not in seen
    assert b"secret" not in seen
    assert b"GIT_OPTIONAL_LOCKS=0" in seen


@pytest.mark.parametrize(
    "first", ["kill -KILL $$", "echo \"fatal: Unable to create '/r/.git/index.lock': File exists.\" >&2; exit 128"]
)
async def test_a_git_that_was_killed_or_met_a_lock_is_retried(flaky, environ, tmp_path, first):
    assert (await flaky(first)("version")).line == "done"
    assert calls(environ, tmp_path) == 3


async def test_a_permanent_failure_is_not_retried(flaky, environ, tmp_path):
    with pytest.raises(GitError, match="exit code 128"):
        await flaky("exit 128")("version")
    assert calls(environ, tmp_path) == 1


NO_ROOM = "fatal: unable to write loose object file: No space left on device"


@pytest.mark.slow
@pytest.mark.parametrize("said", [NO_ROOM, "error: unable to read x: Input/output error"])
async def test_what_the_system_refuses_is_tried_again(flaky, environ, tmp_path, said):
    """AL-27: with pauses, in which there may be room again."""
    assert (await flaky(f"echo '{said}' >&2; exit 128")("version")).line == "done"
    assert calls(environ, tmp_path) == 3


def test_a_full_disk_is_named(tmp_path):
    ended = CommandResult(
        exit_code=128,
        signal=None,
        timed_out=False,
        stdout=b"",
        stderr=NO_ROOM.encode(),
        stdout_sha256="",
        truncated=False,
        duration_s=1.0,
    )
    error = git_failure(("add",), tmp_path, ended)
    assert error.what.replace(str(tmp_path), "FOLDER") == snapshot("`git add` in FOLDER: no space left on device")
    assert error.fix == snapshot("free some space, then retry")


async def test_a_timeout_is_not_retried(flaky, environ, tmp_path):
    with pytest.raises(GitError, match="timed out after"):
        await flaky("sleep 60")("version", timeout_s=0.3)
    assert calls(environ, tmp_path) == 1


@pytest.mark.parametrize(
    ("harm", "command"),
    [
        ("true", ("update-ref", "refs/heads/main/below", "HEAD")),
        (
            "echo text | git hash-object -w --stdin; cd .git/objects/8e; chmod +w *; truncate -s 0 *",
            ("cat-file", "-p", "8e27be7d6154a1f68ea9160ef0e18691d20560dc"),
        ),
    ],
    ids=["a ref below another one", "an empty object"],
)
async def test_a_fault_that_stays_until_someone_mends_the_repository_is_told_from_others(repo, sh, harm, command):
    """SC-20, AL-27: by git's own words; what passes by itself is tried again."""
    await sh(harm)
    with pytest.raises(PermanentGitError) as caught:
        await repo.git(*command)
    assert caught.value.fix.endswith("then retry")


@pytest.mark.slow
async def test_a_lock_that_is_never_released_is_named(repo, sh):
    await sh("touch .git/index.lock")
    with pytest.raises(GitError, match=r"index\.lock") as caught:
        await repo.git("add", "--all")
    assert "lock" in caught.value.fix


async def test_a_lock_that_is_released_soon_is_waited_for(repo, sh):
    await sh("touch .git/index.lock; echo new > new")
    async with asyncio.TaskGroup() as group:
        adding = group.create_task(repo.git("add", "--all"))
        await asyncio.sleep(0.1)
        await sh("rm .git/index.lock")
    assert adding.result().exit_code == 0


async def test_results_about_commits_are_cached_and_those_about_refs_are_not(tmp_path, environ, counting):
    first, second = "1" * 40, "2" * 40
    (tmp_path / "top").mkdir()
    git = Git(tmp_path / "top", environ=counting)
    for asked in (first, second, first):
        assert (await git.at(tmp_path / "top").read_cached("ls-tree", commits=(asked,))).line == f"ls-tree {asked}"
    assert calls(environ, tmp_path) == 2
    for _ in range(2):
        await git.read_cached("ls-tree", commits=("HEAD",))
    assert calls(environ, tmp_path) == 4


async def test_only_the_latest_cached_results_are_kept(tmp_path, environ, counting):
    (tmp_path / "top").mkdir()
    git = Git(tmp_path / "top", environ=counting)
    asked = [f"{number:040}" for number in range(MAX_KEPT + 1)]
    for commit in (*asked, asked[-1], asked[1]):
        await git.read_cached("ls-tree", commits=(commit,))
    assert calls(environ, tmp_path) == len(asked)
    await git.read_cached("ls-tree", commits=(asked[0],))
    assert calls(environ, tmp_path) == len(asked) + 1


async def test_output_above_the_limit_is_truncated_only_on_request(repo):
    cut = await repo.git("cat-file", "-p", "HEAD", limit_bytes=20)
    assert b"bytes omitted" in cut.out


async def test_a_git_in_the_checkout_is_never_run(tmp_path):
    """BX-9, RA-14: an agent may write there, and the user may have activated that environment."""
    top = tmp_path.resolve() / "top"
    for folder in (top, top / "bin", top / ".venv" / "bin"):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "git").write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
        (folder / "git").chmod(0o755)
    (top / "sub").mkdir()
    for entry in (f"{top}/.venv/bin", f"{top}/sub/../bin", ".", "bin", ""):
        path = os.pathsep.join([entry, os.environ["PATH"]])
        await Git(top, environ={**os.environ, "PATH": path})("version")
        assert (entry, (tmp_path / "ran").exists()) == (entry, False)


async def test_a_git_in_the_checkout_is_not_run_from_its_folders_worktrees_and_submodules(repo, tmp_path):
    """BX-9, RA-14: `doctor` runs in any folder, and a run in worktrees elsewhere."""
    programs = repo.root / ".venv" / "bin"
    programs.mkdir(parents=True)
    (programs / "git").write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    (programs / "git").chmod(0o755)
    (repo.root / "sub" / "deep").mkdir(parents=True)
    environ = {**os.environ, "PATH": os.pathsep.join([str(programs), os.environ["PATH"]])}
    await Git(repo.root / "sub" / "deep", environ=environ)("version")
    opened = Git(repo.root, environ=environ)
    await opened.at(tmp_path)("version")
    await Git(tmp_path, environ=opened.environ)("version")
    await Git(repo.common_dir, environ=environ)("version")
    assert not (tmp_path / "ran").exists()
