"""A user's machine for one hour: a home, a repository made of a package, and the commands on PATH."""

import json
import os
import subprocess  # noqa: TID251 - git is called as users call it
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from first_hour.files import FILES
from first_hour.packages import Package, unpack
from first_hour.recorder import Record, record

OURS = Path(sys.executable).parent
"""Its programs are not those of a user."""
SECRETS = ("KEY", "TOKEN", "SECRET", "PASSWORD")


class Place:
    """One repository and its user, whose terminal has `columns`."""

    def __init__(self, folder: Path, package: Package, columns: int, *, cache: Path, programs: Path) -> None:
        """Make the repository, with one commit, in a new folder; our commands are those in `programs`."""
        self.folder = folder
        self.columns = columns
        self.repo = folder / package.name
        self.home = folder / "home"
        self.bin = folder / "bin"
        for each in (self.home, self.bin):
            each.mkdir(parents=True)
        for name in ("scaffold", "ralph"):
            (self.bin / name).symlink_to((programs / name).resolve())
        self.environ = _environ(self.home, self.bin)
        unpack(package, cache, self.repo)
        for name, text in FILES.items():
            (self.repo / name).parent.mkdir(parents=True, exist_ok=True)
            (self.repo / name).write_text(text.replace("REPLIES", str(self.repo / "replies.yaml")))
        self.commit_all("import")

    def commit_all(self, message: str) -> None:
        """Make a repository of the folder unless it is one, and commit everything as an example user."""
        author = ("-c", "user.name=Grace", "-c", "user.email=grace@example.org")
        for args in (("init", "-q", "-b", "main"), ("add", "-A"), (*author, "commit", "-q", "-m", message)):
            subprocess.run(["git", *args], cwd=self.repo, env=self.environ, check=True)

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
    return {
        **kept,
        "PATH": os.pathsep.join([str(programs), *others]),
        "HOME": str(home),
        "LANG": "C.UTF-8",
        "GIT_CONFIG_NOSYSTEM": "1",
        "PAGER": "cat",
        "BROWSER": "true",
    }
