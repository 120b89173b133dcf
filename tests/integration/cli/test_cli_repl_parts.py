"""Parts of a talk on real files: completion, tools at work with their diffs, the transcript, the history."""

import asyncio
import json

import pytest
from inline_snapshot import snapshot
from prompt_toolkit.history import InMemoryHistory

from fakes import tool
from scaffold.cli.repl.approval_queue import ApprovalQueue, format_question, proposed_change
from scaffold.cli.repl.dumb_terminal import DumbTerminal
from scaffold.cli.repl.input_completion import command_suggestions, file_suggestions
from scaffold.cli.repl.input_history import open_history
from scaffold.cli.repl.renderer import Renderer
from scaffold.cli.repl.terminal import terminal_colors
from scaffold.cli.repl.transcript import Transcript
from scaffold.cli.repl.user_input import PendingInput
from scaffold.core.conversation import (
    AssistantMessage,
    Image,
    RetryWait,
    StreamReset,
    Text,
    TextDelta,
    Thinking,
    ThinkingDelta,
    ToolCall,
    ToolResult,
    UserMessage,
)
from scaffold.core.tool import ToolOutput
from scaffold.policy.permission.approval_gate import ApprovalGate, ApprovalQuestion
from scaffold.policy.rule.ruleset import RuleSet
from scaffold.policy.shell.command_policy import ShellCommandPolicy
from scaffold.policy.shell.workspace_paths import WorkspacePaths
from scaffold.session.running_tools import RunningTools
from scaffold.session.slash.syntax import COMMANDS
from scaffold.session.user_command import command_note
from scaffold.tools.file.append import append_file
from scaffold.tools.file.edit_lines import apply_delta, edit
from scaffold.tools.file.read_write import write_file
from scaffold.tools.workspace import Workspace
from support.fake_clock import FakeClock


class Page:
    """Keeps what is shown."""

    renderer = Renderer(width=60, plain=True)
    echoes = False

    def __init__(self):
        self.shown = []

    def show(self, text):
        self.shown.append(text)


def names(command):
    return {"mode": [("plan", "think")]}.get(command, [])


def files(before, cwd):
    return [offer.text for offer in file_suggestions(before, cwd)]


COMPLETED = {
    "/mo": ["/model ", "/mode "],
    "/qu": ["/quit"],
    "/mode ": ["plan"],
    "/MODE PL": ["plan"],
    "/goals r": ["ready"],
    "/cost x": [],
    "say /mo": [],
    "/usr/bin": [],
}


def test_commands_and_their_arguments_are_completed():
    """RA-18."""
    offered = {before: [each.text for each in command_suggestions(before, names, COMMANDS)] for before in COMPLETED}
    assert offered == COMPLETED


