"""Services outside the sandbox by the real command; a fake Docker starts and ends real servers."""

import asyncio
import os

import pytest
from inline_snapshot import snapshot

from scaffold.host.sandbox.level import detect_level
from support.docker import ask_server
from support.scenario import Scenario, action, plan_of, shell, write


@pytest.fixture
def held():
    """Skip the test if checks in a sandbox cannot reach outside servers."""
    found = asyncio.run(detect_level(os.environ))
    if found.level == "landlock":
        pytest.skip(f"{found.problem}; {found.fix}")


@pytest.fixture
def scenario(tmp_path, docker, port):
    made = Scenario(tmp_path)
    made.environ["PATH"] = f"{docker.programs}:{made.environ['PATH']}"
    (made.repo / "compose.yaml").write_text(f"serve {port} hello\n")
    made.commit("services")
    check = f"grep more README.md && {ask_server(port, 'word')} | grep -x 'hello word'"
    made.plan(plan_of(more=[action("add", effects=["more"], check=check, files=["README.md", "compose.yaml"])]))
    made.cassette(add=[shell("echo more >> README.md")])
    return made


@pytest.mark.slow
@pytest.mark.usefixtures("held")
def test_a_run_uses_compose_services_once_its_folder_is_trusted(scenario, docker, port):
    """AL-9, SC-7: before that nothing is started and nothing spent; then each check has its own, and none is left."""
    scenario.scaffold("config", "services", f"compose db @{port}", "--user", code=0)
    untrusted = scenario.run("--yes", code=1)
    assert "environment_not_ready" in untrusted.stderr
    assert "scaffold trust" in untrusted.stderr
    assert (docker.calls, list((scenario.repo / ".scaffold" / "logs").glob("*/add.jsonl"))) == ([], [])
    scenario.scaffold("trust", "--yes", code=0)
    scenario.run("--yes", code=0)
    assert sum(" up --detach --wait db" in call for call in docker.calls) >= 2
    assert (docker.up, scenario.processes()) == ([], [])
    assert scenario.git("worktree", "list").count("\n") == 1


@pytest.mark.slow
@pytest.mark.usefixtures("held")
def test_leftover_services_are_reported_and_removed_once_the_daemon_is_back(scenario, docker, port):
    """BX-4, BX-5: the daemon stops during a check; the run names what is left, and `cleanup` removes it later."""
    check = f"grep more README.md && touch '{docker.home}/no daemon'"
    scenario.plan(plan_of(more=[action("add", effects=["more"], check=check, files=["README.md"])]))
    scenario.cassette(add=[write("README.md", "more\n")])
    scenario.scaffold("config", "services", f"compose db @{port}", "--user", code=0)
    scenario.scaffold("trust", "--yes", code=0)
    done = scenario.run("--yes", "--sandbox", "off")
    [name] = docker.up
    [result] = [line for line in done.stdout.splitlines() if "could not be stopped" in line]
    assert result.endswith(f"/docker' compose -p {name} down --volumes --remove-orphans`")
    kept = scenario.scaffold("cleanup")
    assert f"kept    services {name}\n    compose could not stop it; run `" in kept.stdout
    (docker.home / "no daemon").unlink()
    assert f"removed services {name}" in scenario.scaffold("cleanup").stdout
    assert (docker.up, scenario.scaffold("cleanup").stdout) == snapshot(([], "nothing to clean up\n"))


def test_an_invalid_service_line_is_refused_when_it_is_set(scenario):
    done = scenario.scaffold("config", "services", "compose -f /etc/compose.yaml @1", code=64)
    assert "`compose [-f FILE]... [SERVICE...] @PORT...`" in done.stderr
