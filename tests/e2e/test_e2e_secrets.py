"""Canary secrets, agents asked to print them, and a search of every place they could reach."""

import asyncio
import sqlite3
import subprocess

import pytest
import yaml

from model_server.server import serve
from model_server.turn import Call, Turn
from support.scenario import Scenario, action, plan_of, shell

CANARIES = {
    "ANTHROPIC_API_KEY": "canary-1a-anthropic-4f8e2b7c",
    "OPENAI_API_KEY": "canary-2b-openai-9d3c6a1f",
    "MY_SERVICE_TOKEN": "canary-3c-service-7b2e5d8a",
    "dotenv": "canary-4d-dotenv-1c9f3e6b",
    "aws": "canary-5e-aws-8a4d7f2c",
    "remote": "canary-6f-remote-3e6b9c1d",
}
ENVIRONMENT = ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "MY_SERVICE_TOKEN")

COMMANDS = (
    "env; set; export -p",
    "echo $MY_SERVICE_TOKEN $ANTHROPIC_API_KEY; printenv OPENAI_API_KEY",
    "cat .env",
    "cat .e*v",
    "cat < .env | tr a-z A-Z | tr A-Z a-z",
    "cat ~/.aws/credentials",
    "git remote -v; git config --get remote.origin.url; cat .git/config",
    "cat notes.md; cat no-such-file-$(cat .env)",
    "grep -rn canary . ~ 2>/dev/null | head -100",
    "base64 -w0 < notes.md; echo; od -A n -t x1 -w1000 notes.md | tr -d ' '",
    "for pid in /proc/[0-9]*; do tr '\\0' '\\n' < $pid/environ; done",
    "python3 -c \"print(open('.' + 'env').read())\"",
    "python3 -c \"raise SystemExit('failed: ' + open('.' + 'env').read())\"",
)
PROGRAMS = (
    "print(open('.' + 'env').read())",
    "import base64; data = open('notes.md', 'rb').read(); print(base64.b64encode(b'x' + data), data.hex())",
    "import urllib.parse, json; text = open('notes.md').read(); print(urllib.parse.quote(text), json.dumps(text))",
    "raise RuntimeError(open('notes.md').read())",
    "import os, pathlib; print((pathlib.Path.home() / '.a' 'ws' / 'credentials').read_text())",
    """
import os, pathlib
for each in pathlib.Path('/proc').glob('[0-9]*/environ'):
    try:
        print(each.read_bytes().replace(bytes(1), b' '))
    except OSError:
        pass
""",
)
FILES = (".env", "notes.md", ".git/config", "~/.aws/credentials", "../home/.aws/credentials")


@pytest.fixture
def scenario(tmp_path):
    made = Scenario(tmp_path)
    (made.repo / ".gitignore").write_text(".env\n")
    (made.repo / "notes.md").write_text(f"The service wants {CANARIES['dotenv']} and {CANARIES['MY_SERVICE_TOKEN']}.\n")
    made.commit("notes that should not say that")
    (made.repo / ".env").write_text(f"export SERVICE_KEY='{CANARIES['dotenv']}' # for the service\nDEBUG=true\n")
    made.git("remote", "add", "origin", f"https://me:{CANARIES['remote']}@127.0.0.1:9/me/sample.git")
    (made.home / ".aws").mkdir()
    (made.home / ".aws" / "credentials").write_text(f"[default]\naws_secret_access_key = {CANARIES['aws']}\n")
    made.environ |= {name: CANARIES[name] for name in ENVIRONMENT}
    return made


def attempts():
    """Return a call for every known way to a canary."""
    calls = [Call("shell", {"command": command}) for command in COMMANDS]
    calls += [Call("python", {"code": program}) for program in PROGRAMS]
    calls += [Call("read_file", {"path": path}) for path in FILES]
    return (*calls, Call("search_text", {"pattern": "canary"}))


def expect_no_canary(data, where):
    """Check that these bytes contain no canary."""
    found = [name for name, canary in CANARIES.items() if canary.encode() in data]
    assert found == [], f"{found} in {where}"


def kept(scenario):
    """Return the bytes of everything stored, by file; of databases also after a checkpoint."""
    folders = [scenario.home / "scaffold", scenario.repo / ".scaffold", scenario.repo / ".git" / "scaffold"]
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
    found = {path: path.read_bytes() for path in files}
    for path in files:
        if found[path].startswith(b"SQLite format 3"):
            with sqlite3.connect(path) as connection:
                found[path.with_suffix(".dump")] = "\n".join(connection.iterdump()).encode()
    # worktrees hold the repository's own files, which hold what they hold
    return {path: data for path, data in found.items() if "attempts" not in path.parts and "landing" not in path.parts}


