"""Who gets in: links, cookies, names of the server, tokens on changes, the password."""

import hashlib
import stat
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from scaffold.core.errors import UsageError
from scaffold.web.browser_access import MAX_WRONG, Access, read_password, store_password
from scaffold.web.page_server import ServeWish, require_protection, served_names

ROOT = Path(__file__).parents[3]
PASSWORD = "correct horse battery"
PAGES = ("/", "/inbox", "/api/runs", "/api/openapi.json", "/runs/x", "/inbox/x", "/api/events")


def token_of(client: TestClient) -> str:
    csrf: str = client.get("/api/session").json()["csrf"]
    return csrf


def test_a_link_opens_one_session_and_nothing_opens_without_it(browser) -> None:
    """BX-25: whoever has the address alone sees nothing; a link that was used, or guessed, opens nothing more."""
    stranger = browser(link=None)
    assert {stranger.get(page).status_code for page in PAGES} == {401}
    assert stranger.get("/?token=guessed").status_code == 401
    access = Access(may_act=True, password=None)
    token = access.new_link(may_act=True)
    secret = access.open_by_link(token)
    assert secret is not None
    assert access.open_by_link(token) is None
    assert access.session_of(secret).may_act
    assert access.session_of(token) is None
    cookie = browser().get("/").request.headers["cookie"]
    assert cookie.startswith("scaffold_8765=")
    stranger.cookies.set("scaffold_8765", "guessed", domain="127.0.0.1")
    assert stranger.get("/").status_code == 401


def test_the_cookie_stays_in_the_browser_and_pages_load_only_our_files(browser) -> None:
    """BX-25: no script of others reads the cookie, no other site sends it, and no inline code runs."""
    client = browser(link=None)
    app = client.app
    answer = client.get(f"/?token={app._access.new_link(may_act=True)}")
    given = answer.headers["set-cookie"]
    assert given.endswith("; HttpOnly; SameSite=Strict; Path=/")
    assert "token" not in answer.text
    for page in ("/", "/static/live.js", "/api/runs", "/runs/missing"):
        headers = client.get(page).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "same-origin"


@pytest.mark.parametrize(
    "headers",
    [
        {"host": "evil.example:8765"},
        {"host": "127.0.0.1:8766"},
        {"host": "127.0.0.1"},
        {"host": ""},
        {"origin": "http://evil.example"},
        {"origin": "https://127.0.0.1:8765"},
        {"origin": "null"},
        {"origin": "http://localhost:1"},
    ],
)
def test_requests_under_another_name_or_from_another_site_are_refused(browser, headers) -> None:
    """BX-25: a page that points its own name at this address (DNS rebinding), or sends forms here, gets nowhere."""
    client = browser()
    for method, page in (("GET", "/"), ("GET", "/api/runs"), ("POST", "/links"), ("POST", "/api/inbox/x")):
        assert client.request(method, page, headers=headers).status_code in {403, 421}


def test_a_change_needs_the_token_of_its_page_and_a_session_that_may_act(browser) -> None:
    """BX-25: a form of another page has no token; a read-only link, and a read-only server, change nothing."""
    client = browser()
    good = {"csrf": token_of(client)}
    assert client.post("/links", data=good).status_code == 200
    for wrong in ({}, {"csrf": ""}, {"csrf": "x"}, {"csrf": token_of(browser())}):
        assert client.post("/links", data=wrong).status_code == 403
    assert client.post("/links", data=good, headers={"sec-fetch-site": "cross-site"}).status_code == 403
    assert client.post("/links", headers={"x-csrf-token": good["csrf"]}).status_code == 200
    for reader in (browser(link=False), browser(may_act=False)):
        session = reader.get("/api/session").json()
        assert session["may_act"] is False
        for page in ("/links", "/inbox/x", "/runs/x/stop", "/api/inbox/x"):
            assert reader.post(page, headers={"x-csrf-token": session["csrf"]}).status_code == 403
        assert "<form" not in reader.get("/").text + reader.get("/inbox").text


