"""Which commits are replayed, how an ending is read, and how results are kept and counted."""

import subprocess  # noqa: TID251 - git makes the commits that are read
import sys
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from replay.commits import Change, Wanted, contract_of, find_changes, is_code, is_test, patch_of, read_change
from replay.history import Replayed, summary
from replay.place import find_source, prepare
from replay.results import Results, share, table
from replay.runner_times import CommandRun
from replay.trial import Contract, Ending, read_ending

ROOT = Path(__file__).parents[3]
FACT = {"name": "changed", "state": "holds", "weak": False}
LANDED = {"outcome": "landed", "head_sha": "abc", "error": None}
REFUSED = {"outcome": "gate_failed", "head_sha": None, "error": "new_failure in test"}
IDLE = {"outcome": "contract_failed", "head_sha": None, "error": "nothing changed"}


def status_of(*, status="completed", facts=(FACT,), attempts=(LANDED,), reason=None):
    return {
        "run": {"status": status, "reason": reason},
        "goals": [{"facts": list(facts)}],
        "actions": [{"attempts": list(attempts), "reason": None}],
    }


def ending_of(status, last=None):
    return read_ending(status, {"last": last}, "printed", took=2.0, runs=())


def test_what_landed_with_a_fact_that_is_not_weak_is_proven():
    ending = ending_of(status_of())
    assert (ending.outcome, ending.landed, ending.doubts) == ("proven", "abc", ())


def test_the_strength_and_the_doubts_of_the_fact_are_read_where_it_has_them():
    doubts = [{"code": "unexecuted", "text": "12 changed lines, 0 executed"}]
    fact = {**FACT, "weak": True, "strength": "reviewed", "doubts": doubts}
    ending = ending_of(status_of(facts=[fact]))
    assert (ending.outcome, ending.doubts) == ("reviewed", ("unexecuted: 12 changed lines, 0 executed",))


def test_a_weak_fact_without_doubts_has_the_reason_that_weak_always_had():
    ending = ending_of(status_of(facts=[{**FACT, "weak": True}]))
    assert ending.outcome == "weak"
    assert ending.doubts[0].startswith("green-on-base")


def test_a_refusal_has_the_reason_of_the_first_attempt_and_what_blocked_it():
    gate = {"name": "test", "verdict": "new_failure", "tests": {"test_add": "new_failure"}, "detail": "1 failed"}
    last = {"results": [{"name": "pytest", "verdict": "fail", "detail": "boom"}], "gates": [gate]}
    ending = ending_of(status_of(status="failed", facts=[], attempts=[REFUSED, IDLE]), last)
    assert (ending.outcome, ending.reason) == snapshot(("refused", "new_failure in test"))
    assert ending.failed == ("pytest: fail\nboom", "test: new_failure\n  new_failure test_add\n1 failed")


def test_a_run_that_ended_before_any_attempt_judged_nothing():
    ending = ending_of(status_of(status="failed", facts=[], attempts=[], reason="environment_not_ready: no pytest"))
    assert (ending.outcome, ending.reason) == ("not_judged", "environment_not_ready: no pytest")


def test_results_are_read_back_by_a_second_call_without_a_line_that_was_cut_off(tmp_path):
    path = tmp_path / "new" / "results.jsonl"
    Results(path, Replayed).add(line_of("proven"))
    with path.open("ab") as file:
        file.write(b'{"project": "acme')
    Results(path, Replayed).add(line_of("weak"))
    assert Results(path, Replayed).lines == [line_of("proven"), line_of("weak")]


def test_the_summary_counts_by_project_and_names_what_did_not_land():
    lines = [line_of("proven"), line_of("weak", doubts=("green-on-base: x",)), line_of("refused", reason="no\nway")]
    lines.append(line_of("unchanged", doubts=("passes_without_work: x",)))
    text = summary([*lines, line_of("broken"), line_of("not_judged", reason="no pytest")])
    assert (
        "| acme/calc                    |       6 |      1 |        0 |         1 |    1 |       1 |      1 |" in text
    )
    assert "| (code alone)                 |       6 |" in text
    weak = "weak: 1 of 3 (33.3 %) of what landed, 1 of 2 (50.0 %) of what a check can see"
    for part in ("refused: 1 of 4 (25.0 %)", weak, "human: 0 of 4", "  1 x green-on-base", "no way"):
        assert part in text
    assert "no pytest" in text


def line_of(outcome, **fields):
    landed = "abc" if outcome in {"proven", "unchanged", "weak"} else None
    runs = (CommandRun(command="pytest", seconds=2.0),)
    return Replayed(
        project="acme/calc",
        commit="abc",
        subject="change",
        kinds=(),
        files=("a.py",),
        contract=Contract(commands=("pytest",)),
        ending=Ending(outcome=outcome, landed=landed, total_s=3.0, runs=runs, **fields),
    )


