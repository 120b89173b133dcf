"""`logs`: the journals of a run, merged by time; torn lines and lines of other runs are skipped."""

import os
import resource
import subprocess  # noqa: TID251 - a following command must be watched from outside
import sys
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from inline_snapshot import snapshot

from builders import a_turn, make_run, work
from scaffold.agent.journal import JournalFile
from scaffold.core.states import Paused
from scaffold.host.contained_path import ContainedPath
from support.fake_clock import FakeClock

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


@pytest.fixture
def journal(context):
    """Return a function that opens the journal of an action, on a clock that starts `after_s` seconds past noon."""

    def opened(run, key, *, attempt=1, after_s=0.0):
        path = context.journal("shop", key)
        clock = FakeClock(NOON + timedelta(seconds=after_s))
        return JournalFile(path, clock=clock, fields={"run": run.id, "action": key, "attempt": attempt})

    return opened


def local(seconds):
    """Return the time of an entry, which was on another day."""
    return f"{(NOON + timedelta(seconds=seconds)).astimezone():%Y-%m-%d %H:%M:%S}"


def test_a_copied_repository_shows_each_entry_once(context, plan, scaffold, journal, tmp_path):
    """SC-19: its store still names the journals of the first repository, whose entries it has, too."""
    run = make_run(context, plan)
    book = journal(run, "store")
    for _ in range(2):  # the same twice is no copy
        book.note("text", text="working")
    elsewhere = tmp_path / "elsewhere.jsonl"
    elsewhere.write_bytes(context.journal("shop", "store").path.read_bytes())
    with context.store.transaction():
        context.store.turns.begin(a_turn(run, log_file=str(elsewhere)))
    assert scaffold("logs").out.splitlines() == [f"{local(0)} store#1 working"] * 2


def test_an_entry_is_one_readable_line(context, plan, scaffold, journal):
    run = make_run(context, plan)
    book = journal(run, "store")
    book.note("prompt", text="# Goal\nbuild it")
    book.note("thinking", text="hm")
    book.note("text", text="First line.\nSecond line.")
    book.note("tool_call", id="1", name="shell", args={"command": "python -m unittest", "timeout_s": 60})
    book.note("tool_result", id="1", name="shell", content="exit code 1\nboom", failed=True)
    book.note("tool_call", id="2", name="read_file", args={"path": "a.py"})
    book.note("tool_result", id="2", name="read_file", content="ok", failed=False)
    book.note("usage", input_tokens=900, output_tokens=100, cost_usd=0.5)
    head = f"{local(0)} store#1"
    assert scaffold("logs", "store").out.splitlines() == [
        f"{head} prompt: # Goal (+1 line)",
        f"{head} thinking: hm",
        f"{head} First line.",
        "    Second line.",
        f"{head} shell: python -m unittest",
        f"{head} failed: exit code 1 (+1 line)",
        "      boom",
        f"{head} read_file: a.py",
        f"{head}   -> ok",
        f"{head} used 900 tokens in, 100 out, $0.50",
    ]


def test_the_journals_of_all_actions_are_merged_by_time(context, plan, scaffold, journal):
    run = make_run(context, plan)
    journal(run, "store", after_s=0.5).note("text", text="second")
    journal(run, "api", after_s=0).note("text", text="first")
    journal(run, "store", after_s=3).note("text", text="third")
    assert [line.split()[-1] for line in scaffold("logs").out.splitlines()] == ["first", "second", "third"]
    assert [line.split()[-1] for line in scaffold("logs", "api").out.splitlines()] == ["first"]
    newer = make_run(context, plan)
    journal(newer, "store").note("text", text="new")
    assert scaffold("logs").out.split()[-1] == "new"
    assert scaffold("logs", "--run", run.id).out.split()[-1] == "third"


