"""Files that `.worktreeinclude` names, by the real commands: trusted once, used by agents and checks, never landed."""

import pytest

from support.scenario import action, plan_of, shell

SECRET = "hunter2-hunter2"
TEST = """\
from pathlib import Path

def test_the_settings_are_there():
    assert "PASSWORD" in Path(".env").read_text()
"""
WORK = "python3 -m pytest -q test_settings.py | grep -o '1 passed' > found.txt; echo '__pycache__' > .gitignore"
PEEK = "python3 -c 'import glob; print(open(glob.glob(chr(46) + chr(101) + chr(42))[0]).read())'"
TRICK = "git add --all --force; git -c user.name=a -c user.email=a@example.org commit --quiet --message mine"


@pytest.fixture
def scenario(scenario):
    scenario.configure(quality_gates={"test": "python3 -m pytest -q"})
    for name, text in {
        ".gitignore": ".env\n*.key\nout/\n",
        "test_settings.py": TEST,
        ".worktreeinclude": "# for agents\n.env\n*.key\n",
    }.items():
        (scenario.repo / name).write_text(text)
    scenario.commit("tests that need settings")
    (scenario.repo / ".env").write_text(f"PASSWORD={SECRET}\n")
    (scenario.repo / "server.key").write_text("a key\n")
    scenario.plan(plan_of(use=[action("use", effects=["used"], check="test -s found.txt && grep -q PASSWORD .env")]))
    scenario.cassette(use=[shell(WORK), shell(PEEK), shell(TRICK)])
    return scenario


@pytest.mark.slow
def test_trusted_files_are_copied_to_worktrees_and_never_land(scenario):
    """BX-10: even if an agent stops ignoring them; a secret is copied only if a line names it."""
    before = scenario.checkout()
    shown = scenario.scaffold("trust", "--yes").stdout
    assert "copies ignored files that match .env - they may be SECRETS" in shown
    assert "copies ignored files that match *.key\n" in shown
    done = scenario.run("--yes", "--yolo", code=0)
    said = done.stdout + done.stderr
    assert "Copied to worktrees (.worktreeinclude): .env\n" in said
    assert "Not copied: server.key. Name each in a line of its own in .worktreeinclude to copy it." in said
    branch = scenario.status()["run"]["session_branch"]
    landed = scenario.git("ls-tree", "-r", "--name-only", branch).split()
    assert "found.txt" in landed
    assert ".env" not in landed
    assert SECRET not in scenario.git("log", "--all", "-p")
    assert SECRET not in said + scenario.journal("use", "use")
    assert "PASSWORD=" in scenario.journal("use", "use")
    assert scenario.checkout() == before


@pytest.mark.slow
def test_files_of_an_untrusted_folder_are_not_copied(scenario):
    """BX-10, RA-13: trust is the one approval."""
    done = scenario.run("--yes", "--yolo")
    said = done.stdout + done.stderr
    assert done.returncode != 0
    assert ".worktreeinclude ignored: folder not trusted" in said
    assert "Copied to worktrees" not in said


@pytest.mark.slow
def test_the_work_of_a_killed_attempt_is_rescued_without_the_files(scenario):
    """BX-10, DR-9."""
    scenario.scaffold("trust", "--yes", code=0)
    scenario.cassette(use=[shell(WORK), shell("true"), "I give up"])
    scenario.run("--yes", "--yolo")
    assert "found.txt" in scenario.git("log", "--all", "--name-only", "--format=")
    assert SECRET not in scenario.git("log", "--all", "-p")
