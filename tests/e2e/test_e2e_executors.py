"""Programs of others at work in one run, by the real command: the same contracts, queue, inbox and reports for all."""

import json
import os
import signal

import msgspec
import pytest

from scaffold.core.executor_settings import ProgramSpec
from scaffold.executors.catalog import known_programs
from scaffold.executors.drill import DrillVerdict
from scaffold.executors.installed import InstalledProgram
from support.acting_program import edit, install_programs, run, write_script
from support.scenario import COMMAND_S, action, plan_of, wait_until, write

VERSION = "99.1"
PROGRAMS = ("claude", "codex", "gemini", "pi", "other")


@pytest.fixture
def programs(scenario):
    """A scenario with a program for each wire, each of which has passed its drill, and one that is configured."""
    folder = install_programs(scenario.home / "programs")
    scenario.environ["PATH"] = os.pathsep.join([str(folder), scenario.environ["PATH"]])
    other = {"command": str(folder / "other"), "credentials": "~/.gemini"}
    (folder / "other").symlink_to(folder / "gemini")
    scenario.configure(
        approvals={"shell": "ask"},
        collisions="off",
        max_workers_per_goal=6,
        inbox={"wait_s": 0.2},
        executors={"other": other},
    )
    specs = [*(known_programs[name] for name in PROGRAMS if name != "other")]
    specs.append(ProgramSpec(name="other", command=(other["command"],), protocol="acp", credentials="~/.gemini"))
    for spec in specs:
        keep_verdict(scenario, spec, folder / spec.name)
    if scenario.unheld:
        pytest.skip("programs of others are tried in a sandbox here")
    return scenario


def keep_verdict(scenario, spec, path, reason=""):
    """Write down what the drill of a program has shown."""
    program = InstalledProgram(spec=spec, path=path, version=VERSION)
    verdict = DrillVerdict(
        name=spec.name,
        version=VERSION,
        path=str(path),
        login="ok",
        asks=True,
        obeys_denial=True,
        ends_when_unanswered=True,
        leaves_children=False,
        exit_after_denial=0,
        usage=True,
        verdict="refused" if reason else "ok",
        reason=reason,
    )
    file = scenario.home / "scaffold" / "data" / "executors" / f"{program.identity}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(msgspec.json.encode(verdict))


def made_by(key, executor="", **fields):
    made = action(key, effects=[f"{key}_made"], check=f"test -s {key}.txt", files=[f"{key}.txt"])
    return made | ({"executor": executor} if executor else {}) | fields


def worker_of(scenario, key):
    return next((each["pid"] for each in scenario.json("agents")["agents"] if each["action"] == key), None)


def prompts(scenario, program):
    folder = {"claude": ".claude", "codex": ".codex", "pi": ".pi/agent"}.get(program, ".gemini")
    return [json.loads(each) for each in (scenario.home / folder / "prompts.txt").read_text().splitlines()]


def scripted(programs):
    """Write what each program does; return the files that say that one hangs, by program."""
    hanging = {}
    for key, folder in {"claude": ".claude", "codex": ".codex", "pi": ".pi/agent"}.items():
        hanging[key] = programs.home / folder / "hangs"
        asks = [] if key == "pi" else [run(f"echo {key} > {key}.txt")]
        steps = [{"do": "hang", "path": str(hanging[key])}, *asks, edit(f"{key}.txt")]
        write_script(programs.home, key, **{f"make {key}": steps})
    hanging["gemini"] = programs.home / ".gemini" / "hangs"
    both = {"make gemini": [{"do": "hang", "path": str(hanging["gemini"])}, edit("gemini.txt")]}
    write_script(programs.home, "gemini", **both, **{"make other": [edit("other.txt")]})
    return hanging


