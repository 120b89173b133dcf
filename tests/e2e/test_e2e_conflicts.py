"""Conflicts of parallel work from a plan to landed commits, with the real command."""

import json

import pytest
import yaml

from support.scenario import Scenario, action, plan_of, shell, text_entry, wait_until

SHOP = '"""A shop."""\n\n\ndef price(n):\n    total = n * 2\n    return total\n'
TESTS = "from shop import price\n\n\ndef test_price():\n    assert price(1) >= 2\n"
MERGED = SHOP.replace("n * 2", "(n * 2 + n) * 5")


@pytest.fixture
def scenario(tmp_path):
    made = Scenario(tmp_path)
    for path, text in {
        "shop.py": SHOP,
        "test_shop.py": TESTS,
        "CHANGES.md": "# Changes\n\n- start\n",
        ".gitattributes": "CHANGES.md merge=union\n",
    }.items():
        (made.repo / path).write_text(text)
    made.commit("a shop")
    yield made
    assert wait_until(lambda: not made.processes(), 60), "a process was left behind"


def note(text):
    return f"sed -i 's/- start/- {text}\\n- start/' CHANGES.md"


def works(call):
    return f"python3 -c 'import shop; assert shop.{call}'"


def race(scenario, checks, commands, *replies):
    """Run two actions at once, with `replies` besides those of the workers; return the events."""
    files = ["shop.py", "CHANGES.md"]
    made = [action(key, effects=[f"{key}_works"], check=check, files=files) for key, check in checks.items()]
    scenario.plan(plan_of(g=made))
    cassette = scenario.cassette(**{key: [shell(f"sleep 1; {command}")] for key, command in commands.items()})
    content = yaml.safe_load(cassette.read_text())
    critics = [text_entry("critic", "Total: 9/9\nDONE", action=key) for key in checks]
    cassette.write_text(yaml.safe_dump({**content, "replies": [*replies, *critics, *content["replies"]]}))
    before = scenario.checkout()
    done = scenario.run("--tier", "scout", "--agents", "2", "--yes", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    assert scenario.checkout() == before
    return [json.loads(line) for line in done.stdout.splitlines()]


def merges(events):
    return [each["files"] for each in events if each["type"] == "candidate_merged"]


def landed_file(scenario, path):
    return scenario.git("show", f"{scenario.status()['run']['session_branch']}:{path}")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("answer", "attempts"),
    [(f"MERGED CODE\n\nshop.py\n```python\n{MERGED}```\n", 2), ("CONFLICT EXPLANATION\n\nBoth set the price.", 3)],
    ids=["merged code", "an explanation"],
)
def test_an_agent_may_merge_what_both_sides_tests_and_the_whole_suite_then_prove(scenario, answer, attempts):
    """AL-13: two changes of one line; without a merge the next attempt knows both sides and what was tried."""
    checks = {"tax": works("price(1) >= 3"), "fee": works("price(1) >= 10")}
    commands = {"tax": "sed -i 's/n . 2/(n * 2 + n)/' shop.py", "fee": "sed -i 's/= \\(.*\\)/= \\1 * 5/' shop.py"}
    events = race(
        scenario,
        checks,
        {key: f"{command}; {note(key)}" for key, command in commands.items()},
        text_entry("merger", answer),
    )
    ((changes, shop),) = merges(events)
    assert (changes["path"], changes["status"], changes["detail"]) == ("CHANGES.md", "resolved", "as a union of lines")
    assert shop["status"] == ("resolved" if attempts == 2 else "refused")
    status = scenario.status()
    assert sum(len(each["attempts"]) for each in status["actions"]) == attempts
    if attempts == 2:
        assert "(n * 2 + n) * 5" in landed_file(scenario, "shop.py")
        assert "- tax\n" in landed_file(scenario, "CHANGES.md")
        assert "- fee\n" in landed_file(scenario, "CHANGES.md")
        evidence = [each for goal in status["goals"] for fact in goal["facts"] for each in fact["evidence"]]
        assert "shop.py: resolved by a merge agent" in next(
            each["detail"] for each in evidence if each["kind"] == "merge"
        )
        assert "merged  CHANGES.md: resolved as a union of lines" in scenario.scaffold("attach").stdout
    else:
        (again,) = (each["key"] for each in status["actions"] if len(each["attempts"]) == 2)
        journal = scenario.journal("g", again)
        assert "the merge agent left it: Both set the price." in journal
