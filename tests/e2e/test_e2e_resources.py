"""What an attempt has for itself on the machine: ports, and a name for databases."""

import json

import pytest

from support.scenario import COMMAND_S, Scenario, action, plan_of, shell, wait_until

SEEN = 'echo "$SCAFFOLD_PORT_0 $SCAFFOLD_PORT_3 $SCAFFOLD_DATABASE_NAME"'
SERVE = (
    "python3 -m http.server $SCAFFOLD_PORT_0 --bind 127.0.0.1 > /dev/null 2>&1 & "
    "for i in 1 2 3 4 5 6 7 8 9; do sleep 0.2; "
    'python3 -c "import os,urllib.request as u; u.urlopen(\\"http://127.0.0.1:\\"+os.environ[\\"SCAFFOLD_PORT_0\\"])" '
    "2> /dev/null && break; done && kill %1"
)


@pytest.mark.slow
def test_each_attempt_has_its_own_ports_and_database_and_its_checks_have_the_same(tmp_path):
    """BX-10: a real server listens there; `agents` and `path` show them while the agent works."""
    scenario = Scenario(tmp_path)
    (scenario.repo / "serve.sh").write_text(SERVE)
    scenario.commit("base")
    checks = 'test "$(cat {0})" = "$({1})" || test "$SCAFFOLD_ACTION" = {0} -a -z "$SCAFFOLD_ATTEMPT"'
    scenario.plan(
        plan_of(
            one=[action("a", effects=["x"], check=checks.format("a", SEEN))],
            two=[action("b", effects=["y"], check=checks.format("b", SEEN))],
        )
    )
    scenario.cassette(**{key: [shell(f"bash serve.sh && {SEEN} > {key} && sleep 3"), "done"] for key in ("a", "b")})
    running = scenario.start(scenario.run_command("--yes", "--agents", "2", "--sandbox", "off", "--yolo"))
    shown = []

    def both_work():
        done = scenario.scaffold("agents", "--json")
        shown[:] = [each for each in json.loads(done.stdout)["agents"] if each["ports"]]
        return len(shown) == 2

    assert wait_until(both_work)
    path = json.loads(scenario.scaffold("path", "a", "--json").stdout)
    assert running.wait(COMMAND_S) == 0, scenario.said()
    held = {each["action"]: each for each in shown}
    assert path["ports"] == held["a"]["ports"]
    assert len({*held["a"]["ports"], *held["b"]["ports"]}) == 8
    branch = scenario.status()["run"]["session_branch"]
    for key, row in held.items():
        ports = row["ports"]
        seen = scenario.git("show", f"{branch}:{key}").split()
        assert seen == [str(ports[0]), str(ports[3]), row["database_name"]]
        assert len(row["database_name"]) < 64
    assert held["a"]["database_name"] != held["b"]["database_name"]
