"""Which facts a change may invalidate: a table by their evidence."""

from builders import THEN, an_action
from scaffold.core.model import Evidence, Fact
from scaffold.core.proof.contract import Check, Contract
from scaffold.core.states import Completed
from scaffold.landing.facts.stale_facts import ProvenFacts, group_by_action, recheckable, shown_before

RUNS = Contract(commands=(Check(command="make test"),))
EXISTS = Contract(must_exist=("a",))
UNTOUCHED = Contract(must_not_change=("a",))


def action(key="a", **fields):
    given = {"effects": (f"{key}_done",), "contract": RUNS, "state": Completed()}
    return an_action(key, **(given | fields))


def fact(assertion="a_done", *, commit="c1", kind="contract"):
    speaks = Evidence(kind=kind, command=None, exit_code=None, commit=commit, at=THEN, detail="")
    return Fact(goal_id="g", assertion=assertion, state="holds", commit=commit, paths=("a",), evidence=(speaks,))


def claim(**fields):
    return ProvenFacts(action=action(**fields), facts=(fact(),))


def test_how_a_fact_can_be_rechecked_depends_on_its_evidence():
    """BX-1: by the same kind of evidence as before, or not at all."""
    table = {
        claim(): "contract",
        claim(contract=EXISTS): "contract",
        claim(contract=Contract(must_not_exist=("a",))): "contract",
        claim(contract=UNTOUCHED): "nothing",
        claim(contract=None): "nothing",
        claim(contract=Contract()): "nothing",
        claim(role="reviewer"): "review",
        claim(role="security_review", contract=None): "review",
        ProvenFacts(action=action(), facts=(fact(kind="review"),)): "contract",  # a second review beside its checks
    }
    assert {subject: subject.recheck for subject in table} == table


def test_facts_are_rechecked_by_action_in_plan_order():
    late, early = action("late", position=2), action("early", position=1)
    shown = [(fact("x"), late), (fact("y"), early), (fact("z"), late)]
    assert [(each.action.key, [f.assertion for f in each.facts]) for each in group_by_action(shown)] == [
        ("early", ["y"]),
        ("late", ["x", "z"]),
    ]


def test_a_landing_action_is_not_asked_about_its_own_facts():
    mine = action("mine")
    assert group_by_action([(fact(), mine), (fact("x"), action("theirs"))], besides=mine.id) == group_by_action(
        [(fact("x"), action("theirs"))]
    )


def test_facts_shown_at_the_tip_itself_are_not_rechecked():
    both = ProvenFacts(action=action(), facts=(fact("x", commit="tip"), fact("y", commit="old")))
    assert [[f.assertion for f in each.facts] for each in shown_before("tip", [both])] == [["y"]]
    assert shown_before("tip", [ProvenFacts(action=action(), facts=(fact(commit="tip"),))]) == ()


def test_a_review_cannot_be_rechecked_by_a_command():
    assert recheckable([claim(role="reviewer"), claim(contract=None)]) == ()


def test_a_claim_is_described_by_its_text_and_author():
    assert ProvenFacts(action=action("make-a"), facts=(fact("x"), fact("y"))).label == "x, y of make-a"
