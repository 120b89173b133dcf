"""`revert`: an action's work is undone on the session branch, and the run knows what no longer holds."""

import json

import pytest
from inline_snapshot import snapshot

from support.crash_points import SAMPLE, CrashPoint, try_every_point
from support.landed_run import checkout_bytes, landed_run, session_branch
from support.scenario import COMMAND_S, Scenario, action, plan_of, shell, wait_until

pytestmark = pytest.mark.slow


@pytest.fixture
def scenario(tmp_path):
    return landed_run(tmp_path)


def files(scenario):
    return set(scenario.git("ls-tree", "--name-only", session_branch(scenario)).split())


def test_a_reverted_action_is_open_again_and_resume_works_on_it(scenario):
    """BX-1, BX-2: its facts are refuted, those that build on them are checked again; the checkout stays as it is."""
    before = checkout_bytes(scenario.repo)
    done = scenario.scaffold("revert", "model", "--json", code=0)
    told = json.loads(done.stdout)
    assert (told["refuted"], told["stale"]) == (["model_works"], ["api_works"])
    assert scenario.facts() == {"model_works": "refuted", "api_works": "stale", "guide_written": "holds"}
    status = scenario.status()
    assert status["run"]["status"] == "paused"
    assert {each["key"]: each["status"] for each in status["actions"]}["model"] == "pending"
    assert files(scenario) == {".gitignore", "README.md", "api.py", "GUIDE.md"}
    assert scenario.git("log", "-1", "--format=%s", session_branch(scenario)).strip() == 'Revert "make model"'
    scenario.scaffold("revert", "model", code=64)
    resumed = scenario.scaffold("resume", code=0)
    assert resumed.stdout.splitlines()[-1] == snapshot("landed 3 actions, 3 facts with evidence")
    assert set(scenario.facts().values()) == {"holds"}
    assert "model.py" in files(scenario)
    assert checkout_bytes(scenario.repo) == before
    scenario.scaffold("land", code=0)


def test_what_fails_without_the_reverted_work_is_done_again(scenario):
    """BX-1: a fact that builds on it and no longer passes its checks is refuted, and its action runs again."""
    scenario.cassette(
        model=[shell("echo VALUE = 2 > model.py; rm -f api.py")], api=[shell("echo import model > api.py")]
    )
    scenario.scaffold("revert", "model", code=0)
    model = f"cassette:{scenario.home / 'cassette.yaml'}"
    scenario.scaffold("resume", "--model", model, code=0)
    attempts = {each["key"]: len(each["attempts"]) for each in scenario.status()["actions"]}
    assert attempts == {"model": 2, "api": 2, "guide": 1}
    assert set(scenario.facts().values()) == {"holds"}


def test_a_conflict_names_what_to_revert_first_and_changes_nothing(tmp_path):
    """BX-2: in memory, so nothing is half done."""
    scenario = Scenario(tmp_path)
    scenario.plan(
        plan_of(
            list=[
                action("first", effects=["one"], check="grep -q one list.txt"),
                action("second", needs=["one"], effects=["two"], check="grep -q two list.txt"),
            ]
        )
    )
    scenario.cassette(first=[shell("echo one > list.txt")], second=[shell("echo one, two > list.txt")])
    scenario.run("--yes", code=0)
    before = scenario.git("for-each-ref"), scenario.status()
    done = scenario.scaffold("revert", "first", code=1)
    assert "second changed the same lines of list.txt" in done.stderr
    assert "Revert these first: `scaffold revert second`" in done.stderr
    assert (scenario.git("for-each-ref"), scenario.status()["goals"]) == (before[0], before[1]["goals"])
    scenario.git("switch", "-q", session_branch(scenario))
    assert "is checked out in" in scenario.scaffold("revert", "second").stderr
    scenario.git("switch", "-q", "main")
    scenario.scaffold("revert", "second", code=0)
    scenario.scaffold("revert", "first", code=0)
    assert files(scenario) == {"README.md"}


