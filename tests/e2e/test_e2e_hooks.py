"""The commit hooks of a repository as gates: in trusted folders, sandboxed, their fixes before the proof."""

import json

import pytest

from support.scenario import Scenario, action, plan_of, shell

FIX = """#!/usr/bin/env sh
. "$(dirname -- "$0")/_/husky.sh"
for each in $(git diff --cached --name-only); do
    sed -i "s/ *$//" "$each"
    git add "$each"
    if grep forbidden "$each"; then exit 1; fi
done
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
    done = scenario.run("--yes", "--trust-once", code=0)
    assert "The commit hooks fixed 1 file of a: a.py." in done.stdout
    assert landed(scenario) == "x = 2\n"
    journal = "".join(path.read_text() for path in (scenario.repo / ".scaffold" / "logs").rglob("a.jsonl"))
    assert "The repository's commit hooks (`sh -e .husky/pre-commit`): 1 new failure" in journal, "the agent read why"
    assert (scenario.repo / ".git" / "config").read_bytes() == config
    assert not [*scenario.home.rglob("harm")]


@pytest.mark.slow
def test_hooks_of_an_untrusted_folder_do_not_run_and_the_run_says_so(scenario):
    """BX-9: they are programs of the repository."""
    scenario.cassette(a=[shell("printf 'x = 2\\n' > a.py")])
    done = scenario.run("--yes", code=0)
    assert "The commit hooks are not applicable: the folder is not trusted" in done.stdout


@pytest.mark.slow
def test_hooks_that_cannot_run_here_are_told_and_refuse_nothing(scenario):
    """They fail without any change, as a program is missing."""
    (scenario.repo / ".husky" / "pre-commit").write_text("no-such-program\n")
    scenario.commit("broken hooks")
    scenario.cassette(a=[shell("printf 'x = 2\\n' > a.py")])
    done = scenario.run("--yes", "--trust-once", code=0)
    assert done.stdout.count("are not applicable: `sh -e .husky/pre-commit` could not be run (exit code 127)") == 1


@pytest.mark.slow
def test_hooks_of_a_tool_that_is_missing_are_told_although_those_of_another_run(scenario):
    """BX-9: husky's hooks judge the change, lefthook is not installed; those below the top are told, too."""
    (scenario.repo / "lefthook.yml").write_text("pre-commit: {commands: {lint: {run: exit 1}}}\n")
    (scenario.repo / "web" / ".husky").mkdir(parents=True)
    (scenario.repo / "web" / ".husky" / "pre-commit").write_text("exit 1\n")
    scenario.commit("more hooks")
    scenario.cassette(a=[shell("printf 'x = 2\\n' > a.py")])
    done = scenario.run("--yes", "--trust-once", code=0)
    assert done.stdout.count("The commit hooks of lefthook are not applicable: lefthook is not installed") == 1
    assert done.stdout.count("The commit hooks in web/.husky/pre-commit do not run") == 1


WORDS = """#!/bin/sh
grep -nH forbidden "$@" | sed "s/:forbidden/: W001 forbidden/" | grep . && exit 1 || exit 0
"""
CONFIG = """
repos:
- repo: local
  hooks:
  - {id: words, name: forbidden words, entry: ./words.sh, language: system, types: [python]}
  - {id: strip, name: strip ends, entry: sed -i "s/ *$//", language: system, types: [python]}
"""


@pytest.mark.slow
def test_hooks_that_fail_on_the_base_block_new_failures_only_and_judge_nothing_that_they_do_not_look_at(tmp_path):
    """AL-10, BX-4: a gate like the others, with a row in the baseline and evidence; all hooks skipped is no pass."""
    scenario = Scenario(tmp_path)
    (scenario.repo / ".pre-commit-config.yaml").write_text(CONFIG)
    (scenario.repo / "words.sh").write_text(WORDS)
    (scenario.repo / "words.sh").chmod(0o755)
    (scenario.repo / "old.py").write_text("forbidden = 1\n")
    scenario.commit("base")
    scenario.plan(
        plan_of(
            g=[
                action("new", effects=["x"], check="grep -q '^x = 2$' a.py"),
                action("old", effects=["y"], check="grep -q '^y' old.py"),
                action("text", effects=["z"], check="test -e z.txt"),
            ]
        )
    )
    scenario.cassette(
        new=[shell("printf 'x = 2  \\nforbidden = 2\\n' > a.py"), "done", shell("printf 'x = 2  \\n' > a.py"), "done"],
        old=[
            *(shell("printf 'forbidden = 1\\nforbidden = 2\\ny = 1\\n' > old.py"), "done"),
            *(shell("printf 'forbidden = 1\\ny = 1\\n' > old.py"), "done"),
        ],
        text=[shell("echo z > z.txt"), "done"],
    )
    found = json.loads(scenario.scaffold("init", "--dry-run", "--json").stdout)
    assert [check["name"] for check in found["checks"]] == ["hooks"]
    scenario.run("--yes", "--trust-once", code=0)
    assert "failed  old.py: W001 (forbidden words)" in scenario.scaffold("baseline").stdout
    for key, line, refused in (("new", 2, True), ("old", 2, True), ("text", 0, False)):
        assert (f":{line}: W001 forbidden = 2" in scenario.journal("g", key)) is refused
    review = scenario.scaffold("review").stdout
    assert "gate hooks: pass, 2 pass" in review
    assert "gate hooks: pre_existing, 1 pass, 1 pre_existing" in review
    assert review.count("gate hooks") == 2, "no hook looked at the third change"
    assert "- hooks: not_applicable" in scenario.scaffold("contract", "text").stdout


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
    scenario.run("--yes", "--trust-once", code=0)
    assert landed(scenario) == "x = 2\n"
    branch = scenario.status()["run"]["session_branch"]
    assert scenario.git("show", f"{branch}:lefthook.yml") == "lenient\n"
