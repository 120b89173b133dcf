"""`plan check`: every finding in one go, before anything costs money."""

import os
import subprocess  # noqa: TID251 - standard input is given from outside
import sys

import msgspec
import pytest

from builders import git

FAULTY = """\
version: 1
goals:
  - name: g
    goal_state: [a, c]
    actions:
      - {key: x, effects: [a], foo: 1}
      - {key: y, preconditions: [b], effects: [c]}
"""
SOUND = """\
version: 1
goals:
  - name: g
    goal_state: [b]
    actions:
      - {key: x, effects: [a]}
      - {key: y, preconditions: [a], effects: [b]}
"""
JSON_PLAN = '{"version": 1, "goals": [{"name": "g", "goal_state": ["a"], "actions": [{"key": "x", "effects": ["a"]}]}]}'


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def written(content, name="plan.yaml"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return name

    return written


def test_a_sound_plan_is_valid_and_its_shape_is_shown(file, scaffold):
    """BX-7, AL-9: a plan is proven to reach its goals, and it is said what its agents may not change."""
    answer = scaffold("plan", "check", file(SOUND), "--json")
    assert answer.code == 0
    assert answer.json == {"valid": True, "findings": [], "width": 1, "critical_path": ["x", "y"], "actions": 2}
    assert scaffold("plan", "check", "plan.yaml").out.splitlines() == [
        (
            "changed existing tests, check settings and protected files are refused "
            "unless their action lists them in `files`"
        ),
        "  x, y list none; an agent can ask for others with `request_files`",
        "plan.yaml: valid, 2 actions, at most 1 in parallel",
        "  longest chain: x -> y",
    ]


def test_the_tests_that_an_action_without_files_names_are_said_to_be_declared(repository, scaffold):
    """AL-9: by the paths of the last commit; of six actions, five are named."""
    for name in ("calc.py", "test_calc.py"):
        (repository / name).write_text("")
    git(repository, "add", "-A")
    git(repository, "commit", "--quiet", "--message", "Files")
    actions = "".join(f"      - {{key: x{at}, title: Add to calc.py, effects: [b]}}\n" for at in range(6))
    (repository / "plan.yaml").write_text(SOUND.partition("      - ")[0] + actions)
    notes = scaffold("plan", "check", "plan.yaml").out.partition("are refused unless")[2].splitlines()[1:8]
    said = "lists none, so the tests that it names, or whose subject it names, may change if a gate runs them:"
    assert notes == [
        "  an agent can ask for others with `request_files`",
        *(f"  x{at} {said} test_calc.py" for at in range(5)),
        "  and so for 1 more action",
    ]


def test_all_errors_are_reported_at_once(file, scaffold):
    """BX-7: each says what is wrong, where, and how to fix it."""
    answer = scaffold("plan", "check", file(FAULTY), "--json")
    assert answer.code == 4
    assert answer.json["valid"] is False
    assert [(each["code"], each["severity"], each["action"]) for each in answer.json["findings"]] == [
        ("unknown-key", "warning", "x"),
        ("unprovided-precondition", "error", "y"),
        ("unreachable-goal", "error", None),
    ]
    for finding in answer.json["findings"]:
        assert set(finding) == {"code", "severity", "goal", "action", "message", "fix", "line", "column", "example"}
        assert finding["goal"] == "g"
    out = scaffold("plan", "check", "plan.yaml").out
    assert out.startswith("plan.yaml:6:32: warning[unknown-key] ")
    assert "plan.yaml:7:15: error[unprovided-precondition] action `y` needs `b`" in out
    assert out.endswith("plan.yaml: invalid, 2 errors\n")


def test_warnings_alone_leave_a_plan_valid(file, scaffold):
    answer = scaffold("plan", "check", file(SOUND.replace("effects: [a]", "effects: [a, z]")), "--json")
    assert (answer.code, answer.json["valid"]) == (0, True)
    assert [each["code"] for each in answer.json["findings"]] == ["unused-effect"]


UNPARSABLE = {
    "version: 1\ngoals: }": (2, 8),
    b"version: 1\ngoals: caf\xe9": (2, 11),
    "": (1, 1),
    "version: 1\ngoals:\n  - {name: g, goal_state: [a], actions: {}}": (3, 41),
}


def test_an_unparsable_plan_is_invalid_with_a_position(file, scaffold):
    empty = {"valid": False, "findings": [], "width": 0, "critical_path": [], "actions": 0}
    places = {}
    for content in UNPARSABLE:
        answer = scaffold("plan", "check", file(content), "--json")
        assert (answer.code, {**answer.json, "findings": []}) == (4, empty)
        first = answer.json["findings"][0]
        places[content] = (first["line"], first["column"])
        assert first["severity"] == "error"
    assert places == UNPARSABLE


def test_a_json_plan_is_read_as_json(file, scaffold):
    assert scaffold("plan", "check", file(JSON_PLAN, "plan.json")).code == 0
    assert scaffold("plan", "check", file(SOUND, "plan.json")).code == 4


def test_a_missing_file_is_a_usage_error(file, scaffold):
    file(SOUND)
    for name in ("missing.yaml", "."):
        answer = scaffold("plan", "check", name)
        assert (answer.code, answer.out) == (64, "")
        assert f"{name} " in answer.err


@pytest.mark.slow
def test_standard_input_is_read_for_a_dash(home):
    command = [sys.executable, "-m", "scaffold", "plan", "check", "-", "--json"]
    done = subprocess.run(command, input=SOUND.encode(), capture_output=True, env=os.environ.copy(), check=False)
    assert done.returncode == 0
    assert msgspec.json.decode(done.stdout)["valid"] is True


def test_control_characters_of_a_plan_never_reach_the_screen(file, scaffold):
    out = scaffold("plan", "check", file(SOUND.replace("key: y", 'key: "y\\e[31m"'))).out
    assert "\x1b" not in out
    assert r"\x1b" in out
