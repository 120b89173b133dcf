"""`goals` and `tasks`: the tree of actions, with the evidence of each effect."""

from inline_snapshot import snapshot

from builders import HEAD, THEN, a_turn, begin, fail, land, make_run, submit, work
from scaffold.cli.render.goals_tasks_agents import evidence_line
from scaffold.core.model import Evidence
from scaffold.core.states import PAUSED_BY_USER, Completed, Failed, Paused, Pending, Running
from scaffold.verify.contract.check_runs import NO_CONTRACT

NESTED = """\
version: 1
goals:
  - name: shop
    goal_state: [shop_works]
    actions:
      - {key: shop, kind: compound, effects: [shop_works]}
      - {key: shelf, parent: shop, effects: [shelf_stands], role: carpentry}
      - {key: till, parent: shop, preconditions: [shelf_stands], effects: [shop_works]}
  - name: street
    goal_state: [street_swept]
    actions:
      - {key: sweep, effects: [street_swept]}
"""


def test_children_are_listed_below_their_compound(context, scaffold):
    """SC-19: the action tree with status and effects."""
    make_run(context, NESTED)
    assert scaffold("tasks").out == snapshot("""\
shop: planning
  3 pending
  · pending shop (implementation, compound) ready
      · missing shop_works
    · pending shelf (carpentry) waits for shop to start
        · missing shelf_stands
    · pending till (implementation) waits for shelf_stands
        · missing shop_works

street: planning
  1 pending
  · pending sweep (implementation) ready
      · missing street_swept
""")


def test_facts_are_shown_with_evidence_and_results_with_their_first_line(context, run, scaffold):
    """BX-1: a fact holds only with evidence, and people see which."""
    landed = land(context, run, "store", {"store.py": "x = 1\n"})[:8]
    assert scaffold("tasks").out.splitlines()[1:6] == [
        "  1 done, 1 pending",
        f"  ✓ completed store (implementation, done) landed as {landed}",
        "      ✓ holds store_works",
        f"          make test, exit 0 at {landed}",
        "      result: Did store. (+1 line)",
    ]
    assert scaffold("goals").out.splitlines() == [
        "shop: active",
        "  A shop that sells",
        "  ✓ holds store_works",
        f"      make test, exit 0 at {landed}",
        "  · missing api_works",
    ]
    (goal,) = scaffold("status", "--json").json["goals"]
    (fact,) = goal["facts"]
    assert fact["evidence"]
    assert scaffold("tasks", "--json").json["facts"] == [{"goal_id": goal["id"], **fact}]


def test_a_weak_or_stale_fact_is_marked(context, run, scaffold):
    land(context, run, "store", {"store.py": "x = 1\n"})
    (goal,) = context.store.goals.for_run(run.id)
    with context.store.transaction():
        context.store.facts.invalidate(goal.id, "store_works", "stale")
        context.store.facts.record(
            goal.id, "api_works", commit=run.base_sha, doubts=(NO_CONTRACT,), paths=(), evidence=()
        )
    out = scaffold("goals").out
    assert "! stale store_works" in out
    assert f"✓ holds api_works, weak: {NO_CONTRACT.text}" in out


def test_the_json_is_that_of_status(context, scaffold):
    run = make_run(context, NESTED)
    status = scaffold("status", "--json").json
    assert scaffold("goals", "--json").json == {"run": run.id, "goals": status["goals"]}
    assert scaffold("tasks", "--json").json == {"run": run.id, "actions": status["actions"], "facts": []}
    street = [action for action in status["actions"] if action["key"] == "sweep"]
    make_run(context, NESTED)
    older = scaffold("tasks", "street", "--run", run.id, "--json")
    assert older.json == {"run": run.id, "actions": street, "facts": []}
    assert scaffold("goals", "--run", run.id, "--json").json["run"] == run.id


def test_one_goal_can_be_selected_and_an_unknown_one_gets_a_suggestion(context, scaffold):
    run = make_run(context, NESTED)
    assert scaffold("tasks", "street").out.splitlines()[0] == "street: planning"
    answer = scaffold("tasks", "stret")
    assert answer.code == 64
    assert answer.err.replace(run.id, "RUN") == snapshot("""\
error: run RUN has no goal `stret`
  Did you mean `street`? `scaffold goals --run RUN` lists them.
""")


def lines_of(scaffold, *args):
    return [line.strip() for line in scaffold("tasks", *args).out.splitlines()]


def test_a_task_shows_a_common_state_beside_its_status(context, run, scaffold):
    """AL-3b: pending, in_progress, verifying, blocked, done, failed."""
    land(context, run, "store", {"store.py": "x = 1\n"})
    work(context, run, "api")
    assert "1 done, 1 in_progress" in lines_of(scaffold)
    assert [each["task_state"] for each in scaffold("tasks", "--json").json["actions"]] == ["done", "in_progress"]
    assert [each["status"] for each in scaffold("tasks", "--json").json["actions"]] == ["completed", "running"]


