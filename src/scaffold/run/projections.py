"""Where the store is mirrored for people and scripts; with few imports, because `status` is called often."""

from pathlib import Path

from scaffold.core.ids import RunId
from scaffold.host.contained_path import ContainedPath

PROJECTIONS = ".scaffold"
"""The folder at the top of a checkout."""
LOGS = "logs"
REPORTS = "reports"


def projection_places(root: Path, common_dir: Path) -> tuple[ContainedPath, ContainedPath]:
    """Return the folder in the checkout at `root`, and the one next to the store in its place."""
    return ContainedPath(root, PROJECTIONS), ContainedPath(common_dir, "scaffold")


def recorded_journal(log_file: str) -> ContainedPath:
    """Return a journal by the path that the store has of it: in either of them, of the repository of its run."""
    parts = Path(log_file).parts
    return ContainedPath(Path(*parts[:-4]), "/".join(parts[-4:]))


def report_name(run_id: RunId) -> str:
    """Return the name of a run's report in either of them."""
    return f"{REPORTS}/{run_id}.html"
