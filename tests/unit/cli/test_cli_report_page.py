"""The report as a page: its order, its policy, its colors, its size."""

import base64
import hashlib
import re
from datetime import timedelta
from importlib.resources import files
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from builders import HEAD, THEN, a_goal, a_run, an_action, an_attempt, some_evidence
from scaffold.core.model import Evidence, Fact, InboxItem, PlanningTurn, Usage
from scaffold.core.proof.contract import Doubt
from scaffold.core.states import Active, Completed, Failed, Paused, Running
from scaffold.pages.components import LongTexts
from scaffold.pages.page import RunContent, report_page
from scaffold.pages.plan_graph import MAX_BOXES, sibling_edges
from scaffold.views.run_history import run_costs
from support.html_page import Page
from support.report_views import a_history, a_view

CSS = (files("scaffold.pages") / "report.css").read_text("utf-8")
GOAL = a_goal(desired=("store_works", "api_works"))


def fact(assertion, *, doubts=(), evidence=None, **fields):
    given = {"state": "holds", "commit": HEAD, "paths": (), "evidence": evidence or (some_evidence(),)}
    doubted = tuple(Doubt("not_executed", text) for text in doubts)
    return Fact(goal_id=GOAL.id, assertion=assertion, doubts=doubted, **(given | fields))


def source_of(view, *, turns=(), warnings=()):
    history = a_history(view, turns=turns, warnings=warnings)
    content = RunContent(view=view, history=history, costs=run_costs(view, turns))
    return report_page(content, root=Path("/home/ada/shop"), clean=str)


def page_of(view, **options):
    return Page(source_of(view, **options))


def test_what_needs_a_human_and_what_failed_come_before_the_evidence_and_the_rest():
    """BX-1, SC-19: a section without content is left out."""
    store = an_action("store", goal=GOAL, state=Failed("gave up"))
    item = InboxItem(id="7f3a", run_id="run-1", kind="question", text="Which?", detail={}, created_at=THEN)
    view = a_view(
        [store],
        attempts=[an_attempt(store, outcome="contract_failed", error="1 failed\nAssertionError")],
        inbox=[item],
        run=a_run(state=Failed("shop: gave up")),
    )
    page = page_of(view, warnings=("the disk is nearly full",))
    assert page.sections == ["inbox", "failures", "next", "evidence", "plan", "timeline", "setbacks", "cost"]
    for part in (
        "scaffold answer 7f3a TEXT",
        "AssertionError",
        "scaffold logs store --run run-1",
        "scaffold retry run-1",
        "nearly full",
        "In /home/ada/shop:",
    ):
        assert part in page.text
    assert page_of(a_view([])).sections == ["next", "evidence"]


def test_a_failed_action_whose_goal_found_another_way_is_no_reason():
    """SC-19: its attempts are named where setbacks are."""
    guide = an_action("guide", goal=GOAL, state=Failed("gave up"))
    attempts = [an_attempt(guide, outcome="contract_failed", error="1 failed")]
    for state, section in ((Active(), "failures"), (Completed(), "setbacks")):
        page = page_of(a_view([guide], goals=[a_goal(desired=GOAL.desired, state=state)], attempts=attempts))
        assert [each for each in page.sections if each in {"failures", "setbacks"}] == [section]
        assert "attempt 1: contract_failed: 1 failed" in page.text


def test_an_error_of_planning_counts_as_the_reason_only_where_something_failed():
    """SC-19: a completed run does not begin with what went wrong on the way."""
    turn = PlanningTurn(
        id="t1", run_id="run-1", goal_id=GOAL.id, action_id=None, event="replan", outcome="refused",
        error="no provider", usage=Usage(), started_at=THEN, ended_at=THEN,
    )  # fmt: skip
    for state, section in ((Failed("stuck"), "failures"), (Completed(), "setbacks")):
        goal = a_goal(desired=GOAL.desired, state=state)
        page = page_of(a_view([], goals=[goal], run=a_run(state=state)), turns=[turn])
        assert [each for each in page.sections if each in {"failures", "setbacks"}] == [section]
        assert "supervisor of shop" in page.text
        assert "replan: refused" in page.text


