"""MCP servers in runs: one pool for all workers, approvals and questions in the inbox, kills and resumes."""

import asyncio
import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from builders import machine_sandbox
from support.mcp_servers import ADD, configure_servers, entry, place_server
from support.scenario import Scenario, action, plan_of, shell, wait_until, write

pytestmark = pytest.mark.slow


@pytest.fixture
def scenario(tmp_path):
    if asyncio.run(machine_sandbox()).level == "none":
        pytest.skip("workers have programs of servers in a sandbox only")
    return Scenario(tmp_path)


@pytest.fixture
def programs(tmp_path):
    return tmp_path / "programs"


def server_processes(folder):
    listed = subprocess.run(["ps", "-ww", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    return [line for line in listed.splitlines() if str(folder) in line and "python" in line and "bwrap" not in line]


def inbox(scenario):
    return json.loads(scenario.scaffold("inbox", "--json").stdout)["inbox"]


def add(number):
    return {"name": "mcp_sums_add", "args": {"a": number}}


def test_all_workers_of_a_run_share_one_process_of_each_server(scenario, programs):
    """RA-15: workers have the servers that the settings name, and no others."""
    starts = programs / "starts"
    file = place_server(programs, "sums", before=f"open({str(starts)!r}, 'a').write('x')")
    other = place_server(programs, "other", before=f"open({str(programs / 'ran')!r}, 'a')")
    configure_servers(scenario, sums=entry(file, writes=[str(programs)]), other=entry(other, writes=[str(programs)]))
    scenario.configure(mcp={"workers": ["sums"]}, permissions={"allow": ["mcp_sums_add:*"]})
    keys = ("a", "b", "c")
    scenario.plan(plan_of(**{key: [action(key, effects=[f"has_{key}"], check=f"test -f out/{key}")] for key in keys}))
    scenario.cassette(**{key: [add(at), write(f"out/{key}", "x")] for at, key in enumerate(keys)})
    done = scenario.run("--yes")
    assert done.returncode == 0, done.stdout + done.stderr
    assert [f"sum {at + 1}" in scenario.journal(key, key) for at, key in enumerate(keys)] == [True] * 3
    assert starts.read_text() == "x"
    assert not (programs / "ran").exists()
    assert not server_processes(programs)


def test_a_call_waits_in_the_inbox_like_others(scenario, programs):
    """RA-13, RA-15: without a rule that allows it; it is not made before."""
    configure_servers(scenario, sums=entry(place_server(programs, "sums")))
    scenario.configure(mcp={"workers": ["sums"]}, inbox={"wait_s": 0.5})
    scenario.plan(plan_of(g=[action("a", effects=["has_a"], check="test -f out/a")]))
    scenario.cassette(a=[add(1), write("out/a", "x")])
    scenario.run("--yes")
    (item,) = inbox(scenario)
    assert "mcp_sums_add" in json.dumps(item)
    assert "sum 2" not in scenario.journal("g", "a")
    scenario.scaffold("approve", item["id"])
    resumed = scenario.scaffold("resume")
    assert resumed.returncode == 0, resumed.stdout + resumed.stderr
    assert "sum 2" in scenario.journal("g", "a")


def test_a_question_of_a_server_is_asked_in_the_inbox(scenario, programs):
    """RA-15: the server gets the user's answer as data, in the next attempt if it comes late."""
    asks = (
        'write({"id": 900, "method": "elicitation/create", "params": {"message": "Which colour?",'
        ' "requestedSchema": {"type": "object", "properties": {"colour": {"type": "string"}}}}})\n'
        "reply = read()\n"
        "text(request, json.dumps(reply['result']))"
    )
    configure_servers(scenario, sums=entry(place_server(programs, "sums", asks)))
    rules = {"allow": ["mcp_sums_add:*"]}
    scenario.configure(mcp={"workers": ["sums"]}, permissions=rules, inbox={"wait_s": 0.5})
    scenario.plan(plan_of(g=[action("a", effects=["has_a"], check="test -f out/a")]))
    scenario.cassette(a=[add(1), write("out/a", "x")])
    scenario.run("--yes")
    (item,) = inbox(scenario)
    assert "The MCP server sums asks: Which colour?" in json.dumps(item)
    scenario.scaffold("answer", item["id"], "blue")
    resumed = scenario.scaffold("resume")
    assert resumed.returncode == 0, resumed.stdout + resumed.stderr
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
    scenario.cassette(a=[add(1), shell("sleep 5"), write("out/a", "x")], b=[add(2), write("out/b", "x")])
    run = scenario.start(scenario.run_command("--yes"))
    assert wait_until(lambda: inbox(scenario), 20)
    (item,) = inbox(scenario)
    assert "Add one, or two." in json.dumps(item)
    scenario.scaffold("approve", item["id"])
    assert run.wait(60) == 0, scenario.said()
    assert "There is no tool `mcp_sums_add`" in scenario.journal("g", "a")
    assert "sum 3" in scenario.journal("g", "b")


def test_a_killed_owner_leaves_no_server_and_a_resumed_run_has_it_again(scenario, programs):
    """RA-15: the server itself is not killed; it ends with the owner of the run."""
    naps = "time.sleep(2)\ntext(request, 'slept')"
    configure_servers(scenario, sums=entry(place_server(programs, "sums", naps)))
    scenario.configure(mcp={"workers": ["sums"]}, permissions={"allow": ["mcp_sums_add:*"]})
    scenario.plan(plan_of(g=[action("a", effects=["has_a"], check="test -f out/a")]))
    scenario.cassette(a=[add(1), write("out/a", "x")])
    run = scenario.start(scenario.run_command("--yes"))
    assert wait_until(lambda: "mcp_sums_add" in _journal(scenario), 30)
    started = server_processes(programs)
    for pid in scenario.processes():
        if str(programs) not in Path(f"/proc/{pid}/cmdline").read_text(errors="replace"):
            os.kill(pid, signal.SIGKILL)
    run.wait()
    assert started
    assert wait_until(lambda: not server_processes(programs))
    resumed = scenario.scaffold("resume")
    assert resumed.returncode == 0, resumed.stdout + resumed.stderr
    assert "slept" in scenario.journal("g", "a")
    assert not server_processes(programs)


def _journal(scenario):
    try:
        return scenario.journal("g", "a")
    except OSError:
        return ""
