"""The routes of the pages, and what each of them shows or changes."""

import asyncio
from collections.abc import Callable, Mapping
from importlib.resources import files

from msgspec import Struct
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from scaffold.core.errors import ScaffoldError
from scaffold.host.wall_clock import WallClock
from scaffold.pages.components import Element, Node, element, section
from scaffold.pages.page import as_of, read_content, run_elements
from scaffold.web.browser_access import Access, Session
from scaffold.web.deciding import Answer, Steering, decide_item
from scaffold.web.drawing import agents_section, commands_section, run_list, waiting_cards
from scaffold.web.json_api import api_routes
from scaffold.web.page_frame import button, form, labelled, page_response, problem_response, status_of_error
from scaffold.web.request_guard import Guard, Refused, ServedAt, form_fields, require_session
from scaffold.web.review_pages import ReviewPages
from scaffold.web.user_runs import UserRuns

STATIC: Mapping[str, tuple[str, str, str]] = {
    "report.css": ("scaffold.pages", "report.css", "text/css"),
    "web.css": ("scaffold.web", "static/web.css", "text/css"),
    "htmx.min.js": ("scaffold.web", "static/htmx.min.js", "text/javascript"),
    "live.js": ("scaffold.web", "static/live.js", "text/javascript"),
}
"""By name: the package and the file. No name of a request becomes a path."""
EVENTS = "/api/events"


class WebParts(Struct, frozen=True):
    """What the routes work with."""

    runs: UserRuns
    steering: Steering
    access: Access
    served_at: ServedAt
    is_ending: Callable[[], bool]
    """Whether the server ends, and with it what would go on otherwise."""


def web_app(parts: WebParts) -> Guard:
    """Return the whole application, guarded."""
    pages = Pages(parts)
    routes = [
        Route("/", pages.show_runs, methods=["GET"]),
        Route("/inbox", pages.show_inbox, methods=["GET"]),
        Route("/inbox/{item}", pages.show_item, methods=["GET"]),
        Route("/inbox/{item}", pages.decide, methods=["POST"]),
        Route("/runs/{run}", pages.show_run, methods=["GET"]),
        Route("/runs/{run}/review", pages.show_review, methods=["GET"]),
        Route("/runs/{run}/review/{action}", pages.show_action_review, methods=["GET"]),
        Route("/runs/{run}/review/{action}", pages.comment, methods=["POST"]),
        Route("/runs/{run}/review/{action}/send", pages.send_comments, methods=["POST"]),
        Route("/runs/{run}/{verb}", pages.steer, methods=["POST"]),
        Route("/links", pages.make_link, methods=["POST"]),
        Route("/login", pages.show_login, methods=["GET"]),
        Route("/login", pages.log_in, methods=["POST"]),
        Route("/static/{name}", show_static, methods=["GET"]),
        *api_routes(parts.runs, parts.is_ending),
    ]
    handlers = {ScaffoldError: show_error, Refused: show_refusal, HTTPException: show_missing}
    return Guard(Starlette(routes=routes, exception_handlers=handlers), parts.access, parts.served_at)


