"""Merging Python by the entries of its brackets: what both sides may add to one place, and what they may not."""

import itertools

import pytest

from scaffold.core.landing.conflict import FileVersions
from scaffold.landing.conflicts.certificate import require_complete
from scaffold.landing.conflicts.not_mergeable import NotMergeable
from scaffold.landing.conflicts.python_merge import merge_python
from support.errors import error_of


def merged(base, *changes):
    """Merge two changes of `base`, each the old text and the new one; certified."""
    ours, theirs = (base.replace(*change) for change in changes)
    assert base not in {ours, theirs}
    text = merge_python(base, ours, theirs)
    require_complete(FileVersions("a.py", base, ours, theirs), text)
    return text


HEAD = "def buy(what, count=1):\n    return what\n"
LONG = "def buy(\n    what,\n    *,\n    count=1,  # at least\n):\n    return what\n"
DICT = 'PRICES = {\n    "tea": 1,\n}\n'
NAMES = "__all__ = (\n    # shop\n    'buy',\n    'sell',\n)\n"
CALL = "def f(box):\n    return Editor(box=box)\n"
ENUM = "class Color(Enum):\n    RED = 1\n    BLUE = 2\n"
MATCH = "def f(x):\n    match x:\n        case 'go':\n            return 1\n        case _:\n            return 0\n"
INIT = "class A:\n    def __init__(self, a):\n        self.a = a\n"
DOC = 'def f(a):\n    """Return it.\n\n    :param a: what\n    """\n    return g(a)\n'
MERGED = {
    "parameters of one line": (
        HEAD,
        ("count=1", "count=1, dry=False"),
        ("count=1", "count=1, loud=True"),
        "count=1, dry=False, loud=True",
    ),
    "parameters of a line each, and one changed": (
        LONG,
        ("what,\n", "what: str,\n"),
        ("at least\n", "at least\n    loud=True,\n"),
        "what: str,\n    *,\n    count=1,  # at least\n    loud=True,\n)",
    ),
    "parameters that only names can give": (
        LONG,
        ("at least\n", "at least\n    dry=False,\n"),
        ("at least\n", "at least\n    loud=True,\n"),
        "count=1,  # at least\n    dry=False,\n    loud=True,\n)",
    ),
    "one of two that both add is the same": (
        HEAD,
        ("count=1", "count=1, same=0, dry=False"),
        ("count=1", "count=1, same=0, loud=True"),
        "(what, count=1, same=0, dry=False, loud=True)",
    ),
    "keys": (DICT, ("1,\n", '1,\n    "nut": 2,\n'), ("1,\n", '1,\n    "egg": 3,\n'), '"nut": 2,\n    "egg": 3,'),
    "names of a module": (
        NAMES,
        ("'sell',\n", "'sell',\n    'give',\n"),
        ("'buy',\n", "'buy',\n    'have',\n"),
        "# shop\n    'buy',\n    'have',\n    'sell',\n    'give',\n)",
    ),
    "arguments, one side's a line each": (
        CALL,
        ("box=box", "box=box, dry=1"),
        ("(box=box)", "(\n        box=box,\n        loud=1,\n    )"),
        "Editor(\n        box=box,\n        dry=1,\n        loud=1,\n    )",
    ),
    "what stands for many arguments, added by both": (
        CALL,
        ("box=box", "box=box, **more"),
        ("box=box", "box=box, dry=1, **more"),
        "Editor(box=box, dry=1, **more)",
    ),
    "members": (ENUM, ("2\n", "2\n    PINK = 3\n"), ("2\n", "2\n    GREY = 4\n"), "    PINK = 3\n    GREY = 4\n"),
    "cases": (
        MATCH,
        ("        case _", "        case 'up':\n            return 2\n        case _"),
        ("        case _", "        case 'in':\n            return 3\n        case _"),
        "case 'up':\n            return 2\n        case 'in':\n            return 3\n        case _",
    ),
    "what an object remembers": (
        INIT,
        ("a):\n        self.a = a\n", "a, b=None):\n        self.a = a\n        self.b = b or []\n"),
        ("a):\n        self.a = a\n", "a, c=0):\n        self.a = a\n        self.c = c\n        self.connect()\n"),
        "a, b=None, c=0):\n        self.a = a\n        self.b = b or []\n        self.c = c\n        self.connect()\n",
    ),
    "what a docstring says": (
        DOC,
        (": what\n", ": what\n    :param b: more\n"),
        (": what\n", ": what\n    :param c: most\n"),
        "    :param b: more\n    :param c: most\n",
    ),
    "a collection without an order": (
        "def f(x):\n    return isinstance(x, (A, B)) and x.kind\n".replace(" and x.kind", ""),
        ("B)", "B, C)"),
        ("B)", "B, D)"),
        "(A, B, C, D)",
    ),
}


