"""`rebase`: the work of a run comes to the new tip of its base branch, and is proven there."""

import json
import subprocess

import pytest

from support.crash_points import SAMPLE, CrashPoint, try_every_point
from support.landed_run import checkout_bytes, landed_run, session_branch
from support.scenario import COMMAND_S, Scenario, action, plan_of, shell, wait_until, write

pytestmark = pytest.mark.slow


@pytest.fixture
def scenario(tmp_path):
    made = landed_run(tmp_path)
    move_on(made)
    return made


def move_on(scenario, **files):
    """Commit to the base branch."""
    for name, content in {"THEIRS.md": "theirs\n", **files}.items():
        (scenario.repo / name.replace("_", ".")).write_text(content)
    scenario.commit("theirs")


def resume(scenario):
    scenario.scaffold("resume", "--model", f"cassette:{scenario.home / 'cassette.yaml'}", code=0)


def test_landed_work_is_carried_over_and_proven_anew_before_it_counts(scenario):
    """BX-2, BX-1: every fact is stale until its checks ran on the new base; no model is asked for that."""
    assert "scaffold rebase" in scenario.scaffold("land").stderr
    before, requests = checkout_bytes(scenario.repo), scenario.status()["run"]["budget"]["tokens"]
    old = scenario.git("rev-parse", session_branch(scenario)).strip()
    done = scenario.scaffold("rebase", "--json", code=0)
    told = json.loads(done.stdout)
    assert (told["rebased"], told["open_again"], len(told["carried"])) == (True, [], 3)
    assert told["base"] == scenario.git("rev-parse", "main").strip() == scenario.status()["run"]["base_sha"]
    assert set(scenario.facts().values()) == {"stale"}
    assert scenario.status()["run"]["status"] == "paused"
    assert old in scenario.git("for-each-ref", "refs/scaffold/keep")
    resume(scenario)
    assert set(scenario.facts().values()) == {"holds"}
    assert scenario.status()["run"]["budget"]["tokens"] == requests
    assert checkout_bytes(scenario.repo) == before
    again = json.loads(scenario.scaffold("rebase", "--json").stdout)
    assert not again["rebased"]
    landed = json.loads(scenario.scaffold("land", "--json").stdout)
    assert (landed["taken"], landed["proven"]) == (True, True)


def test_work_that_was_not_proven_on_the_new_base_is_not_called_proven(scenario):
    """BX-1: `land` may take it, and says so."""
    scenario.scaffold("rebase", code=0)
    assert not json.loads(scenario.scaffold("land", "--json").stdout)["proven"]


@pytest.mark.parametrize("resumed", [False, True])
def test_what_only_gates_showed_is_called_proven_once_they_ran_on_the_new_base(tmp_path, resumed):
    """BX-1, BX-2: a fact that no check shows is carried over, and is no proof of a tree on which nothing ran."""
    made = Scenario(tmp_path)
    made.configure(quality_gates={"test": "grep -q Sample README.md && test ! -f BROKEN"})
    made.plan(plan_of(both=[{**action("first", effects=["first_done"]), "contract": None}]))
    made.cassette(first=[write("first.txt", "1\n")])
    made.run("--yes", code=0)
    move_on(made)
    made.scaffold("rebase", code=0)
    if resumed:
        resume(made)
    work = json.loads(made.scaffold("land", "--json").stdout)
    assert (work["taken"], work["proven"]) == (True, resumed)


def test_work_whose_checks_pass_on_the_new_base_is_not_proven_if_the_gates_fail_there(tmp_path):
    """BX-1: neither the whole nor a part of it that has the same tree."""
    made = Scenario(tmp_path)
    made.configure(quality_gates={"test": "! { test -f first.txt && test -f THEIRS.md; }"})
    made.plan(plan_of(both=[action("first", effects=["first_done"], check="test -f first.txt")]))
    made.cassette(first=[write("first.txt", "1\n")])
    made.run("--yes", code=0)
    move_on(made)
    made.scaffold("rebase", code=0)
    made.scaffold("resume", "--model", f"cassette:{made.home / 'cassette.yaml'}", code=1)
    assert made.facts() == {"first_done": "holds"}
    refused = made.scaffold("land", "--only", "first")
    assert (refused.returncode, "the gate test" in refused.stderr) == (1, True)
    assert "the gates have not passed on it" in made.scaffold("land").stdout


def test_an_action_that_conflicts_is_done_again_on_the_new_base(scenario):
    """BX-2: the others are carried over; the former branch is kept."""
    move_on(scenario, GUIDE_md="their guide\n")
    told = json.loads(scenario.scaffold("rebase", "--json").stdout)
    assert (told["open_again"], [each["action"] for each in told["carried"]]) == (["guide"], ["model", "api"])
    assert scenario.facts() == {"model_works": "stale", "api_works": "stale", "guide_written": "refuted"}
    assert "conflicts with the new base" in scenario.scaffold("salvage").stdout
    resume(scenario)
    assert {each["key"]: len(each["attempts"]) for each in scenario.status()["actions"]} == {
        "model": 1,
        "api": 1,
        "guide": 2,
    }
    scenario.scaffold("land", code=0)
    assert (scenario.repo / "GUIDE.md").read_text() == "# Guide\n"


