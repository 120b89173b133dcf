"""Runs that pass each phase of the work, kills in them, and what is paid for: for tests and for `bench/faults`."""

import json
from collections import Counter
from contextlib import suppress

from support.crash_points import CrashPoint
from support.planner_cassettes import add_planner, compound, create_actions_call, create_goal_call, reply_entries
from support.prd_scenario import command, done_steps, edit_file, prd_file, skip, story, until_landed, without_markers
from support.scenario import action, meeting, plan_of, put_before, shell, text_entry, write

VICTIMS = {
    "its process": ("SIGKILL", ()),
    "the owner": ("SIGKILL", ("CRASH_OWNER",)),
    "both": ("SIGKILL", ("CRASH_OWNER", "CRASH_ALL")),
    "the owner by Ctrl-C": ("SIGINT", ("CRASH_OWNER", "CRASH_STAYS")),
    "the owner by SIGTERM": ("SIGTERM", ("CRASH_OWNER", "CRASH_STAYS")),
}
MOST_RESUMES = 4
CONTENT = text_entry("critic", "Total: 9/9\nDONE")
UNNEEDED = skip("step-003", "step-004", "step-008", "step-009")
SHOP = "def price(n):\n    return n * 2\n"
MERGED = "def price(n):\n    return (n * 2 + n) * 5\n"


def two_files(scenario):
    """Return the replies of two workers, and their actions."""
    actions = [action(key, effects=[f"{key}_there"], check=f"test -f {key}.txt") for key in ("one", "two")]
    return scenario.cassette(**{key: [write(f"{key}.txt", "1\n")] for key in ("one", "two")}), actions


def decomposed(scenario):
    """A planner looks at its plan and hands in a compound; a supervisor decomposes it in three replies."""
    scenario.configure(quality_gates={"test": "off"})
    cassette, actions = two_files(scenario)
    whole = compound("all", effects=["one_there", "two_there"])
    plan = {"name": "goap_get_plan", "args": {}}
    add_planner(cassette, create_goal_call("g", "one_there", "two_there"), plan, create_actions_call("g", whole))
    steps = [plan, *(create_actions_call("g", each, parent="all") for each in actions), "It is decomposed."]
    put_before(cassette, *reply_entries(steps, role="supervisor"))
    return scenario.request_command("greet", "--tier", "scout", "--yes")


def supervised(scenario):
    """An agent takes every step of a goal, several in one turn."""
    scenario.configure(supervision="agent", quality_gates={"test": "off"})
    cassette, actions = two_files(scenario)
    add_planner(cassette, [create_goal_call("g", "one_there", "two_there"), create_actions_call("g", *actions)])
    start = [{"name": "goap_dispatch_action", "args": {"action": key}} for key in ("one", "two")]
    steps = [{"name": "goap_get_plan", "args": {}}, *start, "They are being written."]
    nothing = [text_entry("supervisor", "Nothing to do.", contains=f"{key}_there` holds") for key in ("one", "two")]
    put_before(cassette, *nothing, *reply_entries(steps, role="supervisor"))
    return scenario.request_command("greet", "--tier", "scout", "--yes")


def reviewed(scenario):
    """Work fails first; then it loses a test, to which a second reviewer agrees; a critic and a learner follow."""
    scenario.configure(learning={"extract": True})
    (scenario.repo / "calc.py").write_text("def half(number):\n    return number // 2\n")
    test = "from calc import half\n\n\ndef test_even():\n    assert half(4) == 2\n"
    odd = "\n\ndef test_odd_is_cut():\n    assert half(3) == 1\n"
    (scenario.repo / "test_calc.py").write_text(test + odd)
    scenario.commit("halves")
    check = "python3 -c 'import calc; assert calc.half(3) == 1.5'"
    scenario.plan(plan_of(g=[action("exact", effects=["exact"], check=check, files=["calc.py", "test_calc.py"])]))
    works = [write("calc.py", f"def half(number):\n    return number / {by}\n") for by in (3, 2)]
    cassette = scenario.cassette(exact=[works[0], "early", works[1], write("test_calc.py", test)])
    cited = [{"file": "test_calc.py", "line": 9, "note": "the old way", "before": True}]
    verdict = json.dumps({"verdict": "approve", "citations": cited, "summary": "They were to be exact."})
    answers = {"reviewer": f"```json\n{verdict}\n```", "learner": "half | must be | exact"}
    put_before(cassette, CONTENT, *(text_entry(role, text) for role, text in answers.items()))
    return scenario.run_command("--tier", "builder", "--yes")