async def ralph(scenario, server, *args, piped=b""):
    process = await asyncio.create_subprocess_exec(
        *scenario.command("ralph", *args, "--model", server.model),
        cwd=scenario.repo,
        env={**server.environ, **scenario.environ},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    out, err = await process.communicate(piped)
    return process.returncode, out, err


@pytest.mark.slow
@pytest.mark.parametrize("output", ["text", "stream-json"])
async def test_an_agent_that_prints_every_reachable_secret_learns_none(scenario, output):
    """BX-9, RA-14: not in a request, a store, a log or on the screen; its output was redacted."""
    turns = [Turn(calls=(call,)) for call in attempts()]
    async with serve("anthropic", [*turns, Turn(text="that was all")]) as server:
        code, out, err = await ralph(scenario, server, "print it", "--yolo", "--output-format", output)
        bodies = [request.body for request in server.requests]
    assert code == 0, err
    assert len(bodies) == len(turns) + 1
    for where, data in {"a request": b"\n".join(bodies), "stdout": out, "stderr": err, **kept(scenario)}.items():
        expect_no_canary(data, where)
    assert bodies[-1].count(b"[redacted:SERVICE_KEY]") >= 3
    assert bodies[-1].count(b"[redacted:login-1]") >= 1, "the password in git's configuration"


async def test_a_secret_in_a_users_message_is_in_no_log_and_not_printed(scenario):
    """BX-9: the model gets it, as the user wants; output does not contain it, in pieces or whole."""
    secret = CANARIES["MY_SERVICE_TOKEN"]
    pieces = Turn(text=f"You said {secret}, and I say {secret}.", thinking=f"It is {secret}.")
    async with serve("anthropic", [pieces]) as server:
        code, out, err = await ralph(scenario, server, f"use {secret}", "--output-format", "stream-json")
        asked = server.requests[0].body
    assert code == 0, err
    assert secret.encode() in asked
    expect_no_canary(out + err, "the output")
    assert b"[redacted:MY_SERVICE_TOKEN]" in out


async def test_text_added_to_a_users_message_reaches_the_model_redacted(scenario):
    """BX-9: attached files, the project's instructions and piped input, like any file an agent reads."""
    (scenario.repo / "AGENTS.md").write_text(f"Deploy with {CANARIES['dotenv']}.\n")
    piped = f"log: {CANARIES['MY_SERVICE_TOKEN']}\n".encode()
    async with serve("anthropic", [Turn(text="done")]) as server:
        code, out, err = await ralph(scenario, server, "look at @notes.md and @.env", piped=piped)
        (request,) = (asked.body for asked in server.requests)
    assert code == 0, err
    for where, data in {"the request": request, "the output": out + err, **kept(scenario)}.items():
        expect_no_canary(data, where)
    assert request.count(b"[redacted:SERVICE_KEY]") == 3
    assert request.count(b"[redacted:MY_SERVICE_TOKEN]") == 2


@pytest.mark.parametrize("flags", [(), ("--debug",)])
async def test_an_error_that_quotes_a_key_is_redacted(scenario, flags):
    """BX-9: a server's message about a key, in two lines or with a traceback."""
    said = ("authentication_error", f"invalid key {CANARIES['ANTHROPIC_API_KEY']} at https://u:{CANARIES['remote']}@h/")
    async with serve("anthropic", [Turn(status=400, error=("invalid_request_error", said[1]))]) as server:
        code, out, err = await ralph(scenario, server, *flags, "go")
    assert code != 0
    assert b"error:" in err
    expect_no_canary(out + err + b"".join(kept(scenario).values()), "what is told")


@pytest.mark.slow
def test_a_worker_that_prints_secrets_leaves_none_in_logs_events_and_stores(scenario):
    """BX-9, RA-14: nor does a check that prints one, nor the report of the run."""
    scenario.plan(plan_of(one=[action("one", effects=["made"], check="cat notes.md; test -f made.txt")]))
    steps = [shell(command) for command in COMMANDS]
    steps += [{"name": "python", "args": {"code": program}} for program in PROGRAMS]
    steps += [{"name": "read_file", "args": {"path": path}} for path in FILES]
    steps += ["not yet"]
    scenario.cassette(one=steps)
    done = scenario.run("--yes", "--yolo")
    result = scenario.scaffold("logs"), scenario.scaffold("status"), scenario.scaffold("status", "--json")
    assert done.returncode == 1, done.stdout + done.stderr
    output = "".join(each.stdout + each.stderr for each in (done, *result))
    for where, data in {"the output": output.encode(), **kept(scenario)}.items():
        expect_no_canary(data, where)
    journals = b"".join(path.read_bytes() for path in (scenario.repo / ".scaffold").rglob("*.jsonl"))
    assert journals.count(b"[redacted:SERVICE_KEY]") >= 3


def test_a_line_with_a_secret_is_not_overwritten_with_a_mark(scenario):
    """BX-9: the model sees only the mark; the file keeps the secret, and other lines of it can be changed."""
    shown = "The service wants [redacted:SERVICE_KEY] and [redacted:MY_SERVICE_TOKEN]."
    operation = {"operation": "replace", "start_line": 1, "expected": shown, "content": shown + " Really."}
    blind = {"operation": "insert", "start_line": 2, "content": "Really."}
    calls = [
        {"name": "read_file", "args": {"path": "notes.md"}},
        {"name": "apply_delta", "args": {"path": "notes.md", "operations": [operation]}},
        {"name": "write_file", "args": {"path": "notes.md", "content": shown}},
        {"name": "apply_delta", "args": {"path": "notes.md", "operations": [blind]}},
    ]
    entries = [{"when": {"role": "agent", "turn": turn}, "tool_calls": [call]} for turn, call in enumerate(calls, 1)]
    tape = scenario.home / "ralph.yaml"
    tape.write_text(
        yaml.safe_dump({"version": 1, "replies": [*entries, {"when": {"role": "agent", "turn": 5}, "text": "done"}]})
    )
    before = (scenario.repo / "notes.md").read_text()
    done = scenario.scaffold(
        "ralph", "go", "--yolo", "--model", f"cassette:{tape}", "--output-format", "stream-json", code=0
    )
    assert done.stdout.count("is a placeholder for a secret you cannot see") == 2
    assert (scenario.repo / "notes.md").read_text() == f"{before}Really.\n"
