"""A worker plants repositories where Scaffold's own git works, and files that others obey; a canary tells what ran."""

import asyncio

import pytest

from builders import sandbox_or_skip
from support.scenario import Scenario, action, plan_of, shell, write

PLANT = """
git init -q .; echo "$objects" > .git/objects/info/alternates; git update-ref HEAD $commit; git reset -q --hard
git config filter.mark.clean {canary}; git config core.fsmonitor {canary}
for hook in post-checkout post-index-change; do printf '#!/bin/sh\\n{canary}\\n' > .git/hooks/$hook; done
chmod +x .git/hooks/*; echo '* filter=mark' > .git/info/attributes; touch -d 2001-01-01 o
"""
"""Make the folder a repository with the submodule's commit that names the canary wherever git starts a program.

Inside a sandbox the canary is missing.
"""
ATTACK = """
commit=$(git -C lib rev-parse HEAD); objects=$(git -C lib rev-parse --path-format=absolute --git-common-dir)/objects
(cd bare; {plant})
(rm -rf lib/.git; cd lib; {plant})
(mkdir own; cd own; {plant})
w=own/.git/worktrees/w; mkdir -p $w; cp own/.git/HEAD $w; echo ../.. > $w/commondir; echo $PWD/.git > $w/gitdir
rm -f .git && echo gitdir: $w > .git
true
"""
"""Plant one in each place where our git works, and point the worktree to one that points back, as a true one does."""
WRITES = [write("setup.sh", "touch answer.txt; echo x > .npm''rc\n"), shell("sh setup.sh")]
WAITS = 3
"""The exit code of a run that waits for a human."""
NAMED = ("-c", "user.name=x", "-c", "user.email=x@example.invalid")


@pytest.fixture(scope="module", autouse=True)
def _a_sandbox():
    asyncio.run(sandbox_or_skip())


@pytest.fixture
def scenario(tmp_path):
    """A repository with the submodule `lib` and the gitlink `bare`, which .gitmodules does not name."""
    made, inner = Scenario(tmp_path), tmp_path / "inner"
    inner.mkdir()
    (inner / "o").write_text("1\n")
    for words in (["init", "-q"], ["add", "."], [*NAMED, "commit", "-qm", "inner"]):
        made.git("-C", str(inner), *words)
    made.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(inner), "lib")
    made.git(
        "update-index", "--add", "--cacheinfo", f"160000,{made.git('-C', 'lib', 'rev-parse', 'HEAD').strip()},bare"
    )
    made.git("commit", "-qm", "submodules")
    (made.repo / "bare").mkdir()
    return made


@pytest.fixture
def canary(tmp_path):
    """A program that writes a file outside every sandbox; the file and its path."""
    ran, program = tmp_path / "ran", tmp_path / "canary"
    program.write_text(f"#!/bin/sh\necho ran >> '{ran}'\ncat\n")
    program.chmod(0o755)
    return program, ran


@pytest.mark.slow
def test_no_program_of_a_planted_repository_ever_runs(scenario, canary):
    """BX-9: neither while the run works, nor for `doctor`, `status`, `salvage` and `cleanup` after it."""
    program, ran = canary
    scenario.plan(plan_of(one=[action("one", effects=["answered"], check="test -f answer.txt")]))
    script = ATTACK.format(plant=PLANT.format(canary=program))
    again = [shell("rm -rf bare own; mkdir bare"), "cleaned up"]
    scenario.cassette(
        one=[write("plant.sh", script), shell("sh plant.sh"), write("answer.txt", "42\n"), "done", *again]
    )
    done = scenario.run("--yes")
    for command in ("doctor", "salvage", "cleanup"):
        scenario.scaffold(command)
    assert not ran.exists()
    assert done.returncode == 0, done.stdout + done.stderr
    branch = scenario.status()["run"]["session_branch"]
    assert scenario.git("show", f"{branch}:answer.txt") == "42\n"
    assert scenario.git("diff", "--raw", "main", branch, "--", "bare") == ""


@pytest.mark.slow
def test_a_repository_that_ralph_makes_in_the_checkout_runs_nothing(scenario, canary):
    """BX-9: neither for the user's own `git status` nor for `doctor`; the answer says what became of it."""
    program, ran = canary
    (scenario.repo / "out" / "plant.sh").write_text(ATTACK.format(plant=PLANT.format(canary=program)))
    when = {"role": "agent"}
    tape = scenario.replies(
        {"when": {**when, "turn": 1}, "tool_calls": [shell("sh out/plant.sh")]}, {"when": when, "text": "done"}
    )
    words = ("ralph", "Build it.", "--yolo", "--model", f"cassette:{tape}", "--output-format", "stream-json")
    done = scenario.scaffold(*words, code=0)
    assert "bare/.git was moved to .git.refused-1" in done.stdout
    scenario.scaffold("doctor")
    scenario.git("status")
    assert not ran.exists()
    assert (scenario.repo / "lib" / ".git").read_text().startswith("gitdir: ../.git/modules/lib")


@pytest.mark.slow
def test_a_protected_file_that_a_script_writes_ends_the_only_attempt(scenario):
    """RA-14: and the action with it, after the iteration that wrote it."""
    scenario.plan(plan_of(one=[action("one", effects=["answered"], check="test -f answer.txt")]))
    scenario.cassette(one=WRITES)
    done = scenario.run("--yes")
    assert done.returncode != 0
    assert ".npmrc is protected" in done.stdout + done.stderr
    (made,) = scenario.status()["actions"]
    assert [(each["outcome"], each["iteration"]) for each in made["attempts"]] == [("contract_failed", 1)]


@pytest.mark.slow
def test_a_declared_protected_file_lands_once_it_is_approved(scenario):
    """RA-14, BX-13: although the user's own plan names it, and with --yolo, too."""
    scenario.configure(inbox={"wait_s": 0.2})
    files = [".npmrc", "answer.txt", "setup.sh"]
    scenario.plan(plan_of(one=[action("one", effects=["answered"], check="test -f answer.txt", files=files)]))
    scenario.cassette(one=WRITES)
    scenario.run("--yes", "--yolo", code=WAITS)
    (item,) = scenario.inbox()
    assert item["detail"]["protected"] == [".npmrc"]
    scenario.scaffold("approve", item["id"])
    scenario.scaffold("resume", code=0)
    assert scenario.git("show", f"{scenario.status()['run']['session_branch']}:.npmrc") == "x\n"
