"""The frame of every page, and answers about what went wrong: as a page for people, as JSON for programs."""

from collections.abc import Mapping

from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.types import Scope

from scaffold.core.errors import IllegalTransition, RunBusy, ScaffoldError
from scaffold.pages.components import Element, Node, element, to_html
from scaffold.web.browser_access import Session

API = "/api/"
HTMX_CONFIG = '{"history":false,"includeIndicatorCSS":false}'
CONFLICTS = (IllegalTransition, RunBusy)


class NotThere(ScaffoldError):
    """No repository of the user has what a request names."""


def page_response(
    title: str, *content: Node, session: Session | None, events: str | None = None, status: int = 200
) -> HTMLResponse:
    """Return a page; with `events`, an address of server-sent events, its main part is fetched anew after each.

    Without a script it can be read and used just as well: it has to be reloaded then.
    """
    links = [element("li", element("a", text, href=to)) for text, to in (("Runs", "/"), ("Inbox", "/inbox"))]
    may = None if session is None or session.may_act else element("li", "read-only", class_="note")
    top = element("nav", element("ul", *links, may), aria_label="Pages", class_="top") if session else None
    live = element("p", id="live", role="status", class_="note") if events else None
    main = element("main", *content, id="main", data_events=events)
    body = element("body", element("a", "To the content", href="#main", class_="skip"), top, live, main)
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("meta", name="htmx-config", content=HTMX_CONFIG),
        element("title", f"{title} - Scaffold"),
        element("link", rel="icon", href="data:,"),
        element("link", rel="stylesheet", href="/static/report.css"),
        element("link", rel="stylesheet", href="/static/web.css"),
        element("script", src="/static/htmx.min.js", defer="") if events else None,
        element("script", src="/static/live.js", defer="") if events else None,
    )
    return HTMLResponse(to_html(element("html", head, body, lang="en"), str), status)


def problem_response(scope: Scope, status: int, what: str, fix: str = "") -> Response:
    """Return an answer that says what is wrong, and what to do next."""
    if scope["path"].startswith(API):
        return JSONResponse({"error": what, "fix": fix}, status)
    session = scope.get("state", {}).get("session")
    told = [element("h1", "This did not work"), element("p", what, class_="reason")]
    return page_response("Problem", *told, element("p", fix) if fix else None, session=session, status=status)


def status_of_error(error: ScaffoldError) -> int:
    """Return the HTTP status for an error of a command or a reader."""
    if isinstance(error, NotThere):
        return 404
    return 409 if isinstance(error, CONFLICTS) else 400


def form(action: str, session: Session, *content: Node, label: str, hidden: Mapping[str, str] | None = None) -> Element:
    """Return a form that changes something, with the session's token."""
    fields = {"csrf": session.csrf, **(hidden or {})}
    kept = [element("input", type="hidden", name=name, value=value) for name, value in fields.items()]
    return element("form", *kept, *content, method="post", action=action, aria_label=label)


def button(text: str, *, name: str | None = None, value: str | None = None, kind: str = "") -> Element:
    """Return a button that sends its form, with `value` if it is given."""
    return element("button", text, type="submit", name=name, value=value, class_=kind or None)


def labelled(field: Element, text: str) -> Element:
    """Return a field of a form with its label."""
    return element("div", element("label", text, for_=dict(field.attributes)["id"]), field, class_="field")
