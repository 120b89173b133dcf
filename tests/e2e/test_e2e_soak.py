"""The soak and its checker, which has to find everything that may be wrong after a run."""

import asyncio
import contextlib
import json
import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec import structs

from soak_test.checker import Checker
from soak_test.place import Place
from soak_test.soak import Soak, SoakSettings
from soak_test.workload import Workload
from support.samples import sign_state

ROOT = Path(__file__).parents[2]
SETTINGS = SoakSettings(
    actions=6, agents=3, goals=2, seed=0, harm=False, database="sqlite", scale=0.01, limit_s=100.0, budget_usd=10.0
)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def soaked(tmp_path_factory):
    """A soak without harm that is over, and has nothing wrong."""
    place = Place(tmp_path_factory.mktemp("soak"))
    place.make()
    soak = Soak(SETTINGS, place, disk=False)
    result = asyncio.run(soak.result())
    assert (result.violations, result.landed, result.status) == ([], 6, "completed")
    assert result.cpu_s > 0
    return place, soak


class Copy:
    """A copy of the place, to do something to it."""

    def __init__(self, place, soak, folder):
        shutil.copytree(place.folder, folder, symlinks=True)
        self.place = Place(folder)
        sign_state(self.place.common_dir / "scaffold" / "state.db", home=self.place.home / "scaffold")
        self.user = soak.user
        self.workload = soak.workload
        self.branch = self.place.run()["session_branch"]
        self.key = self.workload.jobs[0].key

    def execute(self, statement, *values):
        path = self.place.common_dir / "scaffold" / "state.db"
        with contextlib.closing(sqlite3.connect(path)) as database, database:
            database.execute(statement, values)

    def violations(self):
        return Checker(self.place, self.workload, self.user, SETTINGS.budget_usd).violations()

    def commit(self, parent, message):
        """Return a commit with the files of its parent."""
        tree = self.place.git("rev-parse", f"{parent}^{{tree}}").strip()
        return self.place.git("commit-tree", "-p", parent, "-m", message, tree).strip()

    def another_attempt(self, **changed):
        """Store another attempt of the first action, like its first one but for what changed."""
        with contextlib.closing(sqlite3.connect(self.place.common_dir / "scaffold" / "state.db")) as database:
            database.row_factory = sqlite3.Row
            query = "SELECT t.* FROM attempt t JOIN action a ON a.id = t.action_id WHERE a.key = ?"
            row = dict(database.execute(query, (self.key,)).fetchone()) | {"id": "another", "number": 2} | changed
        columns, marks = ", ".join(row), ", ".join("?" * len(row))
        self.execute(f"INSERT INTO attempt ({columns}) VALUES ({marks})", *row.values())


def loses_a_commit(copy):
    copy.place.git("update-ref", f"refs/heads/{copy.branch}", f"{copy.branch}~1")


def lands_twice(copy):
    again = copy.commit(copy.branch, f"again\n\nScaffold-Action: {copy.key}")
    copy.place.git("update-ref", f"refs/heads/{copy.branch}", again)


def lands_what_may_not(copy):
    first, *others = copy.workload.jobs
    copy.workload = Workload((structs.replace(first, behaviour="fails"), *others))


def changes_a_file(copy):
    copy.place.git("worktree", "add", "--quiet", str(copy.place.folder / "tree"), copy.branch)
    tree = copy.place.folder / "tree"
    (tree / copy.workload.jobs[0].path).write_text("BROKEN\n")
    subprocess.run(["git", "commit", "-qam", "x"], cwd=tree, env=copy.place.environ, check=True)
    copy.place.git("worktree", "remove", str(tree))


def says_that_an_action_failed(copy):
    copy.execute("UPDATE action SET status = 'failed' WHERE key = ?", copy.key)


def loses_a_fact(copy):
    copy.execute("DELETE FROM fact WHERE assertion = ?", f"{copy.key}_done")


