"""MCP servers in runs: one pool for all workers, approvals and questions in the inbox, kills and resumes."""

import asyncio
import json
from pathlib import Path

import pytest

from builders import machine_sandbox
from support.mcp_servers import ADD, configure_servers, entry, place_server
from support.scenario import COMMAND_S, Scenario, action, plan_of, programs_in, shell, wait_until, write

pytestmark = pytest.mark.slow


@pytest.fixture
def scenario(tmp_path):
    if asyncio.run(machine_sandbox()).level == "none":
        pytest.skip("workers have programs of servers in a sandbox only")
    return Scenario(tmp_path)


@pytest.fixture
def programs(tmp_path):
    return tmp_path / "programs"


def add(number):
    return {"name": "mcp_sums_add", "args": {"a": number}}


def test_all_workers_share_one_process_of_each_server_also_after_a_kill_and_a_resume(scenario, programs):
    """RA-15: they have those that the settings name; none outlives the owner, which alone is killed."""
    starts = programs / "starts"
    naps = "time.sleep(2)\ntext(request, f\"sum {arguments['a'] + 1}\")"
    file = place_server(programs, "sums", naps, before=f"open({str(starts)!r}, 'a').write('x')")
    other = place_server(programs, "other", before=f"open({str(programs / 'ran')!r}, 'a')")
    configure_servers(scenario, sums=entry(file, writes=[str(programs)]), other=entry(other, writes=[str(programs)]))
    scenario.configure(mcp={"workers": ["sums"]}, permissions={"allow": ["mcp_sums_add:*"]})
    keys = ("a", "b", "c")
    scenario.plan(plan_of(**{key: [action(key, effects=[f"has_{key}"], check=f"test -f out/{key}")] for key in keys}))
    scenario.cassette(**{key: [add(at), add(at + 10), write(f"out/{key}", "x")] for at, key in enumerate(keys)})
    run = scenario.start(scenario.run_command("--yes"))
    assert wait_until(lambda: any("mcp_sums_add" in _journal(scenario, key) for key in keys))
    started = programs_in(programs)
    scenario.kill_all_but(programs)
    run.wait()
    assert started
    assert wait_until(lambda: not programs_in(programs))
    scenario.scaffold("resume", code=0)
    assert [f"sum {at + 11}" in scenario.journal(key, key) for at, key in enumerate(keys)] == [True] * 3
    assert starts.read_text() == "xx"  # one for each owner
    assert not (programs / "ran").exists()
    assert not programs_in(programs)


def test_calls_and_questions_of_a_server_wait_in_the_inbox(scenario, programs):
    """RA-13, RA-15: a call is not made before; a server gets the answer as data, also if it comes late."""
    asks = (
        'write({"id": 900, "method": "elicitation/create", "params": {"message": "Which colour?",'
        ' "requestedSchema": {"type": "object", "properties": {"colour": {"type": "string"}}}}})\n'
        "reply = read()\n"
        "text(request, json.dumps(reply['result']))"
    )
    configure_servers(scenario, sums=entry(place_server(programs, "sums", asks)))
    scenario.configure(mcp={"workers": ["sums"]}, inbox={"wait_s": 0.5})
    scenario.plan(plan_of(g=[action("a", effects=["has_a"], check="test -f out/a")]))
    scenario.cassette(a=[add(1), write("out/a", "x")])
    scenario.run("--yes")
    (call,) = scenario.inbox()
    assert "mcp_sums_add" in json.dumps(call)
    assert "colour" not in scenario.journal("g", "a")
    scenario.scaffold("approve", call["id"])
    scenario.scaffold("resume")
    (question,) = scenario.inbox()
    assert "The MCP server sums asks: Which colour?" in json.dumps(question)
    scenario.scaffold("answer", question["id"], "blue")
    scenario.scaffold("resume", code=0)
    journal = scenario.journal("g", "a").replace("\\", "")
    assert '"action": "accept"' in journal
    assert '"colour": "blue"' in journal


def test_changed_tools_are_approved_in_the_inbox(scenario, programs):
    """RA-15: workers get them once they are approved."""
    configure_servers(scenario, sums=entry(place_server(programs, "sums")))
    assert "1 tools" in scenario.scaffold("ralph", "/mcp").stdout
    place_server(programs, "sums", tools=[ADD | {"description": "Add one, or two."}])
    scenario.configure(mcp={"workers": ["sums"]}, permissions={"allow": ["mcp_sums_add:*"]})
    scenario.plan(
        plan_of(
            g=[
                action("a", effects=["has_a"], check="test -f out/a"),
                action("b", effects=["has_b"], needs=["has_a"], check="test -f out/b"),
            ]
        )
    )
    scenario.cassette(
        a=[add(1), shell("until [ -e go ]; do sleep 0.1; done; rm go"), write("out/a", "x")],
        b=[add(2), write("out/b", "x")],
    )
    run = scenario.start(scenario.run_command("--yes"))
    assert wait_until(scenario.inbox)
    (item,) = scenario.inbox()
    assert "Add one, or two." in json.dumps(item)
    scenario.scaffold("approve", item["id"], code=0)
    Path(scenario.scaffold("path", "a", code=0).stdout.strip(), "go").touch()
    assert run.wait(COMMAND_S) == 0, scenario.said()
    assert "There is no tool `mcp_sums_add`" in scenario.journal("g", "a")
    assert "sum 3" in scenario.journal("g", "b")


def _journal(scenario, key):
    try:
        return scenario.journal(key, key)
    except OSError:
        return ""
