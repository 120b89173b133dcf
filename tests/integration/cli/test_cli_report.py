"""The report of a run and other screens that show evidence."""

import pytest
from inline_snapshot import snapshot

from builders import land
from scaffold.cli.render.report import report
from scaffold.cli.render.terminal.text_layout import Layout
from scaffold.core.model import Evidence
from scaffold.core.proof.contract import Doubt
from scaffold.views.run_view import read_run_view


@pytest.fixture
def show(context, run):
    """Return what shows the fact of a landed action anew, as it is said."""
    landed = land(context, run, "store", {"store.py": "x = 1\n"})
    (goal,) = context.store.goals.for_run(run.id)

    def again(kind, detail, *, doubts=(), reviewed=False):
        shown = Evidence(kind=kind, command=None, exit_code=None, commit=landed, at=context.clock.now(), detail=detail)
        with context.store.transaction():
            shown_again = {"paths": ("store.py",), "evidence": (shown,), "doubts": doubts, "reviewed": reviewed}
            context.store.facts.record(goal.id, "store_works", commit=landed, **shown_again)
        return context.store.runs.get(run.id)

    return again


def reported(context, run):
    return report(read_run_view(context, context.store.runs.get(run.id)), context.repository.root, Layout())


def test_the_report_names_the_evidence_of_a_fact(context, show):
    """AL-8, BX-1: not only its kind."""
    evidence = {
        ("human", "approved as 7f3a: fine\nMay it land?"): "human: approved as 7f3a: fine",
        ("review", "approve: reads well\nstore.py:1"): "review: approve: reads well",
        ("change", "store.py changed"): "a change: store.py changed",
    }
    for (kind, detail), expected in evidence.items():
        assert f"        {expected}\n" in reported(context, show(kind, detail))


@pytest.mark.slow
@pytest.mark.parametrize(("reviewed", "strength"), [(False, "weak"), (True, "reviewed")])
def test_a_fact_that_is_not_proven_is_marked_with_its_reason_wherever_it_is_shown(
    context, show, scaffold, reviewed, strength
):
    """AL-7, BX-1, BX-22: a weak or reviewed fact is never shown as proven, and says why it is not."""
    doubt = Doubt("tests_removed", "2 tests were removed with what they tested")
    run = show("change", "store.py was changed", doubts=(doubt,), reviewed=reviewed)
    (fact,) = scaffold("status", "--json").json["goals"][0]["facts"]
    assert (fact["strength"], fact["weak"]) == (strength, not reviewed)
    assert fact["doubts"] == [{"code": "tests_removed", "text": doubt.text}]
    assert f"store_works ({strength})" in scaffold("status").out
    assert f"store_works, {strength}: {doubt.text}" in scaffold("goals").out
    assert f"store_works, {strength}: {doubt.text}" in scaffold("tasks").out
    assert f"store_works holds ({strength}), shown by" in scaffold("contract", "store").out
    assert f"        {strength}: {doubt.text}\n" in reported(context, run)


def test_the_report_lists_what_is_weak_first_then_what_is_reviewed_then_what_is_proven(context, run):
    """BX-1, AL-23: each with its reasons, and reviewed facts with who agreed."""
    landed = land(context, run, "store", {"store.py": "x = 1\n"})
    (goal,) = context.store.goals.for_run(run.id)
    doubts = (Doubt("tests_removed", "2 tests were removed"), Doubt("suppressions", "1 new noqa"))
    review = Evidence(
        kind="review",
        command=None,
        exit_code=None,
        commit=landed,
        at=context.clock.now(),
        detail="second review by cassette:x: Both tested what went.\n- store.py:1",
    )
    with context.store.transaction():
        shown = {"commit": landed, "paths": ("store.py",), "evidence": (review,)}
        context.store.facts.record(goal.id, "seen", doubts=doubts, reviewed=True, **shown)
        context.store.facts.record(goal.id, "unseen", doubts=doubts, **shown)
    lines = reported(context, run).splitlines()
    at = lines.index("  1 fact weak:")
    assert lines[at : at + 6] == snapshot(
        [
            "  1 fact weak:",
            "    unseen: 2 tests were removed; 1 new noqa",
            "  1 fact reviewed:",
            "    seen: 2 tests were removed; 1 new noqa",
            "      review: second review by cassette:x: Both tested what went.",
            "  1 fact proven",
        ]
    )


def test_the_report_of_proven_facts_alone_lists_no_reasons(context, run):
    """BX-1."""
    land(context, run, "store", {"store.py": "x = 1\n"})
    assert "Evidence" not in reported(context, run)