def test_files_are_completed_folder_by_folder_without_git(tmp_path):
    """RA-18."""
    for name in ("src/main.py", "src/deep/er/buried.py", ".git/config", "node_modules/x/buried.js", "a b.txt", ".env"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    assert files("see @", tmp_path) == ["node_modules/", "src/", '"a b.txt"']
    assert files("see @src/", tmp_path) == ["src/deep/", "src/main.py"]
    assert files("@SR", tmp_path)[0] == "src/"
    assert files("@.", tmp_path) == [".env"]
    assert files("@buri", tmp_path) == ["src/deep/er/buried.py"]
    assert files('@"a b', tmp_path) == ['"a b.txt"']
    assert files("mail@src", tmp_path) == []
    assert files("@nowhere/x", tmp_path) == []
    for name in ('say "hi".txt', "say\nthis.txt", "say-that.txt"):  # no quotes hold a quote or a line's end
        (tmp_path / name).touch()
    assert files("@say", tmp_path) == ["say-that.txt"]


async def finished_call(tmp_path, make_tool, **args):
    """Run a writing tool and return the finished call."""
    done = []
    running = RunningTools(tmp_path, FakeClock(), done.append)
    await running.watch(make_tool(Workspace(tmp_path, {}, replaces_unread=True))).run(args)
    assert running.running == ()
    return done[0]


async def test_the_diff_of_each_writing_tool_is_shown(tmp_path):
    """RA-18: diffs of write_file, append_file, edit and apply_delta."""
    (tmp_path / "a").write_text("one\ntwo\n")
    wrote = await finished_call(tmp_path, write_file, path="a", content="one\n2\n")
    assert [(line.kind, line.text) for line in wrote.diff.lines] == [
        ("same", "one"),
        ("removed", "two"),
        ("added", "2"),
    ]
    added = await finished_call(tmp_path, append_file, path="a", content="three\n")
    assert [line.text for line in added.diff.lines if line.kind == "added"] == ["three"]
    edited = await finished_call(tmp_path, edit, path="a", old="three", new="3")
    assert [line.text for line in edited.diff.lines if line.kind == "added"] == ["3"]
    delta = {"operation": "delete", "start_line": 1, "expected": "one"}
    changed = await finished_call(tmp_path, apply_delta, path="a", operations=[delta])
    assert [line.text for line in changed.diff.lines if line.kind == "removed"] == ["one"]
    (tmp_path / "a").write_bytes(b"\0\1binary")
    wrote = await finished_call(tmp_path, write_file, path="a", content="text\n")
    assert ((tmp_path / "a").read_bytes(), wrote.diff) == (b"\0\1binary", None)


async def a_while():
    """Let every task go as far as it can without anything from outside."""
    for _ in range(100):
        await asyncio.sleep(0)


async def test_one_answer_covers_identical_calls_only(tmp_path):
    """RA-13: identical approvals are grouped, by all their arguments; each approval is for one digest."""
    shown, ran = [], []
    questions = ApprovalQueue(FakeClock(), shown.append)
    workspace = WorkspacePaths.on_disk(tmp_path, tmp_path)
    gate = ApprovalGate(
        RuleSet(),
        workspace=workspace,
        clock=FakeClock(),
        tell=lambda approval: None,
        shell=ShellCommandPolicy,
        approver=questions.ask,
    )

    async def write(path, content):
        ran.append((path, content))
        return ToolOutput("")

    guarded = gate.guard(tool("write_file", write, path="string", content="string"))
    async with asyncio.TaskGroup() as together:
        calls = [together.create_task(guarded.run({"path": "a", "content": text})) for text in "xxy"]
        await a_while()
        assert (questions.identical_count, questions.waiting_count) == (2, 1)
        questions.answer("allow")
        await a_while()
        questions.answer("deny")
    assert [call.result().failed for call in calls] == [False, False, True]
    assert (ran, len(shown)) == ([("a", "x")] * 2, 2)
    assert shown[0].digest != shown[1].digest


async def test_the_effect_of_a_call_is_shown_beforehand(tmp_path):
    """RA-13: the user sees the change, a subagent's as well."""
    (tmp_path / "a").write_text("one\ntwo\n")
    proposed = []
    running = RunningTools(tmp_path, FakeClock(), lambda done: None)

    async def asked(path, content):
        args = json.dumps({"path": path, "content": content})
        question = ApprovalQuestion(tool="write_file", category="file_write", subject=path, args=args)
        proposed.append(proposed_change(question, running.call_of(question)))
        of_another = ApprovalQuestion(tool="write_file", category="file_write", subject=path, args=args, agent="sub-1")
        assert proposed_change(of_another, running.call_of(of_another)) == proposed[-1]
        return ToolOutput("")

    guarded = running.watch(tool("write_file", asked, path="string", content="string"))
    await guarded.run({"path": "a", "content": "one\n2\n"})
    await guarded.run({"path": "a", "content": "one\ntwo\n"})
    (tmp_path / "a").write_bytes(b"\0\1binary")
    await guarded.run({"path": "a", "content": "text"})
    assert [line.text for line in proposed[0].lines] == ["one", "two", "2"]
    assert proposed[1] == snapshot("the file would stay as it is")
    assert proposed[2] == snapshot('no diff can be shown; the call is {"path": "a", "content": "text"}')


def test_a_patch_is_shown_as_it_is(tmp_path):
    """RA-13, RA-18: the files that it names, and each of its lines."""
    patch = "*** Begin Patch\n*** Update File: a\n-one\n+\x1b[2Jtwo\n*** Delete File: b\n*** End Patch"
    args = json.dumps({"input": patch})
    question = ApprovalQuestion(tool="apply_patch", category="file_write", subject="a\nb", args=args)
    change = proposed_change(question, RunningTools(tmp_path, FakeClock(), print).call_of(question))
    shown = format_question(question, change, Renderer(width=60, plain=True))
    assert "    a\n    b\n" in shown
    assert "    -one\n    +\\x1b[2Jtwo\n    *** Delete File: b" in shown


def test_a_terminal_by_lines_writes_no_escape_sequence(capfdbinary):
    """RA-18: whatever the text is that reaches it."""
    terminal = DumbTerminal(print, clean=str)
    terminal.show("a\x1b]0;owned\x07")
    terminal.replace("b\x9b2J")
    assert capfdbinary.readouterr().out == b"a\\x1b]0;owned\\x07\nnot sent: b\\x9b2J\n"


@pytest.fixture
def page():
    return Page()


@pytest.fixture
def transcript(page):
    return Transcript(page, FakeClock(), pending=PendingInput(lambda words: (Text(words),)))


def test_finished_parts_are_printed_once_and_the_rest_is_live(page, transcript):
    """RA-18: streamed Markdown."""
    transcript.on_delta(ThinkingDelta("hmm"))
    assert transcript.live().strip() == "hmm"
    transcript.on_delta(TextDelta("# Head\nsome *wo"))
    assert [text.strip() for text in page.shown] == ["hmm", "Head"]
    assert transcript.live().strip() == "some *wo"
    transcript.on_delta(TextDelta("rds*"))
    transcript.note("thinking", text="hmm")
    transcript.note("text", text="# Head\nsome *words*")
    assert [text.strip() for text in page.shown] == ["hmm", "Head", "some words"]
    assert transcript.live() == ""


def test_an_interrupted_stream_is_marked(page, transcript):
    """RA-18: void text is marked as such."""
    transcript.on_delta(TextDelta("half a sen"))
    transcript.on_delta(StreamReset("the line broke"))
    transcript.on_delta(TextDelta("whole"))
    transcript.note("text", text="whole")
    assert [" ".join(text.split()) for text in page.shown] == snapshot(
        ["half a sen", "⤺ the reply was cut off, its text so far is discarded; asking again: the line broke", "whole"]
    )


def test_waiting_is_shown_with_its_seconds_and_a_failure_with_its_fix(page, transcript):
    """RA-18."""
    transcript.on_delta(RetryWait(12.0, "busy"))
    assert page.shown == ["waiting 12 s: busy"]
    assert transcript.activity == "waiting 12 s"
    transcript.on_delta(TextDelta("x"))
    assert transcript.activity == "writing"
    transcript.error("the key is wrong", "Choose another model with `--model`.")
    assert "with `/model`" in page.shown[-1], "fixes are shown as slash commands"


def test_what_was_not_streamed_and_results_of_calls_that_never_ran_are_shown_too(page, transcript):
    transcript.note("text", text="all at once")
    assert page.shown == ["all at once"]
    transcript.note("tool_call", id="1", name="nosuch", args={"path": "x"})
    transcript.note("tool_result", id="1", name="nosuch", content="Unknown: `nosuch`", failed=True)
    assert "failed: nosuch x" in page.shown[1]
    assert "Unknown: `nosuch`" in page.shown[1]


def test_queued_input_is_distinguished_from_messages_of_others(page):
    """RA-12."""
    pending = PendingInput(lambda words: (Text(words),))
    transcript = Transcript(page, FakeClock(), pending=pending)
    pending.add("my words")
    pending.peek()
    transcript.note("news", text="sub-1 ended\nmy words")
    assert [text.strip() for text in page.shown] == ["✉ sub-1 ended", "you: my words"]


def test_a_stored_turn_is_shown_as_it_was_when_it_was_new(page, transcript):
    """RA-10, RA-18: nothing that only the model was to read."""
    thought, words, call = (
        Thinking("hmm\n\nwell"),
        "# Head\nsome *words*\n\n- one\n- two",
        ToolCall("1", "ls", {"path": "x"}),
    )
    for delta in (ThinkingDelta("hmm\n\nw"), ThinkingDelta("ell"), TextDelta(words[:9]), TextDelta(words[9:])):
        transcript.on_delta(delta)
    for kind, fields in (
        ("thinking", {"text": thought.text}),
        ("text", {"text": words}),
        ("tool_call", {"id": "1", "name": "ls", "args": call.args}),
        ("tool_result", {"id": "1", "name": "ls", "content": "a\nb\nc", "failed": False}),
    ):
        transcript.note(kind, **fields)
    live, page.shown = [text.strip() for text in page.shown], []
    result = UserMessage((ToolResult("1", "ls", "a\nb\nc"), Text("Go on.", "note"), Text("sub-1 ended", "agent")))
    asked = UserMessage(
        (Text("do it"), Text("Attached: a.py\nx = 1", "file"), Image("image/png", b""), Text("hook", "note"))
    )
    ran = UserMessage(command_note("ls", "exit code 0\na"))
    transcript.replay((asked, AssistantMessage((thought, Text(words), call)), result, ran), 3)
    head, mine, file, image, *same = (text.strip() for text in page.shown)
    assert [head, mine, file, image] == snapshot(
        [
            """\
3 earlier messages not shown: `/export` writes all of them
to a file\
""",
            "you: do it",
            "Attached: a.py",
            "[an image]",
        ]
    )
    assert same[: len(live)] == live
    assert same[len(live) :] == ["✉ sub-1 ended", "you: !ls", "exit code 0\na"]


def test_queued_input_is_delivered_once_and_can_be_taken_back():
    queued = PendingInput(lambda words: (Text(words),))
    queued.add("one")
    queued.add("two")
    assert queued.peek() == (Text("one"), Text("two"))
    queued.add("three")
    queued.take()
    assert queued.waiting == ["three"]
    assert queued.take_back() == "three"
    assert queued.peek() == ()


def test_the_history_is_private_optional_and_kept_as_it_was_sent(tmp_path):
    """RA-18: a pasted text as a whole, no secret, and nothing that is too long to be edited."""
    path = tmp_path / "data" / "history"
    history = open_history(path, lambda line: line.replace("[mark]", "long\ntext").replace("key", "..."))
    for line in ("the key of [mark]", "x" * 20_001, "last"):
        history.append_string(line)
    assert history.get_strings() == ["the key of [mark]", "x" * 20_001, "last"]
    assert list(open_history(path, str).load_history_strings()) == ["last", "the ... of long\ntext"]
    assert path.stat().st_mode & 0o777 == 0o600
    (tmp_path / "blocked").write_text("")
    assert isinstance(open_history(tmp_path / "blocked" / "history", str), InMemoryHistory)


def test_colours_and_background_are_detected_from_the_environment():
    assert terminal_colors({}).colours
    assert not terminal_colors({"NO_COLOR": "1"}).colours
    assert terminal_colors({"COLORFGBG": "0;15"}).light
    assert not terminal_colors({"COLORFGBG": "15;0"}).light


def test_live_code_blocks_are_drawn_as_code(transcript):
    """RA-18: Markdown in code is not interpreted, however long the code is."""
    transcript.on_delta(TextDelta("```python\n" + "* a = b\n" * 2_000))
    assert "* a = b" in transcript.live()
    assert "•" not in transcript.live()


@pytest.mark.slow
def test_files_of_a_very_large_folder_are_completed(tmp_path):
    """RA-18."""
    for number in range(30_000):
        (tmp_path / f"file-{number:05}").touch()
    for name in (f"file-{number:05}" for number in range(0, 30_000, 1_500)):
        assert files(f"@{name}", tmp_path) == [name]
