"""The environment variables of commands, by the real commands."""

import pytest
import yaml

from support.prd_scenario import command, done_steps, prd_file, story
from support.scenario import action, plan_of, shell

CANARIES = {
    name: f"canary<{number}>"
    for number, name in enumerate(
        (
            *("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "LOCAL_API_KEY", "CODEX_ACCESS_TOKEN", "GITHUB_TOKEN"),
            *("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "KUBECONFIG", "SSH_AUTH_SOCK", "DB_PASSWORD"),
            *("GIT_SSH_COMMAND", "GIT_ASKPASS", "NPM_TOKEN", "BASH_ENV", "PYTHONSTARTUP", "SECRET"),
        )
    )
}
ORDINARY = {"JAVA_HOME": "/opt/java", "CC": "clang", "DJANGO_SETTINGS_MODULE": "site.settings", "PYTHONPATH": "src"}
NAMED = "NPM_TOKEN"


@pytest.fixture
def scenario(scenario):
    scenario.environ |= CANARIES | ORDINARY
    return scenario


def name_one(scenario):
    """Let commands inherit one of the canaries."""
    scenario.scaffold("config", "environment", NAMED, code=0)


def tape(scenario, *entries):
    path = scenario.home / "tape.yaml"
    path.write_text(yaml.safe_dump({"version": 1, "replies": list(entries)}))
    return f"cassette:{path}"


def turn(number, *calls, text="", **when):
    return {"when": {"role": "agent", "turn": number, **when}, "text": text, "tool_calls": list(calls)}


def leaked(text):
    """Return the canaries in what a command saw, which must have all ordinary variables."""
    assert [name for name, value in ORDINARY.items() if value not in text] == []
    return {name for name, canary in CANARIES.items() if canary in text}


PYTHON = "import os, pathlib; pathlib.Path('out/seen.env').write_text(str(sorted(os.environ.items())))"


@pytest.mark.slow
@pytest.mark.parametrize("call", [shell("env > out/seen.env"), {"name": "python", "args": {"code": PYTHON}}])
def test_commands_of_ralph_get_no_secret_variable_except_a_named_one(scenario, call):
    """BX-9: they get the user's environment without secrets, and the user is told once what was left out."""
    model = tape(scenario, turn(1, call), turn(2, text="seen"))

    told = []

    def seen(*options):
        done = scenario.scaffold("ralph", "look", "--model", model, "--yolo", *options, code=0)
        told.append("GITHUB_TOKEN" in done.stdout + done.stderr)
        return (scenario.out / "seen.env").read_text()

    before, unconfined = seen(), seen("--sandbox", "off")
    assert told == [True, False]
    name_one(scenario)
    assert (leaked(before), leaked(unconfined), leaked(seen())) == (set(), set(), {NAMED})


@pytest.mark.slow
def test_subagents_get_the_same_environment_with_their_own_marks(scenario):
    """DR-16."""
    name_one(scenario)
    start = {"name": "subagent", "args": {"task": "look"}}
    own = [shell('env > out/seen-"$SCAFFOLD_AGENT_ID"')]
    model = tape(
        scenario,
        *(turn(1, *own, action=name) for name in ("sub-1", "sub-2")),
        *(turn(2, text="seen", action=name) for name in ("sub-1", "sub-2")),
        turn(1, start, start, {"name": "subagent_status", "args": {"wait": True}}),
        turn(2, text="over"),
    )
    done = scenario.scaffold("ralph", "look", "--model", model, "--yolo")
    seen = {path.name.removeprefix("seen-"): path.read_text() for path in scenario.out.glob("seen-*")}
    assert len(seen) == 2, done.stderr
    for agent, text in seen.items():
        assert f"COMPOSE_PROJECT_NAME=ralph_agent_{agent}\n" in text
        assert leaked(text) == {NAMED}


@pytest.mark.slow
def test_workers_and_contracts_get_no_secrets_and_each_attempt_has_its_own_mark(scenario):
    """DR-16, BX-9: unique names for what an attempt starts, no secret in the environment of it and for its checks."""
    name_one(scenario)
    unnamed = "".join(f"${name}" for name in CANARIES if name != NAMED)
    check = f'test -z "{unnamed}" && test "${NAMED}" = "{CANARIES[NAMED]}" && test -n "$COMPOSE_PROJECT_NAME"'
    keys = ("first", "second")
    scenario.plan(
        plan_of(**{key: [action(key, effects=[f"{key}_seen"], check=f"{check} && test -s {key}.txt")] for key in keys})
    )
    scenario.cassette(**{key: [shell(f"env > {key}.txt")] for key in keys})
    scenario.run("--yes", "--yolo", code=0)
    branch = scenario.status()["run"]["session_branch"]
    seen = [scenario.git("show", f"{branch}:{key}.txt") for key in keys]
    assert [leaked(text) for text in seen] == [{NAMED}, {NAMED}]
    marks = [dict(line.split("=", 1) for line in text.splitlines() if "=" in line) for text in seen]
    assert len({mark["SCAFFOLD_AGENT_ID"] for mark in marks}) == 2
    for mark in marks:
        assert mark["COMPOSE_PROJECT_NAME"] == f"ralph_agent_{mark['SCAFFOLD_AGENT_ID']}"


@pytest.mark.slow
def test_the_steps_of_a_story_have_one_name_for_what_they_start(scenario):
    """DR-16: containers that one step starts are those of the next; another story has its own."""
    seen = [
        command(n, step, "echo $COMPOSE_PROJECT_NAME $SCAFFOLD_AGENT_ID >> seen") for n in (1, 2) for step in (2, 5)
    ]
    scenario.replies(*done_steps(*seen, command(1, 6, "true"), command(2, 6, "true")))
    given = prd_file(scenario, {"userStories": [story(1), story(2, 1)]})
    scenario.call([*scenario.request_command(*given), "--yes"], code=0)
    branch = scenario.status()["run"]["session_branch"]
    one, *rest = [line.split() for line in scenario.git("show", f"{branch}:seen").splitlines()]
    assert [each == one for each in rest] == [True, False, False]
    assert rest[1] == rest[2]
    assert all(name == f"ralph_agent_{agent}" for name, agent in (one, rest[1]))
