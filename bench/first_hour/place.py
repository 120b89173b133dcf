"""A user's machine for one hour: a home, a clone of a project, and the commands on PATH."""

import json
import os
import subprocess  # noqa: TID251 - git is called as users call it
import sys
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from first_hour.files import FILES
from first_hour.recorder import Record, record

OURS = Path(sys.executable).parent
"""Its programs are not those of a user."""
SECRETS = ("KEY", "TOKEN", "SECRET", "PASSWORD")
PROJECTS = Path(__file__).with_name("projects.toml")


class Project(Struct, frozen=True, kw_only=True):
    """One commit of a project."""

    repo: str
    """`owner/name`."""
    commit: str
    kind: str
    """How the project is built and tested, in words."""
    program: str
    """Without it, the project is left out."""
    settings: Mapping[str, str] = {}
    """Settings that the user needs, by name."""

    @property
    def name(self) -> str:
        """Return the last part of its name."""
        return self.repo.rpartition("/")[2]


def projects() -> list[Project]:
    """Return the projects of the hour."""
    return msgspec.convert(tomllib.loads(PROJECTS.read_text())["project"], list[Project])


class Place:
    """One repository and its user."""

    def __init__(self, folder: Path, project: Project, source: Path, *, programs: Path) -> None:
        """Clone the project's commit from `source` into a new folder; our commands are those in `programs`."""
        self.folder = folder
        self.repo = folder / project.name
        self.home = folder / "home"
        self.bin = folder / "bin"
        for each in (self.home, self.bin):
            each.mkdir(parents=True)
        for name in ("scaffold", "ralph"):
            (self.bin / name).symlink_to((programs / name).resolve())
        self.environ = _environ(self.home, self.bin)
        self._git("clone", "-q", "--no-checkout", str(source), str(self.repo))
        self._git("-C", str(self.repo), "checkout", "-q", "-B", "main", project.commit)
        for name, text in FILES.items():
            (self.repo / name).parent.mkdir(parents=True, exist_ok=True)
            (self.repo / name).write_text(text)
        author = ("-c", "user.name=Grace", "-c", "user.email=grace@example.org")
        self._git("-C", str(self.repo), "add", "-A")
        self._git(*author, "-C", str(self.repo), "commit", "-q", "-m", "Add what the pages mention")

    def _git(self, *args: str) -> None:
        subprocess.run(["git", *args], cwd=self.folder, env=self.environ, check=True)

    def type(self, command: str, columns: int, answers: Sequence[tuple[str, str]] = ()) -> Record:
        """Type a command in the repository, in a terminal of so many columns or in a pipe."""
        return record(command, columns=columns, cwd=self.repo, environ=self.environ, answers=answers)

    def ask(self, command: str) -> Any:
        """Return what a command prints as JSON."""
        done = subprocess.run(
            ["bash", "-c", command], cwd=self.repo, env=self.environ, capture_output=True, text=True, check=False
        )
        return json.loads(done.stdout)


def _environ(home: Path, programs: Path) -> Mapping[str, str]:
    """Return this process's environment without secrets, our environment's programs and what is set for Scaffold."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("SCAFFOLD", "PYTHON", "VIRTUAL_ENV", "GIT_", "TMUX", "COLUMNS", "LINES"))
        and not any(word in name for word in SECRETS)
    }
    others = [each for each in kept.get("PATH", os.defpath).split(os.pathsep) if Path(each) != OURS]
    toolchains = Path.home() / ".rustup"  # a `cargo` of rustup starts those of the home, unless they are named
    named = {"RUSTUP_HOME": str(toolchains)} if toolchains.is_dir() else {}
    return {
        **named,
        **kept,
        "PATH": os.pathsep.join([str(programs), *others]),
        "HOME": str(home),
        "LANG": "C.UTF-8",
        "GIT_CONFIG_NOSYSTEM": "1",
        "PAGER": "cat",
        "BROWSER": "true",
    }
