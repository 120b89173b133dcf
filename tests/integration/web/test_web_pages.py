"""What pages and API show of the store, and what a decision given there does."""

import json
from urllib.parse import quote

import pytest
from starlette.testclient import TestClient

from builders import begin, make_run
from scaffold.core.ids import ActionKey
from scaffold.core.model import InboxItem, Run
from scaffold.run.context import RunContext
from support.html_page import Page

ATTACK = "\"><script>alert(1)</script><img src=x onerror=alert(1)>' onfocus='x \u202egnp \x1b[31m"
OURS = {"/static/htmx.min.js", "/static/live.js"}


def ask(context: RunContext, run: Run, item_id: str, kind: str = "approval", **fields: object) -> InboxItem:
    action = context.store.actions.by_key(run.id, ActionKey("store"))
    given = {"text": "shell wants to run `make deploy`", "detail": {"command": "make deploy"}} | fields
    item = InboxItem(
        id=item_id, run_id=run.id, goal_id=action.goal_id, action_id=action.id, kind=kind,
        created_at=context.clock.now(), **given,
    )  # fmt: skip
    with context.store.transaction():
        return context.store.inbox.ask(item)


def shown_hash(client: TestClient, item_id: str) -> str:
    [found] = [each["hash"] for each in client.get("/api/inbox").json()["inbox"] if each["id"] == item_id]
    return found


def test_an_approval_counts_for_exactly_what_was_shown(context, run, browser) -> None:
    """BX-25, AL-23: the hash binds a decision; another one is refused, and a repeated one changes nothing."""
    client = browser()
    ask(context, run, "deploy")
    token = {"x-csrf-token": client.get("/api/session").json()["csrf"]}
    good = {"answer": "approve", "reason": "go", "hash": shown_hash(client, "deploy")}

    def post(item: str, **body: object) -> tuple[int, dict[str, object]]:
        answer = client.post(f"/api/inbox/{item}", json=body, headers=token)
        return answer.status_code, answer.json()

    for wrong in ("", "0" * 64, good["hash"][:-1]):
        assert post("deploy", answer="approve", hash=wrong)[0] == 409
    assert post("deploy", answer="perhaps", hash=good["hash"])[0] == 400
    assert post("deploy", answer="approve")[0] == 422
    assert post("deploy", **good, more=1)[0] == 422
    assert post("depl", **good)[0] == 404
    assert context.store.inbox.get("deploy").state == "open"
    assert post("deploy", **good) == (200, {"id": "deploy", "state": "approved", "repeated": False, "run": run.id})
    assert post("deploy", **good)[1]["repeated"]
    assert post("deploy", answer="reject", hash=good["hash"])[0] == 409
    decided = context.store.inbox.get("deploy")
    assert (decided.state, decided.answer, decided.scope) == ("approved", "go", "call")


def test_a_form_decides_without_a_script(context, run, browser) -> None:
    """BX-13, BX-25: each item has a form with its choices, in the inbox, on its own page and on that of its run."""
    client = browser()
    ask(context, run, "ask", "question", text="Which word?", detail={})
    ask(context, run, "fail", "question", text="How to go on?", detail={"choices": {"retry": "again", "fail": "end"}})
    for page in ("/inbox", "/inbox/ask", f"/runs/{run.id}"):
        shown = Page(client.get(page).text)
        assert {"action": "/inbox/ask", "method": "post", "aria-label": "Answer question ask"} in shown.elements("form")
        labels = {each["for"] for each in shown.elements("label")}
        assert {"answer-ask"} <= labels
    ask(context, run, "pick", "question", text="Which?", detail={"options": ["t\u0430n", " ", "", 5, "red"]})

    def buttons(item: str) -> list[str | None]:
        return [each.get("value") for each in Page(client.get(f"/inbox/{item}").text).elements("button")]

    assert buttons("fail") == ["retry", "fail"]
    assert buttons("pick") == ["t\u0430n", "red", None]
    assert ">t\u0430[U+0430]n</button>" in client.get("/inbox/pick").text
    csrf = client.get("/api/session").json()["csrf"]
    sent = {"csrf": csrf, "hash": shown_hash(client, "ask"), "answer": "  blue \u0430  "}
    after = client.post("/inbox/ask", data=sent)
    assert after.url.path == "/inbox"
    assert "question ask is answered." in after.text
    assert "question ask is answered." not in client.get("/inbox").text
    assert context.store.inbox.get("ask").answer == "blue \u0430"
    assert "blue" in client.get("/inbox/ask").text
    assert client.post("/inbox/fail", data={**sent, "hash": shown_hash(client, "fail")}).status_code == 400


