"""`scaffold serve`: a real server, read and used by programs and by a real browser."""

import json
import os
import re
import signal
import socket
import subprocess
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import urlencode

import pytest
from hypothesis import Phase, given, settings

from scaffold.host.tcp_ports import served_address
from support.landed_run import landed_run
from support.scenario import PATIENCE_S, action, plan_of, shell, wait_until, write
from support.served_pages import chromium, ended, needs_chromium, press_by_keyboard, served

pytestmark = pytest.mark.slow
PICTURES = Path(__file__).parents[2] / "docs" / "img"
SIZES = {"phone": {"width": 375, "height": 812}, "desktop": {"width": 1440, "height": 900}}


def shop(scenario):
    """Plan work of which one part needs an approval, and another a word."""
    question = {"name": "ask_human", "args": {"question": "Which currency do prices have?", "options": ["EUR", "USD"]}}
    scenario.configure(inbox={"wait_s": 1})
    scenario.plan(
        plan_of(
            shop=[
                action("catalog", effects=["catalog_works"], check="test -s catalog.py"),
                action("prices", needs=["catalog_works"], effects=["prices_work"], check="test -s prices.py"),
            ],
            docs=[action("guide", effects=["guide_written"], check="test -s GUIDE.md")],
        )
    )
    scenario.cassette(
        catalog=[write("catalog.py", "ITEMS = []\n")],
        prices=[question, write("prices.py", "CURRENCY = 'EUR'\n")],
        guide=[shell("echo a guide > GUIDE.md")],
    )


def in_background(scenario):
    done = scenario.run("--yes", "--detach", "--sandbox", "off")
    assert done.returncode == 0, done.stderr
    assert wait_until(lambda: len(scenario.inbox()) == 2), scenario.said()


def test_programs_get_what_the_command_prints_and_others_get_nothing(scenario):
    """BX-25: the link is in no argument and no file; two servers stand side by side; a signal ends one at once."""
    shop(scenario)
    scenario.run("--dry-run")
    with served(scenario) as one, served(scenario, "--read-only") as two:
        opened = one.opener()
        assert json.load(opened.open(f"{one.address}/api/runs", timeout=PATIENCE_S))["unread"] == []
        assert json.load(two.opener().open(f"{two.address}/api/session", timeout=PATIENCE_S))["may_act"] is False
        token = one.link.partition("token=")[2]
        listed = subprocess.run(["ps", "-ww", "-eo", "args"], capture_output=True, text=True, check=True).stdout
        assert token not in listed
        stored = [each for each in scenario.home.rglob("*") if each.is_file()]
        assert not [each for each in stored if token.encode() in each.read_bytes()]
        data = scenario.home / "scaffold" / "data"
        assert served_address(data) in {one.address, two.address}
        assert {each.stat().st_mode & 0o77 for each in (data / "servers").iterdir()} == {0}
        port = int(one.address.rpartition(":")[2])
        # Readers that never read, and senders that never send, hold up nobody.
        idle = [socket.create_connection(("127.0.0.1", port)) for _ in range(60)]
        for each in idle[:30]:
            each.sendall(b"POST /links HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9\r\n")
        stream = opened.open(f"{one.address}/api/events", timeout=PATIENCE_S)
        assert stream.readline() == b"retry: 2000\n"
        opened.open(f"{one.address}/", timeout=PATIENCE_S).close()
        one.process.send_signal(signal.SIGTERM)
        assert ended(one.process)
        assert [each.name for each in (data / "servers").iterdir()] == [f"{two.process.pid}.json"]
        two.process.send_signal(signal.SIGINT)
        assert ended(two.process)
        assert "Traceback" not in two.process.stderr.read()
        for each in idle:
            each.close()
    assert served_address(data) is None


@needs_chromium
def test_a_run_is_steered_by_the_page_alone(scenario):
    """BX-13, BX-25: by the keyboard: what waits is approved and answered, the run goes on, and its work is taken."""
    shop(scenario)
    in_background(scenario)
    run = scenario.status()["run"]["id"]
    with served(scenario) as server, chromium() as browser:
        page = browser.new_context().new_page()
        problems = []
        page.on("console", lambda message: problems.append(message.text))
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.goto(server.link)
        page.wait_for_url(f"{server.address}/")
        for _ in range(8):  # more than a browser has connections to one server
            behind = page.context.new_page()
            behind.add_init_script("Object.defineProperty(document, 'hidden', {value: true})")
            behind.goto(f"{server.address}/inbox")
        page.bring_to_front()
        page.goto(f"{server.address}/inbox")
        press_by_keyboard(page, "approve")
        page.get_by_text(re.compile(r"approval \w+ is approved")).wait_for()
        press_by_keyboard(page, "EUR")
        page.get_by_text(re.compile(r"question \w+ is answered")).wait_for()
        page.goto(f"{server.address}/runs/{run}")
        if page.get_by_role("button", name="resume").count():
            press_by_keyboard(page, "resume")
            page.locator(".card[role=status]").wait_for(timeout=PATIENCE_S * 1000)
        # Live: the page is not loaded again.
        page.evaluate("window.loadedOnce = true")
        page.locator("header .badge", has_text="completed").wait_for(timeout=PATIENCE_S * 1000)
        assert page.evaluate("window.loadedOnce")
        assert page.evaluate("htmx.version")
        press_by_keyboard(page, "land")
        page.get_by_text(re.compile("main is at")).wait_for(timeout=PATIENCE_S * 1000)
        assert problems == []
    assert scenario.git("show", "main:prices.py") == "CURRENCY = 'EUR'\n"
    assert scenario.git("show", "main:GUIDE.md") == "a guide\n"


