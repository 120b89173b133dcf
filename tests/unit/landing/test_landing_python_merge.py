"""Merging Python by its parts: what merges, what is refused, and that nothing is lost."""

import textwrap

import pytest
from inline_snapshot import snapshot

from scaffold.core.landing.conflict import FileVersions
from scaffold.landing.conflicts.certificate import require_complete
from scaffold.landing.conflicts.line_merge import merge_lines
from scaffold.landing.conflicts.not_mergeable import NotMergeable
from scaffold.landing.conflicts.python_entities import entities_of
from scaffold.landing.conflicts.python_merge import merge_python
from support.errors import error_of

BASE = '''\
#!/usr/bin/env python
"""A shop."""

import os
from typing import Any, Mapping

LIMIT = 3  # as agreed


def buy(what):
    return what


class Shop:
    """Sells."""

    name = "shop"

    def open(self):
        return True

    def close(self):
        return False


if __name__ == "__main__":
    buy(1)
'''


def changed(*edits):
    """Return the base with each (old, new) replaced; an old text must be there once."""
    text = BASE
    for old, new in edits:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


SELL = "\n\ndef sell(what):\n    return [what]\n"
GIVE = "\n\ndef give(what):\n    return None\n"
BUY = "def buy(what):\n    return what\n"

MERGED = {
    "both add a function in the same place": ([(BUY, BUY + SELL)], [(BUY, BUY + GIVE)], [(BUY, BUY + SELL + GIVE)]),
    "both add a method in the same place": (
        [("        return False\n", "        return False\n\n    def a(self):\n        return 1\n")],
        [("        return False\n", "        return False\n\n    def b(self):\n        return 2\n")],
        [
            (
                "        return False\n",
                "        return False\n\n    def a(self):\n        return 1\n\n    def b(self):\n        return 2\n",
            )
        ],
    ),
    "both change one import": (
        [("import Any, Mapping", "import Any, Iterator, Mapping")],
        [("import Any, Mapping", "import Any")],
        [("import Any, Mapping", "import Any, Iterator")],
    ),
    "one changes a function that is beside one the other adds": (
        [("    return what\n", "    return [what]\n")],
        [(BUY, BUY + GIVE)],
        [(BUY, BUY.replace("return what", "return [what]") + GIVE)],
    ),
    "one moves a class, the other changes a method": (
        [(BUY, ""), ("\n\nif __name__", "\n\n" + BUY + "\n\nif __name__")],
        [("        return True\n", "        return 1\n")],
        [
            (BUY, ""),
            ("\n\nif __name__", "\n\n" + BUY + "\n\nif __name__"),
            ("        return True\n", "        return 1\n"),
        ],
    ),
    "one removes what the other left": (
        [("\n\n" + BUY, ""), ("    buy(1)\n", "    pass\n")],
        [("LIMIT = 3  # as agreed\n", "LIMIT = 4  # as agreed\n")],
        [("\n\n" + BUY, ""), ("    buy(1)\n", "    pass\n"), ("LIMIT = 3  # as agreed\n", "LIMIT = 4  # as agreed\n")],
    ),
}


def test_changes_of_different_parts_are_merged_and_formatting_is_kept():
    """AL-13: without a model, and no line is lost."""
    for name, (ours, theirs, wanted) in MERGED.items():
        mine, other = changed(*ours), changed(*theirs)
        merged = merge_python(BASE, mine, other)
        assert merged == changed(*wanted), name
        require_complete(FileVersions("shop.py", BASE, mine, other), merged)


REFUSED = {
    "both change one line of a function": (
        [("    return what\n", "    return 1\n")],
        [("    return what\n", "    return 2\n")],
    ),
    "both add a function of one name": ([(BUY, BUY + SELL)], [(BUY, BUY + SELL.replace("[what]", "what"))]),
    "both add something of one name and different kinds": (
        [(BUY, BUY + SELL)],
        [("LIMIT = 3  # as agreed\n", "LIMIT = 3  # as agreed\nsell = 1\n")],
    ),
    "one changes what the other removes": (
        [("    return what\n", "    return 1\n")],
        [("\n\n" + BUY, ""), ("    buy(1)\n", "    pass\n")],
    ),
    "one removes an import that the other uses": (
        [("import os\n", "")],
        [("    return what\n", "    return os.fspath(what)\n")],
    ),
    "a statement": (
        [("LIMIT = 3  # as agreed\n", "LIMIT = 3  # as agreed\nLIMIT += 1\n")],
        [("LIMIT = 3  # as agreed\n", "LIMIT = 3  # as agreed\nMOST = LIMIT\n")],
    ),
    "one removes a method that the other uses": (
        [("    def open(self):\n        return True\n\n", "")],
        [("        return False\n", "        return not self.open()\n")],
    ),
    "one removes a function with the name of a parameter": (
        [("\n\n" + BUY, ""), ("    buy(1)\n", "    pass\n")],
        [("        return False\n", "        return buy(2)\n\n    def more(self, buy):\n        return buy\n")],
    ),
    "both change statements": ([("    buy(1)\n", "    buy(2)\n")], [("    buy(1)\n", "    buy(3)\n")]),
}


