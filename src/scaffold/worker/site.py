"""Where a run is carried out: the repository, its store, and the places beside them."""

import hashlib
import os
import re
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from scaffold.agent.discretion import redactor_for
from scaffold.core.ids import AttemptId, RunId
from scaffold.core.ports import Clock
from scaffold.git.command import Git
from scaffold.git.repository import Repository
from scaffold.host.slots import Slots
from scaffold.policy.redaction import Redactor
from scaffold.store.database import Store

LONGEST_NAME = 100
"""Bytes that a segment of a path may have of a name that others chose; file systems take 255 in all."""
LAST_WORDS = 1_000
"""Characters of what a process that died printed last."""
LOG_TAIL_BYTES = 65_536
"""Where those are looked for; more than they can take, so that no secret at their beginning is cut in two."""


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
    def redactor(self) -> Redactor:
        """Return who tells text without secrets: those of this process, of the checkout and of the user, as of now."""
        return redactor_for(self.environ, self.repository.root)

    @property
    def git(self) -> Git:
        """Git in the checkout the run was started from; nothing is ever written there."""
        return self.repository.git

    def run_folder(self, run_id: RunId) -> Path:
        """Return the folder that holds every worktree and process log of a run."""
        name = self.repository.root.name.encode()[:LONGEST_NAME].decode(errors="ignore")
        return self.cache / "runs" / f"{name}-{_digest(str(self.repository.common_dir))[:12]}" / run_id

    def attempt_folder(self, run_id: RunId, attempt_id: AttemptId) -> Path:
        """Return where the worktree of an attempt is checked out."""
        return self.run_folder(run_id) / "attempts" / attempt_id

    def landing_folder(self, run_id: RunId) -> Path:
        """Return where merged trees of a run are checked before they land."""
        return self.run_folder(run_id) / "landing"

    def services_folder(self, run_id: RunId) -> Path:
        """Return where that is checked out which describes the services outside of a run's checks."""
        return self.run_folder(run_id) / "services"

    def outputs(self, run_id: RunId, attempt_id: AttemptId) -> Path:
        """Return where output of an attempt's commands is kept that is too long to be shown."""
        return self.run_folder(run_id) / "outputs" / attempt_id

    def temporary(self, run_id: RunId, name: str) -> Path:
        """Return the folder that is the TMPDIR of commands: those of an attempt, or of the merge queue."""
        return self.run_folder(run_id) / "temporary" / name

    def slots(self, count: int) -> Slots:
        """Return what gates take turns by: those of all runs of the user, at most `count` at once."""
        return Slots(self.cache / "slots", count)

    def process_log(self, run_id: RunId, name: str) -> Path:
        """Return the file that takes what the process of an attempt or a goal itself prints, e.g. a crash report."""
        return self.run_folder(run_id) / "logs" / f"{name}.txt"

    def last_words(self, run_id: RunId, name: str) -> str:
        """Return what the process of an attempt or a goal printed last, without secrets; `""` if it printed nothing."""
        try:
            with self.process_log(run_id, name).open("rb") as log:
                log.seek(max(0, log.seek(0, os.SEEK_END) - LOG_TAIL_BYTES))
                printed = log.read().decode(errors="replace")
        except FileNotFoundError:
            return ""
        return self.redactor.clean(printed).strip()[-LAST_WORDS:]

    def zygote_log(self, run_id: RunId) -> Path:
        """Return the file that takes what the process prints that forks the run's workers."""
        return self.run_folder(run_id) / "logs" / "zygote.txt"

    def journal(self, goal: str, action: str) -> Path:
        """Return the file that takes everything an action's agents said and did, one JSON object a line."""
        return self._journals / file_name(goal) / f"{file_name(action)}.jsonl"

    @property
    def _journals(self) -> Path:
        """The folder of all journals: among the projections, or beside the state where those cannot be written."""
        wanted = self.projections / "logs"
        there = next(path for path in (wanted, *wanted.parents) if os.path.lexists(path))
        if there.is_dir() and os.access(there, os.W_OK | os.X_OK):
            return wanted
        return self.repository.common_dir / "scaffold" / "logs"

    @property
    def projections(self) -> Path:
        """The folder in the user's checkout that mirrors the store for people and scripts; ignored by git."""
        return self.repository.root / ".scaffold"


def file_name(name: str) -> str:
    """Return `name` as one segment of a path: no separators, nothing hidden, at most 100 bytes.

    What is not left as it is ends in a hash, so that no two names share a file.
    """
    safe = re.sub(r"[^\w.-]+", "_", name).lstrip(".") or "_"
    if safe == name and len(name.encode()) <= LONGEST_NAME:
        return name
    ending = f"-{_digest(name)[:8]}"
    return safe.encode()[: LONGEST_NAME - len(ending)].decode(errors="ignore") + ending


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
