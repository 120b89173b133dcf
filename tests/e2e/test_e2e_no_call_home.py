"""Commands and extras contact nothing by themselves, and write nothing outside our folders.

Each runs in a network of its own, in which all names and addresses that it asks for are seen.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from scaffold.cli.entry import COMMANDS
from support import network_witness
from support.mcp_servers import entry, place_server
from support.pdf_files import pdf_of
from support.scenario import Scenario, action, calls_entry, plan_of, text_entry, write

ALONE = ("unshare", "--user", "--map-root-user", "--net", "--mount")
ROOT = Path(__file__).parents[2]
OURS = re.compile(r"home/\.(cache|config|local)(/(share|state))?(/scaffold(/.*)?)?|repo/\.(git|scaffold)(/.*)?")
"""What docs/guide.md names, "Where things are"."""


@pytest.fixture
def alone(tmp_path):
    """Run commands in a network of their own, and return what they did; skip where there can be none."""
    probe = [*ALONE, "sh", "-ec", network_witness.EVERYTHING_IS_HERE]
    if shutil.which(ALONE[0]) is None or subprocess.run(probe, capture_output=True, check=False).returncode:
        pytest.skip("there can be no network of our own here")
    scenario = Scenario(tmp_path)
    del scenario.environ["SCAFFOLD_HOME"]
    (tmp_path / "tmp").mkdir()
    scenario.environ |= {"TMPDIR": str(tmp_path / "tmp"), "BROWSER": "true"}
    yield Alone(scenario)
    scenario.wait_for_end()


class Alone:
    """A scenario whose commands are alone in their network."""

    def __init__(self, scenario):
        self.scenario = scenario
        self.folder = scenario.home.parent

    def run(self, **commands):
        """Run lines of a shell, by a name, and return what each did."""
        asked = {"commands": {name: ["sh", "-c", line] for name, line in commands.items()}}
        file = self.folder / "asked.json"
        file.write_text(json.dumps(asked | {"watched": [str(self.folder / each) for each in ("home", "repo", "tmp")]}))
        done = subprocess.run(
            [*ALONE, sys.executable, network_witness.__file__, str(file)],
            cwd=self.scenario.repo,
            env=self.scenario.environ,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def elsewhere(self, paths):
        """Return the paths that are not in our folders."""
        named = [os.path.relpath(path, self.folder) for path in paths]
        return [each for each in named if not OURS.fullmatch(each)]


def assert_quiet(alone, seen, allowed):
    """Fail if a command opened something, or wrote elsewhere than in our folders and where `allowed` matches."""
    opened = {name: did["opened"] for name, did in seen.items() if did["opened"]}
    elsewhere = [
        each for did in seen.values() for each in alone.elsewhere(did["made"]) if not re.fullmatch(allowed, each)
    ]
    assert (opened, elsewhere[:20]) == ({}, [])


def test_what_is_looked_up_or_connected_to_is_seen(alone):
    """BX-31: otherwise the other tests here would prove nothing."""
    code = "import socket as s\nfor a in [('8.8.8.8', 443), ('x.example', 80)]:\n"
    code += "  try: s.create_connection(a)\n  except OSError: pass\ns.socket(2, 2).sendto(b'x', ('10.1.2.3', 99))"
    seen = alone.run(one=f"touch ~/left /dev/shm/left; {shlex.join([sys.executable, '-c', code])}")["one"]
    assert seen["opened"] == ["tcp 8.8.8.8 443", "lookup x.example", "udp 10.1.2.3 99"]
    assert [Path(each).name for each in alone.elsewhere(seen["made"])] == ["left", "left"]


@pytest.mark.slow
def test_a_run_and_what_is_remembered_contact_nobody(alone):
    """BX-31: from the configuration to what lands, with memories, documents and MCP servers."""
    pytest.importorskip("mcp", reason="the extra `mcp` is not installed")
    pytest.importorskip("pypdfium2", reason="the extra `documents` is not installed")
    scenario = alone.scenario
    folder = scenario.home / ".config" / "scaffold"
    folder.mkdir(parents=True)
    server = place_server(alone.folder / "servers", "sums")
    (folder / "mcp.json").write_text(json.dumps({"mcpServers": {"sums": entry(server)}}))
    (alone.folder / "a.pdf").write_bytes(pdf_of(["The cat sat on the mat."]))
    scenario.plan(plan_of(g=[action("a", effects=["has_a"], check="test -f a")]))
    scenario.cassette(a=[write("a", "x")])
    remember = {"name": "remember", "args": {"content": "The integration tests need Redis.", "type": "fact"}}
    recall = {"name": "recall_memories", "args": {"query": "redis"}}
    steps = [calls_entry("agent", each, turn=turn) for turn, each in enumerate((remember, recall), 1)]
    model = f"cassette:{scenario.replies(*steps, text_entry('agent'), name='agent.yaml')}"
    seen = alone.run(
        doctor="scaffold doctor",
        run=f"{shlex.join(scenario.run_command('--yes'))} && scaffold land",
        ralph=f"ralph -p go --yolo --model {model} --output-format stream-json",
        memory=f"scaffold memory ingest {alone.folder}/a.pdf && scaffold memory index && scaffold memory search cat",
        protocols="ralph /mcp; : | scaffold mcp; : | ralph acp",
    )
    assert [did["code"] for did in seen.values()][1:] == [0, 0, 0, 0], seen
    assert "need Redis" in seen["ralph"]["said"]
    assert "1 tools" in seen["protocols"]["said"]
    assert_quiet(alone, seen, "repo/a")


LASTING = ("--watch", "logs -f", "--http", "ralph login", "scaffold serve")
"""Parts of examples that go on until somebody ends them."""
ASKED = re.compile(r"lookup auth\.openai\.com")
"""What an example names by itself: a login at a provider."""


@pytest.mark.slow
def test_no_example_of_a_command_contacts_anybody(alone):
    """BX-31: each command by the examples of its help, on a run that has landed; a login asks its provider alone."""
    scenario = alone.scenario
    for path in (ROOT / "examples" / "shortener").iterdir():
        shutil.copy(path, scenario.repo)
    for name in ("spec.md", "notes.md"):
        (scenario.repo / name).write_text("# Notes\n\nWrite NOTES.md.\n")
    scenario.commit("an example")
    scenario.environ["SCAFFOLD_MODEL"] = f"cassette:{scenario.replies({'when': {}, 'text': 'Done.'}, name='any.yaml')}"
    first = "scaffold run --plan plan.yaml --model cassette:replies.yaml --yes"
    assert alone.run(first=first)["first"]["code"] == 0
    names = {"RUN": scenario.status()["run"]["id"], "ACTION": "store", "GOAL": "shortener", "/tmp": "$TMPDIR"}
    lines = [line for each in COMMANDS.values() for line in each.examples]
    seen = alone.run(**{line: _example(line, names) for line in lines})
    assert [name for name, did in seen.items() if "Traceback" in did["said"]] == []
    assert seen["scaffold status"]["code"] == 0
    for name, did in seen.items():
        if name.startswith("ralph login"):
            did["opened"] = [each for each in did["opened"] if not ASKED.fullmatch(each)]
    landed = r"shortener(/.*)?|tests(/.*)?"  # by `scaffold land`, which is about the run that has something to land
    assert_quiet(alone, seen, rf"repo/(\.scaffold\.yaml|memories\.md|plan\.yaml|{landed})|tmp/(scaffold-)?demo.*")


def _example(line, names):
    for name, value in names.items():
        line = re.sub(rf"{name}\b", value, line)
    lasts = any(each in line for each in LASTING)
    return f"timeout -s INT 5 {line}" if lasts else line
