"""A database in memory."""

from builders import make_repository, make_run, make_site
from scaffold.cli.wiring import context_at
from scaffold.store.driver.sqlite import IN_MEMORY

PLAN = "version: 1\ngoals: [{name: g, goal_state: [x], actions: [{key: a, effects: [x]}]}]\n"


def test_a_database_in_memory_works_fully_and_leaves_nothing_behind(tmp_path, monkeypatch):
    """SC-8: `plan` works like `run`, without a trace."""
    monkeypatch.chdir(tmp_path)
    real = make_site(make_repository(tmp_path / "repo"))
    site = context_at(real.repository, IN_MEMORY, create=True)
    other = context_at(real.repository, IN_MEMORY, create=True)
    try:
        run = make_run(site, PLAN)
        assert [goal.name for goal in site.store.goals.of_run(run.id)] == ["g"]
        assert (other.store.runs.latest(), real.store.runs.latest()) == (None, None)
    finally:
        for each in (real, site, other):
            each.store.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["repo"]
