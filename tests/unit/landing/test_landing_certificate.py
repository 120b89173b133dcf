"""The check of a merge, which knows nothing of how it was made."""

import pytest
from inline_snapshot import snapshot

from scaffold.core.landing.conflict import FileVersions
from scaffold.landing.conflicts.certificate import require_complete
from scaffold.landing.conflicts.not_mergeable import NotMergeable
from scaffold.landing.resolving.agent_merge import changes_are_apart, problem_with

BASE = "from a import b\n\n\ndef f():\n    x = 1\n    return x\n\n\ndef g():\n    return 2\n"
OURS = BASE.replace("import b", "import b, c").replace("x = 1", "x = 1\n    y = 2")
THEIRS = BASE.replace("import b", "import b, d").replace("x = 1", "x = 1\n    z = 3")
MERGED = BASE.replace("import b", "import b, c, d").replace("x = 1", "x = 1\n    y = 2\n    z = 3")
FILE = FileVersions("a.py", BASE, OURS, THEIRS)


def problem_of(file, merged):
    """Why the certificate refuses a merge; empty if it does not."""
    try:
        require_complete(file, merged)
    except NotMergeable as refused:
        return str(refused)
    return ""


def test_a_merge_with_all_that_both_sides_have_is_complete():
    """AL-13: two imports may become one statement."""
    assert problem_of(FILE, MERGED) == ""


def test_what_is_lost_or_invented_is_named():
    """AL-13."""
    merges = {
        "a line": MERGED.replace("    z = 3\n", ""),
        "an import": MERGED.replace(", d", ""),
        "an untouched line": MERGED.replace("return 2", "return 2  # two"),
        "a new line": MERGED.replace("    return x", "    print(x)\n    return x"),
        "a line in another function": MERGED.replace("    z = 3\n", "").replace(
            "    return 2", "    z = 3\n    return 2"
        ),
    }
    assert {name: problem_of(FILE, merged) for name, merged in merges.items()} == snapshot(
        {
            "a line": "the merge would have lost 1 line, e.g. 'z = 3'",
            "an import": "the merge would have lost 1 line, e.g. 'from a import d'",
            "an untouched line": "the merge would have invented 1 line, e.g. '# two'",
            "a new line": "the merge would have invented 3 lines, e.g. 'print('",
            "a line in another function": "the merge would have lost 1 line, e.g. 'z = 3'",
        }
    )


def test_lines_that_the_other_side_removed_may_be_gone():
    """AL-13."""
    file = FileVersions("a.txt", "a\nb\nc\n", "a\nb\nc\nmine\n", "a\nc\nother\n")
    require_complete(file, "a\nc\nmine\nother\n")
    with pytest.raises(NotMergeable, match="lost"):
        require_complete(file, "a\nc\nother\n")


def test_a_line_of_an_agent_has_the_words_of_both_sides():
    """AL-13: where both sides changed one line, the merge has a third one."""
    line = "    return 2"
    file = FileVersions("a.py", BASE, BASE.replace(line, "    return 2 + n"), BASE.replace(line, "    return 2 * k"))
    assert problem_with([file], {"a.py": BASE.replace(line, "    return (2 + n) * k")}) == ""
    assert "lost" in problem_with([file], {"a.py": file.ours})
    assert "invented" in problem_with([file], {"a.py": BASE.replace(line, "    return (2 + n) * k * q")})
    assert problem_with([file], {}) == "a.py is missing"
    assert "not be valid Python" in problem_with([file], {"a.py": "def ("})
    assert "markers" in problem_with([file], {"a.py": f"<<<<<<< ours\n{BASE}"})


def test_changes_are_apart_only_if_each_function_is_changed_by_one_side():
    """AL-13: then an agent needs no tests of both sides."""
    both = BASE.replace("x = 1", "x = 4")
    assert not changes_are_apart(FILE)
    assert changes_are_apart(FileVersions("a.py", BASE, both, BASE.replace("return 2", "return 3")))
    assert not changes_are_apart(FileVersions("a.py", BASE, both, BASE.replace("return x", "return -x")))
    assert not changes_are_apart(FileVersions("a.py", BASE, both, BASE + "\n\nPRICE = 3\n"))
    assert not changes_are_apart(FileVersions("a.txt", "a\n", "b\n", "a\nc\n"))


KEEP = (
    "def keep(x):\n    lock(x)\n    write(x)\n    unlock(x)\n\n\ndef f():\n    return 1\n\n\ndef g():\n    return 2\n"
)
KEPT = FileVersions("a.py", KEEP, KEEP.replace("return 1", "return 10"), KEEP.replace("return 2", "return 20"))


