"""Where a run is carried out: the repository, its store, and the places beside them."""

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from scaffold.core.ids import AttemptId, RunId
from scaffold.core.ports import Clock
from scaffold.git.command import Git
from scaffold.git.repository import Repository
from scaffold.store.database import Store


class Site(Struct, frozen=True, kw_only=True):
    """One repository with its store, as one process sees it."""

    repository: Repository
    store: Store
    clock: Clock
    cache: Path
    """The user's cache directory for Scaffold; worktrees live below it."""
    environ: Mapping[str, str]
    """The environment this process was started with; children get an allow-listed part of it."""

    @property
    def git(self) -> Git:
        """Git in the checkout the run was started from; nothing is ever written there."""
        return self.repository.git

    def run_folder(self, run_id: RunId) -> Path:
        """Return the folder that holds every worktree and process log of a run."""
        name = hashlib.sha256(str(self.repository.common_dir).encode()).hexdigest()[:12]
        return self.cache / "runs" / f"{self.repository.root.name}-{name}" / run_id

    def attempt_folder(self, run_id: RunId, attempt_id: AttemptId) -> Path:
        """Return where the worktree of an attempt is checked out."""
        return self.run_folder(run_id) / "attempts" / attempt_id

    def landing_folder(self, run_id: RunId) -> Path:
        """Return where merged trees of a run are checked before they land."""
        return self.run_folder(run_id) / "landing"

    def process_log(self, run_id: RunId, attempt_id: AttemptId) -> Path:
        """Return the file that takes what a worker process itself prints, e.g. a crash report."""
        return self.run_folder(run_id) / "logs" / f"{attempt_id}.txt"

    def journal(self, goal: str, action: str) -> Path:
        """Return the file that takes everything an action's agents said and did, one JSON object a line."""
        return self.projections / "logs" / file_name(goal) / f"{file_name(action)}.jsonl"

    @property
    def projections(self) -> Path:
        """The folder in the user's checkout that mirrors the store for people and scripts; ignored by git."""
        return self.repository.root / ".scaffold"


def file_name(name: str) -> str:
    """Return `name` as one segment of a path: no separators, nothing hidden, at most 100 bytes."""
    safe = re.sub(r"[^\w.-]+", "_", name).lstrip(".") or "_"
    return safe.encode()[:100].decode(errors="ignore")