def test_attempts_are_counted_by_the_actions_own_failures(context, plan, scaffold):
    """SC-20: attempt 2 of 3 although it is the third by number: one was lost in a crash."""
    run = begin(context, make_run(context, plan, attempts=3))
    fail(context, run, "store", {})
    assert "· pending store (implementation) ready, attempt 2 of 3" in lines_of(scaffold)
    lost = work(context, run, "store")
    with context.store.transaction():
        context.store.attempts.end(lost.id, outcome="lost", fence=run.fence)
        context.store.actions.move(lost.action_id, Pending())
    again = submit(context, run, "store", {"store.py": "x = 2\n"})
    (line,) = [line for line in lines_of(scaffold) if "landing store" in line]
    assert line.startswith("↓ landing store (implementation, verifying) attempt 2 of 3 (#3), candidate, ")
    assert again.number == 3


def test_a_ready_action_names_the_slot_it_waits_for(context, scaffold):
    text = NESTED.replace("{key: sweep, ", "{key: wash, effects: [washed]}\n      - {key: sweep, ")
    run = begin(context, make_run(context, text, agents=1))
    work(context, run, "wash")
    (line,) = [line for line in lines_of(scaffold, "street") if "sweep" in line and "pending" in line]
    assert line == snapshot("· pending sweep (implementation) ready: waits for a slot, 1 of 1 are in use")


def test_status_says_when_landing_holds_the_run_back(context, scaffold):
    """AL-13: ready work waits although an agent is free."""
    rows = [f"{{key: a{n}, effects: [done{n}]}}" for n in range(4)]
    text = f"version: 1\ngoals:\n- {{name: g, goal_state: [done3], actions: [{', '.join(rows)}]}}\n"
    run = begin(context, make_run(context, text, agents=1))
    submit(context, run, "a0", {"a": "x\n"})
    assert "landing holds" not in scaffold("status").out
    submit(context, run, "a1", {"b": "x\n"})
    assert scaffold("status").out.splitlines()[3] == snapshot("  landing holds the run back: 2 candidates wait")
    (line,) = [line for line in lines_of(scaffold, "g") if "a2" in line]
    assert line == snapshot("· pending a2 (implementation) ready: waits until candidates have landed")


def test_an_action_of_a_paused_goal_says_so_and_how_to_resume_it(context, run, scaffold):
    assert "scaffold resume shop" not in scaffold("status").out
    with context.store.transaction():
        context.store.goals.move(context.store.goals.for_run(run.id)[0].id, Paused(PAUSED_BY_USER))
    (line,) = [line for line in lines_of(scaffold) if "pending store" in line]
    assert line == snapshot("· pending store (implementation) ready, but its goal is paused")
    assert scaffold("goals", "--json").json["goals"][0]["agent_state"] == "paused"
    assert "  scaffold resume shop " in scaffold("status").out


def test_a_compound_shows_its_progress_or_its_planning_turn(context, scaffold):
    run = begin(context, make_run(context, NESTED))
    shop = context.store.actions.by_key(run.id, "shop")
    with context.store.transaction():
        context.store.actions.move(shop.id, Running())
    land(context, run, "shelf", {"shelf.py": "x = 1\n"})
    assert "▶ running shop (implementation, compound, in_progress) 1/2 done" in lines_of(scaffold)
    with context.store.transaction():
        context.store.turns.begin(a_turn(run, goal_id=shop.goal_id, action_id=shop.id, event="replan"))
    (line,) = [line for line in lines_of(scaffold) if "running shop" in line]
    assert line.startswith("▶ running shop (implementation, compound, in_progress) replan for ")


def test_the_agent_state_of_a_goal_is_that_of_its_supervisor(context, plan, scaffold):
    """AL-3b: agents are told in the same words everywhere."""
    states = {}
    for state in (Completed(), Failed("no way")):
        run = begin(context, make_run(context, plan))
        with context.store.transaction():
            context.store.goals.move(context.store.goals.for_run(run.id)[0].id, state)
        shown = scaffold("goals", "--json").json["goals"][0]
        states[shown["status"]] = shown["agent_state"]
    assert states == {"completed": "done", "failed": "failed"}


EVIDENCE = {
    ("contract", "make test", 0, "3 passed"): "make test, exit 0 at cccccccc",
    ("change", "change", None, "2 paths changed"): "a change: 2 paths changed at cccccccc",
    ("change", "change", None, ""): "a change at cccccccc",
    ("gate", "pytest", 1, "test: 4 pass"): "gate test: 4 pass (pytest), exit 1 at cccccccc",
    ("review", None, None, "Sound.\n- a:1"): "review: Sound. at cccccccc",
    ("human", None, None, "approved as i1: fine\nwhat"): "human: approved as i1: fine at cccccccc",
    ("human", None, None, ""): "human at cccccccc",
    ("trivial", None, None, ""): "trivial at cccccccc",
}


def test_each_kind_of_evidence_is_described_on_one_line():
    """BX-1: commands by their exit code, all others by their text."""
    shown = {}
    for kind, command, exit_code, detail in EVIDENCE:
        evidence = Evidence(kind=kind, command=command, exit_code=exit_code, commit=HEAD, at=THEN, detail=detail)
        shown[kind, command, exit_code, detail] = evidence_line(evidence)
    assert shown == EVIDENCE
