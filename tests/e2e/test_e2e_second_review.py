"""Work that no program can decide about, by the real command: read by a second reviewer or left to a human."""

import json

import pytest
import yaml
from inline_snapshot import snapshot

from support.crash_points import CrashPoint
from support.scenario import action, plan_of, text_entry, write

CALC = "def half(number):\n    return number // 2\n"
EXACT = "def half(number):\n    return number / 2\n"
TESTS = (
    "from calc import half\n\n\n"
    "def test_even():\n    assert half(4) == 2\n\n\n"
    "def test_odd_is_cut():\n    assert half(3) == 1\n"
)
KEPT = TESTS[: TESTS.index("\n\n\ndef test_odd")] + "\n"
CHECK = "python -c 'import calc; assert calc.half(3) == 1.5'"
BUILDER = ("--tier", "builder", "--yes")
WAITS = 3


@pytest.fixture
def scenario(scenario):
    """A repository with a test of behaviour that the only action is to change; the test goes with it."""
    scenario.configure()
    (scenario.repo / "calc.py").write_text(CALC)
    (scenario.repo / "test_calc.py").write_text(TESTS)
    scenario.commit("halves")
    scenario.plan(plan_of(g=[action("exact", effects=["exact_there"], check=CHECK, files=["calc.py", "test_calc.py"])]))
    return scenario


def verdict(word="approve", *, file="test_calc.py", line=9, before=True, summary="Halves were to be exact."):
    cited = [{"file": file, "line": line, "note": "the old way", "before": before}]
    said = {"verdict": word, "citations": cited, "summary": summary}
    return f"I read it.\n\n```json\n{json.dumps(said)}\n```"


def replies(scenario, *reviewer, steps=()):
    """Write the cassette: the agent's steps, the entries of a reviewer, and a critic that is always content."""
    path = scenario.cassette(exact=list(steps or (write("calc.py", EXACT), write("test_calc.py", KEPT))))
    content = yaml.safe_load(path.read_text())
    scenario.replies(*reviewer, text_entry("critic", "Total: 9/9"), *content["replies"])


def fact(scenario):
    (goal,) = scenario.status()["goals"]
    (found,) = goal["facts"]
    return found


def evidence(found, kind):
    return [each["detail"] for each in found["evidence"] if each["kind"] == kind]


@pytest.mark.slow
def test_lost_tests_land_as_reviewed_once_the_second_reviewer_agrees(scenario):
    """AL-23, BX-1: it is asked about exactly these, with their source; its citations are evidence."""
    replies(scenario, text_entry("reviewer", verdict(), event="lost_tests"))
    done = scenario.run(*BUILDER, code=0)
    found = fact(scenario)
    assert (found["strength"], [each["code"] for each in found["doubts"]]) == ("reviewed", ["tests_lost"])
    (said,) = evidence(found, "review")
    assert said.startswith(f"second review by cassette:{scenario.home / 'cassette.yaml'}: Halves were to be exact.")
    assert said.endswith("- test_calc.py:9 (before the change): the old way")
    asked = scenario.journal("g", "exact")
    assert "- test_calc.py::test_odd_is_cut: lost: as it was, it fails on the new code" in asked
    assert "    8  def test_odd_is_cut():" in asked
    shown = scenario.scaffold("contract", "exact").stdout
    assert "second review by cassette:" in shown
    assert "- test_calc.py:9 (before the change): the old way" in shown
    listed = done.stdout[done.stdout.index("1 fact reviewed:") :]
    assert "exact_there: 1 test gone that would fail: test_calc.py::test_odd_is_cut" in listed


@pytest.mark.slow
def test_lost_tests_that_the_second_reviewer_rejects_do_not_land(scenario):
    """AL-23: the agent reads why; the tests block as without a reviewer."""
    replies(scenario, text_entry("reviewer", verdict("reject", summary="Nobody asked for that.")))
    scenario.run(*BUILDER, code=1)
    status = scenario.status()
    assert status["goals"][0]["facts"] == []
    assert scenario.git("show", f"{status['run']['session_branch']}:test_calc.py") == TESTS
    assert "The check `second review` failed" in scenario.journal("g", "exact")
    assert "Nobody asked for that." in status["actions"][0]["reason"]
    assert status["inbox"] == [], "a human is not asked to overrule it"


