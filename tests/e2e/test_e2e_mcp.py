"""MCP servers in the real `ralph`: a call, its approval, secrets, and what is left."""

import json

import pytest

from support.mcp_servers import configure_servers, entry, place_server
from support.scenario import Scenario, calls_entry, text_entry


@pytest.fixture
def scenario(tmp_path):
    return Scenario(tmp_path)


@pytest.fixture
def programs(tmp_path):
    return tmp_path / "programs"


def ralph(scenario, *args):
    model = f"cassette:{scenario.home / 'cassette.yaml'}"
    return scenario.scaffold("ralph", "do it", "--model", model, *args)


def one_call(scenario, name="mcp_sums_add", args=None):
    scenario.replies(
        calls_entry("agent", {"name": name, "args": args or {"a": 1}}, turn=1), text_entry("agent", "done", turn=2)
    )


def results(done):
    events = map(json.loads, done.stdout.splitlines())
    return [event["content"] for event in events if event["type"] == "tool_result"]


def test_the_tool_of_a_server_is_called_once_it_is_allowed(scenario, programs):
    """RA-15: `mcp_{server}_{tool}`, from the user's `mcp.json`."""
    configure_servers(scenario, sums=entry(place_server(programs, "sums")))
    one_call(scenario)
    done = ralph(scenario, "--allow-category", "mcp", "--output-format", "stream-json")
    assert done.returncode == 0, done.stderr
    assert results(done) == ["sum 2"]