class Pages:
    """The pages of people."""

    def __init__(self, parts: WebParts) -> None:
        self._runs = parts.runs
        self._steering = parts.steering
        self._access = parts.access
        self._at = parts.served_at
        self._reviews = ReviewPages(parts.runs)

    async def show_runs(self, request: Request) -> Response:
        """Show the runs of all repositories; with a link's token, begin a session."""
        if (token := request.query_params.get("token")) is not None:
            return self._begin_session(token, request)
        session = require_session(request.state.session)
        listed, unread = await asyncio.to_thread(self._runs.listed)
        content: list[Node] = [
            element("h1", "Runs"),
            *self._last_note(session),
            *run_list(listed, unread, WallClock().now()),
        ]
        if session.may_act:
            told = "A link that can read everything and change nothing, for one browser."
            make = form("/links", session, button("Make a read-only link"), label="Make a read-only link")
            content.append(section("links", "Links", make, note=told))
        return page_response("Runs", *content, session=session, events=EVENTS)

    def _begin_session(self, token: str, request: Request) -> Response:
        secret = self._access.open_by_link(token)
        if secret is None and request.state.session is None:
            raise Refused(
                401, "this link was used, or is not one of this server", "Start `scaffold serve` for a new one."
            )
        # Not a redirect: `SameSite=Strict` keeps the cookie back on one that began on another site, such as a chat.
        answer = entered_page()
        if secret is not None:
            answer.headers.append("set-cookie", self._at.cookie_header(secret))
        return answer

    async def show_inbox(self, request: Request) -> Response:
        """Show what waits for the user in all repositories."""
        session = require_session(request.state.session)
        asked, unread = await self._runs.waiting()
        cards = [*waiting_cards(asked, session, WallClock().now())]
        nothing = None if cards else element("p", "Nothing is waiting for you.")
        problems = [element("p", f"{each.repository} cannot be read: {each.why}", class_="card bad") for each in unread]
        content = [element("h1", "Inbox"), *self._last_note(session), nothing, *problems, *cards]
        return page_response("Inbox", *content, session=session, events=EVENTS)

    async def show_item(self, request: Request) -> Response:
        """Show one item of the inbox, also after it was decided."""
        session = require_session(request.state.session)
        asked = await asyncio.to_thread(self._runs.asked_item, request.path_params["item"])
        title = f"{asked.entry.kind} {asked.entry.id}"
        content = [element("h1", title), *self._last_note(session), *waiting_cards([asked], session, WallClock().now())]
        content.append(element("p", "Of run ", run_link(str(asked.entry.run))))
        return page_response(title, *content, session=session, events=EVENTS)

    async def decide(self, request: Request) -> Response:
        """Decide an item as the form says, and show it."""
        session, item = require_session(request.state.session), request.path_params["item"]
        fields = form_fields(request.scope, await request.body())
        answer = Answer(fields.get("answer", ""), fields.get("hash", ""), fields.get("reason", ""))
        decided = await asyncio.to_thread(decide_item, self._runs, item, answer)
        again = "was already" if decided.repeated else "is"
        self._access.tell(session, f"{decided.item.kind} {decided.item.id} {again} {decided.item.state}.")
        return RedirectResponse("/inbox", 303)

    async def show_run(self, request: Request) -> Response:
        """Show everything about one run."""
        session = require_session(request.state.session)
        title, content = await self._run_content(request.path_params["run"], session)
        return page_response(
            title,
            *self._last_note(session),
            *content,
            session=session,
            events=f"/api/runs/{request.path_params['run']}/events",
        )

    async def _run_content(self, run_id: str, session: Session) -> tuple[str, list[Node]]:
        with self._runs.with_run(run_id) as (reader, run):
            view = await self._runs.run_view(reader, run)
            content = read_content(reader, view, self._runs.redactor(reader.root))
            asked = self._runs.asked_of_run(reader, run)
            view, root = content.view, reader.root
        cards = [*waiting_cards([each for each in asked if each.entry.item], session, view.summary.at)]
        inbox = section("inbox", "Waits for you", *cards) if cards else None
        first = [commands_section(view, session), agents_section(view)]
        review = element("p", element("a", "Review its change", href=f"/runs/{run_id}/review"))
        header, contents, main = run_elements(content, root, inbox=inbox, first=first)
        return f"{view.run.request[:60]}: {view.status}", [header, review, contents, *main, as_of(view)]

    async def steer(self, request: Request) -> Response:
        """Give a command about a run, and show the run."""
        session, run = require_session(request.state.session), request.path_params["run"]
        fields = form_fields(request.scope, await request.body())
        said = await self._steering.give(
            request.path_params["verb"], run, action_id=fields.get("action", ""), text=fields.get("text", "")
        )
        self._access.tell(session, said or "Done.")
        return RedirectResponse(f"/runs/{run}", 303)

    async def show_review(self, request: Request) -> Response:
        """Show all that has landed in a run, by intent."""
        session, run = require_session(request.state.session), request.path_params["run"]
        content = await self._reviews.run_content(run)
        return page_response("Review", element("h1", "Review of ", run_link(run)), *content, session=session)

    async def show_action_review(self, request: Request) -> Response:
        """Show the change of an action, with forms for comments."""
        session, run = require_session(request.state.session), request.path_params["run"]
        key, content = await self._reviews.action_content(run, request.path_params["action"], session)
        title = element("h1", "Review of ", element("code", key), " in ", run_link(run))
        return page_response(f"Review of {key}", title, *self._last_note(session), *content, session=session)

    async def comment(self, request: Request) -> Response:
        """Keep a comment on lines of an action's change."""
        fields = form_fields(request.scope, await request.body())
        run, action = request.path_params["run"], request.path_params["action"]
        said = await self._reviews.comment(run, action, fields)
        return self._show_reviewed(request, said)

    async def send_comments(self, request: Request) -> Response:
        """Send the comments on an action's change to its agent."""
        words = form_fields(request.scope, await request.body()).get("words", "")
        run, action = request.path_params["run"], request.path_params["action"]
        said = await self._reviews.send(run, action, words)
        return self._show_reviewed(request, said)

    def _show_reviewed(self, request: Request, said: str) -> Response:
        self._access.tell(require_session(request.state.session), said)
        return RedirectResponse(f"/runs/{request.path_params['run']}/review/{request.path_params['action']}", 303)

    async def make_link(self, request: Request) -> Response:
        """Show a new link that opens one session which can only read."""
        session = require_session(request.state.session)
        # As the guard let it through: the name by which this browser reaches us, others may reach us, too.
        host = request.headers["host"]
        url = f"{self._at.scheme}://{host}/?token={self._access.new_link(may_act=False)}"
        told = element("p", "It works once, until this server ends. Whoever has it first can read all of your runs.")
        content = [element("h1", "A read-only link"), element("pre", url), told]
        return page_response("Link", *content, session=session)

    async def show_login(self, request: Request) -> Response:
        """Show the form for the password, if this server has one."""
        if self._access.password is None:
            raise Refused(404, "this server has no password", "Open the link that `scaffold serve` prints.")
        kind = {"type": "password", "autocomplete": "current-password"}
        field = labelled(element("input", id="password", name="password", required="", **kind), "Password")
        content = element("form", field, button("Log in"), method="post", action="/login")
        return page_response("Log in", element("h1", "Log in"), content, session=request.state.session)

    async def log_in(self, request: Request) -> Response:
        """Begin a session by the password."""
        given = form_fields(request.scope, await request.body()).get("password", "")
        secret = await asyncio.to_thread(self._access.open_by_password, given, asyncio.get_running_loop().time())
        if secret is None:
            raise Refused(
                403, "this password is wrong, or there were too many wrong ones", "Wait a minute, then try again."
            )
        answer = entered_page()
        answer.headers.append("set-cookie", self._at.cookie_header(secret))
        return answer

    def _last_note(self, session: Session) -> list[Node]:
        note = self._access.take_note(session)
        return [element("div", element("pre", note), class_="card", role="status")] if note else []