@needs_chromium
def test_each_page_can_be_read_at_every_width_in_light_and_dark(scenario):
    """BX-25: no violation that axe finds, nothing wider than the screen, and without a script the same content."""
    from axe_playwright_python.sync_playwright import Axe

    shop(scenario)
    in_background(scenario)
    run, item = scenario.status()["run"]["id"], scenario.inbox()[0]["id"]
    pages = {"runs": "/", "inbox": "/inbox", "item": f"/inbox/{item}", "run": f"/runs/{run}", "problem": "/runs/none"}
    found = []
    with served(scenario) as server, chromium() as browser:
        entered = browser.new_context()
        first = entered.new_page()
        first.goto(server.link)
        first.wait_for_url(f"{server.address}/")
        state = entered.storage_state()
        for scheme in ("light", "dark"):
            for size, viewport in SIZES.items():
                view = browser.new_context(storage_state=state, color_scheme=scheme, viewport=viewport)
                page = view.new_page()
                for name, path in pages.items():
                    page.goto(server.address + path)
                    if page.evaluate("document.documentElement.scrollWidth") > viewport["width"]:
                        found.append(f"{name} is wider than {viewport['width']}")
                    told = {each["id"]: each["nodes"][0]["html"] for each in Axe().run(page).response["violations"]}
                    found += [f"{name} {scheme} {size}: {told}"] if told else []
                    if "SCAFFOLD_PICTURES" in os.environ and (scheme, name) in {("light", "run"), ("dark", "inbox")}:
                        page.screenshot(path=PICTURES / f"web-{name}-{size}.png")
                view.close()
        assert found == []
        plain = browser.new_context(storage_state=state, java_script_enabled=False).new_page()
        plain.goto(f"{server.address}/runs/{run}")
        assert plain.locator("#evidence").count() == 1
        assert plain.get_by_role("button", name="EUR").is_visible()
    scenario.scaffold("cancel", run)


def test_a_change_is_reviewed_by_intent_and_commented_on_the_page(tmp_path):
    """BX-25: the landed change of an action has forms for comments; once sent, they are work for later."""
    scenario = landed_run(tmp_path)
    run = scenario.status()["run"]["id"]
    [action_id] = [row[0] for row in scenario.stored("SELECT id FROM action WHERE key = 'api'")]
    with served(scenario) as server:
        opened = server.opener()
        csrf = json.load(opened.open(f"{server.address}/api/session", timeout=PATIENCE_S))["csrf"]

        def page(part: str, /, **fields: str) -> str:
            data = urlencode({"csrf": csrf, **fields}).encode() if fields else None
            return opened.open(f"{server.address}/runs/{run}/review{part}", data, timeout=PATIENCE_S).read().decode()

        assert "api: grep -q model api.py" in page("")
        assert f"/runs/{run}/review/{action_id}" in page("")
        shown = page(f"/{action_id}")
        assert 'value="api.py"' in shown
        noted = page(f"/{action_id}", path="api.py", first="1", last="1", text="Say <b>why</b> it is imported")
        assert "Comment 1 on api.py:1 is kept" in noted
        assert "Say &lt;b&gt;why&lt;/b&gt; it is imported" in noted
        assert "Send 1 comment" in noted
        with pytest.raises(HTTPError, match="400"):
            page(f"/{action_id}", path="api.py", first="99", last="99", text="nowhere")
        with pytest.raises(HTTPError, match="404"):
            page("/none", path="api.py", first="1", last="1", text="no such action")
        assert "1 comment sent: the change has landed" in page(f"/{action_id}/send", words="")
    [item] = scenario.json("item", "list")["items"]
    assert item["title"] == "api.py: Say <b>why</b> it is imported"


def test_the_api_keeps_to_its_description(scenario):
    """BX-25: whatever is sent to it, each answer has a status and a shape that `/api/openapi.json` names."""
    import schemathesis
    from schemathesis.checks import not_a_server_error
    from schemathesis.specs.openapi.checks import (
        content_type_conformance,
        response_schema_conformance,
        status_code_conformance,
    )

    shop(scenario)
    in_background(scenario)
    with served(scenario) as server:
        opened = server.opener()
        [jar] = [each.cookiejar for each in opened.handlers if hasattr(each, "cookiejar")]
        cookie = "; ".join(f"{each.name}={each.value}" for each in jar)
        session = json.load(opened.open(f"{server.address}/api/session", timeout=PATIENCE_S))
        headers = {"Cookie": cookie, "X-CSRF-Token": session["csrf"]}
        described = json.load(opened.open(f"{server.address}/api/openapi.json", timeout=PATIENCE_S))
        # Streams have no end that could be waited for.
        described["paths"] = {path: each for path, each in described["paths"].items() if not path.endswith("events")}
        schema = schemathesis.openapi.from_dict(described)
        schema.config.base_url = server.address
        tried = 0
        kept = (not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance)
        for result in schema.get_all_operations():

            @settings(max_examples=25, phases=[Phase.generate], database=None)
            @given(case=result.ok().as_strategy())
            def send(case):
                nonlocal tried
                tried += 1
                case.validate_response(case.call(headers=headers, timeout=PATIENCE_S), checks=kept)

            send()
        assert tried > 100
        assert len(scenario.inbox()) == 2
    scenario.scaffold("cancel")
