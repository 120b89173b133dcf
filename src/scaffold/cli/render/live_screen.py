"""The live screen of `run` and `attach`: a line for each event, and below them a row for each agent."""

from rich.console import Console
from rich.live import Live
from rich.text import Text

from scaffold.cli.render.layout import Layout
from scaffold.cli.render.progress import event_lines
from scaffold.cli.render.watch_view import agent_lines
from scaffold.core.events import StoredEvent
from scaffold.core.model import Run
from scaffold.run.context import RunContext
from scaffold.views.run_view import read_summary
from scaffold.views.text_format import local_time

REDRAW_S = 1.0
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
    """Draws on a terminal; reads the store only from the caller's thread."""

    def __init__(self, context: RunContext, run: Run) -> None:
        self._context = context
        self._run = run
        self._console = Console(highlight=False)
        self._view = read_summary(context, run)
        self._due = 0.0
        self.resume()

    def show(self, recorded: StoredEvent) -> None:
        """Print the event above the rows, unless only machines need it."""
        now = self._context.clock.now()
        lines = event_lines(recorded, now, Layout(self._console.size.width))
        if lines:
            text, start = Text("\n".join(lines)), len(local_time(recorded.at, now)) + 2
            text.stylize(STYLES.get(lines[0][start:].split(" ", 1)[0], ""), start)
            self._console.print(text)

    def tick(self) -> None:
        """Draw the rows again, at most once a second."""
        now = self._context.clock.monotonic()
        if now >= self._due:
            self._due = now + REDRAW_S
            self._view = read_summary(self._context, self._run)
            self._live.update(self._now(), refresh=True)

    def pause(self) -> None:
        """Erase the rows until `resume`; the lines stay."""
        self._live.stop()

    def resume(self) -> None:
        """Draw rows again from the next tick on."""
        # A new one: it would first move up by the height of the rows that it drew before.
        self._live = Live(console=self._console, auto_refresh=False, transient=True)
        self._live.start()
        self._due = 0.0

    def close(self) -> None:
        """Erase the rows; the lines stay."""
        self.pause()

    def _now(self) -> Text:
        size = self._console.size
        lines = agent_lines(self._view, size.width, max(2, size.height - 2))
        return Text.from_ansi("\n".join(lines), no_wrap=True)
