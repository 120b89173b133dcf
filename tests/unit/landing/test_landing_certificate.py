"""The check of a merge, which knows nothing of how it was made."""

import re

import pytest

from scaffold.core.conflict import FileVersions
from scaffold.landing.conflicts.agent_merge import changes_are_apart, problem_with
from scaffold.landing.conflicts.certificate import require_complete
from scaffold.landing.conflicts.not_mergeable import NotMergeable

BASE = "from a import b\n\n\ndef f():\n    x = 1\n    return x\n\n\ndef g():\n    return 2\n"
OURS = BASE.replace("import b", "import b, c").replace("x = 1", "x = 1\n    y = 2")
THEIRS = BASE.replace("import b", "import b, d").replace("x = 1", "x = 1\n    z = 3")
MERGED = BASE.replace("import b", "import b, c, d").replace("x = 1", "x = 1\n    y = 2\n    z = 3")
FILE = FileVersions("a.py", BASE, OURS, THEIRS)


def test_a_merge_with_all_that_both_sides_have_is_complete():
    """AL-13: two imports may become one statement."""
    require_complete(FILE, MERGED)


@pytest.mark.parametrize(
    ("merged", "why"),
    [
        (MERGED.replace("    z = 3\n", ""), "would have lost 1 line, e.g. 'z = 3'"),
        (MERGED.replace(", d", ""), "would have lost 1 line, e.g. 'from a import d'"),
        (MERGED.replace("return 2", "return 2  # two"), "would have lost 1 line, e.g. 'return 2'"),
        (MERGED.replace("    return x", "    print(x)\n    return x"), "would have invented 1 line, e.g. 'print"),
        (
            MERGED.replace("    z = 3\n", "").replace("    return 2", "    z = 3\n    return 2"),
            "lost 1 line, e.g. 'z =",
        ),
    ],
    ids=["a line", "an import", "an untouched line", "a new line", "a line in another function"],
)
def test_what_is_lost_or_invented_is_named(merged, why):
    """AL-13."""
    with pytest.raises(NotMergeable, match=re.escape(why)):
        require_complete(FILE, merged)


def test_lines_that_the_other_side_removed_may_be_gone():
    """AL-13."""
    file = FileVersions("a.txt", "a\nb\nc\n", "a\nb\nc\nmine\n", "a\nc\nother\n")
    require_complete(file, "a\nc\nmine\nother\n")
    with pytest.raises(NotMergeable, match="would have lost 1 line"):
        require_complete(file, "a\nc\nother\n")


def test_a_line_of_an_agent_has_the_words_of_both_sides():
    """AL-13: where both sides changed one line, the merge has a third one."""
    line = "    return 2"
    file = FileVersions("a.py", BASE, BASE.replace(line, "    return 2 + n"), BASE.replace(line, "    return 2 * k"))
    assert problem_with([file], {"a.py": BASE.replace(line, "    return (2 + n) * k")}) == ""
    assert "lost" in problem_with([file], {"a.py": file.ours})
    assert "invented" in problem_with([file], {"a.py": BASE.replace(line, "    return (2 + n) * k * q")})
    assert problem_with([file], {}) == "a.py is missing"
    assert "no Python" in problem_with([file], {"a.py": "def ("})
    assert "markers" in problem_with([file], {"a.py": f"<<<<<<< ours\n{BASE}"})


def test_changes_are_apart_only_if_each_function_is_changed_by_one_side():
    """AL-13: then an agent needs no tests of both sides."""
    both = BASE.replace("x = 1", "x = 4")
    assert not changes_are_apart(FILE)
    assert changes_are_apart(FileVersions("a.py", BASE, both, BASE.replace("return 2", "return 3")))
    assert not changes_are_apart(FileVersions("a.py", BASE, both, BASE.replace("return x", "return -x")))
    assert not changes_are_apart(FileVersions("a.py", BASE, both, BASE + "\n\nPRICE = 3\n"))
    assert not changes_are_apart(FileVersions("a.txt", "a\n", "b\n", "a\nc\n"))
