"""Permissions by the real commands: the check beforehand and the live decision agree."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from inline_snapshot import snapshot

from support.scenario import shell, write

RALPH = Path(sys.executable).with_name("ralph")


def replies(scenario, *calls):
    """Write a cassette for `ralph`: each call in a separate reply, then a final text."""
    steps = [{"tool_calls": [call]} for call in calls] + [{"text": "over"}]
    entries = [{"when": {"role": "agent", "turn": turn}, **step} for turn, step in enumerate(steps, start=1)]
    path = scenario.home / "ralph.yaml"
    path.write_text(yaml.safe_dump({"version": 1, "replies": entries}))
    return f"cassette:{path}"


def lived(scenario, *calls, flags=()):
    """Return for each call whether it was denied, and why."""
    model = replies(scenario, *calls)
    done = scenario.scaffold(
        "ralph", "go", "--model", model, "--sandbox", "off", "--output-format", "stream-json", *flags
    )
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert events[-1]["result"] == "over", done
    results = [event["content"] for event in events if event["type"] == "tool_result"]
    return [content.startswith("Denied: ") for content in results], results


def configure(scenario, **permissions):
    folder = Path(scenario.environ["SCAFFOLD_HOME"]) / "config"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.yaml").write_text(yaml.safe_dump({"permissions": permissions}))


def checked(scenario, *commands):
    """Return the answers of `ralph permissions check --jsonl` to each command, run as a separate program."""
    lines = [json.dumps({"id": at, "tool": "shell", "args": {"command": each}}) for at, each in enumerate(commands)]
    done = scenario.call([RALPH, "permissions", "check", "--jsonl"], "\n".join(lines), code=0)
    return [json.loads(line)["decision"] for line in done.stdout.splitlines()]


COMMANDS = {
    "ls -la | head -3": "allow",
    "git status": "allow",
    "touch made": "allow",
    "touch made > out": "ask",
    "touch other": "allow",
    "touch secret/x": "deny",
    "mkdir x": "ask",
    "cat .git/config": "deny",
    "echo x > .env": "deny",
}


@pytest.mark.slow
def test_the_check_and_the_live_decision_agree(scenario):
    """RA-13, RA-14: one decision for `permissions check` and the gate, with the rules of the user's configuration."""
    configure(scenario, allow=["shell:touch *"], deny=["shell:touch secret/*"])
    assert dict(zip(COMMANDS, checked(scenario, *COMMANDS), strict=True)) == COMMANDS
    denied, _ = lived(scenario, *map(shell, COMMANDS))
    assert denied == [decision != "allow" for decision in COMMANDS.values()]
    assert (scenario.repo / "made").exists()
    assert not (scenario.repo / "x").exists()


def test_a_deny_rule_wins_over_yolo(scenario):
    """RA-13: whatever the command line allows."""
    configure(scenario, deny=["shell:touch", "write_file:docs/**"])
    calls = [shell("touch made"), shell("bash -c 'touch made'"), write("docs/a.md", "x"), write("a.md", "x")]
    denied, results = lived(scenario, *calls, flags=("--yolo", "--allow", "shell:touch *"))
    assert denied == [True, True, True, False]
    assert results[0] == "Denied: the rule `shell:touch` denies it."


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["plan", "explore", "review"])
def test_a_read_only_mode_restricts_until_it_is_left(scenario, mode):
    """RA-13: whatever is allowed, only commands known to be read-only run; `switch_mode` is free."""
    leave = {"name": "switch_mode", "args": {"mode": "default"}}
    python = {"name": "python", "args": {"code": "open('made', 'w')"}}
    calls = [write("a", "x"), shell("touch made"), python, shell("ls"), leave, write("a", "x")]
    denied, results = lived(scenario, *calls, flags=("--yolo", "--mode", mode))
    assert denied == [True, True, True, False, False, False]
    assert f"the mode {mode} allows no changes" in results[0]
    assert not (scenario.repo / "made").exists()


@pytest.mark.slow
def test_ralph_has_the_command_and_mentions_it_in_its_help(scenario):
    """RA-13."""
    asked = [["permissions", "check", "--", "touch", "x"], ["permissions", "--help"], ["--help"]]
    said = [scenario.call([RALPH, *args], code=0).stdout for args in asked]
    assert said[0] == snapshot("ask: `touch` is not known to be read-only, and no rule allows it [shell]\n")
    assert said[1].startswith("Usage: ralph permissions ")
    assert "ralph permissions check" in said[2]


def test_garbage_is_answered_without_a_traceback(scenario):
    """RA-14."""
    done = subprocess.run(
        [RALPH, "permissions", "check", "--jsonl"],
        cwd=scenario.repo,
        env=scenario.environ,
        input=b'\x00\xff\n{"tool":"shell","args":{"command":"\\u0000"}}\n[[[[\n{"tool":"read_file","args":{"path":5}}\n',
        capture_output=True,
        check=True,
    )
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert [answer.get("decision", "error") for answer in found] == ["error", "ask", "error", "allow"]
    assert done.stderr == b""