@pytest.mark.slow
def test_six_executors_work_on_one_plan(programs):
    """AL-20, AL-24, BX-19, BX-28: each is killed in its work; after an approval, a denial and a resume all land."""
    keys = ("native", *PROGRAMS)
    programs.plan(plan_of(g=[made_by(key, "" if key == "native" else key) for key in keys]))
    programs.cassette(native=[write("native.txt", "made\n")])
    hanging = scripted(programs)
    owner = programs.start(programs.run_command("--yes", "--agents", "6"))
    # A worker is killed in the middle of its program's work, then the owner and all others.
    assert wait_until(lambda: all(file.exists() for file in hanging.values())), programs.said()
    os.kill(worker_of(programs, "claude"), signal.SIGKILL)
    assert wait_until(lambda: "lost" in programs.outcomes("claude")), programs.said()
    owner.kill()
    owner.wait(COMMAND_S)
    done = programs.scaffold("resume")
    assert done.returncode == 3, done.stdout + done.stderr
    asked = {item["detail"]["subject"]: item["id"] for item in programs.inbox()}
    assert asked.keys() == {"echo claude > claude.txt", "echo codex > codex.txt"}
    programs.scaffold("approve", asked["echo claude > claude.txt"], code=0)
    programs.scaffold("reject", asked["echo codex > codex.txt"], code=0)
    done = programs.scaffold("resume", code=0)
    expect_the_same_of_all(programs, keys)
    # Each was asked again in the conversation that it had.
    for key in ("claude", "codex", "gemini", "pi"):
        told = prompts(programs, key)
        others = {session for session, prompt in told if "make other" in prompt}
        sessions = [session for session, _ in told if session not in others]
        assert len(sessions) > 1, key
        assert len({*sessions}) == 1, key


def expect_the_same_of_all(scenario, keys):
    status = scenario.status()
    assert sorted(scenario.landed_keys()) == sorted(keys)
    last = {each["key"]: each["attempts"][-1] for each in status["actions"]}
    assert {key: (each["executor"], each["executor_version"]) for key, each in last.items()} == {
        "native": ("native", None),
        **{key: (key, VERSION) for key in PROGRAMS},
    }
    models = {each["name"] for each in scenario.json("cost")["models"]}
    assert {"claude (subscription)", "codex (subscription)", "pi (subscription)", "other"} <= models
    for key in keys:
        kinds = {json.loads(each)["type"] for each in scenario.journal("g", key).splitlines()}
        assert {"prompt", "tool_call", "tool_result", "usage"} <= kinds, key
        assert scenario.scaffold("logs", key, code=0).stdout
    assert len(scenario.git("worktree", "list").splitlines()) == 1


def test_an_unknown_executor_is_an_error_of_the_plan_and_of_the_command(scenario):
    """AL-20: nothing is started, and the known ones are named."""
    scenario.plan(plan_of(g=[made_by("a", "cloud")]))
    scenario.cassette(a=[write("a.txt", "x")])
    checked = scenario.scaffold("plan", "check", str(scenario.home / "plan.yaml"))
    assert checked.returncode != 0
    assert "there is no executor `cloud`" in checked.stdout
    done = scenario.run("--yes", code=4)
    assert "names an unknown executor" in done.stderr
    scenario.plan(plan_of(g=[made_by("a")]))
    done = scenario.run("--yes", "--executor", "cloud", code=64)
    assert "Executors are: native, claude" in done.stderr


@pytest.mark.slow
def test_the_executor_of_a_run_pays_as_its_header_says_and_a_refused_one_works_nowhere(programs):
    """AL-24, BX-28: who pays is said before work; what failed its drill is refused by name and version."""
    programs.plan(plan_of(g=[made_by("claude")]))
    programs.cassette(claude=[write("claude.txt", "by our own agent")])
    write_script(programs.home, "claude", **{"make claude": [edit("claude.txt", "by the program\n")]})
    done = programs.run("--yes", "--executor", "claude", code=0)
    assert f"executor claude {VERSION}, paid by your subscription" in done.stderr
    run_ = programs.status()["run"]
    assert programs.git("show", f"{run_['session_branch']}:claude.txt") == "by the program\n"
    keep_verdict(programs, known_programs["codex"], programs.home / "programs" / "codex", "it edited a file")
    done = programs.run("--yes", "--executor", "codex", code=64)
    assert f"codex {VERSION} is refused: it edited a file" in done.stderr
