"""Files that git ignores are named to agents and users, and land by declaration alone."""

import pytest

from support.scenario import action, plan_of, shell, write

RULES = {".gitignore": "gen/\n*.dat\n", "pkg/.gitignore": "lib/\n"}


def ignoring(scenario):
    (scenario.repo / "pkg").mkdir()
    for path, text in RULES.items():
        (scenario.repo / path).write_text(text)
    scenario.commit("rules")


@pytest.mark.slow
def test_a_declared_file_that_git_ignores_is_an_error_of_the_plan(scenario):
    """BX-30: `plan check` and `run` name the rule; a rule that the plan changes, and what must exist, are none."""
    ignoring(scenario)

    def check(*files, **contract):
        made = action("a", effects=["a"], files=files, contract={"commands": [{"command": "true"}], **contract})
        scenario.plan(plan_of(g=[made]))
        return scenario.scaffold("plan", "check", str(scenario.home / "plan.yaml"))

    for entry, rule in {
        "gen/x.py": "`gen/` in .gitignore, line 1",
        "./gen/**": "`gen/` in .gitignore, line 1",
        "x.dat": "`*.dat` in .gitignore, line 2",
        "pkg/lib/*.py": "`lib/` in pkg/.gitignore, line 1",
    }.items():
        refused = check("a", entry)
        assert refused.returncode == 4
        assert f"error[ignored-file] git ignores `{entry}` of action `a`, by {rule}" in refused.stdout
    stopped = scenario.run("--yes", code=4)
    assert "declares files that git ignores" in stopped.stderr
    assert "ignored-file" in stopped.stderr
    assert "session-" not in scenario.git("branch")
    (scenario.repo / "pkg" / "lib").mkdir()
    (scenario.repo / "pkg" / "lib" / "old.py").write_text("1\n")
    scenario.git("add", "-f", ".")
    for fine in (check("pkg/lib/*.py"), check("gen/x.py", ".gitignore"), check("gen/x.py", must_exist=["gen/x.py"])):
        assert fine.returncode == 0, fine.stdout


@pytest.mark.slow
def test_ignored_files_of_the_work_are_named_and_land_only_by_declaration(scenario):
    """BX-30: named to the agent by its tool, to the user by a note and with the checks."""
    ignoring(scenario)
    contract = {"commands": [{"command": "test -f pkg/x.py"}], "must_exist": ["gen/x.py"]}
    scenario.plan(plan_of(g=[action("a", effects=["a"], files=["pkg/**", "gen/x.py"], contract=contract)]))
    scenario.cassette(
        a=[
            write("pkg/x.py", "1\n"),
            write("pkg/lib/y.py", "1\n"),
            write("gen/x.py", "1\n"),
            shell("echo 1 > made.dat; echo 1 > gen/other.py"),
        ]
    )
    done = scenario.run("--yes", code=0)
    assert "Git ignores these new files, so they are not part of the work:" in done.stdout + done.stderr
    session = scenario.status()["run"]["session_branch"]
    landed = scenario.git("diff", "--name-only", "HEAD", session).split()
    assert landed == ["gen/x.py", "pkg/x.py"]
    assert (
        "Git ignores pkg/lib/y.py (`lib/` in pkg/.gitignore, line 1)" in scenario.scaffold("logs", "--full", "a").stdout
    )
    checks = scenario.scaffold("contract", "a").stdout
    for line in ("pkg/lib/y.py (`lib/` in pkg/.gitignore, line 1)", "made.dat (`*.dat` in .gitignore, line 2)"):
        assert f"- {line}" in checks


@pytest.mark.slow
def test_work_that_is_ignored_as_a_whole_is_told_with_the_rule(scenario):
    """BX-30."""
    ignoring(scenario)
    scenario.plan(plan_of(g=[action("a", effects=["a"], check="test -f gen/x.py")]))
    scenario.cassette(a=[shell("mkdir -p gen; echo 1 > gen/x.py")])
    scenario.run("--yes", code=1)
    (found,) = scenario.status()["actions"]
    assert "nothing changed" in found["reason"]
    assert "- gen/x.py (`gen/` in .gitignore, line 1)" in found["reason"]
