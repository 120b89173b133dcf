"""`scaffold live` without a store: a feed of values, and the text of the screen."""

from datetime import timedelta

from msgspec import structs
from rich.cells import cell_len

from builders import BASE, HEAD, THEN, a_goal, a_run, an_action, an_attempt, an_item
from scaffold.core.landing.queue_place import QueuePlace
from scaffold.core.model import Fact, Usage
from scaffold.core.states import Active, Completed, Failed, Pending, Running
from scaffold.orchestrator.user_control.own_program import OwnProgram
from scaffold.tui.live_app import LiveApp
from scaffold.tui.run_feed import Shown, WatchedAgent
from scaffold.views.agent_list import MERGE_QUEUE, AgentRow
from scaffold.views.journal_entries import LastActivity
from scaffold.views.waiting import WaitingEntry, item_choices
from support.report_views import a_view

WIDE, COMBINING, CONTROL = "größe-漢字", "e\u0301t\u0301ude", "a\x1b[31mred\u202eevil"
CHANGE = {"action": COMBINING, "landing": "run-1/change#1", "attempt": 1, "base": BASE, "change": "abc"}
NOW = THEN + timedelta(hours=1)


class ShownFeed:
    """A feed that shows a value, each time it is another one."""

    def __init__(self, shown: Shown) -> None:
        self.shown = shown
        self.followed: list[str | None] = []
        self._told: Shown | None = None

    def look(self, _watched: WatchedAgent | None) -> Shown | None:
        if self._told is self.shown:
            return None
        self._told = self.shown
        return self.shown

    def follow(self, run_name: str | None) -> None:
        self.followed.append(run_name)

    def refresh(self) -> None:
        self._told = None

    def close(self) -> None:
        pass


def live_app(shown: Shown, program: OwnProgram) -> LiveApp:
    """Return the application on a value."""
    return LiveApp(ShownFeed(shown), program)


def screen_text(app: LiveApp) -> str:
    """Return the screen as text, without blanks at the ends of lines, and without empty lines."""
    lines = [strip.text.rstrip() for strip in app.screen._compositor.render_strips()]
    assert len(lines) == app.size.height
    assert all(cell_len(line) <= app.size.width for line in lines)
    return "\n".join(filter(None, lines))


def a_shown(wide: str = WIDE, combining: str = COMBINING, control: str = CONTROL, **changed) -> Shown:
    """Return a run in which agents work, wait and land, with names that are hard to draw."""
    run = a_run("run-1", state=Active(), request=f"add {wide} and {control} to the shop")
    goal = a_goal(desired=("store_works", "api_works"), state=Active())
    store = an_action("store", goal=goal, effects=("store_works",), state=Completed())
    api = an_action("api", goal=goal, preconditions=("store_works",), effects=("api_works",), state=Running())
    docs = an_action(wide, goal=goal, preconditions=("api_works",), effects=("docs",), state=Pending())
    odd = an_action(control, goal=goal, preconditions=("nobody",), state=Pending())
    landing = an_action(combining, goal=goal, state=Running())
    broken = an_action("broken", goal=goal, state=Failed("max_attempts"))
    usage = Usage(input_tokens=12_000, output_tokens=345, cost_usd=0.42, requests=3)
    landed = an_attempt(store, status="ended", outcome="landed", head_sha=HEAD, ended_at=NOW - timedelta(minutes=9))
    queued = an_attempt(landing, status="claimed", phase="landing", head_sha=HEAD)
    working = an_attempt(api, status="claimed", phase="executing", started_at=NOW - timedelta(minutes=4), usage=usage)
    fact = Fact(goal_id=goal.id, assertion="store_works", state="holds", evidence=(), commit=HEAD, paths=())
    items = (
        an_item(
            working, text="shell wants to run `make deploy`\nscaffold approve everything", detail={"tool": "shell"}
        ),
        an_item(working, "i8", kind="question", text=f"Which {control}?", created_at=NOW - timedelta(minutes=2)),
        an_item(queued, "i9", text="search wants to land", created_at=NOW - timedelta(minutes=1), detail=CHANGE),
    )
    view = a_view([store, api, docs, odd, landing, broken], goals=[goal], attempts=[landed, queued, working],
                  facts=[fact], inbox=items, run=run, spent=usage)  # fmt: skip
    rows = (
        AgentRow(role="orchestrator", state="running", phase="active", active=False, pid=1, alive=True),
        AgentRow(
            role="implementation", goal="shop", action="api", attempt=1, state="waiting_approval", phase="executing",
            since=NOW - timedelta(minutes=4), usage=usage, waits_on="you (i7): shell wants to run `make deploy`",
            last_activity=LastActivity(NOW, "shell: make deploy"),
        ),
        AgentRow(
            role="implementation", goal="shop", action=combining, attempt=1, state="done", phase="landing",
            since=NOW - timedelta(minutes=6), usage=usage, waits_on=MERGE_QUEUE,
        ),
    )  # fmt: skip
    summary = structs.replace(view.summary, agents=rows, is_live=True, status="active")
    place = QueuePlace(
        attempt_id=queued.id, state="held", waits_for=("api",), conflicts={"api": (f"src/{control}.py",)}
    )
    view = structs.replace(view, summary=summary, queue=(queued,), places={queued.id: place})
    waiting = tuple(
        WaitingEntry(
            kind=item.kind, id=item.id, run=run.id, repository=None, asks=(asks,), text=item.text,
            since=item.created_at, holds_up=asks, choices=item_choices(item), item=item,
        )
        for item, asks in zip(items, ("api", "api", combining), strict=True)
    )  # fmt: skip
    output = ("12:30:00 api#1  I will deploy.", f"12:30:01 api#1  shell: {wide} " + "x" * 60, "12:30:02 api#1  done")
    return structs.replace(Shown(view=view, waiting=waiting, output=output), **changed)
