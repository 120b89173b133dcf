"""A program of others works in an attempt: paid, asked about, interrupted and continued as our own agent is."""

import asyncio
import json
import sys

import pytest
from msgspec import structs

from builders import bubblewrap_or_skip
from scaffold.core.states import blocked_on_inbox
from scaffold.host.process.command_runner import run_command
from scaffold.orchestrator.owner.watch.model_watch import ModelWatch
from scaffold.run.failures.attempt_end import AttemptEnd
from scaffold.worker.attempt_records import CandidateReady
from support.acting_program import WIRES, edit, install_programs, run, write_script
from support.harness import act, goal, poll_until, scripted_model

ASKED = ("claude", "codex")
EACH = ("claude", *(pytest.param(each, marks=pytest.mark.slow) for each in ("codex", "pi")))


@pytest.fixture
async def programs(harness):
    """The harness, with a program for each wire on the user's PATH."""
    folder, home = install_programs(harness.repo.parent / "programs"), harness.repo.parent / "home"
    own = {variable: str(home / place) for variable, place in WIRES.values() if variable}
    environ = {**harness.context.environ, "PATH": f"{folder}:{harness.context.environ['PATH']}", **own}
    harness.context = structs.replace(harness.context, environ=environ)
    return harness


async def begin(harness, name, **settings):
    return await harness.own(goal("g", act("a"), act("b")), default=name, versions={name: "99.1"}, **settings)


def script(harness, name, *steps):
    return write_script(harness.repo.parent / "home", name, **{"Do a": steps})


async def work(harness, run_):
    return await harness.execute(await harness.queue(run_, "a"), scripted_model({}))


def journal(harness, *kinds):
    lines = [json.loads(each) for each in harness.context.journal("g", "a").path.read_text().splitlines()]
    return [each for each in lines if not kinds or each["type"] in kinds]


def prompts(own):
    return [json.loads(each) for each in (own / "prompts.txt").read_text().splitlines()]


async def made(harness, ending, path="a"):
    assert isinstance(ending, CandidateReady), ending.error
    return await harness.show(f"{ending.head}:{path}")


@pytest.mark.parametrize("name", EACH)
async def test_a_program_changes_files_and_hands_them_in(programs, name):
    """AL-24, BX-19: its work is a candidate like that of our own agent, and its journal reads alike."""
    script(programs, name, edit("a"))
    run_ = await begin(programs, name)
    assert await made(programs, await work(programs, run_)) == "made"
    (attempt,) = programs.attempts(run_, "a")
    assert (attempt.executor, attempt.executor_version, attempt.model) == (name, "99.1", name)
    assert attempt.usage.tokens == 110
    kinds = [each["type"] for each in journal(programs) if each["type"] != "notice"]
    assert kinds == ["prompt", "tool_call", "tool_result", "text", "usage"]


@pytest.mark.slow
async def test_an_end_without_a_change_is_no_success(programs):
    """AL-24: what a program says of its work is a claim."""
    script(programs, "claude")
    ending = await work(programs, await begin(programs, "claude"))
    assert ending.outcome == "contract_failed"
    assert "nothing changed" in ending.error


@pytest.mark.slow
@pytest.mark.parametrize("name", ASKED)
async def test_a_question_goes_to_the_inbox_and_the_conversation_goes_on_with_the_answer(programs, name):
    """AL-24, BX-13: its process ends while nobody answers; the next attempt continues by the id of the conversation."""
    own = script(programs, name, edit("a"), run("echo x > b"))
    run_ = await begin(programs, name, approvals={"shell": "ask"}, inbox_wait_s=0.05)
    ending = await work(programs, run_)
    (item,) = programs.store.inbox.open()
    assert ending == AttemptEnd("waiting", ending.error, item.id)
    assert "echo x > b" in item.text
    assert programs.action(run_, "a").state == blocked_on_inbox(item.id)
    with programs.store.transaction():
        programs.store.inbox.decide(item.id, "approved")
    ending = await work(programs, run_)
    assert await made(programs, ending, "b") == "x"
    assert await made(programs, ending) == "made"
    (first, _), (second, told) = prompts(own)
    assert first == second
    assert "ask for it again" in told


@pytest.mark.slow
@pytest.mark.parametrize("name", ASKED)
async def test_a_rule_denies_what_a_program_asks_for(programs, name):
    """AL-24, AL-7: no approval overrides a denial, and the program is told why."""
    script(programs, name, run("echo x > b"), edit("a"))
    run_ = await begin(programs, name, deny=("shell:echo *",))
    ending = await work(programs, run_)
    assert await made(programs, ending) == "made"
    assert not (await programs.sh(f"git ls-tree {ending.head} b"))
    (denied,) = journal(programs, "approval")
    assert denied["decision"] == "deny"
    assert not programs.store.inbox.all()


@pytest.mark.slow
async def test_a_conversation_that_is_gone_begins_anew_and_is_told_so(programs):
    """AL-24: the work so far stays in the files."""
    own = script(programs, "codex", edit("a"), run("echo x > b"))
    run_ = await begin(programs, "codex", approvals={"shell": "ask"}, inbox_wait_s=0.05)
    await work(programs, run_)
    (item,) = programs.store.inbox.open()
    with programs.store.transaction():
        programs.store.inbox.decide(item.id, "rejected")
    for session in own.glob("session-*.json"):
        session.unlink()
    ending = await work(programs, run_)
    assert await made(programs, ending) == "made"
    assert "cannot be continued" in prompts(own)[-1][1]
    assert any("begins a new conversation" in each["text"] for each in journal(programs, "notice"))


