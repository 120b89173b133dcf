"""A run whose state is on a PostgreSQL server: the same run, the same answers."""

import psycopg
import pytest
from inline_snapshot import snapshot

from support.scenario import action, plan_of, write

pytestmark = pytest.mark.postgres


@pytest.fixture
def scenario(scenario, postgres_url):
    scenario.environ["SCAFFOLD_DATABASE_URL"] = postgres_url
    return scenario


@pytest.mark.slow
def test_a_run_lands_with_its_state_on_a_server_and_none_in_a_file(scenario):
    """OR-8, SC-9: planner, workers and reading commands find the same state by the address alone."""
    assert scenario.status()["run"] is None
    scenario.plan(
        plan_of(
            store=[
                action("model", effects=["model_works"], check="test -f model.py"),
                action("api", needs=["model_works"], effects=["api_works"], check="grep -q model api.py"),
            ]
        )
    )
    scenario.cassette(model=[write("model.py", "VALUE = 1\n")], api=[write("api.py", "import model\n")])
    done = scenario.run("--yes", code=0)
    assert done.stdout.splitlines()[-1] == snapshot("landed 2 actions, 2 facts with evidence")

    shown = scenario.status()
    assert shown["run"]["status"] == "completed"
    assert shown["goals"][0]["world_state"] == {"api_works": True, "model_works": True}
    assert [each["status"] for each in shown["actions"]] == ["completed"] * 2
    assert not (scenario.repo / ".git" / "scaffold" / "state.db").exists()
    assert "postgresql:///postgres (schema scaffold_repo_" in scenario.scaffold("doctor").stdout


@pytest.mark.slow
def test_an_unreachable_server_is_reported_in_two_lines(scenario):
    scenario.plan(plan_of(store=[action("model", effects=["model_works"], check="true")]))
    scenario.cassette(model=[write("model.py", "VALUE = 1\n")])
    scenario.environ["SCAFFOLD_DATABASE_URL"] = "postgresql://ada:secret@127.0.0.1:1/work"
    refused = scenario.run("--yes", code=1)
    what, fix = refused.stderr.splitlines()[-2:]
    assert what.startswith("error: postgresql://127.0.0.1:1/work (schema scaffold_repo_")
    assert "SCAFFOLD_DATABASE_URL" in fix
    assert "secret" not in refused.stderr


@pytest.mark.slow
def test_purge_removes_the_schema_from_the_server(scenario, postgres_url):
    """No state of a repository is left behind, on a server either."""
    scenario.plan(plan_of(store=[action("model", effects=["model_works"], check="true")]))
    scenario.cassette(model=[write("model.py", "VALUE = 1\n")])
    scenario.run("--yes", code=0)
    schema = (scenario.repo / ".git" / "scaffold" / "schema").read_text().strip()
    assert schemas(postgres_url, schema) == [schema]
    assert f"remove schema {schema}" in scenario.scaffold("purge", "--dry-run").stdout
    assert schemas(postgres_url, schema) == [schema]
    scenario.scaffold("purge", "--yes", code=0)
    assert schemas(postgres_url, schema) == []
    assert scenario.status()["run"] is None


def schemas(url, name):
    """Return the schemas of this name on the server."""
    with psycopg.connect(url) as raw:
        return [row[0] for row in raw.execute("SELECT nspname FROM pg_namespace WHERE nspname = %s", [name])]
