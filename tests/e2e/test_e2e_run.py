"""From a plan file to landed commits, by the real command on a real repository."""

import json

import pytest
from inline_snapshot import snapshot

from support.scenario import action, meeting, plan_of, shell, write


def two_goals(scenario):
    scenario.plan(
        plan_of(
            store=[
                action("model", effects=["model_works"], check="test -f model.py"),
                action("api", needs=["model_works"], effects=["api_works"], check="grep -q model api.py"),
            ],
            docs=[action("guide", effects=["guide_written"], check="test -s GUIDE.md")],
        )
    )
    scenario.cassette(
        model=[write("model.py", "VALUE = 1\n")],
        api=[write("api.py", "import model\n")],
        guide=[write("GUIDE.md", "# Guide\n")],
    )


@pytest.mark.slow
def test_a_plan_becomes_one_commit_per_action_with_its_trailers(scenario):
    """AL-12, SC-3, OR-2: commits are on `session-<run>` only, one per action, by the user.

    SC-9, SC-11, BX-1: the store says what was done, by which attempt, and with what evidence.
    """
    two_goals(scenario)
    done = scenario.run("--yes", code=0)
    assert done.stdout.splitlines()[-1] == snapshot("landed 3 actions, 3 facts with evidence")
    status = scenario.status()
    run = status["run"]
    log = scenario.git(
        "log", "--format=%an|%(trailers:key=Scaffold-Action,valueonly)", f"{run['base_sha']}..{run['session_branch']}"
    )
    landed = [line.split("|") for line in log.splitlines() if line]
    assert sorted(key for _, key in landed) == ["api", "guide", "model"]
    assert {author for author, _ in landed} == {"Ada"}
    assert scenario.git("branch", "--format=%(refname:short)").split() == ["main", run["session_branch"]]
    runs = scenario.git(
        "log", "--format=%(trailers:key=Scaffold-Run,valueonly)", f"{run['base_sha']}..{run['session_branch']}"
    )
    assert set(runs.split()) == {run["id"]}
    assert len(scenario.git("worktree", "list").splitlines()) == 1
    assert scenario.git("for-each-ref", "refs/scaffold/") == ""
    assert [path for path in scenario.cache.rglob("*") if path.name == ".git"] == []
    assert set(status) == {"run", "goals", "actions", "queue", "inbox"}
    assert status["run"]["status"] == "completed"
    assert status["queue"] == status["inbox"] == []
    store = next(goal for goal in status["goals"] if goal["name"] == "store")
    assert store["status"] == "completed"
    assert store["goal_state"] == {"model_works": True, "api_works": True}
    fact = next(fact for fact in store["facts"] if fact["name"] == "api_works")
    assert fact["state"] == "holds"
    assert [(e["kind"], e["command"], e["exit_code"]) for e in fact["evidence"]] == [
        ("contract", "grep -q model api.py", 0)
    ]
    api = next(each for each in status["actions"] if each["key"] == "api")
    assert (api["status"], api["result"], len(api["attempts"])) == ("completed", "done with api", 1)
    assert api["attempts"][0]["head_sha"] == fact["commit"]


@pytest.mark.slow
def test_a_dirty_checkout_is_not_changed(scenario):
    """BX-9: the user's files, index and branch are untouched, whatever lands."""
    two_goals(scenario)
    (scenario.repo / "README.md").write_text("changed, not committed\n")
    (scenario.repo / "untracked.txt").write_text("mine\n")
    (scenario.repo / "staged.txt").write_text("staged\n")
    scenario.git("add", "staged.txt")
    scenario.git("checkout", "-q", "--detach")
    before = scenario.checkout()
    scenario.run("--yes", code=0)
    assert scenario.checkout() == before
    assert scenario.status()["run"]["base_branch"] is None


