"""The report of a run and other screens that show evidence."""

import pytest

from builders import begin, land, make_run
from scaffold.cli.render.report import report
from scaffold.core.model import Evidence
from scaffold.views.run_view import read_run_view


@pytest.fixture
def show(context, plan):
    """Return what shows the fact of a landed action anew, as it is said."""
    run = begin(context, make_run(context, plan))
    landed = land(context, run, "store", {"store.py": "x = 1\n"})
    (goal,) = context.store.goals.of_run(run.id)

    def again(kind, detail, *, weak=False):
        shown = Evidence(kind=kind, command=None, exit_code=None, commit=landed, at=context.clock.now(), detail=detail)
        with context.store.transaction():
            context.store.facts.record(
                goal.id, "store_works", commit=landed, weak=weak, paths=("store.py",), evidence=(shown,)
            )
        return context.store.runs.get(run.id)

    return again


@pytest.mark.parametrize(
    ("kind", "detail", "expected"),
    [
        ("human", "approved as 7f3a: it is fine\nMay it land?", "human: approved as 7f3a: it is fine"),
        ("review", "approve: reads well\nstore.py:1 is right", "review: approve: reads well"),
        ("change", "store.py was changed", "a change: store.py was changed"),
    ],
)
def test_the_report_names_the_evidence_of_a_fact(context, show, kind, detail, expected):
    """AL-8, BX-1: not only its kind."""
    assert f"        {expected}\n" in report(read_run_view(context, show(kind, detail)), context.repository.root)


def test_a_weak_fact_is_marked_wherever_it_is_shown(context, show, scaffold):
    """AL-7, BX-1: a weak fact is never shown as proven."""
    show("change", "store.py was changed", weak=True)
    (fact,) = scaffold("status", "--json").json["goals"][0]["facts"]
    assert fact["weak"] is True
    assert "store_works (weak)" in scaffold("status").out
    assert "store_works, weak" in scaffold("goals").out
    assert "store_works, weak" in scaffold("tasks").out
    assert "store_works holds (weak), shown by" in scaffold("contract", "store").out
