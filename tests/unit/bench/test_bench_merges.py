"""What `bench/merges` says of a history, with one conflict of each kind."""

import subprocess  # noqa: TID251 - the command is called as its users call it
import sys
from pathlib import Path

import msgspec
import pytest

from merges_replay.comparison import lost_lines, meaning_of, out_of_order, parts_of
from merges_replay.landings import ending_of

ROOT = Path(__file__).parents[3]
BASE = "def f():\n    return 1\n"


def git(place, *args):
    people = [part for name in ("user.name=A", "user.email=a@example.org") for part in ("-c", name)]
    done = subprocess.run(["git", *people, *args], cwd=place, capture_output=True, text=True, check=False)
    return done.stdout.strip()


def merge(place, path, ours, theirs, human):
    """Make a merge commit in which a human resolved the conflict of a file."""
    for side, text in (("main", ours), ("topic", theirs)):
        git(place, "checkout", "-qB", side, "start")
        (place / path).write_text(text)
        git(place, "commit", "-qam", side)
    git(place, "merge", "main", "-m", "merge")
    (place / path).write_text(human)
    git(place, "add", path)
    git(place, "commit", "-qm", "merged")
    git(place, "update-ref", f"refs/heads/kept-{path}-{len(human)}", "HEAD")


def test_the_real_landing_of_two_features_is_read_from_what_the_command_says():
    """BX-24: both landed as they were, or the second one met a conflict, with the tests that fail since."""
    ended = "✓ run abc completed\n"
    met = "      attempt 1: conflict: what was merged does not pass:\n        FAILED tests/a.py::t\n"
    assert ending_of(ended) == ("queue", "", ())
    assert ending_of(ended + met) == ("refused", "what was merged does not pass:", ("tests/a.py::t",))
    assert ending_of("✗ run abc failed\n") == ("refused", "", ())


@pytest.mark.slow
def test_each_conflict_of_a_history_is_merged_again_and_compared(tmp_path):
    """BX-24: the share that is resolved, what differs from the human's, and no lost line."""
    git(tmp_path, "init", "-q")
    (tmp_path / "a.py").write_text(BASE)
    (tmp_path / "a.txt").write_text("a\n")
    git(tmp_path, "add", "--all")
    git(tmp_path, "commit", "-qm", "start")
    git(tmp_path, "tag", "start")
    one, two = "\n\ndef g():\n    return 2\n", "\n\ndef h():\n    return 3\n"
    merge(tmp_path, "a.py", BASE + one, BASE + two, BASE + two + one)
    merge(tmp_path, "a.py", BASE + one, BASE + two, BASE + one)
    merge(tmp_path, "a.txt", "b\n", "c\n", "b c\n")
    done = subprocess.run(
        [sys.executable, "bench/merges", "--files", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = [msgspec.json.decode(line) for line in done.stdout.splitlines()]
    files = {
        (each["path"], each["status"], each["equal"], bool(each["human_lost"])) for each in lines if "path" in each
    }
    assert files == {
        ("a.py", "resolved", True, False),
        ("a.py", "resolved", False, True),
        ("a.txt", "refused", False, False),
    }
    rows = {each["bench"]: (each["value"], each["reference"]) for each in lines if "bench" in each}
    assert rows == {
        "merges-conflicting": (3, 3),
        "merges-left": (1, 3),
        "merges-files-left": (1, 3),
        "merges-files-in-another-order": (0, 1),
        "merges-files-unlike-human": (0, 1),
        "merges-files-with-lost-lines": (0, 2),
        "merges-files-out-of-order": (0, 2),
    }


def test_lines_and_imports_that_a_merge_lacks_are_counted():
    """BX-24: by a count that shares nothing with the certificate."""
    ours, theirs = "from a import b\n" + BASE, "from a import c\n" + BASE
    assert lost_lines("a.py", BASE, ours, theirs, "from a import b, c\n" + BASE) == []
    assert lost_lines("a.py", BASE, ours, theirs, ours) == ["import of a: c None"]
    news = ("# C\n", "# C\n- A\n  (by Bob)\n", "# C\n- B\n  (by Bob)\n")
    assert lost_lines("NEWS", *news, "# C\n- A\n- B\n  (by Bob)\n") == ["(by Bob)"]
    assert lost_lines("NEWS", news[0], news[1], news[1], news[1]) == []
    assert lost_lines("a.txt", "a\nb\n", "a\nb\nc\n", "a\n", "a\n") == ["c"]
    assert lost_lines("p.toml", "a = [1]\n", "a = [1, 2]\n", "a = [1, 3]\n", "a = [1, 3]\n") == [".a: 2"]


def test_files_are_compared_by_what_they_mean():
    """BX-24."""
    assert meaning_of("a.py", "f( 1 )  # one\n") == meaning_of("a.py", "f(1)\n")
    assert meaning_of("a.py", "import a\nimport b\n") != meaning_of("a.py", "import b\nimport a\n")
    assert parts_of("a.py", "import a\nimport b\n") == parts_of("a.py", "import b, a\n")
    assert parts_of("a.py", BASE) != parts_of("a.py", BASE + "f()\n")
    assert parts_of("a.py", "f()\n") != parts_of("a.py", "f()\nf()\n")


def test_lines_in_another_order_than_on_a_side_are_found():
    """BX-24: but not what a side moved."""
    assert out_of_order("a.txt", "a\nb\nc\n", "a\nb\nc\nm\n", "o\na\nb\nc\n", "o\na\nb\nc\nm\n") == []
    assert out_of_order("a.txt", "a\nb\nc\n", "a\nb\nc\nm\n", "o\na\nb\nc\n", "o\nb\na\nc\nm\n") == ["b", "b"]
    assert out_of_order("a.txt", "a\nb\nc\n", "b\nc\na\n", "o\na\nb\nc\n", "o\nb\nc\na\n") == []