def made(file, *edits):
    """Return the merge of KEPT or a like file, with something else changed."""
    text = file.ours.replace("return 2", "return 20")
    for old, new in edits:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


def test_a_merge_has_the_order_of_each_side():
    """AL-13: whatever is counted, lines in another order are another program."""
    rows = [
        (KEPT, made(KEPT, ("    lock(x)\n    write(x)\n", "    write(x)\n    lock(x)\n"))),
        (KEPT, made(KEPT, ("def f():\n    return 10\n\n\n", "")) + "\n\ndef f():\n    return 10\n"),
        (FileVersions("x.md", "a\nb\nc\n", "a\nmine\nc\n", "a\nother\nc\n"), "c\nmine\nother\na\n"),
        (FileVersions("p.json", "[1, 2]", "[1, 2, 3]", "[0, 1, 2]"), "[0, 2, 1, 3]"),
        (FileVersions("p.toml", "a = [1, 2]\n", "a = [1, 2, 3]\n", "a = [0, 1, 2]\n"), "a = [0, 2, 1, 3]\n"),
    ]
    problems = [problem_with([file], {file.path: merged}) for file, merged in rows]
    assert [problem for problem in problems if "changed the order" not in problem] == []


ONE_ADDED = FileVersions("p.toml", 'a = ["-r"]\n', 'a = ["-r", "-x", "1"]\n', 'a = ["-r", "-x", "2"]\n')
PASSES = "def f(a):\n    one(a)\n    two(a)\n    three(a)\n"


def test_what_both_sides_add_counts_twice():
    """AL-13: only a change that is the same on both sides is one."""
    rows = [
        (FileVersions("NEWS", "", "- A\n  (by Bob)\n", "- B\n  (by Bob)\n"), "- A\n- B\n  (by Bob)\n"),
        (ONE_ADDED, 'a = ["-r", "-x", "1", "2"]\n'),
        (
            FileVersions(
                "a.py",
                PASSES,
                PASSES.replace("    one(a)\n", "    lock()\n    one(a)\n    unlock()\n"),
                PASSES.replace("    three(a)\n", "    lock()\n    three(a)\n    unlock()\n"),
            ),
            PASSES.replace("    one", "    lock()\n    one") + "    unlock()\n",
        ),
    ]
    assert [merged for file, merged in rows if "lost" not in problem_of(file, merged)] == []


def test_a_change_that_both_sides_make_counts_once():
    """AL-13."""
    both = "a\nnew\nb\n"
    file = FileVersions("x.md", "a\nb\n", f"mine\n{both}", f"{both}other\n")
    assert problem_of(file, f"mine\n{both}other\n") == ""


def test_manifests_are_certified_with_all_that_they_say():
    """AL-13."""
    rows = [
        (
            FileVersions("p.json", '{"a": 1, "b": 1}', '{"a": 2, "b": 1}', '{"a": 1, "b": 2}'),
            '{"a": 6, "a": 2, "b": 2}',
        ),
        (
            FileVersions("go.mod", "require a v1.0.0\n", "require a v1.2.0\n", "require a v1.3.0\n"),
            "require a v0.1.0\n",
        ),
        (FileVersions("go.mod", "go 1.20\n", "go 1.20\n// one\n", "// two\ngo 1.20\n"), "go 1.20\n// one\n"),
    ]
    assert [merged for file, merged in rows if not problem_of(file, merged)] == []


def test_spaces_and_empty_lines_of_strings_are_part_of_them():
    """AL-13."""
    text = 'T = """x\n\n\ny  \nz"""\n\n\n' + KEEP
    file = FileVersions("a.py", text, text.replace("return 1", "return 10"), text.replace("return 2", "return 20"))
    edits = [("x\n\n\n", "x\n"), ("y  \n", "y\n")]
    assert problem_of(file, made(file)) == ""
    assert [edit for edit in edits if not problem_of(file, made(file, edit))] == []


def test_functions_of_one_name_are_told_apart():
    """AL-13: a line of one of them is not one of the other."""
    base = "@f.register\ndef _(a: int):\n    return 1\n\n\n@f.register\ndef _(a: str):\n    return 2\n"
    file = FileVersions("a.py", base, base.replace("return 1", "log()\n    return 1"), base + "X = 1\n")
    with pytest.raises(NotMergeable, match="lost"):
        require_complete(file, base.replace("return 2", "log()\n    return 2") + "X = 1\n")
    assert changes_are_apart(FileVersions("a.py", base, file.ours, base.replace("return 2", "return 3"))) is False
