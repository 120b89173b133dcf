"""Every tool of a session, by the real command: its effects are real, and its answers are true."""

import json
import os
import signal
import zipfile

import pytest
import yaml
from inline_snapshot import snapshot

from scaffold.tools.catalog import all_tools
from scaffold.tools.todos import Todos
from scaffold.tools.workspace import Workspace
from support.scenario import COMMAND_S, shell, wait_until, write

OWN_TOOL = '''
from typing import Literal

def count_words(text: str, unit: Literal["words", "letters"] = "words") -> dict:
    """Count what a text is made of.

    text: whatever it is.
    """
    print("counting")
    return {unit: len(text.split() if unit == "words" else text)}

def undocumented(text: str) -> str:
    return text
'''


def call(tool, /, **args):
    return {"name": tool, "args": args}


def replies(scenario, *steps):
    """Write a cassette: each step is the calls of one reply, or its final text."""
    entries = [
        {"when": {"role": "agent", "turn": turn}, **({"text": step} if isinstance(step, str) else {"tool_calls": step})}
        for turn, step in enumerate(steps, start=1)
    ]
    path = scenario.home / "ralph.yaml"
    path.write_text(yaml.safe_dump({"version": 1, "replies": entries}))
    return f"cassette:{path}"


def told(done):
    """Return the events of a call, and the results of its tools as (name, content, failed)."""
    events = [json.loads(line) for line in done.stdout.splitlines()]
    results = [(event["name"], event["content"], event["failed"]) for event in events if event["type"] == "tool_result"]
    return events, results


def ralph(scenario, model, *flags):
    done = scenario.scaffold("ralph", "-p", "go", "--model", model, "--output-format", "stream-json", *flags, code=0)
    return told(done)


def wheel(folder, name):
    """Build a pure package of one module that contains its name."""
    folder.mkdir()
    with zipfile.ZipFile(folder / f"{name}-1.0-py3-none-any.whl", "w") as made:
        info = f"{name}-1.0.dist-info"
        made.writestr(f"{name}.py", f"NAME = {name!r}\n")
        made.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        made.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        made.writestr(f"{info}/RECORD", "")


