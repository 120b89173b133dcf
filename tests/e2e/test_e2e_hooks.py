"""The commit hooks of a repository as gates: in trusted folders, sandboxed, their fixes before the proof."""

import pytest

from support.scenario import Scenario, action, plan_of, shell

FIX = """#!/usr/bin/env sh
. "$(dirname -- "$0")/_/husky.sh"
for each in $(git diff --cached --name-only); do
    sed -i "s/ *$//" "$each"
    git add "$each"
    if grep forbidden "$each"; then exit 1; fi
done
case "$PWD" in */hooks/1) ;; *) test ! -e ../1 || exit 1 ;; esac
echo harm > "$HOME/harm" || echo harm > ../../../../harm || true
"""
TRAILING, PENDING = shell("printf 'x = 2   \\n' > a.py"), shell("printf '# forbidden\\nx = 2\\n' > a.py")


@pytest.fixture
def scenario(tmp_path):
    made = Scenario(tmp_path)
    (made.repo / ".husky").mkdir()
    (made.repo / ".husky" / "pre-commit").write_text(FIX)
    (made.repo / "a.py").write_text("x = 1\n")
    made.commit("base")
    # Only the fixed file passes: the check sees what the hooks made of the work.
    made.plan(plan_of(g=[action("a", effects=["x"], check="grep -q '^x = 2$' a.py")]))
    return made


def landed(scenario):
    return scenario.git("show", f"{scenario.status()['run']['session_branch']}:a.py")


@pytest.mark.slow
def test_what_hooks_fix_is_part_of_the_work_that_is_proven_and_what_they_refuse_goes_back(scenario):
    """BX-9: neither the configuration nor anything outside of the sandbox is changed; a hook as husky 8 made it."""
    scenario.cassette(a=[PENDING, "done", TRAILING, "done"])
    config = (scenario.repo / ".git" / "config").read_bytes()
    done = scenario.run("--yes", "--trust-once")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "The hooks in .husky/pre-commit fixed 1 file of a: a.py." in done.stdout
    assert landed(scenario) == "x = 2\n"
    journal = "".join(path.read_text() for path in (scenario.repo / ".scaffold" / "logs").rglob("a.jsonl"))
    assert "commit hooks (.husky/pre-commit) failed" in journal, "the agent read why"
    assert (scenario.repo / ".git" / "config").read_bytes() == config
    assert not [*scenario.home.rglob("harm")]


@pytest.mark.slow
def test_hooks_of_an_untrusted_folder_do_not_run_and_the_run_says_so(scenario):
    """BX-9: they are programs of the repository."""
    scenario.cassette(a=[shell("printf 'x = 2\\n' > a.py")])
    done = scenario.run("--yes")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "The hooks in .husky/pre-commit are not applicable: the folder is not trusted" in done.stdout


@pytest.mark.slow
def test_hooks_that_cannot_run_here_are_told_and_refuse_nothing(scenario):
    """They fail without any change, as a program is missing."""
    (scenario.repo / ".husky" / "pre-commit").write_text("no-such-program\n")
    scenario.commit("broken hooks")
    scenario.cassette(a=[shell("printf 'x = 2\\n' > a.py")])
    done = scenario.run("--yes", "--trust-once")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("are not applicable: `sh -e .husky/pre-commit` does not pass (exit code 127)") == 1


@pytest.mark.slow
def test_a_change_of_the_hooks_decides_nothing_and_stays_as_it_is(tmp_path):
    """A change must not choose what judges it."""
    scenario = Scenario(tmp_path)
    program = scenario.repo / "node_modules" / ".bin" / "lefthook"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\nif grep -q strict lefthook.yml; then sed -i 's/ *$//' a.py; fi\n")
    program.chmod(0o755)
    (scenario.repo / "lefthook.yml").write_text("strict\n")
    (scenario.repo / "a.py").write_text("x = 1\n")
    scenario.git("add", "--force", ".")
    scenario.commit("base")
    scenario.plan(plan_of(g=[action("a", effects=["x"], check="grep -q '^x = 2$' a.py")]))
    scenario.cassette(a=[shell("printf 'x = 2   \\n' > a.py; echo lenient > lefthook.yml")])
    done = scenario.run("--yes", "--trust-once")
    assert done.returncode == 0, done.stdout + done.stderr
    assert landed(scenario) == "x = 2\n"
    branch = scenario.status()["run"]["session_branch"]
    assert scenario.git("show", f"{branch}:lefthook.yml") == "lenient\n"