@pytest.mark.slow
def test_without_a_reviewer_lost_tests_wait_for_a_human(scenario):
    """AL-23, BX-13: bound to base, change and tests; approved, exactly that work lands as reviewed."""
    scenario.configure(inbox={"wait_s": 0.2})
    replies(scenario)
    scenario.run("--yes", code=WAITS)
    (item,) = scenario.status()["inbox"]
    assert item["text"] == snapshot("exact loses 1 test that would fail now: test_calc.py::test_odd_is_cut.")
    assert item["detail"]["lost"] == ["test_calc.py::test_odd_is_cut"]
    assert "│ test_calc.py::test_odd_is_cut" in scenario.scaffold("inbox").stdout
    scenario.scaffold("approve", item["id"], "--for", "action", code=0)
    requests = scenario.journal("g", "exact").count('"type": "prompt"')
    scenario.scaffold("resume", code=0)
    found = fact(scenario)
    assert (found["strength"], scenario.outcomes()) == ("reviewed", ["waiting", "landed"])
    assert evidence(found, "human")[0].startswith(f"approved as {item['id']}")
    assert scenario.journal("g", "exact").count('"type": "prompt"') == requests, "the work was restored, not redone"


@pytest.mark.slow
def test_lost_tests_that_a_human_wants_to_keep_are_a_failure_with_the_reason(scenario):
    """AL-23, BX-13."""
    scenario.configure(inbox={"wait_s": 0.2})
    replies(scenario)
    scenario.run("--yes", code=WAITS)
    (item,) = scenario.status()["inbox"]
    scenario.scaffold("reject", item["id"], "--why", "keep it", code=0)
    scenario.scaffold("resume")
    assert scenario.outcomes()[:2] == ["waiting", "gate_failed"]
    assert scenario.status()["goals"][0]["facts"] == []
    assert "a human rejected the loss of test_calc.py::test_odd_is_cut: keep it" in scenario.journal("g", "exact")


@pytest.mark.slow
@pytest.mark.parametrize("victim", ["worker", "run"])
def test_a_verdict_survives_the_process_that_got_it(scenario, victim):
    """AL-23, BX-15: killed right after it, with the work still to be handed in; nobody is asked again."""
    replies(scenario, text_entry("reviewer", verdict(), attempt=1))
    owner = {"CRASH_OWNER": scenario.home / "owner"} if victim == "run" else {}
    # The reviewer is asked, it has answered, and the critic has scored the work when the third is passed.
    with CrashPoint(scenario, 2, CRASH_PHASE="critiquing", **owner).armed():
        done = scenario.run(*BUILDER)
    if victim == "run":
        assert done.returncode != 0
        scenario.wait_for_end()
        done = scenario.scaffold("resume")
    assert done.returncode == 0, done.stdout + done.stderr
    assert scenario.outcomes() == ["lost", "landed"]
    assert fact(scenario)["strength"] == "reviewed"
    assert "got no second review" not in done.stdout


@pytest.mark.slow
def test_work_after_an_agreed_loss_is_not_blamed_for_it(scenario):
    """AL-10, AL-23: the baseline still has the test; neither the next action nor the end of the run misses it."""
    actions = [
        action("exact", effects=["exact_there"], check=CHECK, files=["calc.py", "test_calc.py"]),
        action(
            "third",
            needs=["exact_there"],
            effects=["third_there"],
            check="python -c 'import calc; assert calc.third(3) == 1'",
            files=["calc.py", "test_calc.py"],
        ),
    ]
    scenario.plan(plan_of(g=actions))
    replies(scenario, text_entry("reviewer", verdict(), event="lost_tests"))
    path = scenario.home / "cassette.yaml"
    content = yaml.safe_load(path.read_text())
    third = scenario.cassette(
        name="third.yaml",
        third=[
            write("calc.py", f"{EXACT}\n\ndef third(number):\n    return number / 3\n"),
            write("test_calc.py", f"{KEPT}\n\ndef test_odd():\n    assert half(3) == 1.5\n"),
        ],
    )
    more = yaml.safe_load(third.read_text())["replies"]
    path.write_text(yaml.safe_dump({**content, "replies": [*content["replies"][:2], *more, *content["replies"][2:]]}))
    scenario.run(*BUILDER, code=0)
    strengths = {each["name"]: each["strength"] for each in scenario.status()["goals"][0]["facts"]}
    assert strengths["exact_there"] == "reviewed"
    assert set(strengths) == {"exact_there", "third_there"}
