"""Where no run was started yet, every command says so and creates nothing."""

import pytest

from scaffold.views.run_json import NO_RUN_JSON

SPLITS = ("purposes", "goals", "actions", "roles", "models")
EMPTY = {
    "status": dict(NO_RUN_JSON),
    "goals": {"run": None, "goals": []},
    "tasks": {"run": None, "actions": [], "facts": []},
    "agents": {"run": None, "agents": [], "held_back": []},
    "baseline": {"run": None, "base": None, "captured": False, "environment": None, "gates": []},
    "runs": {"runs": []},
    "queue": {"run": None, "queue": []},
    "cost": {"run": None, "total": None, "budget": None, **{name: [] for name in SPLITS}},
    "inbox": {"inbox": [], "memories": [], "waiting": []},
}
REFUSED = (
    *(("stop",), ("send", "a", "b"), ("attach",), ("resume",), ("retry", "a"), ("logs",), ("open",)),
    *(("approve", "abc"), ("agents", "--run", "x"), ("baseline", "reset"), ("baseline", "--run", "1")),
    ("tasks", "shop"),
)


@pytest.fixture
def checked(repository):
    """A repository in which nothing may be made."""
    yield repository
    assert sorted(path.name for path in repository.iterdir()) == [".git", "app.py"]
    assert not (repository / ".git" / "scaffold").exists()


def test_what_is_listed_is_empty(checked, scaffold):
    """SC-19: for scripts in the usual shape, for people in a sentence."""
    answers = {name: scaffold(name, "--json") for name in EMPTY}
    assert {name: answer.json for name, answer in answers.items()} == EMPTY
    assert {(answer.code, answer.err) for answer in answers.values()} == {(0, "")}
    said = {name: scaffold(name).out.splitlines()[0] for name in EMPTY}
    assert len(set(said.values()) - {said["inbox"]}) == 1, said
    assert 'scaffold run "TASK"  plan' in scaffold("status").out


def test_there_is_nothing_to_steer(checked, scaffold):
    """SC-19: each command says so in the same words."""
    answers = {args: scaffold(*args) for args in REFUSED}
    assert {args: (answer.code, answer.out) for args, answer in answers.items()} == dict.fromkeys(REFUSED, (64, ""))
    assert len({answer.err for args, answer in answers.items() if args[0] != "approve"}) == 1


def test_a_store_without_runs_is_shown_as_empty(context, scaffold):
    assert scaffold("status", "--json").json == EMPTY["status"]


def test_outside_a_repository_commands_that_need_one_say_so(home, tmp_path, monkeypatch, scaffold):
    monkeypatch.chdir(tmp_path)
    assert {name: scaffold(name).code for name in ("status", "init", "config")} == {
        "status": 64,
        "init": 64,
        "config": 0,
    }
    assert "git init" in scaffold("init").err
    assert scaffold("config", "tier").out.split() == ["tier", "auto", "(built-in)"]
