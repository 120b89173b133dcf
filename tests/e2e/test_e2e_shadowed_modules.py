"""Files of a repository are data, even if they have the names of our modules."""

import pytest
from inline_snapshot import snapshot

from support.scenario import action, plan_of, write


@pytest.mark.slow
@pytest.mark.parametrize("name", ["yaml.py", "msgspec.py", "scaffold.py"])
def test_a_worker_imports_no_module_from_the_repository(scenario, name):
    """SC-1, OR-1: files in a repository do not run by being there."""
    (scenario.repo / name).write_text("raise SystemExit('taken from the repository')\n")
    scenario.commit("a file of that name")
    scenario.plan(plan_of(store=[action("model", effects=["model_works"], check="test -f model.txt")]))
    scenario.cassette(model=[write("model.txt", "1\n")])
    interpreter, *rest = scenario.run_command("--yes")
    done = scenario.call([interpreter, "-P", *rest])
    assert done.stdout.splitlines()[-1:] == snapshot(["landed 1 actions, 1 facts with evidence"]), done
