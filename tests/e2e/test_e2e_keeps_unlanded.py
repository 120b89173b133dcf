"""Work that does not land, and files that git ignores: kept at every kill, listed and given back by `salvage`."""

import stat

import pytest

from support.crash_points import SAMPLE, CrashPoint, try_every_point
from support.scenario import Scenario, action, plan_of, shell

MAKE = "echo pass=$((6*7)) > server.key; echo wrong > a.txt; echo made it$((6*7))\n"


def failing(folder):
    """Return a repository with an action whose agent makes an ignored key and work that fails."""
    folder.mkdir(exist_ok=True)
    made = Scenario(folder)
    (made.repo / ".gitignore").write_text("*.key\n")
    (made.repo / "make.sh").write_text(MAKE)
    made.commit("base")
    made.plan(plan_of(g=[action("a", effects=["x"], check="grep -q right a.txt")]))
    made.cassette(a=[shell("sh make.sh")])
    return made


def expect_kept(scenario, attempt):
    """Check that the attempt's work is pinned, and its key in a private file and in no object."""
    assert scenario.git("show", f"refs/scaffold/rescue/{attempt}:a.txt") == "wrong\n"
    kept = scenario.repo / ".git" / "scaffold" / "ignored" / attempt / "server.key"
    assert kept.read_text() == "pass=42\n"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    objects = scenario.git("cat-file", "--batch-all-objects", "--batch-check=%(objectname)").split()
    assert scenario.git("hash-object", str(kept)).strip() not in objects


@pytest.mark.slow
def test_salvage_lists_the_ignored_files_of_failed_work_and_copies_them(tmp_path):
    """BX-3, BX-10, DR-9: and `purge` keeps them unless it is told otherwise."""
    scenario = failing(tmp_path)
    scenario.run("--yes", code=1)
    found = scenario.json("salvage")
    attempts = [each["attempt"] for each in found["ignored"]]
    assert sorted(attempts) == sorted(each["attempt"] for each in found["unlanded"])
    for attempt in attempts:
        expect_kept(scenario, attempt)
    assert (scenario.repo / ".scaffold" / "failures" / "g-a.diff").read_text().count("+wrong") == 1
    listed = scenario.scaffold("salvage").stdout
    assert "1 ignored file: server.key" in listed
    copied = scenario.scaffold("salvage", attempts[0], "--ignored", "back")
    assert "copied 1 ignored file" in copied.stdout
    assert (scenario.repo / "back" / "server.key").read_text() == "pass=42\n"
    again = scenario.scaffold("salvage", attempts[0], "--ignored", "back")
    assert (again.returncode, "back exists" in again.stderr) == (64, True)
    scenario.scaffold("purge", "--yes", code=0)
    expect_kept(scenario, attempts[0])
    assert {each["attempt"] for each in scenario.json("salvage")["ignored"]} == set(attempts)
    scenario.scaffold("purge", "--yes", "--unlanded", code=0)
    assert not (scenario.repo / ".git" / "scaffold").exists()


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("share", SAMPLE[:1])
def test_a_kill_between_any_two_steps_loses_no_file_of_the_agent(tmp_path, share):
    """BX-3, BX-15"""

    def trial(number):
        scenario = failing(tmp_path / str(number))
        point = CrashPoint(scenario, number, CRASH_DISTINCT="after")
        with point.armed():
            scenario.call(scenario.run_command("--yes"))
        scenario.json("cleanup")
        logs = [path.read_text() for path in (scenario.repo / ".scaffold" / "logs").rglob("a.jsonl")]
        made = sum(text.count("made it42") for text in logs)
        kept = [each["attempt"] for each in scenario.json("salvage")["ignored"]]
        assert len(kept) >= min(made, 1)
        for attempt in kept:
            expect_kept(scenario, attempt)
        return point.passed()

    try_every_point(share, trial)
