"""`env.from`: variables for workers and checks from a command of the user's."""

import pytest

from support.scenario import Scenario, action, plan_of, shell

VALUE = "harmless-looking-phrase"


@pytest.fixture
def scenario(tmp_path):
    made = Scenario(tmp_path)
    made.plan(plan_of(g=[action("a", effects=["x"], check=f'test "$(printf %s "$PHRASE" | rev)" = {VALUE[::-1]}')]))
    made.cassette(a=[shell('echo "it is $PHRASE"; test -n "$PHRASE" && touch a')])
    return made


def configured(scenario, command):
    scenario.scaffold("config", "env.from", command, code=0)


@pytest.mark.slow
def test_workers_and_checks_get_the_variables_and_nothing_stores_a_value(scenario):
    """BX-10"""
    (scenario.home / "vault").write_text(f'# a comment\n\nexport PHRASE="{VALUE}"\n')
    configured(scenario, f"cat '{scenario.home / 'vault'}'")
    scenario.run("--yes", code=0)
    journal = "".join(path.read_text() for path in (scenario.repo / ".scaffold" / "logs").rglob("a.jsonl"))
    assert "it is [redacted:PHRASE]" in journal
    stored = [path for top in (scenario.repo, scenario.home) for path in top.rglob("*") if path.is_file()]
    holding = [path for path in stored if VALUE.encode() in path.read_bytes()]
    assert [path.name for path in holding] == ["vault"], holding


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("echo no such vault >&2; exit 3", "failed with exit code 3: no such vault"),
        ("echo nothing", "line 1 of what `env.from` printed is not KEY=VALUE"),
        ("echo A=1; echo 'B C=2'", "line 2 of what `env.from` printed does not begin with a usable name"),
        ("echo LD_PRELOAD=/tmp/x.so", "cannot set LD_PRELOAD"),
        ("echo GIT_DIR=/tmp/x", "line 1"),
    ],
)
@pytest.mark.slow
def test_a_command_that_fails_or_prints_anything_else_starts_nothing(scenario, command, why):
    """BX-10: the message says what to do, and shows no value."""
    configured(scenario, command)
    done = scenario.run("--yes", code=1)
    assert why in done.stderr
    assert "scaffold config env.from --unset" in done.stderr
    assert scenario.status()["actions"][0]["attempts"] == []


@pytest.mark.slow
def test_a_repository_cannot_set_it(scenario):
    """BX-10: not even a trusted one."""
    (scenario.repo / ".scaffold.yaml").write_text("env: {from: 'touch /tmp/never-made-by-env-from; echo A=1'}\n")
    scenario.commit("config")
    scenario.scaffold("trust", "--yes", code=0)
    shown = scenario.scaffold("config", "env.from")
    assert "touch" not in shown.stdout.partition("\n")[0]
