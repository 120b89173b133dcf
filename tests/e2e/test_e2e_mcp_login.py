"""`/mcp login` and `/mcp logout` by the real `ralph`, and a run whose server wants a login."""

import shlex
import sys

import pytest

from support.mcp_login_server import serve_oauth
from support.mcp_servers import configure_servers
from support.scenario import Scenario, action, calls_entry, plan_of, text_entry, write
from support.terminal import IDLE

BROWSER = """\
import sys, urllib.request
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
opener.open(sys.argv[1], timeout=20).read()
"""


@pytest.fixture
def scenario(tmp_path):
    scenario = Scenario(tmp_path)
    (tmp_path / "browser.py").write_text(BROWSER)
    scenario.environ |= {
        "PYTHON_KEYRING_BACKEND": "keyring.backends.fail.Keyring",
        "BROWSER": f"{shlex.quote(sys.executable)} {shlex.quote(str(tmp_path / 'browser.py'))} %s",
    }
    return scenario


@pytest.fixture
def server():
    with serve_oauth() as server:
        yield server


@pytest.mark.slow
def test_a_user_logs_in_uses_the_server_and_logs_out(scenario, server):
    """RA-15: one line names the command; the browser opens by it alone; no token is printed or kept as it is."""
    configure_servers(scenario, notes={"url": server.url})
    before = scenario.scaffold("ralph", "/mcp")
    assert "needs a login: `ralph /mcp login notes`" in " ".join(before.stdout.split())
    assert server.asked("/authorize") == []
    done = scenario.scaffold("ralph", "/mcp login notes", code=0)
    assert done.stdout.startswith("Logged in at notes.")
    assert f"{server.origin}/authorize?" in done.stderr
    scenario.replies(
        calls_entry("agent", {"name": "mcp_notes_add", "args": {"a": 1}}, turn=1), text_entry("agent", "done", turn=2)
    )
    model = f"cassette:{scenario.home / 'cassette.yaml'}"
    used = scenario.scaffold(
        "ralph", "do it", "--model", model, "--output-format", "stream-json", "--allow", "mcp_notes_add:*"
    )
    assert "sum 2" in used.stdout, used.stderr
    out = scenario.scaffold("ralph", "/mcp logout notes")
    assert out.stdout.startswith("Logged out at notes"), out.stderr
    assert len(server.asked("/revoke")) == 1
    again = scenario.scaffold("ralph", "/mcp logout notes")
    assert "You were not logged in at notes." in again.stdout
    unknown = scenario.scaffold("ralph", "/mcp login other")
    assert (unknown.returncode, "other" in unknown.stderr) == (64, True)
    kept = b"".join(path.read_bytes() for path in (scenario.home / "scaffold").rglob("*") if path.is_file())
    said = "".join(each.stdout + each.stderr for each in (before, done, used, out, again))
    assert not any(token in said or token.encode() in kept for token in server.secrets)


@pytest.mark.slow
def test_a_run_leaves_out_a_server_that_needs_a_login(scenario, server):
    """RA-15: one line says what helps; nobody is asked, no browser opens, and the run goes on."""
    configure_servers(scenario, notes={"url": server.url})
    scenario.configure(mcp={"workers": ["notes"]})
    scenario.plan(plan_of(a=[action("a", effects=["has_a"], check="test -f out/a")]))
    scenario.cassette(a=[write("out/a", "x")])
    done = scenario.run("--yes")
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    assert said.count("needs a login: `ralph /mcp login notes`") == 1, said
    assert {path for _, path, _, _ in server.seen} == {"/mcp"}


@pytest.mark.slow
def test_in_a_chat_the_prompt_is_free_while_the_user_is_in_the_browser(scenario, server, terminal):
    """RA-15, RA-18: a line says that the login succeeded; the tools are there with the next message."""
    (scenario.home.parent / "browser.py").write_text(f"import time\ntime.sleep(2)\n{BROWSER}")
    configure_servers(scenario, notes={"url": server.url})
    call = {"name": "mcp_notes_add", "args": {"a": 1}}
    replies = [
        {"when": {"role": "agent", "turn": 1}, "tool_calls": [call]},
        {"when": {"role": "agent", "turn": 2, "contains": "sum 2"}, "text": "all done"},
    ]
    screen = terminal("--model", f"cassette:{scenario.replies(*replies)}", "--yolo")
    screen.wait_for("needs a login")
    screen.wait_for(IDLE)
    screen.type_line("/mcp login notes")
    screen.wait_for("A line says when you are logged in")
    screen.type_line("/mcp logout notes")
    screen.wait_for("You were not logged in at notes")
    screen.wait_for("Logged in at notes")
    screen.type_line("add")
    screen.wait_for("all done")
    screen.type_line("/quit")
    assert not any(token in screen.text for token in server.secrets)
