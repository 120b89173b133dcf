"""One agent, one task, by the real command."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from inline_snapshot import snapshot

from support.scenario import shell, write

RALPH = Path(sys.executable).with_name("ralph")


def replies(scenario, *steps):
    """Write a cassette for `ralph` itself: each step in a separate reply."""
    entries = [
        {
            "when": {"role": "agent", "turn": turn},
            **({"text": step} if isinstance(step, str) else {"tool_calls": [step]}),
        }
        for turn, step in enumerate(steps, start=1)
    ]
    path = scenario.home / "ralph.yaml"
    path.write_text(yaml.safe_dump({"version": 1, "replies": entries}))
    return f"cassette:{path}"


@pytest.mark.slow
@pytest.mark.parametrize("call", [write("made.txt", "x"), shell("echo x > made.txt")])
def test_a_call_that_needs_approval_is_denied_and_the_work_continues(scenario, call):
    """RA-13: without a terminal and without --yolo, writing and commands are denied, and the model is told so.

    The decision is recorded beside the conversation.
    """
    model = replies(scenario, call, "I was not allowed to")
    done = scenario.scaffold("ralph", "make it", "--model", model, "--output-format", "stream-json")
    data = {event["type"]: event for event in map(json.loads, done.stdout.splitlines())}
    assert (done.returncode, data["result"]["result"]) == snapshot((0, "I was not allowed to"))
    assert not (scenario.repo / "made.txt").exists()
    assert data["approval"]["decision"] == "deny"
    assert data["tool_result"]["content"].startswith("Denied: ")
    (record,) = scenario.home.parent.rglob(f"approvals/{data['result']['session_id']}.jsonl")
    decided = json.loads(record.read_text())
    assert (decided["decision"], json.loads(decided["args"])) == ("deny", call["args"])


@pytest.mark.slow
def test_edits_can_be_accepted_from_the_beginning(scenario):
    """RA-13: `--accept-edits` allows what the mode does, so not what other programs obey, also by a link."""
    (scenario.repo / "innocent.txt").symlink_to("Makefile")
    model = replies(scenario, write("a.txt", "x"), write("innocent.txt", "x"), "over")
    done = scenario.scaffold("ralph", "go", "--accept-edits", "--model", model, "--output-format", "json")
    (denied,) = json.loads(done.stdout)["permission_denials"]
    assert (scenario.repo / "a.txt").read_text() == "x"
    assert "accepting edits does not cover Makefile" in denied["reason"]


@pytest.mark.slow
def test_a_session_in_its_own_worktree_leaves_the_checkout_alone_and_keeps_what_it_made(scenario):
    """BX-1: the work stays where it was made until its user takes it, by the command that is printed."""
    model = replies(scenario, write("a.txt", "x"), "made")
    done = scenario.scaffold("ralph", "go", "--worktree", "--yolo", "--model", model)
    assert (done.returncode, done.stdout.strip()) == (0, "made")
    (take,) = (line for line in done.stderr.splitlines() if "git apply" in line)
    assert scenario.git("status", "--porcelain") == ""
    subprocess.run(["sh", "-c", take], cwd=scenario.repo, check=True, capture_output=True)
    assert (scenario.repo / "a.txt").read_text() == "x"
    idle = scenario.scaffold("ralph", "go", "--worktree", "--model", replies(scenario, "nothing to do"))
    assert idle.stderr.strip() == "nothing was changed: the worktree is removed"
    assert scenario.git("worktree", "list").count("repo-") == 1
    refused = scenario.scaffold("ralph", "-c", "go", "--worktree")
    assert (refused.returncode, refused.stderr.splitlines()[0]) == (
        64,
        "error: a conversation goes on in its own folder",
    )


@pytest.mark.slow
@pytest.mark.parametrize("args", [("ralph", "hi"), ("status",)])
def test_a_missing_directory_is_reported_as_such(scenario, args):
    gone = scenario.home / "gone"
    gone.mkdir()
    model = replies(scenario, "hi") if args[0] == "ralph" else ""
    finished = subprocess.run(
        ["sh", "-c", f"rmdir {gone}; exec {shlex.join(scenario.command(*args))}"],
        cwd=gone,
        env=scenario.environ | {"SCAFFOLD_MODEL": model},
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 64
    assert finished.stderr.startswith("error: the current directory no longer exists\n")


@pytest.mark.slow
def test_the_command_is_called_by_its_name_alone():
    finished = subprocess.run([RALPH, "--bogus"], capture_output=True, text=True, check=False)
    assert finished.returncode == 64
    assert "`ralph --help`" in finished.stderr
    assert "--debug" in subprocess.run([RALPH, "--help"], capture_output=True, text=True, check=True).stdout


@pytest.mark.slow
@pytest.mark.parametrize(("closed", "code"), [("2>&-", 0), (">/dev/full", 1)])
def test_closed_output_is_reported_in_at_most_two_lines(scenario, closed, code):
    # Otherwise a machine that has no sandbox adds a line about that.
    command = shlex.join(scenario.command("ralph", "hi", "--sandbox", "off", "--model", replies(scenario, "hi")))
    finished = scenario.call(["sh", "-c", f"{command} {closed}"])
    assert finished.returncode == code, finished.stderr
    assert finished.stdout == ("hi\n" if code == 0 else "")
    assert len(finished.stderr.splitlines()) == (0 if code == 0 else 2)


def test_without_a_task_it_says_so(scenario):
    done = scenario.scaffold("ralph", code=64)
    assert "no task" in done.stderr
    assert done.stdout == ""


@pytest.mark.slow
def test_a_misspelled_command_is_no_task(scenario):
    done = scenario.scaffold("ralph", "logni", "--model", replies(scenario, "logging in"))
    assert (done.returncode, done.stdout) == (64, "")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rule", "made"),
    [
        (("--allow", "shell:echo *"), False),
        (("--allow", "shell:touch *"), True),
        (("--allow-category", "shell"), True),
        (("--yolo",), True),
    ],
)
def test_a_rule_allows_only_what_it_matches(scenario, rule, made):
    """RA-13: `--allow`, `--allow-category` and `--yolo` give the approval that no user is there to give."""
    scenario.scaffold("ralph", "make it", "--model", replies(scenario, shell("touch out/made.txt"), "ok"), *rule)
    assert (scenario.out / "made.txt").exists() is made


def test_protected_files_stay_protected_whatever_is_allowed(scenario):
    """RA-13: `--yolo` never lifts protected files."""
    model = replies(scenario, write(".git/hooks/pre-commit", "x"), write(".env", "x"), "ok")
    done = scenario.scaffold("ralph", "make it", "--model", model, "--yolo")
    assert done.stdout == "ok\n"
    assert not (scenario.repo / ".env").exists()
    assert not (scenario.repo / ".git" / "hooks" / "pre-commit").exists()


def test_models_can_be_listed_without_one(scenario):
    """RA-1: `/model` needs neither a model nor a key."""
    done = scenario.scaffold("ralph", "/model", code=0)
    assert "anthropic:NAME (claude-" in done.stdout, "what it would be with a key"


@pytest.mark.slow
def test_ralph_is_a_separate_command(scenario):
    """It has a version, a help that names it, and tracebacks on request."""

    def call(*args):
        return scenario.call([sys.executable, "-c", "from scaffold.cli.main import ralph; ralph()", *args])

    assert call("--version").stdout.startswith("ralph, version ")
    assert call("-h").stdout.startswith("Usage: ralph [OPTIONS] [TASK]")
    assert "Traceback" not in call("hi").stderr
    asked = call("--debug", "hi")
    assert (asked.returncode, "Traceback" in asked.stderr) == (64, True)


def test_a_folder_may_have_an_undecodable_name(scenario, tmp_path):
    """RA-2: every line of the stream is JSON all the same."""
    folder = tmp_path / os.fsdecode(b"caf\xe9")
    folder.mkdir()
    model = replies(scenario, "here")
    done = scenario.scaffold("ralph", "hi", "--model", model, "--cwd", folder, "--output-format", "stream-json")
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert (done.returncode, events[0]["cwd"], events[-1]["result"]) == (0, f"{tmp_path}/caf\\udce9", "here")
