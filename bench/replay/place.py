"""A clone of a project with its installed dependencies, reset to the base of each replayed change."""

import fcntl
import hashlib
import os
import subprocess  # noqa: TID251 - the tools of the projects are called as a developer calls them
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from scaffold.host.atomic_files import delete_path

WORK = Path.home() / ".cache" / "scaffold-bench"
"""Where places are made: below no project, since pytest and others take settings from the folders above."""
INSTALLED = ("/.venv", "/node_modules")
"""Where the environment is; git ignores it whatever the project's own `.gitignore` says."""
PATCH = "change.patch"
"""The change to make, in the git directory: every sandbox shows it, read-only."""
APPLY = f'git apply --whitespace=nowarn "$(git rev-parse --git-common-dir)/{PATCH}"'
RUNS = ("scaffold", "worktrees")
"""What runs keep in the git directory."""
IDENTITY = {
    "GIT_AUTHOR_NAME": "Bench",
    "GIT_AUTHOR_EMAIL": "bench@example.org",
    "GIT_COMMITTER_NAME": "Bench",
    "GIT_COMMITTER_EMAIL": "bench@example.org",
}


class SetupFailedError(Exception):
    """The environment of a project could not be made here, or its clone lacks what git needs."""


class Place:
    """A clone of `source` in `folder`, and beside it the home of what runs there."""

    def __init__(self, folder: Path, source: Path) -> None:
        self.folder = folder
        self.source = source
        self.repo = folder / "repo"
        self.home = folder / "home"
        self.environ: Mapping[str, str] = {
            "PATH": _path_without_our_environment(),
            "HOME": str(self.home),
            "SCAFFOLD_HOME": str(self.home / "scaffold"),
            "GIT_CONFIG_NOSYSTEM": "1",
            "LANG": "C.UTF-8",
            **IDENTITY,
        }

    def commits(self, *args: str) -> list[str]:
        """Return the commits that `git rev-list` names in the source: `HEAD` of the clone moves with each reset."""
        return self.git(f"--git-dir={self.source}", "rev-list", *args).split()

    def git(self, *args: str, text: str = "", environ: Mapping[str, str] | None = None) -> str:
        """Return what git prints in the clone; `text` is its standard input, `environ` more variables."""
        return self.git_bytes(*args, data=text.encode(), environ=environ).decode(errors="replace")

    def git_bytes(self, *args: str, data: bytes = b"", environ: Mapping[str, str] | None = None) -> bytes:
        """Return the bytes that git prints in the clone."""
        command = ["git", "-C", str(self.repo), *args]
        variables = {**self.environ, **(environ or {})}
        done = subprocess.run(command, env=variables, input=data, capture_output=True, check=False)
        if done.returncode != 0:
            raise SetupFailedError(f"{' '.join(command)}: {done.stderr.decode(errors='replace').strip()}")
        return done.stdout

    def forget(self) -> None:
        """Remove what earlier runs stored: settings, results, worktrees."""
        for left in (self.home, self.repo / ".scaffold", *(self.repo / ".git" / each for each in RUNS)):
            delete_path(left)
        self.home.mkdir()

    def reset(self, base: str) -> None:
        """Check out `base` as the only branch, `main`; the environment stays."""
        self.git("checkout", "--quiet", "--force", "--detach", base)
        refs = self.git("for-each-ref", "--format=%(refname)", "refs/heads", "refs/scaffold").split()
        self.git("update-ref", "--stdin", text="".join(f"delete {ref}\n" for ref in refs))
        self.git("checkout", "--quiet", "-b", "main")
        # What git ignores stays, as in a developer's checkout: an installation may have generated some of it.
        self.git("clean", "--quiet", "-ffd")


def prepare(folder: Path, source: Path, setup: Sequence[str], *, at: str) -> Place:
    """Return a clone that shares the objects of `source`, in which `setup` ran once, at the commit `at`."""
    place = Place(folder, source)
    _lock(folder)
    stamp = place.repo / ".git" / "bench-setup"
    wanted = hashlib.sha256("\0".join([str(source), at, *setup]).encode()).hexdigest()
    if stamp.exists() and stamp.read_text() == wanted:
        return place
    if folder.exists():
        delete_path(folder)
    folder.mkdir(parents=True)
    clone = ["git", "clone", "--quiet", "--shared", "--no-checkout", str(source), str(place.repo)]
    subprocess.run(clone, env=dict(place.environ), check=True)
    (place.repo / ".git" / "info" / "exclude").write_text("".join(f"{name}\n" for name in INSTALLED))
    place.forget()
    place.reset(place.commits("-1", at)[0])
    for command in setup:
        _install(command, place)
    stamp.write_text(wanted)
    return place


def _lock(folder: Path) -> None:
    """Keep other processes out until this one ends: two benches in one clone would spoil each other's results."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    lock = os.open(folder.with_name(f"{folder.name}.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
    try:
        fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise SetupFailedError(f"another bench uses {folder}: wait for it, or give another --work") from None


def _install(command: str, place: Place) -> None:
    """Run a command that installs, with the user's own caches and settings of package managers."""
    environ = {**os.environ, "PATH": place.environ["PATH"], "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    environ.pop("VIRTUAL_ENV", None)
    done = subprocess.run(
        ["/bin/sh", "-c", command], cwd=place.repo, env=environ, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        said = (done.stdout + done.stderr).strip().splitlines()
        raise SetupFailedError(f"`{command}` exited with {done.returncode}: {' | '.join(said[-3:])[:500]}")


def _path_without_our_environment() -> str:
    """Return PATH without the folder of the interpreter that runs the bench, unless it is the machine's own."""
    own = str(Path(sys.prefix) / "bin") if sys.prefix != sys.base_prefix else None
    return os.pathsep.join(each for each in os.environ["PATH"].split(os.pathsep) if each != own)


def find_source(repos: Path, name: str) -> Path | None:
    """Return the local clone of `owner/name` in a folder of clones, a git directory with or without a work tree."""
    owner, _, short = name.partition("/")
    for folder in (f"{owner}+{short}/repo", f"{owner}+{short}", f"{owner}__{short}", f"{owner}/{short}", short):
        for found in (repos / folder, repos / folder / ".git"):
            if (found / "HEAD").is_file() and (found / "objects").is_dir():
                return found
    return None
