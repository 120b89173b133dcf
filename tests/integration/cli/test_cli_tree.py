"""`goals` and `tasks`: the tree of actions, with what shows each effect."""

from builders import begin, land, make_run

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


def test_children_stand_below_their_compound(site, scaffold):
    """SC-19: the action tree with status and effects."""
    make_run(site, NESTED)
    assert scaffold("tasks").out.splitlines() == [
        "shop: planning",
        "  · pending shop (implementation, compound) ready",
        "      · missing shop_works",
        "    · pending shelf (carpentry) waits for shop to begin",
        "        · missing shelf_stands",
        "    · pending till (implementation) waits for shelf_stands",
        "        · missing shop_works",
        "",
        "street: planning",
        "  · pending sweep (implementation) ready",
        "      · missing street_swept",
    ]


def test_facts_stand_with_their_evidence_and_results_with_their_first_line(site, plan, scaffold):
    """BX-1: a fact holds only with evidence, and people see which."""
    run = begin(site, make_run(site, plan))
    landed = land(site, run, "store", {"store.py": "x = 1\n"})[:8]
    assert scaffold("tasks").out.splitlines()[1:5] == [
        f"  ✓ completed store (implementation) landed as {landed}",
        "      ✓ holds store_works",
        f"          make test, exit 0 at {landed}",
        "      said: Did store.",
    ]
    assert scaffold("goals").out.splitlines() == [
        "shop: active",
        "  A shop that sells",
        "  ✓ holds store_works",
        f"      make test, exit 0 at {landed}",
        "  · missing api_works",
    ]


def test_a_weak_or_stale_fact_says_so(site, plan, scaffold):
    run = begin(site, make_run(site, plan))
    land(site, run, "store", {"store.py": "x = 1\n"})
    (goal,) = site.store.goals.of_run(run.id)
    with site.store.transaction():
        site.store.facts.withdraw(goal.id, "store_works", "stale")
        site.store.facts.show(goal.id, "api_works", commit=run.base_sha, weak=True, paths=(), evidence=())
    out = scaffold("goals").out
    assert "! stale store_works" in out
    assert "✓ holds api_works, weak: nothing but a change speaks for it" in out


def test_the_json_is_that_of_status(site, scaffold):
    run = make_run(site, NESTED)
    status = scaffold("status", "--json").json
    assert scaffold("goals", "--json").json == {"run": run.id, "goals": status["goals"]}
    assert scaffold("tasks", "--json").json == {"run": run.id, "actions": status["actions"]}
    street = [action for action in status["actions"] if action["key"] == "sweep"]
    assert scaffold("tasks", "street", "--json").json == {"run": run.id, "actions": street}


def test_one_goal_can_be_asked_for_and_a_wrong_one_is_answered_with_the_closest(site, scaffold):
    run = make_run(site, NESTED)
    assert scaffold("tasks", "street").out.splitlines()[0] == "street: planning"
    answer = scaffold("tasks", "stret")
    assert answer.code == 64
    assert answer.err.splitlines() == [
        f"error: run {run.id} has no goal `stret`",
        f"  Did you mean `street`? `scaffold goals --run {run.id}` lists them.",
    ]


def test_an_older_run_can_be_asked_for(site, plan, scaffold):
    older = make_run(site, plan)
    make_run(site, NESTED)
    assert scaffold("goals", "--run", older.id, "--json").json["run"] == older.id


def test_without_a_run_the_lists_are_empty(repository, scaffold):
    assert scaffold("goals", "--json").json == {"run": None, "goals": []}
    assert scaffold("tasks", "--json").json == {"run": None, "actions": []}
    assert scaffold("tasks").out.startswith("There is no run")
    assert scaffold("tasks", "shop").code == 64
