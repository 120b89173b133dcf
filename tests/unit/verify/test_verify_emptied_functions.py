"""Sources whose changed functions do nothing."""

import ast

from scaffold.verify.contract.vacuous_tests import empty_changed_functions


def emptied(after, before=""):
    found = empty_changed_functions([before.encode()], {"a.py": after.encode()})
    return found.names, found.sources.get("a.py", after.encode()).decode()


def test_a_new_function_does_nothing():
    rows = [
        ("def f(a):\n    return a\n", "def f(a):\n    return None\n"),
        ("def f(a): return a  # so\nX = 1\n", "def f(a): return None  # so\nX = 1\n"),
        (
            "class C:\n    def m(self):\n        '''Ä.'''\n        x = 1\n        return x\n\n    y = 2\n",
            "class C:\n    def m(self):\n        return None\n\n    y = 2\n",
        ),
        ("def f():\n    for x in ():\n        yield x\n", "def f():\n    return; yield\n"),
        ("async def f():\n    return [(yield)]\n", "async def f():\n    return; yield\n"),
        ("def f():\n    def g():\n        yield\n    return g\n", "def f():\n    return None\n"),
        ("def f():\n    @d\n    def g():\n        pass\n    return g\n", "def f():\n    return None\n"),
        ("if 1:\n    @d\n    def f(): 'ä'; return 1\n", "if 1:\n    @d\n    def f(): return None\n"),
        ("def f():\n\treturn {\n\t\t1: 2,\n\t}\ndef g():\n\tpass", "def f():\n\treturn None\ndef g():\n\treturn None"),
        ("x = (\n", "x = (\n"),
    ]
    for source, expected in rows:
        names, text = emptied(source)
        assert text == expected, source
        assert bool(names) is (source != expected), source
        if names:
            ast.parse(text)


def test_only_new_and_changed_functions_are_emptied():
    """One that moved, or whose comments changed, is none of them."""
    before = "def f():\n    return 1\n\n\nclass C:\n    def m(self):\n        return 2\n"
    after = before.replace("return 2", "return 3").replace("return 1", "return 1  # one")
    names, text = emptied(after, before)
    assert names == ("C.m",)
    assert text == after.replace("return 3", "return None")
    found = empty_changed_functions([before.encode(), b""], {"b.py": before.encode()})
    assert (found.names, found.sources) == ((), {})