def test_facts_are_listed_from_those_that_no_longer_hold_to_the_proven_ones():
    """BX-1: weak ones with the reason, reviewed ones with who agreed; all but proven ones are open."""
    agreed = Evidence(
        kind="review", command=None, exit_code=None, commit=HEAD, at=THEN, detail="second review by m: fine\nstore.py:1"
    )
    view = a_view(
        [],
        goals=[GOAL],
        facts=[
            fact("sure"),
            fact("seen", doubts=["1 new noqa"], reviewed=True, evidence=(agreed,)),
            fact("doubtful", doubts=["12 changed lines, 0 executed"]),
            fact("old", state="stale"),
            fact("wrong", state="refuted"),
        ],
    )
    text = page_of(view).text
    places = [text.index(f" {name}") for name in ("refuted wrong", "stale old", "weak doubtful", "reviewed seen")]
    assert [*places, text.index("proven sure")] == sorted([*places, text.index("proven sure")])
    assert text.index("not shown") < places[0]
    assert "weak:12 changed lines, 0 executed" in text
    assert f"agreed:1 new noqa{agreed.detail.splitlines()[0]}" in text
    cards = [each for each in page_of(view).elements("details") if "card" in each.get("class", "")]
    assert ["open" in each for each in cards] == [True] * 4 + [False]


def test_evidence_has_its_command_exit_code_commit_and_output():
    """BX-1: and facts that were shown at once are shown together."""
    shown = some_evidence("exit code 0\n3 passed")
    view = a_view(
        [], goals=[GOAL], facts=[fact("store_works", evidence=(shown,)), fact("api_works", evidence=(shown,))]
    )
    text = page_of(view).text
    assert "proven store_works api_works" in text
    assert f"pytest -q exit 0 at {HEAD[:8]}" in text
    assert text.count("3 passed") == 1


def test_the_page_loads_nothing_and_runs_nothing():
    """BX-9: its policy allows its own style only, by hash; no script, no style attribute, no address."""
    source = source_of(a_view([an_action("store")], run=a_run(request="see https://example.invalid/x")))
    page = Page(source)
    digest = base64.b64encode(hashlib.sha256(CSS.encode()).digest()).decode()
    (policy,) = [each["content"] for each in page.elements("meta") if each.get("http-equiv")]
    assert policy == f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    assert CSS in source
    assert not {"script", "link", "img", "iframe", "object", "form"} & {tag for tag, _ in page.tags}
    assert not {"style", "src", "action"} & {name for _, attributes in page.tags for name in attributes}
    assert not re.search(r"url\(|@import|https?:", CSS)


def colors(css, start):
    block = css[css.index(":root", css.index(start)) :]
    return dict(re.findall(r"--([\w-]+): (#[0-9a-f]{3,6})\b", block[: block.index("}")]))


