"""Hooks in the real `ralph`: of a folder that is trusted or not, in the sandbox."""

import asyncio
import json
import os
import signal
from contextlib import suppress
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from builders import machine_sandbox
from support.scenario import action, calls_entry, plan_of, shell, text_entry, wait_until, write

NO_PUSH = """#!/bin/sh
if grep -q 'git push'; then echo "no agent pushes" >&2; exit 2; fi
"""
COPY = """cat > stopped.json; cp $(grep -o '/[^"]*jsonl' stopped.json) t.jsonl;"""
SETTINGS = {
    "hooks": {
        "PreToolUse": [
            {
                "matcher": "Bash",
                "hooks": [{"type": "command", "command": '"$CLAUDE_PROJECT_DIR"/.claude/hooks/no-push.sh'}],
            }
        ],
        "UserPromptSubmit": [{"hooks": [{"type": "command", "command": "echo 'It rains.'"}]}],
        "Stop": [{"hooks": [{"type": "command", "command": COPY + " touch ~/escaped || true"}]}],
    }
}


def place_hooks(repo, settings=SETTINGS):
    folder = repo / ".claude" / "hooks"
    folder.mkdir(parents=True)
    script = folder / "no-push.sh"
    script.write_text(NO_PUSH)
    script.chmod(0o755)
    (repo / ".claude" / "settings.json").write_text(json.dumps(settings))
    return script


def ralph(scenario, *args):
    done = scenario.call(scenario.command("ralph", *args, "--output-format", "stream-json"))
    return [json.loads(line) for line in done.stdout.splitlines()], done.stderr


@pytest.mark.slow
def test_a_hook_of_a_trusted_folder_blocks_a_push_and_one_of_another_does_not_run(scenario):
    """RA-16."""
    script = place_hooks(scenario.repo)
    pushing = calls_entry("agent", shell("git push origin main"), write(".claude/hooks/no-push.sh", "exit 0"), turn=1)
    cassette = f"cassette:{scenario.replies(pushing, text_entry('agent'))}"
    before, said = ralph(scenario, "push", "--model", cassette, "--yolo")
    assert "hooks of this folder ignored: folder not trusted" in said
    assert "no agent pushes" not in str(before)
    assert (
        'runs `"$CLAUDE_PROJECT_DIR"/.claude/hooks/no-push.sh` on PreToolUse'
        in scenario.scaffold("trust", "--show").stdout
    )
    scenario.scaffold("trust", "--yes", code=0)
    after, _ = ralph(scenario, "push", "--model", cassette, "--yolo")
    results = [each["content"] for each in after if each["type"] == "tool_result"]
    assert results[0] == snapshot("Denied by a hook: no agent pushes")
    assert "protected (.claude/hooks)" in results[1]
    assert script.read_text() == NO_PUSH
    told = json.loads((scenario.repo / "stopped.json").read_text())
    assert told["last_assistant_message"] == "done"
    lines = [json.loads(line) for line in (scenario.repo / "t.jsonl").read_text().splitlines()]
    assert [line["type"] for line in lines] == ["user", "assistant", "user", "assistant"]
    assert lines[1]["message"]["content"][0]["name"] == "Bash"
    assert '"name": "extensions"' in scenario.scaffold("doctor", "--json").stdout.replace('":"', '": "')
    if asyncio.run(machine_sandbox()).level != "none":
        assert not (scenario.home / "escaped").exists()
    script.write_text(NO_PUSH + "exit 0\n")
    changed, said = ralph(scenario, "push", "--model", cassette, "--yolo")
    assert ".claude/hooks/no-push.sh changed" in said
    assert "no agent pushes" not in str(changed)


RUN_SETTINGS = {
    "hooks": {
        "PreToolUse": SETTINGS["hooks"]["PreToolUse"],
        "PostToolUse": [
            {
                "matcher": "Write",
                "hooks": [{"type": "command", "command": "echo formatted >> x.txt; echo 'I formatted it' >&2; exit 2"}],
            }
        ],
        "WorktreeCreate": [
            {"hooks": [{"type": "command", "command": 'test -d "$CLAUDE_PROJECT_DIR"/.git -o -f .git'}]}
        ],
        "TaskCompleted": [
            {
                "hooks": [
                    {
                        "type": "command",
                        "command": "touch sneaked 2>/dev/null; grep -q tested x.txt || { echo say it >&2; exit 2; }",
                    }
                ]
            }
        ],
    }
}


@pytest.mark.slow
def test_hooks_guard_the_workers_of_a_run_as_they_were_trusted_at_its_start(scenario):
    """RA-16: a push is blocked, completed work is sent back, and no agent changes what guards it."""
    place_hooks(scenario.repo, RUN_SETTINGS)
    scenario.commit("hooks")
    scenario.scaffold("trust", "--yes", code=0)
    scenario.plan(plan_of(x=[action("x", effects=["made"], check="grep -q made x.txt", files=["x.txt"])]))
    scenario.cassette(
        x=[
            shell("git push origin main"),
            shell("echo 'exit 0' > .claude/hooks/no-push.sh; git push origin main"),
            write("x.txt", "made\n"),
            "done",
            shell("echo made and tested > x.txt"),
        ]
    )
    scenario.run("--yes", code=0)
    journal = scenario.journal("x", "x")
    assert journal.count("Denied by a hook: no agent pushes") == 2
    assert "I formatted it" in journal
    assert "say it" in journal
    session = scenario.status()["run"]["session_branch"]
    assert scenario.git("show", f"{session}:x.txt") == "made and tested\n"
    assert "sneaked" not in scenario.git("ls-tree", "-r", "--name-only", session)
    assert "no-push.sh" not in scenario.git("diff", "--name-only", "HEAD", session)


def _command_line(entry):
    try:
        return (entry / "cmdline").read_bytes().decode(errors="replace").replace("\0", " ").strip()
    except OSError:
        return ""


def hook_processes(mark):
    return [
        int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit() and _command_line(entry) == mark
    ]


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc").is_dir(), reason="it looks for processes in /proc")
def test_a_killed_run_leaves_no_hook_and_has_its_hooks_again_when_it_is_resumed(scenario):
    """RA-16: kill -9 while a hook runs; the run goes on with the hooks it began with, also if they are gone."""
    waiting = f"test -e {scenario.repo}/.git/gate || sleep 77.7"
    settings = {
        "hooks": {
            "PreToolUse": [
                *SETTINGS["hooks"]["PreToolUse"],
                {"matcher": "Write", "hooks": [{"type": "command", "command": waiting}]},
            ]
        }
    }
    script = place_hooks(scenario.repo, settings)
    scenario.scaffold("trust", "--yes")
    scenario.plan(plan_of(x=[action("x", effects=["made"], check="test -f x.txt", files=["x.txt"])]))
    scenario.cassette(x=[shell("git push origin main"), write("x.txt", "made\n")])
    run = scenario.start(scenario.run_command("--yes"))
    assert wait_until(lambda: hook_processes("sleep 77.7")), scenario.said()
    for pid in scenario.processes():
        if "sleep 77.7" not in _command_line(Path("/proc", str(pid))):
            with suppress(ProcessLookupError):  # it ended with the one before it
                os.kill(pid, signal.SIGKILL)
    run.wait()
    assert wait_until(lambda: not hook_processes("sleep 77.7"))
    script.unlink()
    (scenario.repo / ".claude" / "settings.json").unlink()
    (scenario.repo / ".git" / "gate").touch()
    scenario.scaffold("resume", code=0)
    # The conversation goes on: what was denied before the kill is not asked again.
    assert scenario.journal("x", "x").count("Denied by a hook: no agent pushes") == 1
