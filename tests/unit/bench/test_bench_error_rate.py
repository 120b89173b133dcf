"""How wrong changes are made of a commit, and what is published of them (BX-21)."""

import subprocess  # noqa: TID251 - git makes the repository that is measured
from random import Random  # noqa: TID251 - seeded

import msgspec
import pytest

from replay.commits import read_change
from replay.error_rate import Measured, error_rate, main
from replay.mutants import KINDS, commit_of, variants_of
from replay.oracle import commit_patch
from replay.place import find_source, prepare
from replay.results import Results, interval
from replay.trial import Ending

PROJECT = """[[project]]
repo = "acme/calc"
setup = []
focused = "python3 -m unittest -q {files}"
whole = "python3 -m unittest -q"
"""
FILES = {
    "start": {
        "calc.py": "def add(a, b):\n    return a + b\n",
        "more.py": "def twice(a):\n    return a + a\n",
        "test_more.py": "import unittest\nfrom more import twice\n\n\nclass TestTwice(unittest.TestCase):\n"
        "    def test_twice(self):\n        self.assertEqual(twice(3), 6)\n",
    },
    "subtract": {
        "calc.py": "def add(a, b):\n    return a + b\n\n\ndef sub(a, b):\n    return a - b\n",
        "test_calc.py": "import unittest\nfrom calc import sub\n\n\nclass TestSub(unittest.TestCase):\n"
        "    def test_sub(self):\n        self.assertEqual(sub(3, 1), 2)\n",
    },
}


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    """A folder with a repository whose last commit adds a function with its test."""
    folder = tmp_path_factory.mktemp("sources")
    source = folder / "acme+calc" / "repo"
    source.mkdir(parents=True)
    for message, files in {"init": {}, **FILES}.items():
        for path, text in files.items():
            (source / path).write_text(text)
        identity = ["-c", "user.name=A", "-c", "user.email=a@b.c"]
        for args in (
            (["init", "-q", "-b", "main"],) if message == "init" else (["add", "-A"], ["commit", "-qm", message])
        ):
            subprocess.run(["git", *identity, *args], cwd=source, check=True)
    return folder


def test_wrong_changes_of_each_kind_are_made_of_a_commit_the_same_for_the_same_seed(tmp_path, sources):
    """BX-21: the measurement can be repeated."""
    place = prepare(tmp_path / "work", find_source(sources, "acme/calc"), (), at="HEAD")
    change = read_change(place, "HEAD")
    found = variants_of(change, place, Random(1))
    assert found == variants_of(change, place, Random(1))
    assert set(found) == set(KINDS)
    texts = {
        kind: [place.git("show", f"{commit_of(each, change, place)}:{each.path or 'calc.py'}") for each in candidates]
        for kind, candidates in found.items()
    }
    start, done = (files["calc.py"] for files in FILES.values())
    assert texts["gold"] == [done]
    assert texts["tests alone"] == texts["part left out"] == [start]
    assert texts["changed line"] == [done.replace("a - b", "a + b")]
    assert texts["other code broken"] == ["def twice(a):\n    return a - a\n"]


def line_of(kind, outcome):
    return Measured(
        project="acme/calc",
        commit="abc",
        kind=kind,
        where="calc.py:1",
        right=kind == "gold",
        ending=Ending(outcome=outcome) if outcome else None,
    )


def test_the_sentence_counts_wrong_changes_that_are_proven_and_right_ones_that_are_refused():
    """BX-21: survivors and what was not judged do not count; each disagreement has a line."""
    lines = [
        *(line_of("gold", outcome) for outcome in ("proven", "weak", "refused", "not_judged")),
        *(line_of("changed line", outcome) for outcome in ("proven", "refused", "refused", "weak", None)),
    ]
    untold = msgspec.structs.replace(lines[-2], right=None)
    text = error_rate([*lines, untold])
    assert "done was wrong in 1 of 4 (25.0 %) wrong changes, 95 % interval 4.6 to 69.9 %" in text
    assert "honest work was refused in 1 of 3 (33.3 %) right ones" in text
    assert sum(line.startswith("acme/calc abc") for line in text.splitlines()) == 3


def test_an_interval_of_no_cases_in_many_has_an_upper_end():
    assert interval(0, 100) == "95 % interval 0.0 to 3.7 %"
    assert interval(0, 0) == "no interval"


def test_a_change_of_nothing_leaves_the_environment_in_place(tmp_path, sources):
    """BX-21: what git ignores is no part of a commit, and survives the next checkout."""
    place = prepare(tmp_path / "work", find_source(sources, "acme/calc"), (), at="HEAD")
    installed = place.repo / ".venv" / "python"
    installed.parent.mkdir()
    installed.touch()
    base = place.commits("-1", "HEAD")[0]
    assert place.git("diff", "--name-only", base, commit_patch(place, b"", "nothing")) == ""
    place.reset(f"{base}^")
    assert installed.exists()


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_wrong_changes_of_a_commit_are_refused_and_a_second_call_judges_nothing_again(tmp_path, sources, capsys):
    """BX-21: a sample with a repository of its own: no wrong change is proven, and the commit lands."""
    (tmp_path / "projects.toml").write_text(PROJECT)
    results = tmp_path / "results.jsonl"
    command = ["--repos", str(sources), "--projects", str(tmp_path / "projects.toml"), "--results", str(results)]
    command += ["--work", str(tmp_path / "work"), "--wrong", "1"]
    assert main([*command, "--minutes", "0"]) == 0
    assert "done was wrong in 0 of 0" in capsys.readouterr().out
    assert main(command) == 0
    text = capsys.readouterr().out
    assert "done was wrong in 0 of 4 (0.0 %)" in text
    assert "refused in 0 of 1 (0.0 %)" in text
    first = results.read_bytes()
    assert main(command) == 0
    assert results.read_bytes() == first
    assert {line.kind for line in Results(results, Measured).lines} == set(KINDS)