@pytest.mark.slow
def test_every_tool_does_what_it_says(scenario):
    """RA-4, RA-5, RA-19: one session uses each of them, and the files are there afterwards."""
    wheel(scenario.home / "wheels", "alpha_pure")
    (scenario.home / ".config" / "pip").mkdir(parents=True)
    settings = f"[global]\nno-index = true\nfind-links = {scenario.home / 'wheels'}\n"
    (scenario.home / ".config" / "pip" / "pip.conf").write_text(settings)
    own = scenario.home / "scaffold" / "config" / "tools"
    own.mkdir(parents=True)
    (own / "counting.py").write_text(OWN_TOOL)
    look = call("read_file", path="notes/a.txt")
    delta = {"operation": "replace", "start_line": 2, "expected": "two", "content": "zwei"}
    steps = [
        [call("TodoWrite", todos=[{"content": "write it", "status": "in_progress"}, {"content": "check it"}])],
        [call("switch_mode", mode="debug")],
        [write("notes/a.txt", "one\ntwo\n"), call("append_file", path="notes/a.txt", content="three\n")],
        [look, call("list_dir", path="notes"), look, call("file_info", path="notes/a.txt")],
        [call("apply_delta", path="notes/a.txt", operations=[delta]), look],
        [call("edit", path="notes/a.txt", old="three\n", new="drei\n")],
        [call("search_files", pattern="zwei", glob="*.txt"), shell("wc -l < notes/a.txt")],
        [call("glob", pattern="a.*")],
        [call("python", code="print(sum(range(5)))"), call("web_fetch", url="http://127.0.0.1:9/x")],
        [call("pip_install", packages=["alpha_pure"]), call("pip_list", name="alpha")],
        [call("python", code="import alpha_pure; print(alpha_pure.NAME)")],
        [call("count_words", text="a b c"), call("count_words", text="abcd", unit="letters")],
        [
            call("TodoWrite", action="update", todos=[{"id": 1, "status": "completed"}]),
            call("TodoRead", status="pending"),
        ],
        [call("apply_patch", input="*** Begin Patch\n*** Add File: notes/b.txt\n+b\n*** End Patch")],
        "all done",
    ]
    events, results = ralph(scenario, replies(scenario, *steps), "--yolo")
    assert events[-1]["result"] == "all done"
    assert (scenario.repo / "notes" / "a.txt").read_text() == "one\nzwei\ndrei\n"
    assert [name for name, _, failed in results if failed] == ["web_fetch"]
    said = [content for _, content, _ in results]
    assert said[0] == "[>] 1. write it\n[ ] 2. check it"
    assert said[1] == snapshot("The mode is now debug (it was default).")
    assert said[4] == said[6] == "notes/a.txt: total_lines 3, range 1-3\n1\tone\n2\ttwo\n3\tthree"
    assert " 14 " in said[5]
    assert json.loads(said[7])["total_lines"] == 3
    assert "-two\n" in said[8]
    assert "+zwei" in said[8]
    assert "2\tzwei" in said[9]
    assert "-three\n+drei" in said[10]
    assert "notes/a.txt" in said[11]
    assert said[12].startswith("exit code 0")
    assert "\n3" in said[12]
    assert said.pop(13) == "1 found\nnotes/a.txt"
    assert "\n10" in said[13]
    assert "127.0.0.1 is on this machine or its network" in said[14]
    assert json.loads(said[16]) == [{"name": "alpha_pure", "version": "1.0", "added": True}]
    assert "alpha_pure" in said[17]
    assert said[18:20] == ['{"words": 3}\n--- printed\ncounting', '{"letters": 4}\n--- printed\ncounting']
    assert said[20] == "[x] 1. write it\n[ ] 2. check it"
    assert [entry["content"] for entry in json.loads(said[21])] == ["check it"]
    assert said[22] == "notes/b.txt created: 1 line."
    notices = [event["text"] for event in events if event["type"] == "notice"]
    others = [text for text in notices if not text.startswith("no sandbox: ")]
    assert ["undocumented has no docstring" in text for text in others] == [True]
    folder = scenario.home
    known = all_tools(Workspace(folder, {}), fetch=lambda args: None, todos=Todos(), packages=folder)
    assert {tool.name for tool in known} <= {name for name, _, _ in results}


@pytest.mark.slow
def test_each_tool_that_needs_approval_is_denied_and_todos_are_free(scenario):
    """RA-4, RA-13: a one-shot call cannot ask; an agent's own list and mode change nothing of the user's."""
    steps = [
        [call("append_file", path="a", content="x"), call("apply_delta", path="README.md", operations=[])],
        [call("python", code="open('a', 'w')"), call("web_fetch", url="http://example.invalid/")],
        [call("pip_install", packages=["x"]), call("TodoWrite", todos=[{"content": "a"}])],
        [call("switch_mode", mode="plan"), call("pip_list", name="none such"), call("file_info", path="README.md")],
        "ok",
    ]
    _, results = ralph(scenario, replies(scenario, *steps), "--sandbox", "off")
    denied = [name for name, content, _ in results if content.startswith("Denied: ")]
    assert denied == ["append_file", "apply_delta", "python", "web_fetch", "pip_install"]
    assert [failed for _, _, failed in results] == [True] * 5 + [False] * 4
    assert not (scenario.repo / "a").exists()


