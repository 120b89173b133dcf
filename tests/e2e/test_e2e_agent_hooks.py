"""Hooks in the real `ralph`: of a folder that is trusted or not, in the sandbox."""

import asyncio
import json

import pytest

from builders import machine_sandbox
from support.scenario import Scenario, action, calls_entry, plan_of, shell, text_entry, write

NO_PUSH = """#!/bin/sh
if grep -q 'git push'; then echo "no agent pushes" >&2; exit 2; fi
"""
SETTINGS = {
    "hooks": {
        "PreToolUse": [
            {
                "matcher": "Bash",
                "hooks": [{"type": "command", "command": '"$CLAUDE_PROJECT_DIR"/.claude/hooks/no-push.sh'}],
            }
        ],
        "UserPromptSubmit": [{"hooks": [{"type": "command", "command": "echo 'It rains.'"}]}],
        "Stop": [{"hooks": [{"type": "command", "command": "cat > stopped.json; touch ~/escaped || true"}]}],
    }
}


@pytest.fixture
def scenario(tmp_path):
    return Scenario(tmp_path)


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
    assert scenario.scaffold("trust", "--yes").returncode == 0
    after, _ = ralph(scenario, "push", "--model", cassette, "--yolo")
    results = [each["content"] for each in after if each["type"] == "tool_result"]
    assert results[0] == "Denied by a hook: no agent pushes"
    assert "protected (.claude/hooks)" in results[1]
    assert script.read_text() == NO_PUSH
    told = json.loads((scenario.repo / "stopped.json").read_text())
    assert told["last_assistant_message"] == "done"
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
    assert scenario.scaffold("trust", "--yes").returncode == 0
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
    done = scenario.run("--yes")
    assert done.returncode == 0, done.stdout + done.stderr
    journal = scenario.journal("x", "x")
    assert journal.count("Denied by a hook: no agent pushes") == 2
    assert "I formatted it" in journal
    assert "say it" in journal
    session = scenario.status()["run"]["session_branch"]
    assert scenario.git("show", f"{session}:x.txt") == "made and tested\n"
    assert "sneaked" not in scenario.git("ls-tree", "-r", "--name-only", session)
    assert "no-push.sh" not in scenario.git("diff", "--name-only", "HEAD", session)