def test_what_has_two_meanings_is_refused_with_the_reason():
    """AL-13."""
    refusals = {
        name: error_of(NotMergeable, merge_python, BASE, changed(*ours), changed(*theirs))
        for name, (ours, theirs) in REFUSED.items()
    }
    assert {name: str(refusal) for name, refusal in refusals.items()} == snapshot(
        {
            "both change one line of a function": (
                "in the function `buy`, both sides change the same lines of the part `return`"
            ),
            "both add a function of one name": "both sides add `sell`, and differently",
            "both add something of one name and different kinds": "both sides define `sell`",
            "one changes what the other removes": "one side changes `buy`, the other removes it",
            "one removes an import that the other uses": "one side removes `os`, the other uses it",
            "a statement": "both sides add to one place, and one of them a statement, whose order matters",
            "one removes a method that the other uses": "one side removes `open`, the other uses it",
            "one removes a function with the name of a parameter": "one side removes `buy`, the other uses it",
            "both change statements": "both sides change statements without a name",
        }
    )


def test_the_parts_of_a_file_are_the_file():
    """AL-13: nothing between the parts is left out."""
    assert "".join(each.text for each in entities_of(BASE)) == BASE
    assert [(each.key.kind, each.key.name) for each in entities_of(BASE)][:4] == [
        ("doc", ""),
        ("import", "os"),
        ("from", "typing"),
        ("assign", "LIMIT"),
    ]


def test_imports_stay_sorted_where_both_sides_sort_them():
    """AL-13: a linter that sorts imports has nothing to say."""
    base = "import abc\nimport os\nimport sys\n"
    ours, theirs = (
        base.replace("import os", "import csv\nimport os"),
        base.replace("import os", "import array\nimport os"),
    )
    assert merge_python(base, ours, theirs) == "import abc\nimport array\nimport csv\nimport os\nimport sys\n"


def test_an_import_from_the_future_stays_the_first_statement():
    """AL-13: what cannot be compiled is no merge."""
    base, future = "import os\nimport zlib\n", "from __future__ import annotations\n"
    with pytest.raises(NotMergeable, match="__future__"):
        merge_python(base, f"import abc\n{base}", f"import zlib\nimport os\n{future}")
    assert merge_python(base, f"import abc\n{base}", future + base) == f"{future}import abc\n{base}"


def test_what_is_no_python_is_refused():
    texts = ["def (", "a = 1", "a = '\x0c'\n# \x85\n", "\0\n"]
    assert [text for text in texts if not error_of(NotMergeable, merge_python, BASE, text, BASE + "\n")] == []


def test_lines_are_merged_where_git_would(tmp_path):
    lines = textwrap.dedent("a b c d e f g").split()
    assert merge_lines(lines, ["x", *lines[1:]], [*lines[:-1], "y"]) == ("x", *lines[1:-1], "y")
    assert merge_lines(lines, ["x", *lines[1:]], ["y", *lines[1:]]) is None


PROPERTY = """\
class A:
    @property
    def v(self):
        log(self)
        return self._v

    @v.setter
    def v(self, v):
        log(self)
        self._v = v
"""
DELETER = """
    @v.deleter
    def v(self):
        log(self)
        self._v = None
"""


def test_of_what_has_one_name_one_side_alone_may_change_anything():
    """AL-13: by its number, a change would go into another one of them."""
    getter = PROPERTY[PROPERTY.index("    @property") : PROPERTY.index("    @v.setter")]
    theirs = PROPERTY.replace("return self._v", "return self._v or 0")
    for ours in (PROPERTY.replace(getter, "") + DELETER, PROPERTY + DELETER):
        with pytest.raises(NotMergeable, match="`v`"):
            merge_python(PROPERTY, ours, theirs)
    assert merge_python(PROPERTY, PROPERTY + "\n\nX = 1\n", theirs) == theirs + "\n\nX = 1\n"


def test_a_comment_at_the_end_of_a_class_does_not_come_twice():
    """AL-13."""
    base = "class A:\n    x = 1\n    # y = 2\n\n\nB = 1\n"
    ours = base.replace("2\n", "2\n\n    def m(self):\n        return 1\n")
    theirs = base.replace("B", "def g():\n    return 3\n\n\nB")
    with pytest.raises(NotMergeable, match="invented"):
        require_complete(FileVersions("a.py", base, ours, theirs), merge_python(base, ours, theirs))