def test_torn_and_foreign_lines_are_skipped(context, plan, scaffold, journal):
    run = make_run(context, plan)
    journal(run, "store").note("text", text="whole")
    with context.journal("shop", "store").path.open("ab") as file:
        file.write(
            b'not json\n[1]\n{"ts": "never"}\n{"type": "text"}\n\xff\n{"ts": "2030-01-01T12:00:00Z", "type": "te'
        )
    answer = scaffold("logs")
    assert answer.code == 0
    assert len(answer.out.splitlines()) == 1


def test_files_named_by_attempts_are_read_too_each_once(context, run, scaffold, journal, tmp_path):
    elsewhere = tmp_path / "elsewhere.jsonl"
    work(context, run, "store", log_file=str(elsewhere))
    JournalFile(
        ContainedPath(elsewhere.parent, elsewhere.name), clock=FakeClock(NOON), fields={"action": "store"}
    ).note("text", text="elsewhere")
    journal(run, "store", after_s=1).note("text", text="here")
    assert [line.split()[-1] for line in scaffold("logs").out.splitlines()] == ["elsewhere", "here"]


def test_json_prints_the_entries_unchanged(context, plan, scaffold, journal):
    run = make_run(context, plan)
    journal(run, "store").note("text", text="\x1b[31m")
    (line,) = scaffold("logs", "--json").out.splitlines()
    assert msgspec.json.decode(line) == {
        "ts": "2030-01-01T12:00:00Z",
        "type": "text",
        "run": run.id,
        "action": "store",
        "attempt": 1,
        "text": "\x1b[31m",
    }
    assert r"\x1b[31m" in scaffold("logs").out


def test_an_action_without_a_log_says_so_and_an_unknown_one_gets_a_suggestion(context, plan, scaffold):
    make_run(context, plan)
    nothing = scaffold("logs", "store")
    assert (nothing.code, nothing.out, nothing.err) == snapshot(
        (0, "", "no agent of `store` has written to its log yet\n")
    )
    answer = scaffold("logs", "stor")
    assert answer.code == 64
    assert "`store`" in answer.err
    assert "scaffold tasks" in answer.err


LONG_OUTPUT = "exit code 1\n" + "noise\n" * 40 + "E   assert 1 == 2\n" + "noise\n" * 40


def test_of_a_failed_command_the_line_that_decided_is_shown(context, plan, scaffold, journal):
    """SC-19: wherever it is in the output; likewise of a refusal, which its agent gets as a prompt."""
    book = journal(make_run(context, plan), "store")
    book.note("tool_result", id="1", name="shell", content=LONG_OUTPUT, failed=True)
    book.note("tool_result", id="2", name="shell", content=LONG_OUTPUT, failed=False)
    book.note("prompt", text=f"Not yet.\n\n{LONG_OUTPUT}")
    head = f"{local(0)} store#1"
    assert scaffold("logs", "store").out.splitlines() == [
        f"{head} failed: exit code 1 (+81 lines)",
        "      E   assert 1 == 2",
        f"{head}   -> exit code 1 (+81 lines)",
        f"{head} prompt: Not yet. (+83 lines)",
        "      E   assert 1 == 2",
    ]


def test_arguments_and_results_are_shown_whole_if_asked_for(context, plan, scaffold, journal):
    """SC-19: as they are, also empty lines and what is indented."""
    book = journal(make_run(context, plan), "store")
    args = {"path": "a.py", "content": "def f():\n\n    return 1\n", "times": 3}
    book.note("tool_call", id="1", name="write_file", args=args)
    book.note("tool_result", id="1", name="write_file", content=f"{'x' * 500}\n  y", failed=True)
    book.note("prompt", text="# Goal\n\nbuild it")
    book.note("tool_call", id="2", name="odd", args="not a mapping")
    head = f"{local(0)} store#1"
    assert scaffold("logs", "store", "--full").out.splitlines() == [
        f"{head} write_file:",
        "      path: a.py",
        "      content: def f():",
        "",
        "            return 1",
        "",
        "      times: 3",
        f"{head} failed: {'x' * 500}",
        "      y",
        f"{head} prompt: # Goal",
        "",
        "    build it",
        f"{head} odd:",
        "      args: not a mapping",
    ]
    assert scaffold("logs", "--full", "--json").code == 64