def test_a_table_lines_up_and_a_share_of_nothing_is_no_error():
    assert table(["a", "b"], [["x", 10]]) == "| a |  b |\n|---|---:|\n| x | 10 |"
    assert (share(1, 4), share(0, 0)) == ("1 of 4 (25.0 %)", "0 of 0")


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    """A folder with a repository whose last commits move a test, and change documentation only."""
    folder = tmp_path_factory.mktemp("sources")
    source = folder / "acme+calc" / "repo"
    source.mkdir(parents=True)

    def git(*args):
        subprocess.run(["git", "-c", "user.name=A", "-c", "user.email=a@b.c", *args], cwd=source, check=True)

    def commit(message, **files):
        for path, text in files.items():
            target = source / path.replace("__", "/").replace("_py", ".py").replace("_md", ".md")
            target.parent.mkdir(exist_ok=True)
            target.write_text(text)
        git("add", "-A")
        git("commit", "-q", "-m", message)

    git("init", "-q", "-b", "main")
    commit("start", calc_py="def add(a, b):\n    return a + b\n", tests__test_calc_py="def test_add():\n    pass\n")
    commit("subtract", calc_py="def add(a, b):\n    return a + b\n\n\nSUB = 1\n", tests__test_sub_py="# none\n")
    git("mv", "tests/test_calc.py", "tests/test_add.py")
    commit("move")
    commit("explain", README_md="# Calc\n")
    return folder


@pytest.fixture
def place(tmp_path, sources):
    """A clone of the repository."""
    return prepare(tmp_path / "work", find_source(sources, "acme/calc"), (), at="HEAD")


def test_a_place_is_used_by_one_process_at_a_time(place):
    code = f"from replay.place import *; prepare(Path({str(place.folder)!r}), Path(), (), at='HEAD')"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT / "bench", capture_output=True, text=True, check=False)
    assert "SetupFailedError" in done.stderr


def test_commits_are_chosen_by_what_they_change_the_newest_first(place):
    def subjects(revisions, **wanted):
        none = {"tested": 0, "untested": 0, "removals": 0, "configuration": 1}
        return [each.subject for each in find_changes(place, revisions, Wanted(**{**none, **wanted}))]

    assert subjects("HEAD", tested=2) == ["subtract"]
    assert subjects("HEAD", untested=2) == []
    assert subjects("HEAD", removals=2) == ["move"]
    assert subjects("HEAD~2", removals=2) == []
    assert subjects("HEAD", tested=1, removals=1) == ["move", "subtract"]


def test_a_change_names_its_paths_its_tests_and_what_is_notable(place):
    move = read_change(place, "HEAD~1")
    assert move.files == ("tests/test_add.py", "tests/test_calc.py")
    assert (move.added, move.removed) == ((), ())
    assert (move.tests, move.kinds) == (("tests/test_add.py",), ("renames-files", "tests"))
    assert read_change(place, "HEAD") is None


def test_files_are_of_code_of_tests_or_of_neither():
    paths = ["src/calc.py", "setup.py", "tests/test_calc.py", "tests/data/calc.py", "docs/conf.py", "a.test.ts", "a.md"]
    assert [path for path in paths if is_code(path)] == ["src/calc.py"]
    assert [path for path in paths if is_test(path)] == ["tests/test_calc.py", "a.test.ts"]


def test_the_patch_of_a_commit_makes_its_tree(place):
    change = read_change(place, "HEAD~1")
    place.reset(change.base)
    (place.repo / ".git" / "change.patch").write_bytes(patch_of(place, change.base, change.commit))
    place.git("apply", "--index", str(place.repo / ".git" / "change.patch"))
    assert place.git("write-tree") == place.git("rev-parse", f"{change.commit}^{{tree}}")


def test_what_a_run_left_is_removed_and_the_environment_stays(place):
    for left in (".venv", ".scaffold", ".git/scaffold", "../home/scaffold"):
        (place.repo / left).mkdir()
    (place.repo / "scratch.py").touch()
    place.git("branch", "session-1")
    place.forget()
    place.reset("HEAD~2")
    assert not (place.repo / ".git" / "scaffold").exists()
    assert list(place.home.iterdir()) == []
    assert sorted(path.name for path in place.repo.iterdir()) == [".git", ".venv", "calc.py", "tests"]
    assert place.git("branch", "--format=%(refname:short)").split() == ["main"]


def test_a_contract_is_about_the_tests_of_the_work_or_else_about_all_and_about_the_files_by_name():
    def contract(*files, **fields):
        none = {"tests": (), "added": (), "removed": (), "kinds": ()}
        change = Change(commit="b", base="a", subject="s", files=files, **{**none, **fields})
        return contract_of(change, focused="pytest {files}", whole="pytest")

    tested = contract("a.py", tests=("t.py", "u.py"), added=("new.py",), removed=("old.py",))
    assert tested == Contract(commands=("pytest t.py u.py",), must_exist=("new.py",), must_not_exist=("old.py",))
    assert contract("a.py") == Contract(commands=("pytest",))
