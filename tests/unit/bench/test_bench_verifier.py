"""How instances and patches are read, which tests count, and how results are counted."""

import gzip

import msgspec
import pytest
from inline_snapshot import snapshot

from replay.instances import Instance, Patch, files_tested, only_paths, paths_of, read_problems, without_paths
from replay.levels import passes
from replay.trial import Ending
from replay.verifier_table import Judged, NotCounted, OwnRun, verifier_summary

DIFF = b"""diff --git a/calc.py b/calc.py
--- a/calc.py
+++ b/calc.py
@@ -1 +1 @@
-a
+b
diff --git a/tests/test_calc.py b/tests/test_calc.py
new file mode 100644
--- /dev/null
+++ b/tests/test_calc.py
@@ -0,0 +1 @@
+t
"""
INSTANCE = Instance(
    id="acme__calc-1",
    repo="acme/calc",
    version="1.0",
    base="abc",
    gold="",
    test_patch="",
    f2p=("test_add",),
    p2p=(),
    test_cmd="bin/test -C --verbose tests/test_calc.py tests/test_more.py",
)


def patch_of(name, verdict, by="grader"):
    return Patch(id=INSTANCE.id, hash=name, patch=name, by=((by, verdict),))


def test_a_data_set_is_read_packed_or_not_and_the_same_text_counts_once(tmp_path):
    lines = [patch_of("one", True), INSTANCE, patch_of("two", False), patch_of("one", False, by="other")]
    for pack in (gzip.compress, bytes):
        (tmp_path / "data").write_bytes(pack(b"\n".join(map(msgspec.json.encode, lines))))
        (problem,) = read_problems(tmp_path / "data")
        assert problem.instance == INSTANCE
        assert [(patch.hash, patch.recorded) for patch in problem.patches] == [("one", None), ("two", False)]


def test_a_line_that_is_neither_instance_nor_patch_is_an_error(tmp_path):
    (tmp_path / "data").write_bytes(b'{"kind": "note"}')
    with pytest.raises(msgspec.ValidationError):
        read_problems(tmp_path / "data")


def test_the_test_files_are_those_that_the_test_command_names():
    assert files_tested(INSTANCE) == ("tests/test_calc.py", "tests/test_more.py")


def test_a_diff_is_taken_apart_by_its_paths():
    assert paths_of(DIFF) == ("calc.py", "tests/test_calc.py")
    assert without_paths(DIFF, ["tests/test_calc.py"]) + only_paths(DIFF, ["tests/test_calc.py"]) == DIFF
    assert paths_of(without_paths(DIFF, ["tests/test_calc.py"])) == ("calc.py",)


def test_a_diff_that_is_not_from_git_is_taken_whole():
    plain = b"--- a/calc.py\n+++ b/calc.py\n@@ -1 +1 @@\n-a\n+b\n"
    assert without_paths(plain, ["tests/test_calc.py"]) == plain


def test_a_name_passes_if_every_test_of_that_name_ran_and_passed():
    rows = [
        (["test_add"], True),
        (["a.py::test_add"], True),
        (["test_mul"], False),  # it fails in one of two files
        (["test_gone"], False),
        (["a.py::test_skip"], False),
        (["test_add", "test_mul"], False),
    ]
    outcomes = {
        "a.py::test_add": "passed",
        "a.py::test_mul": "passed",
        "b.py::test_mul": "failed",
        "a.py::test_skip": "skipped",
    }
    assert [(names, passes(outcomes, names)) for names, _ in rows] == rows


def judged(name, outcome, *, recorded, right, why=""):
    own = OwnRun(instance=INSTANCE.id, hash=name, right=right, why=why)
    return Judged(
        instance=INSTANCE.id,
        hash=name,
        level="official",
        recorded=recorded,
        by=(("grader", bool(recorded)),),
        ending=Ending(outcome=outcome, reason="it fails" if outcome == "refused" else ""),
        own=own,
    )


def test_the_tables_count_by_the_record_and_by_our_own_run_and_name_each_disagreement():
    lines = [
        judged("11111111", "proven", recorded=True, right=True),
        judged("22222222", "proven", recorded=False, right=True),
        judged("33333333", "refused", recorded=True, right=False, why="test_add"),
        judged("44444444", "weak", recorded=False, right=False, why="test_add"),
        NotCounted(instance="acme__calc-2", why="the gold patch does not pass test_add here"),
        NotCounted(instance=INSTANCE.id, why="an earlier call could not install it"),
    ]
    text = verifier_summary(lines, {INSTANCE.id: "acme/calc"})
    first, second = (line for line in text.splitlines() if line.startswith("| acme/calc, official"))
    assert [int(cell) for cell in first.split("|")[2:-1]] == [4, 1, 0, 0, 1, 0, 1, 0, 1, 0, 0]
    assert [int(cell) for cell in second.split("|")[2:-1]] == [4, 2, 0, 0, 0, 0, 0, 0, 1, 1, 0]
    for part in ("ones landed 2 of 2", "proven 2 of 2", "landed as proven 0 of 2"):
        assert part in text
    assert [line for line in text.splitlines() if "acme__calc" in line] == snapshot(
        [
            "acme__calc-1 22222222: recorded as wrong by grader; our own run: it passes all of them",
            "acme__calc-1 33333333: recorded as right by grader; our own run: it fails test_add",
            "acme__calc-1 44444444 official     recorded wrong, own run wrong: weak, 0 s  ",
            "acme__calc-2: the gold patch does not pass test_add here",
        ]
    )