@pytest.mark.slow
def test_a_failed_contract_is_returned_to_the_same_attempt(scenario):
    """AL-6: the agent reads the failure, and fixes it."""
    scenario.plan(plan_of(g=[action("half", effects=["whole"], check="grep -q two notes.txt")]))
    scenario.cassette(half=[write("notes.txt", "one\n"), "I am done", write("notes.txt", "one\ntwo\n"), "now I am"])
    scenario.run("--yes", code=0)
    (half,) = scenario.status()["actions"]
    assert [attempt["status"] for attempt in half["attempts"]] == ["ended"]
    assert half["result"] == "now I am"
    assert "grep -q two notes.txt" in scenario.journal("g", "half")


@pytest.mark.slow
def test_work_that_never_passes_fails_and_blocks_its_dependents(scenario):
    """SC-20, AL-19: three attempts, then failed; dependents name the cause; other work continues."""
    scenario.plan(
        plan_of(
            g=[
                action("broken", effects=["a"], check="test -f never"),
                action("after", needs=["a"], effects=["b"], check="true"),
                action("apart", effects=["c"], check="true"),
            ]
        )
    )
    scenario.cassette(broken=[write("x.txt", "x\n")], after=[write("y.txt", "y\n")], apart=[write("z.txt", "z\n")])
    done = scenario.run("--yes", code=1)
    assert "after  blocked: needs broken, which failed" in done.stdout
    assert "dependency_failed" not in done.stdout, "people are told keys"
    by_key = {each["key"]: each for each in scenario.status()["actions"]}
    assert by_key["broken"]["status"] == "failed"
    assert [a["number"] for a in by_key["broken"]["attempts"]] == [1, 2, 3]
    assert by_key["after"]["status"] == "blocked"
    assert by_key["after"]["reason"] == f"dependency_failed:{by_key['broken']['id']}"
    assert by_key["apart"]["status"] == "completed"
    assert scenario.status()["run"]["status"] == "failed"
    rescued = scenario.git("for-each-ref", "--format=%(refname)", "refs/scaffold/rescue/").split()
    assert len(rescued) == 3, "work that did not land stays pinned"


@pytest.mark.slow
def test_a_conflict_is_pinned_and_redone_on_the_new_base(scenario):
    """AL-13, BX-3: the next attempt sees both diffs, and no work is lost."""
    scenario.plan(
        plan_of(
            g=[
                action("left", effects=["l"], check="grep -q left list.txt"),
                action("right", effects=["r"], check="grep -q right list.txt"),
            ]
        )
    )
    (scenario.repo / "list.txt").write_text("[]\n")
    scenario.commit("a list")
    met = meeting(scenario.out, "left", "right")
    scenario.cassette(**{side: [shell(f"{met[side]}; sed -i 's/]/ {side}]/' list.txt")] for side in met})
    scenario.run("--yes", "--sandbox", "off", "--yolo", code=0)
    attempts = [attempt for each in scenario.status()["actions"] for attempt in each["attempts"]]
    assert len(attempts) == 3
    assert len(scenario.git("for-each-ref", "--format=%(refname)", "refs/scaffold/work/").split()) == 1
    final = scenario.git("show", f"{scenario.status()['run']['session_branch']}:list.txt")
    assert "left" in final
    assert "right" in final
    loser = next(each["key"] for each in scenario.status()["actions"] if len(each["attempts"]) == 2)
    journal = scenario.journal("g", loser)
    assert "conflict" in journal
    assert "in list.txt, which did not land:" in journal, "its changes elsewhere are not shown"
    assert "+[ left]" in journal
    assert "+[ right]" in journal


