"""The context of a run: the repository, its store, and every folder of the run."""

import hashlib
import os
import re
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from scaffold.core.ids import AttemptId, RunId
from scaffold.core.model import Attempt
from scaffold.core.ports import Clock
from scaffold.git.client.command_line import Git
from scaffold.git.repository import Repository
from scaffold.host.contained_path import ContainedPath
from scaffold.host.slots import Slots
from scaffold.policy.secret.redaction import Redactor
from scaffold.policy.secret.sources import redactor_for
from scaffold.run.projections import LOGS, projection_places
from scaffold.store.database import Store
from scaffold.verify.environment.included_files import kept_snapshots

FAULT_EXIT_CODE = 4
"""Exit code of a worker or supervisor whose machine failed (git, database, file system), not its work."""
DATABASE_OUTAGE_S = 600.0
"""How long such a process waits for an unreachable database server before it exits with that code."""
MAX_NAME_BYTES = 100
"""Longest part of a path segment that comes from a user-chosen name; file systems allow 255 bytes in all."""
LOG_TAIL_CHARS = 1_000
"""Characters shown of a dead process's last output."""
LOG_TAIL_BYTES = 65_536
"""Bytes read for them; more than needed, so that redaction sees a secret at the start of the tail as a whole."""


class RunContext(Struct, frozen=True, kw_only=True):
    """One repository and its store, as opened by one process."""

    repository: Repository
    store: Store
    clock: Clock
    cache: Path
    """The user's cache directory for Scaffold; worktrees live below it."""
    environ: Mapping[str, str]
    """The environment of this process; children get an allow-listed part of it."""

    @property
    def root(self) -> Path:
        """The top folder of the checkout that the run was started from."""
        return self.repository.root

    @property
    def redactor(self) -> Redactor:
        """A redactor for the current secrets of this process, the checkout and the user, and for copied ones."""
        # Made anew each time: secrets are added while a run lasts.
        return redactor_for(self.environ, self.repository.root, *kept_snapshots(self.cache))

    def clean(self, text: str) -> str:
        """Return the text without the secrets of this moment, which are looked for only if there is a text."""
        return self.redactor.clean(text) if text else ""

    @property
    def git(self) -> Git:
        """Git in the checkout the run was started from; the run never changes its files."""
        return self.repository.git

    def run_folder(self, run_id: RunId) -> Path:
        """Return the folder that holds every worktree and process log of a run."""
        return self.cache / "runs" / repository_name(self.repository) / run_id

    def attempt_folder(self, run_id: RunId, name: str) -> Path:
        """Return the folder of the worktree with this name: an attempt's id, or what several attempts share."""
        return self.run_folder(run_id) / "attempts" / name

    def worktree_of(self, attempt: Attempt) -> Path:
        """Return the folder of an attempt's worktree."""
        return self.attempt_folder(attempt.run_id, attempt.workspace_name)

    def landing_folder(self, run_id: RunId) -> Path:
        """Return the folder of the worktree in which merged trees are verified before they land."""
        return self.run_folder(run_id) / "landing"

    def services_folder(self, run_id: RunId) -> Path:
        """Return the checkout folder of the files that describe the run's external services."""
        return self.run_folder(run_id) / "services"

    def outputs(self, run_id: RunId, attempt_id: AttemptId) -> Path:
        """Return the folder for an attempt's command outputs that are too long to show."""
        return self.run_folder(run_id) / "outputs" / attempt_id

    def temporary(self, run_id: RunId, name: str) -> Path:
        """Return the folder of all temporary files of an attempt, by its id, or of another user, by its `name`."""
        return self.temporary_folder(run_id) / name

    def temporary_folder(self, run_id: RunId) -> Path:
        """Return the folder for temporary files of a run.

        Its path is short: many tests make Unix sockets there, whose paths have at most 107 bytes.
        """
        return self.cache / "t" / run_id

    def mcp_socket(self, run_id: RunId) -> Path:
        """Return the socket by which the run's workers reach its MCP servers."""
        return self.temporary(run_id, "mcp-pool") / "socket"

    def slots(self, count: int) -> Slots:
        """Return the slots that limit gates to `count` at once, across all runs of the user."""
        return Slots(self.cache / "slots", count)

    def wake_fifo(self, run_id: RunId, whose: str = "owner") -> Path:
        """Return the wake-up FIFO of the run's owner, or of the process of supervisors whose first goal is `whose`."""
        return self.run_folder(run_id) / "bells" / whose

    def process_log(self, run_id: RunId, name: str) -> Path:
        """Return the log file of an attempt's or goal's process, e.g. for a crash report."""
        return self.run_folder(run_id) / "logs" / f"{name}.txt"

    def log_tail(self, run_id: RunId, name: str) -> str:
        """Return the end of a process's log without secrets; `""` if it printed nothing."""
        try:
            with self.process_log(run_id, name).open("rb") as log:
                log.seek(max(0, log.seek(0, os.SEEK_END) - LOG_TAIL_BYTES))
                printed = log.read().decode(errors="replace")
        except FileNotFoundError:
            return ""
        return self.redactor.clean(printed).strip()[-LOG_TAIL_CHARS:]

    def zygote_log(self, run_id: RunId) -> Path:
        """Return the log file of the process that forks the run's workers."""
        return self.run_folder(run_id) / "logs" / "zygote.txt"

    def journal(self, goal: str, action: str) -> ContainedPath:
        """Return the journal of an action's agents, one JSON object a line."""
        return self._writable_place(journal_name(goal, action))

    def gate_logs(self, run_id: RunId) -> ContainedPath:
        """Return the folder of the logs of checks and gates: of those that failed or could not judge."""
        return self._writable_place(f"{gate_logs_name(run_id)}/any").parent

    def _writable_place(self, name: str) -> ContainedPath:
        """Return the path of a log in the projections, or next to the store if it cannot be written there."""
        preferred, other = (top / name for top in self.projection_places)
        return preferred if preferred.is_writable() else other

    @property
    def projections(self) -> ContainedPath:
        """The folder in the user's checkout that mirrors the store for people and scripts; ignored by git."""
        return self.projection_places[0]

    @property
    def projection_places(self) -> tuple[ContainedPath, ContainedPath]:
        """That folder, and the one next to the store for what cannot be written there."""
        return projection_places(self.repository.root, self.repository.common_dir)


def repository_name(repository: Repository) -> str:
    """Return the name of the user's folders for a repository: readable and unique."""
    name = repository.root.name.encode()[:MAX_NAME_BYTES].decode(errors="ignore")
    return f"{name}-{_hex_digest(str(repository.common_dir))[:12]}"


def journal_name(goal: str, action: str) -> str:
    """Return the name of a journal in the projections."""
    return f"{LOGS}/{safe_file_name(goal)}/{safe_file_name(action)}.jsonl"


def gate_logs_name(run_id: RunId) -> str:
    """Return the name of the folder of a run's logs of checks and gates in the projections."""
    return f"{LOGS}/gates/{run_id}"


def safe_file_name(name: str) -> str:
    """Return `name` as one path segment: no separators, not hidden, at most 100 bytes.

    A changed name ends in a hash, so that no two names share a file.
    """
    # A leading dot would hide the file, and `..` would leave the folder.
    safe = re.sub(r"[^\w.-]+", "_", name).lstrip(".") or "_"
    if safe == name and len(name.encode()) <= MAX_NAME_BYTES:
        return name
    ending = f"-{_hex_digest(name)[:8]}"
    return safe.encode()[: MAX_NAME_BYTES - len(ending)].decode(errors="ignore") + ending


def _hex_digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
