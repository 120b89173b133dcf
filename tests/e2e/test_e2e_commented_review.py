"""Comments on lines of a change return to its agent: by the real commands, with a kill, odd files, after landing."""

import json

import pytest

from support.crash_points import CrashPoint
from support.scenario import action, plan_of, shell, write

pytestmark = pytest.mark.slow
ARCHITECT = ("--tier", "architect", "--yes", "--yolo")
WAITS = 3
FIRST = "one = 1\nunused = 2\n\n\ndef twice(x):\n    return x + x\n"
SECOND = "one = 1\n\n\ndef twice(x):\n    return 2 * x\n"
CHECK = "python3 -c 'import a; assert a.twice(3) == 6'"
TOLD = (
    r"(?s)The human you work for wrote this.*Comment 1, a\.py:2 in attempt 1.*> unused = 2.*drop it"
    r".*Comment 3, a\.py:6.*>     return x \+ x.*multiply"
)


@pytest.fixture
def scenario(scenario):
    scenario.configure(
        inbox={"wait_s": 0.1}, reviewer={"model": "off"}, tiers={"architect": {"threshold": 0}}, collisions="off"
    )
    return scenario


def comments(scenario, target="a"):
    return {
        each["number"]: each for each in json.loads(scenario.scaffold("review", target, "--json").stdout)["comments"]
    }


def test_a_human_rejects_with_comments_and_the_agent_reworks_what_they_say(scenario):
    """BX-25, AL-22: it gets place, lines and words; a kill in between loses none; what changed is outdated."""
    scenario.plan(plan_of(g=[action("a", effects=["a_there"], check=CHECK, files=["a.py"])]))
    scenario.replies(
        {"when": {"action": "a", "attempt": 2, "turn": 1, "contains": TOLD}} | {"tool_calls": [write("a.py", SECOND)]},
        {"when": {"action": "a", "attempt": 2, "turn": 2}, "text": "Comment 1: it is gone.\nComment 3: it multiplies."},
        {"when": {"action": "a", "attempt": 1, "turn": 1}, "tool_calls": [write("a.py", FIRST)]},
        {"when": {"action": "a"}, "text": "done"},
    )
    scenario.run(*ARCHITECT, code=WAITS)
    (item,) = scenario.inbox()
    assert f"# a: {CHECK}: 1 file, +6 -0" in item["change"]["diff"].splitlines()
    shown = scenario.scaffold("review", "a").stdout
    assert "@@ a.py:1 @@ new; the check executed 1 of its 1 line that can run" in shown
    scenario.scaffold("review", "a", "--comment", "a.py:2", "drop it", code=0)
    late = scenario.scaffold("approve", item["id"])
    assert (late.returncode, "were not sent" in late.stderr) == (64, True)
    scenario.scaffold("review", "a", "--comment", "a.py:9", "no such line", code=64)
    scenario.scaffold("review", "a", "--comment", "b.py:1", "no such file", code=64)
    scenario.scaffold("review", "a", "--comment", "a.py:6", "a mistake", code=0)
    scenario.scaffold("review", "a", "--discard", "2", "--comment", "a.py:6", "multiply", code=0)
    assert [each["state"] for each in comments(scenario).values()] == [
        "draft, not sent",
        "discarded",
        "draft, not sent",
    ]
    sent = scenario.scaffold("reject", item["id"], "--why", "nearly", code=0)
    assert "rejected" in sent.stdout
    with CrashPoint(scenario, 8).armed():
        scenario.scaffold("resume")
    scenario.scaffold("resume", code=WAITS)
    (again,) = scenario.inbox()
    found = comments(scenario)
    assert found[1]["outdated"]
    assert found[1]["quoted"] == "unused = 2"
    assert found[1]["state"] == "sent; outdated: its lines have changed since"
    scenario.scaffold("approve", again["id"], code=0)
    scenario.scaffold("resume", code=0)
    assert {"landed", "rejected"} <= {*scenario.outcomes("a")}
    assert (comments(scenario)[1]["said"], comments(scenario)[3]["said"]) == ("it is gone.", "it multiplies.")
    text = scenario.scaffold("review", "a").stdout
    assert "its agent says: it multiplies." in text


def test_comments_on_landed_work_become_items_and_nothing_is_lost(scenario):
    """BX-25: in any file with lines, whatever its line ends; control characters reach no terminal; sent once."""
    scenario.plan(plan_of(g=[action("a", effects=["a_there"], check="test -s crlf.txt")]))
    scenario.replies(
        {
            "when": {"action": "a", "turn": 1},
            "tool_calls": [shell(r"printf 'one\r\ntwo' > crlf.txt; printf 'a\0b' > bin")],
        },
        {"when": {"action": "a"}, "text": "done"},
    )
    scenario.run("--yes", "--yolo", code=0)
    scenario.scaffold("review", "a", "--comment", "crlf.txt:1-2", "say \x1b[31mmore\x1b[0m\nplease", code=0)
    scenario.scaffold("review", "a", "--comment", "README.md:1", "not part of it", code=64)
    shown = scenario.scaffold("review", "a").stdout
    assert "draft, not sent" in shown
    assert "\x1b" not in shown
    assert "@@ bin @@ new; binary" in shown
    assert "no newline at the end of the file" in shown
    for code in (0, 64):
        scenario.scaffold("review", "a", "--send", code=code)
    (item,) = json.loads(scenario.scaffold("item", "list", "--json").stdout)["items"]
    assert item["labels"] == ["review"]
    assert item["title"].startswith("crlf.txt: say")
    (comment,) = comments(scenario).values()
    assert comment["sent_as"] == f"item {item['id']}"
    assert comment["quoted"] == "one\ntwo"