def merged(scenario):
    """Two works change one line, and an agent merges them with its second answer."""
    scenario.configure(collisions="off")
    (scenario.repo / "shop.py").write_text(SHOP)
    (scenario.repo / "test_shop.py").write_text("from shop import price\n\n\ndef test():\n    assert price(1) >= 2\n")
    scenario.commit("a shop")
    least, edits = {"tax": 3, "fee": 10}, {"tax": "s/n . 2/(n * 2 + n)/", "fee": "s/return \\(.*\\)/return \\1 * 5/"}
    checks = {key: f"python3 -c 'import shop; assert shop.price(1) >= {most}'" for key, most in least.items()}
    made = [action(key, effects=[f"{key}_works"], check=check, files=["shop.py"]) for key, check in checks.items()]
    scenario.plan(plan_of(g=made))
    met = meeting(scenario.home, *edits)
    cassette = scenario.cassette(
        **{key: [shell(f"{met[key]}; sed -i '{edit}' shop.py")] for key, edit in edits.items()}
    )
    answer = f"MERGED CODE\n\nshop.py\n```python\n{MERGED}```\n"
    put_before(cassette, CONTENT, text_entry("merger", "Hm.", turn=1), text_entry("merger", answer))
    return scenario.run_command("--tier", "scout", "--agents", "2", "--yes", "--sandbox", "off", "--yolo")


def stories(scenario):
    """Two stories conflict, so that one of them has a step that merges; each ends with a final review."""
    (scenario.repo / "list").write_text("zero\n")
    scenario.commit("a list")
    first = [command(1, 2, edit_file(1, *UNNEEDED)), command(1, 5, "echo one >> list")]
    second = [command(2, 2, edit_file(2, *UNNEEDED)), command(2, 5, f"echo two >> list; {until_landed(1)}")]
    scenario.replies(*done_steps(*first, *second, command(2, 11, without_markers("list"))))
    given = prd_file(scenario, {"userStories": [story(1), story(2)]})
    return scenario.request_command(*given, "--yes", "--agents", "2")


def asking(scenario):
    """A worker asks a human whether its command may run, and does not wait for the answer."""
    scenario.configure(inbox={"wait_s": 0.1}, quality_gates={"test": "off"})
    scenario.plan(plan_of(g=[action("made", effects=["made"], check="test -s made.txt")]))
    scenario.cassette(made=[write("first.txt", "1\n"), shell("echo made > made.txt")])
    return scenario.run_command("--tier", "scout", "--yes", "--sandbox", "off")


PHASES = {
    "planning": (decomposed, "PaidReplies.keep", 4),
    "the supervisor's turn": (decomposed, "PaidReplies.keep", 12),
    "the turn of an agent that takes every step": (supervised, "_OpenTurn.keep", 6),
    "second review": (reviewed, "PaidReplies.keep", 2),
    "critic": (reviewed, "PaidReplies.keep", 4),
    "learner": (reviewed, "PaidReplies.keep", 6),
    "merge agent": (merged, "PaidReplies.keep", 6),
    "landing": (merged, "queue.publish", 2),
    "a step that merges": (stories, "rebase_step.with_second_parent", 1),
    "final review": (stories, "AttemptRecords.answered for scaffold.worker.change_loop", 2),
    "a wait in the inbox": (asking, "AttemptRecords", 6),
}
"""Each phase with the run that passes it, the place in the source that does, and after which of its changes."""


def paid(scenario):
    """Return how many replies each agent has paid, of whichever attempt."""
    found = Counter()
    for journal in (scenario.repo / ".scaffold" / "logs").rglob("*.jsonl"):
        for line in journal.read_text().splitlines():
            with suppress(json.JSONDecodeError):  # a kill may cut the last line
                entry = json.loads(line)
                if entry.get("type") == "usage" and entry["requests"]:
                    found[entry.get("role", "worker")] += 1
    return found


def landed_tree(scenario):
    run = scenario.status()["run"]
    assert run["status"] == "completed", scenario.scaffold("status").stdout
    return scenario.git("rev-parse", f"{run['session_branch']}^{{tree}}").strip()


def killed_once(scenario, argv, number, victim, **harness):
    """Execute the run with a kill at the point, go on until it is done, and return the points passed."""
    name, where = VICTIMS[victim]
    owner = dict.fromkeys(where, scenario.home / "owner")
    point = CrashPoint(scenario, number, CRASH_SIGNAL=name, **harness, **owner)
    with point.armed():
        scenario.call(argv)
    for _ in range(MOST_RESUMES):
        scenario.wait_for_end()
        run = scenario.status()["run"]
        if run is not None and run["status"] == "completed":
            break
        for item in scenario.status()["inbox"] if run else ():
            scenario.scaffold("approve", item["id"])
        scenario.call(scenario.command("resume", "--yes") if run else argv)
    return point.passed()