def works_twice_at_once(copy):
    copy.another_attempt(outcome="lost", head_sha=None)


def loses_a_candidate(copy):
    copy.another_attempt(outcome="lost", head_sha="0" * 40, queued_at="9999", ended_at="9999")


def loses_a_users_commit(copy):
    copy.user = type("User", (), {"branches": {"main": ["user 1"]}})()


def merges_into_the_users_branch(copy):
    copy.place.git("merge", "--quiet", copy.branch)


def changes_the_users_checkout(copy):
    (copy.place.repo / "README.md").write_text("changed\n")


def loses_an_object(copy):
    blob = copy.place.git("rev-parse", f"{copy.branch}:{copy.workload.jobs[0].path}").strip()
    (copy.place.common_dir / "objects" / blob[:2] / blob[2:]).unlink()


def leaves_an_attempt_open(copy):
    copy.execute("UPDATE attempt SET status = 'claimed' WHERE number = 1")


def leaves_a_worktree(copy):
    copy.place.git("worktree", "add", "--quiet", str(copy.place.folder / "tree"))


def leaves_a_temporary_file(copy):
    (copy.place.temporary / "left").touch()


def overspends(copy):
    copy.execute("UPDATE attempt SET cost_usd = 3.0")


def asks_a_human(copy):
    columns = "id, run_id, position, kind, text, detail, state, created_at, fingerprint"
    copy.execute(
        f"INSERT INTO inbox ({columns}) SELECT 'q', id, 1, 'question', 'well?', '{{}}', 'open', '2000', 'x' FROM run"
    )


@pytest.mark.parametrize(
    ("fault", "found"),
    [
        (loses_a_commit, "honest_work_landed_once"),
        (lands_twice, "honest_work_landed_once"),
        (lands_what_may_not, "nothing_else_landed"),
        (changes_a_file, "files_are_what_was_proven"),
        (says_that_an_action_failed, "the_database_says_the_same"),
        (loses_a_fact, "the_database_says_the_same"),
        (works_twice_at_once, "no_attempt_overlaps_another"),
        (loses_a_candidate, "candidates_are_kept"),
        (loses_a_users_commit, "the_user_lost_nothing"),
        (merges_into_the_users_branch, "the_user_lost_nothing"),
        (changes_the_users_checkout, "the_user_lost_nothing"),
        (loses_an_object, "the_repository_is_whole"),
        (leaves_an_attempt_open, "nothing_is_open"),
        (leaves_a_worktree, "nothing_is_left"),
        (leaves_a_temporary_file, "nothing_is_left"),
        (overspends, "the_budget_held"),
        (asks_a_human, "nobody_was_woken"),
    ],
)
def test_the_checker_finds_what_is_wrong(soaked, tmp_path, fault, found):
    """BX-23: a checker that finds nothing would prove nothing."""
    copy = Copy(*soaked, tmp_path / "copy")
    assert copy.violations() == []
    fault(copy)
    assert found in [each.partition(":")[0] for each in copy.violations()]


def test_the_checker_finds_a_process_that_is_left(soaked, tmp_path):
    """BX-17."""
    copy = Copy(*soaked, tmp_path / "copy")
    with subprocess.Popen(["sleep", "60"], env=copy.place.environ) as left:
        violations = copy.violations()
        left.kill()
    assert violations == [f"nothing_is_left: process {left.pid} is left: sleep 60"]


def test_a_soak_of_two_minutes_loses_nothing(tmp_path):
    """BX-23, BX-2, BX-8, BX-17: with all the harm of a night, by the command."""
    results = tmp_path / "results.jsonl"
    options = ["--actions", "60", "--agents", "6", "--goals", "6", "--limit-min", "12", "--results", str(results)]
    done = subprocess.run(
        [sys.executable, str(ROOT / "bench" / "soak"), *options, "--seed", os.environ.get("SOAK_SEED", "0")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads(results.read_text())
    assert result["landed"] == result["landing"]
    assert result["harm"]