def luminance(color):
    digits = color[1:] if len(color) == 7 else "".join(each * 2 for each in color[1:])
    parts = [int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    red, green, blue = (each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("start", [":root", "@media (prefers-color-scheme: dark)", "@media print"])
def test_every_text_can_be_read_on_its_ground(start):
    """SC-19: a contrast of at least 4.5, in light, dark and print."""
    found = colors(CSS, start)
    pairs = [(ink, ground) for ink in ("ink", "soft", "link", "wait") for ground in ("page", "sheet", "sunken")]
    pairs += [(tone, f"{tone}-bg") for tone in ("good", "busy", "bad", "wait", "idle")]
    pairs += [("good", "sheet"), ("bad", "sheet"), ("idle", "sheet"), ("busy", "sunken"), ("ink", "bad-bg")]
    for ink, ground in pairs:
        light, dark = sorted((luminance(found[ink]), luminance(found[ground])), reverse=True)
        assert (light + 0.05) / (dark + 0.05) >= 4.5, (start, ink, ground)


def test_pictures_have_a_text_in_their_place_and_tables_their_headings():
    """SC-19: what a picture shows is in a table, too."""
    store = an_action("store", goal=GOAL, effects=("store_works",), state=Completed())
    page = page_of(a_view([store], attempts=[an_attempt(store, outcome="landed")]))
    pictures = [each["aria-label"] for each in page.elements("div") if each.get("role") == "group"]
    assert pictures == snapshot(
        [
            "Plan of shop: 1 completed. The table of actions below has the same in words.",
            "Timeline of the agents. The table of attempts below has the same in words.",
        ]
    )
    assert {each["scope"] for each in page.elements("th")} == {"col", "row"}
    assert all(each["aria-label"] for each in page.elements("div") if each.get("role") == "region")
    assert "action-1" in page.values("id")


def test_dependencies_of_children_are_drawn_between_what_contains_them():
    """SC-19: and a promise of a compound that no child keeps yet is its own."""
    store = an_action("store", kind="compound", effects=("store_works", "store_fast"))
    model = an_action("model", parent_id=store.id, effects=("model_there",))
    tables = an_action("tables", parent_id=store.id, preconditions=("model_there",), effects=("store_works",))
    api = an_action("api", preconditions=("store_works", "store_fast"), effects=("api_works",))
    assert sibling_edges([store, model, tables, api]) == {
        (model.id, tables.id): {"model_there"},
        (store.id, api.id): {"store_works", "store_fast"},
    }


def test_compounds_contain_their_children_and_very_deep_ones_a_count():
    chain = [an_action("c0", kind="compound", state=Running())]
    for depth in range(1, MAX_BOXES):
        chain.append(an_action(f"c{depth}", kind="compound", parent_id=chain[-1].id, state=Running()))
    page = page_of(a_view(chain))
    assert "0 of 1 done" in page.text
    assert len([each for each in page.values("class") if each == "compound"]) == 11


def test_a_plan_of_many_actions_is_a_square_for_each():
    view = a_view([an_action(f"a{number}") for number in range(MAX_BOXES + 1)])
    classes = page_of(view).values("class")
    assert sum(each.startswith("square") for each in classes) == MAX_BOXES + 1


def test_costs_are_split_by_goal_role_and_model():
    """AL-28: planning is counted; an unknown price comes first, and is no zero."""
    store = an_action("store", goal=GOAL)
    spent = Usage(input_tokens=900, output_tokens=100, cost_usd=0.25, requests=2)
    attempts = [
        an_attempt(store, usage=spent, model="m1"),
        an_attempt(store, 2, usage=spent, model="m1"),
        an_attempt(store, 3, usage=Usage(cost_usd=None, requests=1), model="m2"),
    ]
    turn = {"run_id": "run-1", "action_id": None, "usage": spent, "started_at": THEN, "ended_at": THEN}
    turns = [
        PlanningTurn(id="t1", goal_id=None, event="plan", outcome="done", **turn),
        PlanningTurn(id="t2", goal_id=GOAL.id, event="judge", outcome="done", **turn),
    ]
    costs = run_costs(a_view([store], attempts=attempts), turns)
    split = [
        [(each.name, each.agents, each.usage.cost_usd) for each in lines] for lines in (costs.by_goal, costs.by_role)
    ]
    assert split == snapshot(
        [
            [("shop", 4, None), ("planning of the run", 1, 0.25)],
            [("implementation", 3, None), ("planner", 1, 0.25), ("supervisor", 1, 0.25)],
        ]
    )
    assert [(each.name, each.usage.requests) for each in costs.by_model] == [
        ("m2", 1),
        ("m1", 4),
        ("cassette:/nowhere.yaml", 4),
    ]
    assert "cost unknown" in page_of(a_view([store], attempts=attempts), turns=turns).text


def test_long_outputs_are_cut_and_too_many_of_them_named():
    """SC-19: the page stays small, and says which command prints the rest."""
    texts = LongTexts(budget=5_000)
    first = texts.folded("x" * 10_000, "Output", "scaffold contract store")
    assert "characters omitted" in str(first)
    assert texts.folded("", "Output", "scaffold contract store") is None
    texts.folded("y" * 2_000, "Output", "scaffold contract store")
    assert "scaffold logs store" in str(texts.shown("first\nsecond", "scaffold logs store"))
    assert "left out" in str(texts.folded("z", "Output", "scaffold contract store"))


@pytest.mark.slow
def test_the_report_of_a_thousand_actions_stays_small():
    actions, attempts, facts = [], [], []
    for number in range(1_000):
        each = an_action(f"action-{number}", effects=(f"fact_{number}",), state=Completed())
        actions.append(each)
        later = THEN + timedelta(seconds=20 * number)
        attempts.append(an_attempt(each, outcome="landed", queued_at=later, started_at=later, error="e\n" * 9_000))
        actions.append(an_action(f"failed-{number}", state=Failed("z\n" * 9_000)))
        shown = tuple(some_evidence("line of output\n" * 5_000) for _ in range(4))
        facts.append(fact(f"fact_{number}", evidence=shown, doubts=["x" * 200] if number % 2 else []))
    view = a_view(actions, goals=[GOAL], attempts=attempts, facts=facts, run=a_run(state=Paused("y" * 9_000)))
    assert len(source_of(view)) < 8_000_000