@pytest.mark.slow
def test_mode_and_todos_are_restored_when_a_conversation_continues(scenario):
    """RA-5, RA-10: the next process begins with what the last one stored."""
    model = replies(
        scenario, [call("TodoWrite", todos=[{"content": "mend the clock"}])], [call("switch_mode", mode="plan")], "ok"
    )
    ralph(scenario, model)
    model = replies(scenario, [call("TodoRead"), call("switch_mode", mode="debug")], "ok")
    _, results = ralph(scenario, model, "-c")
    assert json.loads(results[0][1])[0]["content"] == "mend the clock"
    assert results[1][1] == snapshot("The mode is now debug (it was plan).")
    _, results = ralph(
        scenario, replies(scenario, [call("switch_mode", mode="default")], "ok"), "-c", "--mode", "review"
    )
    assert results[0][1] == snapshot("The mode is now default (it was review).")


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_todos_are_durable_as_soon_as_the_tool_has_answered(scenario, how):
    """RA-5, RA-21: an interruption, or a kill, in the next call loses nothing; finished results stay."""
    todos = call("TodoWrite", todos=[{"content": "mend the clock"}])
    model = replies(scenario, [todos, shell("touch out/begun; sleep 60")], "ok")
    work = scenario.start(scenario.command("ralph", "-p", "go", "--model", model, "--yolo"))
    assert wait_until((scenario.out / "begun").exists)
    os.kill(work.pid, how)
    work.wait(COMMAND_S)
    _, results = ralph(scenario, replies(scenario, [call("TodoRead")], [call("TodoRead")], "ok"), "-c")
    assert json.loads(results[0][1])[0]["content"] == "mend the clock"
    scenario.wait_for_end()


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL, None])
def test_a_background_command_works_on_and_ends_with_its_session(scenario, how):
    """RA-4: after the last reply, after Ctrl-C, and after `kill -9`; its output is read in later calls."""
    begin = {"command": "echo begun; touch out/begun; exec sleep 600", "background": True}
    wait = [shell("until [ -e out/begun ]; do sleep 0.05; done"), call("background", id="bg-1")]
    model = replies(scenario, [call("shell", **begin)], wait, [shell("touch out/waits; sleep 60")] if how else "ok")
    if how is None:
        _, results = ralph(scenario, model, "--yolo")
        assert results[0][1].startswith("bg-1 runs in the background.")
        assert results[2][1].endswith("\n--- output\nbegun")
    else:
        work = scenario.start(scenario.command("ralph", "-p", "go", "--model", model, "--yolo"))
        assert wait_until((scenario.out / "waits").exists)
        os.kill(work.pid, how)
        work.wait(COMMAND_S)
    scenario.wait_for_end()


@pytest.mark.slow
def test_a_command_that_the_sandbox_cut_off_says_what_to_do(scenario):
    """RA-4: the agent need not guess why a command failed that works for its user."""
    command = shell("touch ../made-by-an-agent")
    events, results = ralph(scenario, replies(scenario, [command], "ok"), "--yolo")
    if any(event.get("text", "").startswith("no sandbox: ") for event in events):
        pytest.skip("there is no sandbox on this machine")
    assert results[0][1].splitlines()[-1].startswith("--- notice: in the sandbox only the workspace and $TMPDIR are")


@pytest.mark.slow
def test_a_tool_file_that_cannot_be_loaded_is_reported_and_the_work_continues(scenario):
    """RA-4: so is one that takes the name of a built-in tool."""
    own = scenario.home / "scaffold" / "config" / "tools"
    own.mkdir(parents=True)
    (own / "broken.py").write_text("import nothing_of_the_kind\n")
    (own / "taken.py").write_text('def shell(command: str) -> str:\n    """Do nothing."""\n    return ""\n')
    done = scenario.scaffold("ralph", "-p", "go", "--model", replies(scenario, [call("list_dir", path=".")], "ok"))
    assert (done.returncode, done.stdout) == (0, "ok\n")
    assert "broken.py: loading failed (ModuleNotFoundError" in done.stderr
    assert "taken.py: there is already a tool `shell`" in done.stderr


@pytest.mark.slow
def test_a_continued_conversation_knows_the_files_that_it_has_read(scenario):
    """RA-4, RA-10: it replaces a file without reading it again, unless that changed since."""
    readme = scenario.repo / "README.md"
    ralph(scenario, replies(scenario, [call("read_file", path="README.md")], "ok"), "--yolo")
    writing = [call("write_file", path="README.md", content="mine\n")]
    _, results = ralph(scenario, replies(scenario, writing, "ok"), "-c", "--yolo")
    assert [failed for _, _, failed in results] == [False]
    readme.write_text("the user's\n")
    _, results = ralph(scenario, replies(scenario, writing, "ok"), "-c", "--yolo")
    assert results[0][1].startswith("README.md was changed since you read it")
    assert readme.read_text() == "the user's\n"
    _, results = ralph(scenario, replies(scenario, writing, "ok"), "--yolo")
    assert results[0][1].startswith("README.md exists and was not read in this conversation")