@pytest.mark.slow
def test_every_kind_of_check_in_a_contract_is_enforced(scenario):
    """AL-8: commands, output, and the three file constraints; an optional check only warns."""
    contract = {
        "commands": [
            {"command": "cat made.txt", "expect": "output contains hello"},
            {"command": "exit 3", "expect": "exit 3"},
            {"command": "false", "required": False},
        ],
        "must_exist": ["made.txt"],
        "must_not_exist": ["**/*.orig"],
        "must_not_change": ["README.md"],
    }
    scenario.plan(plan_of(g=[action("all", effects=["x"], contract=contract)]))
    scenario.cassette(all=[write("made.txt", "hello\n")])
    scenario.run("--yes", code=0)
    (fact,) = scenario.status()["goals"][0]["facts"]
    assert {e["command"] for e in fact["evidence"]} == {
        "cat made.txt",
        "exit 3",
        "must_exist: made.txt",
        "must_not_exist: **/*.orig",
        "must_not_change: README.md",
    }


@pytest.mark.slow
def test_a_compound_completes_with_its_children(scenario):
    """SC-5: a compound opens when ready, and completes when its effects hold."""
    scenario.plan(
        plan_of(
            g=[
                {"key": "phase", "kind": "compound", "effects": ["a", "b"]},
                {**action("one", effects=["a"], check="test -f one"), "parent": "phase"},
                {**action("two", needs=["a"], effects=["b"], check="test -f two"), "parent": "phase"},
                action("last", needs=["b"], effects=["c"], check="test -f last"),
            ]
        )
    )
    scenario.cassette(one=[write("one", "1")], two=[write("two", "2")], last=[write("last", "3")])
    scenario.run("--yes", code=0)
    assert {each["key"]: each["status"] for each in scenario.status()["actions"]} == dict.fromkeys(
        ("phase", "one", "two", "last"), "completed"
    )


@pytest.mark.slow
def test_there_are_never_more_agents_than_requested(scenario):
    """SC-22: the cap of the run covers all its goals."""
    scenario.plan(
        plan_of(
            **{f"g{n}": [action(f"a{n}{m}", effects=[f"e{n}{m}"], check="true") for m in range(3)] for n in range(2)}
        )
    )
    mark = scenario.home / "marks"
    mark.mkdir()
    look = (
        f"echo x > {mark}/$SCAFFOLD_ACTION; ls {mark} | wc -l >> {scenario.home}/seen; sleep 0.3; "
        f"rm {mark}/$SCAFFOLD_ACTION; date +%N > $SCAFFOLD_ACTION"
    )
    scenario.cassette(**{f"a{n}{m}": [shell(look)] for n in range(2) for m in range(3)})
    scenario.run("--yes", "--agents", "2", "--sandbox", "off", "--yolo", code=0)
    seen = [int(line) for line in (scenario.home / "seen").read_text().split()]
    assert len(seen) == 6
    assert max(seen) == 2


def test_a_dry_run_opens_no_cassette_and_changes_nothing(scenario):
    two_goals(scenario)
    (scenario.home / "cassette.yaml").unlink()
    data = json.loads(scenario.run("--dry-run").stdout)
    assert {"tier", "tier_confidence", "base_branch", "base_sha", "agents", "budget"} <= set(data["run"])
    assert (data["run"]["tier"], data["run"]["tier_confidence"]) == ("builder", 1.0), "a plan has builder's numbers"
    assert not (scenario.repo / ".git" / "scaffold").exists()


@pytest.mark.slow
def test_an_exhausted_budget_pauses_the_run_and_a_higher_one_continues_it(scenario):
    """AL-21, BX-11: no request starts beyond the budget; the work is pinned, the action pending again."""
    scenario.plan(plan_of(g=[action("dear", effects=["x"], check="test -f b")]))
    scenario.cassette(dear=[write("a", "a"), write("b", "b")], cost=1.0)
    scenario.run("--yes", "--budget-usd", "0.5", code=2)
    status = scenario.status()
    assert status["run"]["status"] == "paused"
    assert status["actions"][0]["status"] == "pending"
    assert scenario.git("for-each-ref", "refs/scaffold/rescue/") != ""
    scenario.scaffold("resume", "--budget-usd", "100", code=0)
