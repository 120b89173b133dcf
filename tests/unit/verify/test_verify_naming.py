"""Names in the text of a file: those that others may find, and those that a test speaks of."""

import pytest

from scaffold.verify.regression.naming import bound, given, spoken, untold

SHOP = """\
import json as text
from decimal import Decimal

LIMIT = 3
if LIMIT:
    def maybe():
        inner = 1

class Till:
    rate: float = 1.0

    def close(self):
        def hidden():
            pass

__all__ = ["sold"]
"""


def test_given_is_what_others_may_find_and_no_local_name():
    """AL-10: a local variable that is gone is nothing that was removed."""
    assert given("shop.py", SHOP) == {"LIMIT", "maybe", "Till", "rate", "close", "__all__"}


def test_bound_is_whatever_might_have_a_name_by_any_means():
    """AL-10, BX-5: an import, a local name, a word of `__all__` or of `setattr` could stand for what is gone."""
    assert {"text", "Decimal", "inner", "hidden", "sold", "close"} <= bound("shop.py", SHOP)
    assert "sold" in bound("shop.py", "globals().update(sold=1)\n")
    assert "added" in bound("shop.py", "import shop\nshop.added = 1\n")
    assert bound("shop.js", "const kept = other.sold;") == {"const", "kept", "other", "sold"}


@pytest.mark.parametrize(
    ("path", "text", "ways"),
    [
        ("a.py", "from operator import *\n", {"* of operator"}),
        ("a.py", "from ..till import *\n", {"* of ..till"}),
        ("a.py", "globals()['a' + 'dd'] = 1\nexec('')\nsys.modules['a'].__dict__\n", {"globals", "exec", "__dict__"}),
        ("a.py", "def __getattr__(name): ...\n", {"__getattr__"}),
        ("a.py", "from calc import add\nadd.__name__\n", set()),
        ("a.js", "exports ['a' + 'dd'] = 1; Object.assign({});\n", {"exports [", "assign"}),
        ("a.go", "func Add() {}\n", set()),
    ],
)
def test_names_that_are_computed_or_taken_from_elsewhere_are_told_by_the_way(path, text, ways):
    """AL-10, BX-5: what anybody may find there cannot be read."""
    assert untold(path, text) == ways


@pytest.mark.parametrize(
    ("path", "text", "names"),
    [
        ("a.js", "exports.add = 1;\nmodule.exports = { sub, mul };\n", {"add", "sub", "mul"}),
        ("a.go", "func Add() {}\nfunc inner() {}\ntype Till struct{}\n", {"Add", "Till"}),
        ("a.rs", "pub fn add() {}\nfn inner() {}\n", {"add"}),
        ("a.py", "def broken(", set()),
        ("a.txt", "def add(): pass", set()),
    ],
)
def test_every_language_says_what_it_gives_in_its_own_way(path, text, names):
    """AL-10: what cannot be read gives nothing."""
    assert given(path, text) == names


TESTS = '''\
"""oldest is told of here."""

from shop import newest, oldest
from shop import Till as Box

LIMITS = [oldest, 3]

try:
    import fast
except ImportError:
    fast = None


def helper():
    return LIMITS


def test_new():
    """It does not need oldest at all."""
    kept = newest()
    assert kept


def test_by_helper(helper):
    assert helper


def test_patched(mocker):
    mocker.patch("shop.till.closing", 1)
    assert "a closing sentence"


class TestBox:
    def setup_method(self):
        self.box = Box()

    def test_one(self):
        assert self.box.one

    def test_two(self):
        assert self.box.two
'''


def test_a_test_speaks_of_what_it_uses_and_what_that_uses():
    """AL-10, BX-5: not of what else its file imports, of its prose, or of what it made itself."""
    new = spoken("test_shop.py", TESTS, ["test_new"], "test_new")
    assert ("newest" in new, "oldest" in new, "kept" in new) == (True, False, False)
    assert {"helper", "LIMITS", "oldest"} <= spoken("test_shop.py", TESTS, ["test_by_helper"], "test_by_helper")
    patched = spoken("test_shop.py", TESTS, ["test_patched"], "test_patched")
    assert {"shop", "till", "closing"} <= patched
    assert "sentence" not in patched


def test_a_test_in_a_class_speaks_of_what_prepares_it_and_not_of_its_neighbours():
    """AL-10, BX-5: a class of tests prepares all of them."""
    one = spoken("test_shop.py", TESTS, ["TestBox", "test_one"], "test_one")
    assert {"Box", "Till", "one"} <= one
    assert "two" not in one


@pytest.mark.parametrize(
    ("path", "text", "title"),
    [
        ("a.test.js", "test('one', () => mine());\n  test('two', () => theirs());\n", "one"),
        ("a_test.go", "func TestOne(t *testing.T) { mine() }\nfunc TestTwo(t *testing.T) { theirs() }\n", "TestOne"),
        ("tests/a.rs", "#[test]\nfn one() { mine() }\n\n#[test]\nfn two() { theirs() }\n", "one"),
    ],
)
def test_a_test_of_another_language_speaks_of_what_stands_before_the_next(path, text, title):
    """AL-10, BX-5: the last one of what stands before the end; one that is not told there of nothing."""
    words = spoken(path, text, [title], title)
    assert ("mine" in words, "theirs" in words) == (True, False)
    assert spoken(path, text, ["three"], "three") == frozenset()
    assert "theirs" in spoken(path, text, ["last"], "wo")
