"""What one more action of a run has our processes do, by counts, which nothing else on the machine changes.

The commands of checks are not counted: the sandbox decides how many processes those are. Nor are the statements of the
owner, who also looks by the clock.
"""

from collections.abc import Iterator

from causes import seen_inside
from row import Row, row
from where import ACTION

PROCESSES, STATEMENTS = 30, 300
OWNER = "scaffold run"


def rows(*, quick: bool) -> Iterator[Row]:
    """Yield: processes that are started for an action, itself among them, and SQL statements."""
    causes = ACTION.of_sizes(1, 2).seen(seen_inside) if quick else ACTION.seen(seen_inside)
    started = causes.total("process") + causes.total("processes")
    yield row("processes-per-action", started, PROCESSES, unit="each", goal=1.0)
    statements = causes.total("statement") - causes.counts[OWNER]["statement"]
    yield row("statements-per-action", statements, STATEMENTS, unit="each", goal=1.0)
