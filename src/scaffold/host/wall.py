"""The time of day, for what never waits: without the machinery of waiting, which takes long to load."""

from datetime import UTC, datetime


class WallClock:
    """The machine's time of day."""

    def now(self) -> datetime:
        """Return the time of day, aware, UTC."""
        return datetime.now(UTC)  # noqa: TID251 - the one place that asks the machine
