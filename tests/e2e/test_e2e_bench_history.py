"""The bench of honest history, called as it is documented, on a repository made here."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECTS = """
[[project]]
repo = "acme/calc"
setup = []
focused = "python3 -m unittest -q {files}"
whole = "python3 -m unittest -q"
"""
ADD = "def one(_a, _b):\n    return 1\n\n\ndef add(a, b):\n    return a + b\n"
SUB = "\n\ndef sub(a, b):\n    return a - b\n"
TEST = """import unittest

from calc import NAME


class NAMETest(unittest.TestCase):
    def test_NAME(self):
        self.assertEqual(NAME(3, 1), VALUE)
"""


def unittest_of(name, value):
    return TEST.replace("NAME", name).replace("VALUE", str(value))


def made_repository(folder):
    """Make a repository whose last commits add a function, break another and delete its test, break both, and go on."""
    folder.mkdir(parents=True)

    def commit(message, **files):
        for name, text in files.items():
            (folder / f"{name}.py").write_text(text)
        identity = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
        subprocess.run(["git", "add", "-A"], cwd=folder, check=True)
        subprocess.run(["git", *identity, "commit", "-q", "-m", message], cwd=folder, check=True)

    subprocess.run(["git", "init", "-q", "-b", "main"], cwd=folder, check=True)
    commit("start", calc=ADD, test_one=unittest_of("one", 1), test_add=unittest_of("add", 4))
    commit("subtract", calc=ADD + SUB, test_sub=unittest_of("sub", 2))
    (folder / "test_add.py").unlink()
    commit("break add", calc=ADD.replace("+", "*") + SUB)
    commit("break sub", calc=ADD.replace("+", "*") + SUB.replace("-", "*"))
    commit("break one", calc=SUB.replace("-", "+"), test_mul=unittest_of("mul", 3))


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_commits_are_replayed_as_work_and_a_second_call_replays_none_again(tmp_path):
    """BX-22: what is right lands as proven, as exactly its commit's tree; what hides a failure is asked about by name.

    Work that breaks the project's own tests is rightly refused, and that does not pass its own contract tells nothing.
    """
    made_repository(tmp_path / "repos" / "acme+calc")
    (tmp_path / "projects.toml").write_text(PROJECTS)
    results = tmp_path / "results.jsonl"
    command = [sys.executable, ROOT / "bench" / "history", "--repos", tmp_path / "repos", "--work", tmp_path / "work"]
    command += ["--projects", tmp_path / "projects.toml", "--results", results]
    for _ in range(2):
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    by_subject = {line["subject"]: line for line in map(json.loads, results.read_text().splitlines())}
    assert len(results.read_text().splitlines()) == 4
    right, lossy = by_subject["subtract"], by_subject["break add"]
    broken, unfit = by_subject["break sub"], by_subject["break one"]
    assert (right["ending"]["outcome"], right["same_tree"]) == ("proven", True), right
    assert right["contract"] == {"commands": ["python3 -m unittest -q test_sub.py"]}
    assert right["contract"]["commands"][0] in {run["command"] for run in right["ending"]["runs"]}
    assert lossy["ending"]["outcome"] == "reviewed"
    assert "test_add" in "".join(lossy["ending"]["asked"])
    assert broken["ending"]["outcome"] == "broken"
    assert broken["ending"]["reason"].startswith("it breaks `python3 -m unittest -q` without Scaffold, too")
    assert unfit["ending"]["outcome"] == "not_judged"
    assert unfit["ending"]["reason"].startswith("its checks fail here without Scaffold, too")
    assert "refused: 0 of 2 (0.0 %)" in done.stdout
    assert "asked a human: 1 of 2 (50.0 %)" in done.stdout
