"""The live screen of `run`: lines of what happened, and below them what is happening now."""

from datetime import datetime

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from scaffold.cli.progress import sentence
from scaffold.cli.safe import printable
from scaffold.core.events import Recorded
from scaffold.core.model import Run
from scaffold.worker.site import Site

STYLES = {
    "landed": "green",
    "fact": "green",
    "failed": "red",
    "blocked": "red",
    "ended": "yellow",
    "warning": "yellow",
    "waits": "yellow",
}


class LiveScreen:
    """Draws on a terminal; reads the store only from the thread that calls it."""

    def __init__(self, site: Site, run: Run) -> None:
        self._site = site
        self._run = run
        self._console = Console(highlight=False)
        self._live = Live(console=self._console, auto_refresh=False, transient=True)
        self._live.start()

    def show(self, recorded: Recorded) -> None:
        """Print the event above the table, if it says something to a person."""
        line = sentence(recorded.event)
        if line is not None:
            text = Text(f"{recorded.at.astimezone():%H:%M:%S}  {printable(line)}")
            text.stylize(STYLES.get(line.split(" ", 1)[0], ""), 10)
            self._console.print(text)

    def tick(self) -> None:
        """Draw what is going on now."""
        self._live.update(self._now(), refresh=True)

    def close(self) -> None:
        """Take the table away; the lines stay."""
        self._live.stop()

    def _now(self) -> Table:
        store, now = self._site.store, self._site.clock.now()
        table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
        for attempt in store.attempts.open_of_run(self._run.id):
            action = store.actions.get(attempt.action_id)
            key = action.key if action else attempt.action_id
            table.add_row("●", printable(key), attempt.phase, _age(now, attempt.started_at or attempt.queued_at))
        tallies = [store.actions.tally(goal.id) for goal in store.goals.of_run(self._run.id)]
        done = sum(tally.get("completed", 0) for tally in tallies)
        total = sum(sum(tally.values()) for tally in tallies)
        table.add_row("", f"{done} of {total} actions done", "", f"{store.facts.count_holding(self._run.id)} facts")
        return table


def _age(now: datetime, since: datetime) -> str:
    seconds = max(0, int((now - since).total_seconds()))
    return f"{seconds // 60}:{seconds % 60:02d}"