def test_a_rewritten_base_branch_is_a_base_like_any_other(scenario):
    """BX-2: after a force-push the branch no longer contains the commit from which the run started."""
    scenario.git("commit", "-q", "--amend", "-m", "rewritten")
    scenario.git("reset", "-q", "--soft", scenario.git("rev-list", "--max-parents=0", "main").strip())
    scenario.git("commit", "-q", "--amend", "-m", "everything anew")
    assert json.loads(scenario.scaffold("rebase", "--json").stdout)["rebased"]
    resume(scenario)
    scenario.scaffold("land", code=0)


def let_a_candidate_wait(scenario):
    """Run two actions; one has landed, the other one waits for a branch that is checked out no longer."""
    needs = action("api", needs=["model_works"], effects=["api_works"], check="test -f api.py")
    scenario.plan(plan_of(store=[action("model", effects=["model_works"], check="test -f model.py"), needs]))
    later = "until git worktree list | grep -q held; do sleep 0.05; done; echo import model > api.py"
    scenario.cassette(model=[write("model.py", "VALUE = 1\n")], api=[shell(later)])
    running = scenario.start(scenario.run_command("--yes"))
    assert wait_until(lambda: scenario.facts().get("model_works") == "holds")
    held = scenario.home / "held"
    scenario.git("worktree", "add", "-q", str(held), session_branch(scenario))
    running.wait(timeout=COMMAND_S)
    assert [each["action"] for each in json.loads(scenario.scaffold("queue", "--json").stdout)["queue"]] == ["api"]
    scenario.git("worktree", "remove", "--force", str(held))


def test_a_candidate_that_waits_is_told_goes_on_and_lands_proven_on_the_new_base(tmp_path):
    """BX-2: with its own change alone in `diff` and `review`, before and after; the checkout stays as it is."""
    scenario = Scenario(tmp_path)
    let_a_candidate_wait(scenario)
    move_on(scenario)
    before = checkout_bytes(scenario.repo)
    done = scenario.scaffold("rebase")
    assert "api    waits to land, once it is proven on the new base" in done.stdout
    waiting = json.loads(scenario.scaffold("diff", "api", "--json").stdout)
    resume(scenario)
    landed = json.loads(scenario.scaffold("diff", "api", "--json").stdout)
    assert (waiting["paths"], landed["paths"]) == (["api.py"], ["api.py"])
    review = json.loads(scenario.scaffold("review", "--json").stdout)
    assert {each["path"]: each["actions"] for each in review["files"]} == {"model.py": ["model"], "api.py": ["api"]}
    assert [len(each["attempts"]) for each in scenario.status()["actions"]] == [1, 1]
    assert checkout_bytes(scenario.repo) == before
    assert json.loads(scenario.scaffold("land", "--json").stdout)["proven"]


@pytest.mark.parametrize("lacks", ["blob:none", "tree:0"])
def test_work_and_a_candidate_are_carried_over_in_a_partial_clone(tmp_path, lacks):
    """BX-9, BX-2: the new base was fetched without its files, also those of the commits before it."""
    scenario = Scenario(tmp_path)
    scenario.git("config", "uploadpack.allowFilter", "true")
    origin, scenario.repo = scenario.repo, tmp_path / "clone"
    named = ("-c", "user.name=Ada", "-c", "user.email=ada@example.invalid")
    subprocess.run(
        ["git", "clone", "-q", f"--filter={lacks}", *named, f"file://{origin}", scenario.repo],
        check=True,
        env=scenario.environ,
    )
    scenario.out.mkdir(exist_ok=True)
    let_a_candidate_wait(scenario)
    for content in ("first\n", "second\n"):
        (origin / "THEIRS.md").write_text(content)
        scenario.git("-C", str(origin), "add", "-A")
        scenario.git("-C", str(origin), "commit", "-qm", content)
    scenario.git("switch", "-q", "--detach")
    scenario.git("fetch", "-q", "origin", "main:main")
    told = json.loads(scenario.scaffold("rebase", "--json", code=0).stdout)
    assert [each["action"] for each in told["carried"]] == ["model"]
    resume(scenario)
    assert [len(each["attempts"]) for each in scenario.status()["actions"]] == [1, 1]
    assert json.loads(scenario.scaffold("land", "--json", code=0).stdout)["proven"]
    assert scenario.git("ls-tree", "--name-only", "main").split() == ["README.md", "THEIRS.md", "api.py", "model.py"]


@pytest.mark.parametrize("share", SAMPLE)
def test_a_kill_at_any_point_of_a_rebase_is_made_up_for(tmp_path, share):
    """BX-15: the same command finishes it; no commit is there twice."""

    def trial(number):
        scenario = landed_run(tmp_path / str(number))
        move_on(scenario)
        point = CrashPoint(scenario, number)
        with point.armed():
            first = scenario.scaffold("rebase")
        assert first.returncode in {0, -9}, first.stderr
        if first.returncode == -9:
            scenario.scaffold("rebase", code=0)
        run = scenario.status()["run"]
        assert (run["status"], run["base_sha"]) == ("paused", scenario.git("rev-parse", "main").strip())
        assert set(scenario.facts().values()) == {"stale"}
        assert scenario.git("rev-list", "--count", f"main..{run['session_branch']}").strip() == "3"
        return point.passed()

    try_every_point(share, trial)
