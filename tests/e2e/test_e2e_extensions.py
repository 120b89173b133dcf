"""All that people bring along, in one run: a server, a skill, a hook that guards, a plugin; killed, and resumed."""

import asyncio
import json

import pytest

from builders import machine_sandbox
from support.mcp_servers import configure_servers, entry, place_server
from support.plugins import place_plugin
from support.scenario import Scenario, action, plan_of, programs_in, shell, wait_until, write

KEYS = ("north", "south")
NO_PUSH = """#!/bin/sh
if grep -q 'git push'; then echo "no agent pushes" >&2; exit 2; fi
"""
HOOK = {"type": "command", "command": '"$CLAUDE_PROJECT_DIR"/.claude/hooks/no-push.sh'}
SKILL = "---\nname: release\ndescription: How a release is made here.\n---\nWrite each part into out/.\n"
STAMP = {"name": "stamp", "description": "Stamp a text.", "schema": {"type": "object", "properties": {}}}


@pytest.fixture
def scenario(tmp_path):
    if asyncio.run(machine_sandbox()).level == "none":
        pytest.skip("workers have programs of servers and plugins in a sandbox only")
    return Scenario(tmp_path)


@pytest.fixture
def programs(tmp_path, scenario):
    """The folder of the server; the repository has a hook, a skill and a remote, and the user a plugin."""
    folder = scenario.repo / ".claude"
    for name, text in (("hooks/no-push.sh", NO_PUSH), ("skills/release/SKILL.md", SKILL)):
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_text(text)
    (folder / "hooks" / "no-push.sh").chmod(0o755)
    hooks = {"PreToolUse": [{"matcher": "Bash", "hooks": [HOOK]}]}
    (folder / "settings.json").write_text(json.dumps({"hooks": hooks}))
    scenario.commit("hooks and skills")
    scenario.git("clone", "-q", "--bare", ".", str(tmp_path / "remote.git"))
    scenario.git("remote", "add", "origin", str(tmp_path / "remote.git"))
    scenario.scaffold("trust", "--yes", code=0)
    stamps = 'answer(request, {"success": True, "result": "STAMPED"})'
    place_plugin(scenario.home / "scaffold" / "config" / "plugins", "post", stamps, tools=[STAMP])
    naps = "time.sleep(1.5)\ntext(request, f\"sum {arguments['a'] + 1}\")"
    configure_servers(scenario, sums=entry(place_server(tmp_path / "programs", "sums", naps)))
    scenario.configure(
        plugins={"workers": ["post"]},
        mcp={"workers": ["sums"]},
        permissions={"allow": ["mcp_sums_add:*", "plugin_post_stamp:*", "git push:*"]},
    )
    return tmp_path / "programs"


def journal(scenario, key):
    try:
        return scenario.journal(key, key)
    except OSError:
        return ""


@pytest.mark.slow
def test_workers_use_a_server_a_skill_a_plugin_and_a_guard_at_once_also_after_a_kill(scenario, programs, tmp_path):
    """RA-15, RA-16, SC-12: killed during calls of the server; resumed, all work lands, and nothing is pushed."""
    plugins = scenario.home / "scaffold" / "config" / "plugins"
    scenario.plan(plan_of(**{key: [action(key, effects=[f"has_{key}"], check=f"test -f out/{key}")] for key in KEYS}))
    scenario.cassette(
        **{
            key: [
                {"name": "load_skill", "args": {"name": "release"}},
                {"name": "plugin_post_stamp", "args": {}},
                {"name": "mcp_sums_add", "args": {"a": place}},
                {"name": "mcp_sums_add", "args": {"a": place + 10}},  # a call that a kill cuts off is not repeated
                shell("git push origin HEAD:main"),
                write(f"out/{key}", "x"),
            ]
            for place, key in enumerate(KEYS)
        }
    )
    run = scenario.start(scenario.run_command("--yes"))
    assert wait_until(lambda: all("mcp_sums_add" in journal(scenario, key) for key in KEYS))
    assert programs_in(programs, plugins)
    scenario.kill_all_but(programs, plugins)
    run.wait()
    assert wait_until(lambda: not programs_in(programs, plugins))
    scenario.scaffold("resume", code=0)
    for place, key in enumerate(KEYS):
        seen = journal(scenario, key)
        for expected in ("Write each part into out/", "STAMPED", f"sum {place + 11}", "no agent pushes"):
            assert expected in seen, (key, expected)
    session = scenario.status()["run"]["session_branch"]
    assert set(scenario.git("ls-tree", "--name-only", f"{session}:out").split()) >= set(KEYS)
    remote = scenario.git("ls-remote", str(tmp_path / "remote.git"), "main")
    assert remote.split()[0] == scenario.git("rev-parse", "HEAD").strip()
    assert not programs_in(programs, plugins)
