"""The change of a run or of one of its actions by intent, and comments on its lines that go back to the agent."""

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, closing

from scaffold.core.errors import UsageError
from scaffold.core.ids import ActionId
from scaffold.core.model import Action, Run
from scaffold.core.printable_text import count_of
from scaffold.git.repository import open_repository
from scaffold.host.clock import SystemClock
from scaffold.host.user_dirs import user_dirs
from scaffold.orchestrator.user_control.change_comments import LineRange, add_comment, send_comments, waiting_item
from scaffold.pages.components import Element, Node, element, section
from scaffold.pages.review_section import PageReview, ReviewForms, review_section
from scaffold.run.context import RunContext
from scaffold.store.database import Store
from scaffold.store.driver.location import existing_state_location
from scaffold.views.changes.comment_standing import read_comments
from scaffold.views.changes.review_view import read_review
from scaffold.views.changes.reviewed_change import cleaned_change, read_shown_change
from scaffold.views.changes.shown_range import action_range, run_range
from scaffold.views.run_view import RunView, read_run_view
from scaffold.web.browser_access import Session
from scaffold.web.drawing import waiting_cards
from scaffold.web.page_frame import NotThere, button, form, labelled
from scaffold.web.user_runs import UserRuns

MAX_LINE_NUMBER = 10**9
NOTHING = "Nothing has changed yet."


class ReviewPages:
    """Reads changes and comments on them."""

    def __init__(self, runs: UserRuns) -> None:
        self._runs = runs

    async def run_content(self, run_id: str) -> list[Node]:
        """Return the review of all that has landed."""
        async with self._opened_context(run_id) as (context, run):
            view = read_run_view(context, run)
            shown = await run_range(context.git, run)
            if shown.commit is None or shown.commit == shown.base:
                return [element("p", shown.note or NOTHING), *_action_links(view)]
            found = await read_review(context.git, context.store, view, shown.commit)
            change = cleaned_change(found.change, context.redactor.clean)
            review = PageReview(change=change, comments=found.comments, rest=f"scaffold review {run.id}")
        return [*_action_links(view), review_section(review)]

    async def action_content(self, run_id: str, action_id: str, session: Session) -> tuple[str, list[Node]]:
        """Return the key of an action, and its change with the forms that comment on it and decide about it."""
        async with self._opened_context(run_id) as (context, run):
            action = _require_action(context, run, action_id)
            shown = await action_range(context.git, context.store, action)
            change = await read_shown_change(context.git, context.store, run, shown)
            if change is None:
                return action.key, [element("p", shown.note or NOTHING)]
            comments = await read_comments(context.git, context.store, action, shown)
            review = PageReview(
                change=cleaned_change(change, context.redactor.clean),
                comments=comments,
                rest=f"scaffold diff {action.key}",
                forms=_comment_forms(run, action, session),
            )
            item, drafts = waiting_item(context, action), context.store.review_comments.drafts(action.id)
            now = context.clock.now()
        asked = [self._runs.asked_item(item.id)] if item else []
        send = _send_form(run, action, session, len(drafts)) if drafts and session.may_act else None
        note = element("p", shown.note, class_="note") if shown.note else None
        return action.key, [note, *waiting_cards(asked, session, now), send, review_section(review)]

    async def comment(self, run_id: str, action_id: str, fields: Mapping[str, str]) -> str:
        """Store a comment of a form as a draft, and return what to say of it."""
        async with self._opened_context(run_id) as (context, run):
            shown = await action_range(context.git, context.store, _require_action(context, run, action_id))
            at = LineRange(
                fields.get("path", ""),
                _line_number(fields.get("first", "")),
                _line_number(fields.get("last", "")),
                before=fields.get("before") == "on",
            )
            made = await add_comment(context, run, shown, at, fields.get("text", ""))
        return f"Comment {made.number} on {made.place} is kept; send all comments once you are done."

    async def send(self, run_id: str, action_id: str, words: str) -> str:
        """Send the drafts of an action to its agent, and return what became of them."""
        async with self._opened_context(run_id) as (context, run):
            action = _require_action(context, run, action_id)
            sent = send_comments(context, run, action, words.strip() or None)
        return f"{count_of(len(sent.comments), 'comment')} sent: {HOW[sent.how]}"

    @asynccontextmanager
    async def _opened_context(self, run_id: str) -> AsyncIterator[tuple[RunContext, Run]]:
        with self._runs.with_run(run_id) as (reader, run):
            root = reader.root
        repository = await open_repository(root, environ=self._runs.environ)
        place = existing_state_location(repository.common_dir, self._runs.environ)
        if place is None:
            raise NotThere(f"run {run_id} is gone", "The first page lists the runs.")
        clock = SystemClock()
        with closing(Store.open(place, clock=clock, create=False)) as store:
            yield (
                RunContext(
                    repository=repository, store=store, clock=clock, cache=user_dirs().cache, environ=self._runs.environ
                ),
                run,
            )


HOW: Mapping[str, str] = {
    "rejection": "the change is rejected, and the next attempt reworks it.",
    "message": "the agent reads them before its next request.",
    "items": "the change has landed, so each is an item now.",
}


def _require_action(context: RunContext, run: Run, action_id: str) -> Action:
    action = context.store.actions.get(ActionId(action_id))
    if action is None or action.run_id != run.id:
        raise NotThere(f"run {run.id} has no such action", "Its page lists the actions.")
    return action


def _line_number(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 0 < int(text[:10]) < MAX_LINE_NUMBER:
        raise UsageError(f"`{text[:20]}` is not the number of a line", "Count from 1, as the page does.")
    return int(text)


def _comment_forms(run: Run, action: Action, session: Session) -> ReviewForms | None:
    if not session.may_act:
        return None
    return ReviewForms(comment_url=f"/runs/{run.id}/review/{action.id}", fields={"csrf": session.csrf})


def _send_form(run: Run, action: Action, session: Session, drafts: int) -> Element:
    words = labelled(element("input", id="send-words", name="words", type="text"), "In a word (optional)")
    send = button(f"Send {count_of(drafts, 'comment')}")
    where = f"/runs/{run.id}/review/{action.id}/send"
    return section("send", "Comments", form(where, session, words, send, label="Send the comments"))


def _action_links(view: RunView) -> Iterator[Node]:
    links = [
        element("li", element("a", element("code", action.key), href=f"/runs/{view.run.id}/review/{action.id}"))
        for action in view.actions
        if any(each.head_sha for each in view.attempts_of(action))
    ]
    if links:
        yield section("actions", "By action, to comment on", element("ul", *links))