def test_big_bodies_and_paths_out_of_the_folder_are_refused(browser) -> None:
    """BX-25: no name of a request becomes a path, and no request fills the memory."""
    client = browser()
    for path in (
        "/static/../app.py",
        "/static/..%2fapp.py",
        "/static/%2e%2e/%2e%2e/etc/passwd",
        "/static/",
        "/static/x",
    ):
        assert client.get(path).status_code in {404, 405}
    assert client.post("/links", content=b"x" * 300_000).status_code == 413
    assert client.request("DELETE", "/", headers={"x-csrf-token": token_of(client)}).status_code == 405


def test_a_password_is_stored_as_a_hash_and_cannot_be_tried_often(tmp_path: Path, browser) -> None:
    """BX-25: another user of the machine cannot read it, and nobody can guess it."""
    with pytest.raises(UsageError, match="too short"):
        store_password(tmp_path, "short")
    path = store_password(tmp_path, PASSWORD)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert PASSWORD not in path.read_text()
    client = browser(link=None, password=read_password(tmp_path))
    assert client.get("/login").status_code == 200
    assert client.post("/login", data={"password": PASSWORD}).status_code == 200
    assert client.get("/").status_code == 200
    access = Access(may_act=True, password=read_password(tmp_path))
    assert [access.open_by_password("wrong", now=float(at)) for at in range(MAX_WRONG)] == [None] * MAX_WRONG
    assert access.open_by_password(PASSWORD, now=MAX_WRONG + 1.0) is None
    assert access.open_by_password(PASSWORD, now=99.0) is not None
    path.write_text("{")
    with pytest.raises(UsageError, match="cannot be read"):
        read_password(tmp_path)


def test_others_reach_a_server_only_by_tls_and_with_a_password() -> None:
    """BX-25: an address of the network needs a certificate or a named proxy, and a password."""
    pair = (Path("cert.pem"), Path("key.pem"))
    for bind in ("127.0.0.1", "::1"):
        require_protection(ServeWish(bind=bind), has_password=False)
    for wish, has_password in (
        (ServeWish(bind="0.0.0.0"), True),
        (ServeWish(bind="0.0.0.0", certificate=pair), False),
        (ServeWish(bind="10.0.0.1", proxy="runs.example"), False),
        (ServeWish(proxy="runs.example"), False),
        (ServeWish(bind="example"), True),
    ):
        with pytest.raises(UsageError):
            require_protection(wish, has_password=has_password)
    require_protection(ServeWish(bind="0.0.0.0", certificate=pair), has_password=True)
    behind = served_names(ServeWish(proxy="Runs.example"), 8765)
    assert behind.origins == {"https://runs.example"}
    assert "Secure" in behind.cookie_header("x")
    assert served_names(ServeWish(), 8765).hosts == {"127.0.0.1:8765", "localhost:8765"}
    assert served_names(ServeWish(bind="::1"), 8765).hosts == {"[::1]:8765", "localhost:8765"}
    assert served_names(ServeWish(bind="127.0.0.2"), 8765).hosts == {"127.0.0.2:8765"}
    everywhere = served_names(ServeWish(bind="0.0.0.0", certificate=pair), 8765)
    reached = everywhere.reached_at({"server": ("192.0.2.7", 8765)})
    assert reached.hosts - everywhere.hosts == {"192.0.2.7:8765"}
    assert behind.reached_at({"server": ("192.0.2.7", 8765)}) == behind


def test_the_script_of_others_is_the_one_that_was_looked_at(browser) -> None:
    """BX-25: htmx is served as it was recorded in docs/design/100-pages.md, with its licence beside it."""
    served = browser().get("/static/htmx.min.js").content
    assert hashlib.sha256(served).hexdigest() in (ROOT / "docs/design/100-pages.md").read_text()
    assert "Zero-Clause BSD" in (ROOT / "src/scaffold/web/static/htmx.LICENSE").read_text()
