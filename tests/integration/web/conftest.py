"""A browser of the pages: Starlette's test client, with the cookie that a link gave it."""

from collections.abc import Callable

import pytest
from starlette.testclient import TestClient

from scaffold.orchestrator.user_control.own_program import OwnProgram
from scaffold.run.context import RunContext
from scaffold.web.browser_access import Access, StoredPassword
from scaffold.web.deciding import Steering
from scaffold.web.page_routes import WebParts, web_app
from scaffold.web.request_guard import ServedAt
from scaffold.web.user_runs import UserRuns

HOST = "127.0.0.1:8765"
SERVED_AT = ServedAt(frozenset({HOST}), "http", "scaffold_8765")
Browser = Callable[..., TestClient]


@pytest.fixture
def browser(context: RunContext) -> Browser:
    """Return a function that opens the pages of a server; by default with a session that may act."""

    def opened(*, link: bool | None = True, may_act: bool = True, password: StoredPassword | None = None) -> TestClient:
        access, runs = Access(may_act=may_act, password=password), UserRuns(context.root, {})
        steering = Steering(runs, OwnProgram(context.root, ["false"]))
        # Streams end once they have sent what there is.
        app = web_app(WebParts(runs, steering, access, SERVED_AT, lambda: True))
        client = TestClient(app, base_url=f"http://{HOST}", raise_server_exceptions=True)
        if link is not None:
            assert client.get(f"/?token={access.new_link(may_act=link)}").status_code == 200
        return client

    return opened
