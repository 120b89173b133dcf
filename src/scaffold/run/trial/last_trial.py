"""The latest trial of a repository, kept next to its state for `doctor`; it can be deleted."""

from contextlib import suppress

import msgspec

from scaffold.git.repository import Repository
from scaffold.host.atomic_files import write_atomic
from scaffold.run.trial.gate_verdicts import Trial

FILE = "scaffold/trial.json"


def keep_trial(repository: Repository, trial: Trial) -> None:
    """Replace the stored trial; does nothing if it cannot be written."""
    with suppress(OSError):
        write_atomic(repository.common_dir / FILE, msgspec.json.encode(trial))


def latest_trial(repository: Repository) -> Trial | None:
    """Return the stored trial; None if there is none that can be read."""
    try:
        return msgspec.json.decode((repository.common_dir / FILE).read_bytes(), type=Trial)
    except (OSError, msgspec.MsgspecError):
        return None
