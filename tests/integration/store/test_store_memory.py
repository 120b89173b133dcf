"""A database in memory."""

from builders import make_context, make_repository, make_run
from scaffold.cli.wiring import context_at
from scaffold.store.driver.sqlite import IN_MEMORY

PLAN = "version: 1\ngoals: [{name: g, goal_state: [x], actions: [{key: a, effects: [x]}]}]\n"


def test_a_database_in_memory_works_fully_and_leaves_nothing_behind(tmp_path, monkeypatch):
    """SC-8: `plan` works like `run`, without a trace."""
    monkeypatch.chdir(tmp_path)
    real = make_context(make_repository(tmp_path / "repo"))
    context = context_at(real.repository, IN_MEMORY, create=True)
    other = context_at(real.repository, IN_MEMORY, create=True)
    try:
        run = make_run(context, PLAN)
        assert [goal.name for goal in context.store.goals.for_run(run.id)] == ["g"]
        assert (other.store.runs.latest(), real.store.runs.latest()) == (None, None)
    finally:
        for each in (real, context, other):
            each.store.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["repo"]
