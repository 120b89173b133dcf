"""Real repositories with their own home, independent of the settings of the machine's user."""

import os
import shutil
from pathlib import Path

import pytest

from scaffold.core.run_settings import Signature
from scaffold.git.repository import checkout_status, open_repository
from scaffold.host.process.command_runner import run_command
from support.samples import folder_until_exit

AUTHOR = Signature("Zoë Author", "zoe@example.org")
COMMITTER = Signature("Carl Committer", "carl@example.org")
SETTINGS = "[user]\n\tname = Ann Example\n\temail = ann@example.org\n[init]\n\tdefaultBranch = main\n"


@pytest.fixture
def environ(tmp_path):
    """The environment of a user's shell."""
    home = tmp_path / "home"
    home.mkdir()
    settings = home / "gitconfig"
    settings.write_text(SETTINGS)
    return {"PATH": os.environ["PATH"], "HOME": str(home), "GIT_CONFIG_GLOBAL": str(settings)}


@pytest.fixture
def origin(tmp_path):
    """A directory whose name has a space and is not ASCII."""
    path = tmp_path / "my räpo"
    path.mkdir()
    return path


@pytest.fixture
def sh(origin, environ):
    """Run a script as the user would, by default in the repository; return its output."""

    async def shell(script: str, *, cwd: Path = origin, ok: bool = True) -> str:
        finished = await run_command(["sh", "-ec", script], cwd=cwd, env=environ, timeout_s=30)
        assert not ok or finished.exit_code == 0, finished
        return os.fsdecode(finished.stdout)

    return shell


MADE: dict[str, Path] = {}
"""The repository that each script has made in this process; others get copies."""


@pytest.fixture
def make(origin, environ, sh):
    """Make the repository with a script, which runs once in a process, and open it."""

    async def make(script: str):
        if script not in MADE:
            sample = folder_until_exit() / "sample"
            sample.mkdir()
            await sh(script, cwd=sample)
            MADE[script] = sample
        shutil.copytree(MADE[script], origin, symlinks=True, dirs_exist_ok=True)
        await sh("git update-index -q --refresh")  # the copies are other files
        return await open_repository(origin, environ=environ)

    return make


@pytest.fixture
async def repo(make):
    """An opened repository with one commit: `a` with three lines, `run_command` executable, `b/c`, `*.log` ignored."""
    return await make(
        "git init -q; seq 3 > a; mkdir b; echo c > b/c; echo '*.log' > .gitignore;"
        "echo '#!/bin/sh' > run; chmod +x run; git add .; git commit -qm first"
    )


@pytest.fixture
async def head(repo):
    """The first commit."""
    return (await checkout_status(repo)).head


@pytest.fixture
def people():
    """Author and committer as keyword arguments."""
    return {"author": AUTHOR, "committer": COMMITTER}


@pytest.fixture
def git_starts(tmp_path, environ):
    """A function that returns the git commands started since its last call; `environ` finds the git that keeps them."""
    programs, log = tmp_path / "programs", tmp_path / "git-starts"
    programs.mkdir()
    log.touch()
    program = programs / "git"
    program.write_text(f"#!/bin/sh\necho \"$*\" >> '{log}'\nexec '{shutil.which('git')}' \"$@\"\n")
    program.chmod(0o755)
    environ["PATH"] = f"{programs}:{environ['PATH']}"

    def started():
        lines = log.read_text().splitlines()
        log.write_text("")
        return len(lines)

    return started
