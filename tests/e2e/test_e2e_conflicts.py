"""Conflicts of parallel work from a plan to landed commits, with the real command."""

import json
import shutil

import pytest
from inline_snapshot import snapshot

from support.scenario import action, meeting, plan_of, put_before, shell, text_entry

SHOP = '"""A shop."""\n\n\ndef price(n):\n    total = n * 2\n    return total\n'
TESTS = "from shop import price\n\n\ndef test_price():\n    assert price(1) >= 2\n"
MERGED = SHOP.replace("n * 2", "(n * 2 + n) * 5")


@pytest.fixture
def scenario(scenario):
    for path, text in {
        "shop.py": SHOP,
        "test_shop.py": TESTS,
        "CHANGES.md": "# Changes\n\n- start\n",
        ".gitattributes": "CHANGES.md merge=union\n",
    }.items():
        (scenario.repo / path).write_text(text)
    scenario.commit("a shop")
    scenario.configure(collisions="off")  # they are to meet in the same files
    return scenario


def note(text):
    return f"sed -i 's/- start/- {text}\\n- start/' CHANGES.md"


def works(call):
    return f"python3 -c 'import shop; assert shop.{call}'"


def race(scenario, checks, commands, *replies, files=("shop.py", "CHANGES.md"), code=0):
    """Run two actions at once, with `replies` besides those of the workers; return the events."""
    made = [action(key, effects=[f"{key}_works"], check=check, files=[*files]) for key, check in checks.items()]
    scenario.plan(plan_of(g=made))
    met = meeting(scenario.home, *commands)
    cassette = scenario.cassette(**{key: [shell(f"{met[key]}; {command}")] for key, command in commands.items()})
    put_before(cassette, *replies, text_entry("critic", "Total: 9/9\nDONE"))
    before = scenario.checkout()
    done = scenario.run("--tier", "scout", "--agents", "2", "--yes", "--json", "--sandbox", "off", "--yolo", code=code)
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
    """AL-13: two changes of one line; where the agent explains why not, a human decides before the next attempt."""
    checks = {"tax": works("price(1) >= 3"), "fee": works("price(1) >= 10")}
    commands = {"tax": "sed -i 's/n . 2/(n * 2 + n)/' shop.py", "fee": "sed -i 's/= \\(.*\\)/= \\1 * 5/' shop.py"}
    events = race(
        scenario,
        checks,
        {key: f"{command}; {note(key)}" for key, command in commands.items()},
        text_entry("merger", answer),
        code=0 if attempts == 2 else 3,
    )
    ((changes, shop),) = merges(events)
    assert (changes["path"], changes["status"], changes["detail"]) == snapshot(
        ("CHANGES.md", "resolved", "as a union of lines")
    )
    assert shop["status"] == ("resolved" if attempts == 2 else "explained")
    if attempts == 3:
        (item,) = scenario.status()["inbox"]
        assert "Both set the price." in scenario.scaffold("inbox").stdout
        scenario.scaffold("answer", item["id"], "retry keep both factors", code=0)
        scenario.scaffold("resume", "--yes", code=0)
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
        assert "keep both factors" in journal


LOCKED = """\
import json, sys
for path in ("package.json", "package-lock.json"):
    text = json.load(open(path))
    root = text["packages"][""] if "packages" in text else text
    root["dependencies"] = dict(sorted({**root["dependencies"], sys.argv[1]: "^1.0.0"}.items()))
    if "packages" in text:
        entry = {f"node_modules/{sys.argv[1]}": {"version": "1.2.0", "integrity": f"sha512-{sys.argv[1]}"}}
        text["packages"] = dict(sorted({**text["packages"], **entry}.items()))
    open(path, "w").write(json.dumps(text, indent=2) + chr(10))
"""


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("npm") is None, reason="needs npm")
def test_two_actions_that_each_add_a_package_both_land_with_a_lock_file_that_npm_made(scenario):
    """AL-13: the manifest is merged by its entries, the lock file by its own tool; no attempt is done again."""
    shop = {"name": "shop", "version": "1.0.0", "dependencies": {"m": "^1.0.0"}}
    lock = {
        "lockfileVersion": 3,
        "packages": {"": shop, "node_modules/m": {"version": "1.0.0", "integrity": "sha512-m"}},
    }
    for path, text in {"package.json": shop, "package-lock.json": lock}.items():
        (scenario.repo / path).write_text(json.dumps(text, indent=2) + "\n")
    (scenario.repo / "add.py").write_text(LOCKED)
    scenario.commit("packages")
    files = ["package.json", "package-lock.json"]
    keys = ("left", "right")
    events = race(
        scenario,
        {key: f"grep {key} package.json" for key in keys},
        {key: f"python3 add.py {key}" for key in keys},
        files=files,
    )
    told = {each["path"]: each["detail"] for files in merges(events) for each in files}
    assert told["package-lock.json"].startswith("by its tool: regenerated by `npm install")
    packages = json.loads(landed_file(scenario, "package-lock.json"))["packages"]
    assert {"node_modules/left", "node_modules/right", "node_modules/m"} < packages.keys()
    assert [len(each["attempts"]) for each in scenario.status()["actions"]] == [1, 1]
