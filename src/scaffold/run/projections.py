"""Where the store is mirrored for people and scripts; without other imports, because `status` is called often."""

from pathlib import Path

from scaffold.core.ids import RunId

PROJECTIONS = ".scaffold"
"""The folder at the top of a checkout."""
REPORTS = "reports"


def report_places(root: Path, common_dir: Path, run_id: RunId) -> tuple[Path, Path]:
    """Return the file of a run's report in the checkout at `root`, and the one next to the store in its place."""
    name = f"{run_id}.html"
    return root / PROJECTIONS / REPORTS / name, common_dir / "scaffold" / REPORTS / name