def test_planning_agents_are_named_by_role(context, run, scaffold):
    """SC-6, OR-8: the planner's and the supervisors' entries appear among those of the workers."""
    (goal,) = context.store.goals.for_run(run.id)
    store = context.store.actions.by_key(run.id, "store")
    for name, fields in (
        ("planner", {"role": "planner"}),
        ("supervisor", {"role": "supervisor", "goal": "shop", "action": "store"}),
    ):
        path = context.journal(name, name)
        JournalFile(path, clock=FakeClock(NOON), fields={"run": run.id, **fields}).note("text", text=f"I am {name}")
        with context.store.transaction():
            about = {"goal_id": goal.id, "action_id": store.id} if "goal" in fields else {}
            context.store.turns.begin(a_turn(run, name, log_file=str(path), **about))
    assert scaffold("logs").out.splitlines() == [
        f"{local(0)} planner I am planner",
        f"{local(0)} supervisor shop: store I am supervisor",
    ]
    assert scaffold("logs", "store").out.splitlines() == [f"{local(0)} supervisor shop: store I am supervisor"]


def lines_until(stream, *endings):
    """Read consecutive lines, which must end like this."""
    read = [stream.readline().rstrip(b"\n") for _ in endings]
    assert all(line.endswith(ending) for line, ending in zip(read, endings, strict=True)), read
    return read


@contextmanager
def follower(command, folder):
    """Run a command and read its output while it runs; it is ended with the block at the latest."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=folder, env=os.environ.copy()) as following:
        try:
            yield following
        finally:
            following.kill()


@pytest.mark.slow
def test_following_survives_new_truncated_replaced_and_torn_files(context, run, journal, repository):
    """SC-19: every line is shown once, whole, whatever happens to its file."""
    path = context.journal("shop", "store").path
    journal(run, "store").note("text", text="a longer line to begin with")
    command = [sys.executable, "-m", "scaffold", "logs", "-f"]
    with follower(command, repository) as following:
        lines_until(following.stdout, b"to begin with")
        path.write_bytes(b"")
        journal(run, "store", after_s=1).note("text", text="cut")
        lines_until(following.stdout, b"cut")
        path.rename(path.with_suffix(".old"))
        journal(run, "store", after_s=2).note("text", text="replaced, and longer than what was there")
        lines_until(following.stdout, b"what was there")
        journal(run, "api", after_s=3).note("text", text="new")
        lines_until(following.stdout, b"new")
        whole = path.read_bytes().splitlines()[-1].replace(b"replaced, and longer", b"torn, then mended, and longer")
        with path.open("ab", buffering=0) as file:
            file.write(whole[:40])
            journal(run, "api", after_s=4).note("text", text="meanwhile")
            lines_until(following.stdout, b"meanwhile")
            file.write(whole[40:] + b"\n")
        lines_until(following.stdout, b"torn, then mended, and longer than what was there")
        with context.store.transaction():
            context.store.runs.move(run.id, Paused("enough"))
        assert following.wait(timeout=20) == 0


@pytest.mark.slow
def test_a_run_of_very_many_actions_needs_few_open_files(context, scaffold, journal):
    """A run of 400 journals is read where a process may open 64 files."""
    actions = "".join(f"      - {{key: a{n}, effects: [e{n}]}}\n" for n in range(400))
    plan = f"version: 1\ngoals:\n  - name: shop\n    goal_state: [e0]\n    actions:\n{actions}"
    run = make_run(context, plan)
    for n in range(400):
        journal(run, f"a{n}", after_s=400 - n).note("text", text=f"line {n}")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))
    try:
        out = scaffold("logs").out.splitlines()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert [line.split()[-1] for line in out] == [str(n) for n in reversed(range(400))]