WORKS = ("ant", "bee", "cow", "dog", "eel", "fox", "gnu", "hen")
ADD = """\
import json, pathlib
manifest = json.loads(pathlib.Path('package.json').read_text())
manifest['dependencies']['NAME'] = '^1.0.0'
pathlib.Path('package.json').write_text(json.dumps(manifest, indent=2) + chr(10))
with open('CHANGELOG.md', 'a') as changes:
    changes.write('- Add NAME.' + chr(10))
"""


@pytest.mark.parametrize(("works", "is_union"), [(WORKS, True), (WORKS[2:5], False)], ids=["at-once", "in-turn"])
def test_one_of_many_works_on_one_changelog_and_one_manifest_is_taken_back_alone(tmp_path, works, is_union):
    """AL-13, BX-1: what lands by the entries of a file is taken back by them, and the facts of the others hold."""
    scenario = Scenario(tmp_path)
    (scenario.repo / "package.json").write_text('{\n  "name": "shop",\n  "dependencies": {}\n}\n')
    (scenario.repo / "CHANGELOG.md").write_text("# Changes\n\n")
    if is_union:
        (scenario.repo / ".gitattributes").write_text("CHANGELOG.md merge=union\n")
    scenario.commit("a shop")
    actions = [
        action(
            each,
            needs=[] if is_union or at == 0 else [works[at - 1]],
            effects=[each],
            check=f"grep -q {each} package.json && grep -q {each} CHANGELOG.md",
        )
        for at, each in enumerate(works)
    ]
    scenario.plan(plan_of(shop=actions))
    scenario.cassette(**{each: [shell(f'python3 -c "{ADD.replace("NAME", each)}"')] for each in works})
    scenario.run("--yes", "--agents", "4", code=0)
    scenario.scaffold("revert", "dog", code=0)
    branch = session_branch(scenario)
    manifest = json.loads(scenario.git("show", f"{branch}:package.json"))
    assert sorted(manifest["dependencies"]) == sorted({*works} - {"dog"})
    changes = scenario.git("show", f"{branch}:CHANGELOG.md").splitlines()
    assert sorted(changes[2:]) == [f"- Add {each}." for each in works if each != "dog"]
    facts = scenario.facts()
    assert facts.pop("dog") == "refuted"
    assert "refuted" not in facts.values()
    scenario.scaffold("resume", code=0)
    assert set(scenario.facts().values()) == {"holds"}


def test_a_run_that_is_executed_is_neither_reverted_nor_taken(tmp_path):
    """BX-8: its owner alone moves the session branch."""
    scenario = Scenario(tmp_path)
    slow = action("slow", effects=["slow_done"], check="test -f slow", needs=["quick_done"])
    scenario.plan(plan_of(both=[action("quick", effects=["quick_done"], check="test -f quick"), slow]))
    scenario.cassette(quick=[shell("touch quick; echo > quick")], slow=[shell("sleep 30; echo > slow")])
    running = scenario.start(scenario.run_command("--yes"))
    assert wait_until(lambda: scenario.facts().get("quick_done") == "holds")
    for command in (("revert", "quick"), ("land",)):
        done = scenario.scaffold(*command)
        assert (done.returncode, "is executing run" in done.stderr) == (1, True)
    scenario.scaffold("stop", code=0)
    running.wait(timeout=COMMAND_S)
    scenario.scaffold("revert", "quick", code=0)


@pytest.mark.parametrize("share", SAMPLE)
def test_a_kill_at_any_point_of_a_revert_is_made_up_for(tmp_path, share):
    """BX-15: the same command finishes it, and the branch has one commit that undoes the work."""

    def trial(number):
        scenario = landed_run(tmp_path / str(number))
        point = CrashPoint(scenario, number)
        with point.armed():
            first = scenario.scaffold("revert", "model")
        assert first.returncode in {0, -9}, first.stderr
        if first.returncode == -9:
            again = scenario.scaffold("revert", "model")
            assert again.returncode == 0 or "is pending" in again.stderr, again.stderr
        assert scenario.facts()["model_works"] == "refuted"
        assert scenario.status()["run"]["status"] == "paused"
        subjects = scenario.git("log", "--format=%s", session_branch(scenario)).splitlines()
        assert subjects.count('Revert "make model"') == 1
        return point.passed()

    try_every_point(share, trial)
