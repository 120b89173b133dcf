"""The time of day, without importing asyncio, which is slow to load."""

from datetime import UTC, datetime


class WallClock:
    """The system's time of day."""

    def now(self) -> datetime:
        """Return the time of day, aware, UTC."""
        return datetime.now(UTC)  # noqa: TID251 - the one place that reads the system clock


def zoned_time(at: datetime) -> str:
    """Return a moment in local time, with its date and zone, for texts that are read later or elsewhere."""
    return f"{at.astimezone():%Y-%m-%d %H:%M:%S %Z}"
