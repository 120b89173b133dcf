"""Work at the level Landlock, as on a machine without user namespaces: in the user's checkout, and in a run."""

import os
from pathlib import Path

import msgspec
import pytest

from scaffold.host.sandbox.landlock import sandboxed_command as landlock
from support.scenario import Scenario, action, plan_of, shell, write

PROBLEM = landlock.unsupported_reason() or ("" if landlock.has_broker() else "before Linux 5.19 there is no broker")
pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(PROBLEM), reason=PROBLEM)]
USES = """
import multiprocessing, os, socket, threading, urllib.request
from http.server import HTTPServer, SimpleHTTPRequestHandler
server = HTTPServer(("localhost", int(os.environ.get("SCAFFOLD_PORT_0", 0))), SimpleHTTPRequestHandler)
threading.Thread(target=server.serve_forever, daemon=True).start()
with urllib.request.urlopen(f"http://localhost:{server.server_port}/README.md") as answer:
    size = len(answer.read())
with multiprocessing.Pool(2) as pool:
    assert pool.map(abs, [-1, -2]) == [1, 2]
print("served", size > 0)
"""
BUILD = """
set -e
python3 -m venv --without-pip made
made/bin/python uses.py
sed -i 's/^/: /' README.md
printf 'all:\\n\\tcp README.md copy\\n' > Makefile
make -s
mv copy moved
! echo x > .git/hooks/pre-commit
! echo x > .mcp.json
"""


@pytest.fixture
def scenario(tmp_path):
    made = Scenario(tmp_path)
    made.scaffold("doctor")  # it saves the level
    (found,) = Path(made.environ["HOME"]).rglob("sandbox.json")
    weaker = {"level": "landlock", "problem": "no user namespaces", "fix": "allow them"}
    found.write_bytes(msgspec.json.encode(msgspec.json.decode(found.read_bytes()) | {"finding": weaker}))
    assert "landlock" in made.scaffold("doctor").stdout
    return made


def test_an_agent_can_build_and_serve_at_the_top_of_the_users_checkout(scenario):
    """BX-9"""
    when = {"role": "agent"}
    tape = scenario.replies(
        {
            "when": {**when, "turn": 1},
            "tool_calls": [write("uses.py", USES), write("build.sh", BUILD), shell("sh build.sh")],
        },
        {"when": when, "text": "done"},
    )
    words = ("ralph", "Build it.", "--yolo", "--model", f"cassette:{tape}", "--output-format", "stream-json")
    done = scenario.scaffold(*words, code=0)
    assert "served True" in done.stdout, done.stdout
    assert (scenario.repo / "moved").read_text().startswith(": ")
    assert os.access(scenario.repo / "made" / "bin" / "python", os.X_OK)
    assert not (scenario.repo / ".git" / "hooks" / "pre-commit").exists()
    assert not (scenario.repo / ".mcp.json").exists()
    assert not list((scenario.repo / ".git").glob("scaffold-*"))


def test_a_check_of_a_run_can_serve_and_use_process_pools(scenario):
    """BX-9, BX-10: on a port that the attempt and the merge queue hold, as commands share those of the machine."""
    scenario.plan(plan_of(one=[action("one", effects=["served"], check="python3 uses.py", files=["uses.py"])]))
    scenario.cassette(one=[write("uses.py", USES), shell("python3 uses.py")])
    scenario.run("--yes", code=0)
    branch = scenario.status()["run"]["session_branch"]
    assert scenario.git("show", f"{branch}:uses.py") == USES
