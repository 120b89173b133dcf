"""The report of a run, if it was written."""

from pathlib import Path

from scaffold.core.ids import RunId
from scaffold.git.common_dir import find_common_dir, find_top
from scaffold.run.projections import report_places


def find_report(cwd: Path, run_id: RunId) -> Path | None:
    """Return the latest report of a run in the repository around `cwd`; None if there is none."""
    places = report_places(find_top(cwd), find_common_dir(cwd), run_id)
    return max((place for place in places if place.is_file()), key=_written_at, default=None)


def _written_at(report: Path) -> float:
    return report.stat().st_mtime