def test_no_name_of_a_model_or_a_file_becomes_markup(context, plan, browser) -> None:
    """BX-25: planted names are text on every page, and what looks like another word is marked where it is decided."""
    quoted = json.dumps(ATTACK)
    run = begin(
        context, make_run(context, plan.replace("A shop that sells", quoted).replace("Build the store", quoted))
    )
    ask(context, run, "deploy", text=f"{ATTACK} \u0430pprove", detail={"command": ATTACK, ATTACK: [ATTACK]})
    client = browser()
    for page in (
        "/",
        "/inbox",
        "/inbox/deploy",
        f"/runs/{run.id}",
        f"/inbox/{quote(ATTACK)}",
        f"/runs/{quote(ATTACK)}",
    ):
        source = client.get(page).text
        shown = Page(source)
        assert {each["src"] for each in shown.elements("script")} <= OURS
        assert "img" not in {tag for tag, _ in shown.tags}
        assert not [name for _, found in shown.tags for name in found if name.startswith(("on", "style"))]
        assert not {"\u202e", "\x1b"} & {*source}
    assert "\u0430[U+0430]pprove" in client.get("/inbox/deploy").text


def test_the_api_shows_a_run_as_status_does(context, run, browser, scaffold) -> None:
    """BX-25: `/api/runs/ID` is the object of `status --json`; the list names each run with its repository."""
    client = browser()
    ask(context, run, "deploy")
    shown = client.get(f"/api/runs/{run.id}").json()
    assert shown == json.loads(scaffold("status", run.id, "--json").out)
    [listed] = client.get("/api/runs").json()["runs"]
    assert (listed["id"], listed["repository"]) == (run.id, str(context.root))
    assert client.get("/api/runs/missing").status_code == 404
    described = client.get("/api/openapi.json").json()
    assert {"/api/runs", "/api/runs/{run}", "/api/runs/{run}/events", "/api/inbox/{item}"} <= {*described["paths"]}


def test_events_are_streamed_from_where_a_reader_was(context, run, browser) -> None:
    """BX-25: a page that was away gets what it missed, once; after that, only what is new."""
    client, store = browser(), context.store
    known = store.events.last_seq(run.id)
    ask(context, run, "deploy")
    stream = f"/api/runs/{run.id}/events"
    missed = client.get(stream, params={"after": known}).text
    assert f"id: {known + 1}\nevent: notice_raised\ndata: " in missed
    assert "event: changed" in missed
    assert client.get(stream, headers={"last-event-id": str(known)}).text == missed
    assert "event:" not in client.get(stream).text
    for wrong in ("-1", "x", "1" * 40):
        assert client.get(stream, params={"after": wrong}).status_code == 422


def test_secrets_are_shown_neither_on_pages_nor_in_the_api(context, run, browser) -> None:
    """BX-25: what a model repeats of the user's secrets is removed here, too."""
    (context.root / ".env").write_text("API_TOKEN=zq81-something-secret-77\n")
    ask(context, run, "deploy", text="use zq81-something-secret-77", detail={"command": "x zq81-something-secret-77"})
    client = browser()
    for page in ("/inbox", "/inbox/deploy", f"/runs/{run.id}", "/api/inbox", f"/api/runs/{run.id}"):
        assert "zq81" not in client.get(page).text, page
    assert len(shown_hash(client, "deploy")) == 64


def test_commands_are_offered_by_what_a_run_can_do(context, run, browser) -> None:
    """BX-25: a running run can be paused and stopped; a command about another run's action is refused."""
    client = browser()
    forms = [each["action"] for each in Page(client.get(f"/runs/{run.id}").text).elements("form")]
    assert forms == [f"/runs/{run.id}/{verb}" for verb in ("pause", "stop", "cancel", "send", "stop-action")]
    csrf = {"csrf": client.get("/api/session").json()["csrf"]}
    assert client.post(f"/runs/{run.id}/format-disk", data=csrf).status_code == 404
    assert client.post(f"/runs/{run.id}/send", data={**csrf, "action": "--help"}).status_code == 404


@pytest.fixture(autouse=True)
def _in_repository(context: RunContext) -> None:
    """Make the repository and its store before a browser asks for it."""