def run_link(run_id: str) -> Element:
    """Return a link to the page of a run."""
    return element("a", element("code", run_id), href=f"/runs/{run_id}")


def entered_page() -> HTMLResponse:
    """Return the page that follows the way in: it leads on by itself, so that the address has no token any more."""
    return HTMLResponse(
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><meta http-equiv="refresh" content="0;url=/">'
        '<link rel="icon" href="data:,"><title>Scaffold</title></head>'
        '<body><p><a href="/">To your runs</a></p></body></html>\n'
    )


async def show_static(request: Request) -> Response:
    """Return a file of ours."""
    found = STATIC.get(request.path_params["name"])
    if found is None:
        raise Refused(404, "there is no such file")
    package, name, kind = found
    return Response((files(package) / name).read_bytes(), media_type=kind, headers={"cache-control": "max-age=3600"})


async def show_error(request: Request, error: Exception) -> Response:
    """Return what an error of ours says."""
    assert isinstance(error, ScaffoldError)  # noqa: S101 - for the type checker
    return problem_response(request.scope, status_of_error(error), error.what, error.fix)


async def show_refusal(request: Request, error: Exception) -> Response:
    """Return why a request is not served."""
    assert isinstance(error, Refused)  # noqa: S101 - for the type checker
    return problem_response(request.scope, error.status, str(error), error.fix)


async def show_missing(request: Request, error: Exception) -> Response:
    """Return that there is no such page, or not for this method."""
    assert isinstance(error, HTTPException)  # noqa: S101 - for the type checker
    answer = problem_response(request.scope, error.status_code, error.detail, "The first page lists your runs.")
    answer.headers.update(error.headers or {})
    return answer