@pytest.mark.parametrize("name", MERGED)
def test_entries_that_both_sides_add_to_one_place_are_kept(name):
    """AL-13: in the head of a function and in each other bracket, as in a manifest; ours come first."""
    base, ours, theirs, wanted = MERGED[name]
    assert wanted in merged(base, ours, theirs)


REFUSED = {
    "items of a list, whose order may matter": ("STEPS = [a, b]\n", ("b]", "b, c]"), ("b]", "b, d]")),
    "one key with two values": (DICT, ("1,\n", '1, "x": 2,\n'), ("1,\n", '1, "x": 3,\n')),
    "keys that are equal": ("D = {0: 0}\n", ("{0: 0", "{0: 0, 1: 2"), ("{0: 0", "{0: 0, True: 3")),
    "a parameter without a default": (HEAD, ("what, ", "what, who, "), ("what, ", "what, why=0, ")),
    "one value of two members": (ENUM, ("2\n", "2\n    PINK = 3\n"), ("2\n", "2\n    GREY = 3\n")),
    "arguments by their place": ("f(a)\n", ("(a", "(a, b"), ("(a", "(a, c")),
    "what stands for other arguments": ("f(a)\n", ("(a", "(a, *b"), ("(a", "(a, x=1, *c")),
    "two imports under one name": ("from m import a\n", ("a\n", "a, b\n"), ("a\n", "a, c as b\n")),
    "a statement that one moves and the other removes": (
        "def f(a):\n    go(a)\n    b = [a]\n    return b\n",
        ("    b = [a]\n", ""),
        ("(a):\n    go(a)\n    b = [a]\n", "(a, c=1):\n    b = [a]\n    go(a)\n"),
    ),
    "an argument that both change": ("x = f(a=1)\n", ("1", "2"), ("1", "3")),
    "cases that one value may fit": (
        MATCH,
        ("        case _", "        case str():\n            return 2\n        case _"),
        ("        case _", "        case 'in':\n            return 3\n        case _"),
    ),
    "statements that may act on each other": (
        INIT,
        ("= a\n", "= a\n        open(a)\n"),
        ("= a\n", "= a\n        close(a)\n"),
    ),
    "one reads what the other sets": (
        INIT,
        ("= a\n", "= a\n        self.b = 1\n"),
        ("= a\n", "= a\n        log(self.b)\n"),
    ),
    "what raises before what acts": (
        INIT,
        ("= a\n", "= a\n        if not a:\n            raise ValueError\n"),
        ("= a\n", "= a\n        log(a)\n"),
    ),
    "a call gives by its place what moves": (
        HEAD + "buy(1, 2)\n",
        ("count=1)", "count=1, dry=0)"),
        ("count=1):\n    return what\nbuy(1, 2)", "count=1, loud=1):\n    return what\nbuy(1, 2, 3)"),
    ),
    "lines of a docstring that both change": (DOC, ("what\n", "this\n"), ("what\n", "that\n")),
    "a name that both set, each for itself": (
        "def f(a):\n    b = a\n    c = b\n    return go(a)\n",
        ("(a):\n", "(a):\n    cmd = [a]\n"),
        ("    return go(a)\n", "    cmd = a\n    return go(a, cmd=cmd)\n"),
    ),
    "statements in the block that the other removes": (
        "def f(a):\n    if a:\n        b()\n        c()\n    return a\n",
        ("        c()\n", "        c()\n        d()\n"),
        ("    if a:\n        b()\n        c()\n", ""),
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_could_be_wrong_is_refused_whichever_side_is_first(name):
    """AL-13: a refusal costs an attempt, a wrong merge costs trust."""
    base, *changes = REFUSED[name]
    for ours, theirs in itertools.permutations(changes):
        error_of(NotMergeable, merged, base, ours, theirs)


def test_sides_that_format_what_the_other_changes_agree_on_its_meaning():
    """AL-13: what both sides changed identically is no conflict, and a layout loses no entry."""
    base = "def f(a):\n    return go(a, b=1, c=2)\n"
    ours = base.replace("go(a, b=1, c=2)", "go(\n        a,\n        b=1,\n        c=2,\n    )")
    theirs = base.replace("c=2", "c=3")
    assert "c=3" in merge_python(base, ours, theirs)
    assert merge_python(base, theirs, theirs) == theirs