@pytest.mark.slow
async def test_a_turn_is_interrupted_once_it_has_used_what_is_left(programs):
    """BX-20, AL-24: what was reported is booked, and the conversation goes on with more."""
    own = script(programs, "claude", {"do": "use", "input": 5000, "output": 5}, {"do": "hang", "path": "x"}, edit("a"))
    run_ = await begin(programs, "claude", budget_tokens=1000)
    ending = await work(programs, run_)
    assert ending.outcome == "budget"
    (attempt,) = programs.attempts(run_, "a")
    assert attempt.usage.tokens == 5005
    assert len(prompts(own)) == 1


@pytest.mark.slow
async def test_a_program_whose_quota_is_used_up_is_asked_again_at_the_reset_time(programs):
    """AL-24, BX-21: it waits as for a model's endpoint, and then goes on in the same conversation."""
    now = programs.context.clock.now().timestamp()
    own = script(programs, "claude", {"do": "fail", "failure": {"api_error_status": 429, "limit": now + 1}}, edit("a"))
    run_ = await begin(programs, "claude")
    assert await made(programs, await work(programs, run_)) == "made"
    assert len({session for session, _ in prompts(own)}) == 1


@pytest.mark.slow
async def test_a_run_waits_while_its_program_is_used_up_for_long(programs):
    """AL-24, BX-21: no attempt starts before the reset, and people see what the run waits for."""
    later = programs.context.clock.now().timestamp() + 3600
    script(programs, "claude", {"do": "fail", "failure": {"api_error_status": 429, "limit": later}}, edit("a"))
    run_ = await begin(programs, "claude", model_wait_s=0.1)
    ending = await work(programs, run_)
    assert ending.outcome == "unavailable"
    watch = ModelWatch(programs.context, run_, print)
    watching = asyncio.create_task(watch.watch())
    await poll_until(lambda: watch.parked)
    assert watch.waits_for.startswith("claude until ")
    watching.cancel()
    with pytest.raises(asyncio.CancelledError):
        await watching


async def test_a_program_that_is_not_logged_in_ends_the_attempt_with_its_login_command(programs):
    """AL-24: nobody waits for what only the user can do."""
    script(programs, "claude", {"do": "fail", "failure": {"api_error_status": 401}, "text": "no login"})
    ending = await work(programs, await begin(programs, "claude"))
    assert ending.outcome == "no_access"
    assert "claude auth login" in ending.error


@pytest.mark.slow
async def test_a_program_reaches_its_own_folder_and_nothing_else_of_the_home(programs, monkeypatch):
    """BX-28, AL-24: keys and the way to remotes are not its own; what it obeys it cannot change."""
    await bubblewrap_or_skip()
    home = programs.repo.parent / "home"
    monkeypatch.setenv("HOME", str(home))
    own = script(
        programs,
        "claude",
        run('exec 2>&1; own=$CLAUDE_CONFIG_DIR; for f in "$own/settings.json" "$own/z" ~/y; do (echo x > "$f"); done'),
        run("cat ~/secret 2>&1"),
        run("git push -q https://example.invalid/x HEAD 2>&1; echo key $ANTHROPIC_API_KEY agent $SSH_AUTH_SOCK"),
        run("touch /tmp/mine && echo private"),
        edit("a"),
    )
    (own / "settings.json").write_text("{}")
    (home / "secret").write_text("hidden words")
    environ = {**programs.context.environ, "ANTHROPIC_API_KEY": "sk-1", "SSH_AUTH_SOCK": "/run/agent"}
    programs.context = structs.replace(programs.context, environ=environ)
    run_ = await begin(programs, "claude")
    assert await made(programs, await work(programs, run_)) == "made"
    _, read, pushed, scratch, _ = (each["content"] for each in journal(programs, "tool_result"))
    assert "hidden words" not in read
    assert (own / "settings.json").read_text() == "{}"
    assert (own / "z").exists()
    assert not (home / "y").exists()
    assert "transport 'https' not allowed" in pushed
    assert pushed.splitlines()[-1].split() == ["key", "agent"]
    assert scratch == "private\n"


@pytest.mark.slow
async def test_what_the_user_allowed_a_program_elsewhere_is_hidden_from_it(programs, monkeypatch):
    """BX-28: its own rule that allows a command would pass over ours."""
    await bubblewrap_or_skip()
    monkeypatch.setenv("HOME", str(programs.repo.parent / "home"))
    own = script(programs, "codex", run('cat "$CODEX_HOME/rules/default.rules" 2>&1'), edit("a"))
    (own / "rules").mkdir()
    (own / "rules" / "default.rules").write_text('prefix_rule(pattern=["npm"], decision="allow")')
    assert await made(programs, await work(programs, await begin(programs, "codex"))) == "made"
    assert "prefix_rule" not in journal(programs, "tool_result")[0]["content"]


@pytest.mark.slow
async def test_without_a_sandbox_each_command_waits_for_a_human(programs):
    """AL-24: the gate decides as for our own agents."""
    script(programs, "claude", edit("a"), run("echo x > b"))
    run_ = await begin(programs, "claude", sandbox="off", inbox_wait_s=0.05)
    ending = await work(programs, run_)
    assert ending.outcome == "waiting"
    (item,) = programs.store.inbox.open()
    assert "echo x > b" in item.text


async def test_a_worker_of_our_own_loads_nothing_of_programs(harness):
    """AL-20: the port costs our own agent nothing."""
    code = "import sys, scaffold.cli.commands.processes.worker, scaffold.worker.process; print(*sys.modules)"
    done = await run_command([sys.executable, "-c", code], cwd=harness.repo, env=harness.context.environ, timeout_s=60)
    loaded = done.stdout.decode().split()
    assert "scaffold.worker.agent.native_executor" in loaded
    assert not [name for name in loaded if "program_" in name or name.startswith("scaffold.executors")]
