"""What two versions of a file mean to a program: equal syntax is the same, everything uncertain is not."""

import pytest

from scaffold.verify.regression.meaning import Sameness, is_read_in, sameness, used_text

PLAIN = "class A:\n    x = 1\n    def f(self): pass\n"
TYPED = 'class A:\n    """Doc."""\n    x: int = 1\n    y: str\n    def f(self) -> None:\n        """Doc."""\n'
IMPORTS = (
    "from __future__ import annotations\nfrom typing import Any, TYPE_CHECKING\nif TYPE_CHECKING: from x import Y\n"
)
SAME = {
    "comment": ("a.py", "x=1\n", "x = 1  # one\n"),
    "signature": ("a.py", "def f(a, *b): return a\n", "def f(a: int, *b: str) -> int: return a\n"),
    "imports": ("a.py", "def f(a): return a\n", f"{IMPORTS}def f(a: Any) -> Y: return a\n"),
    "class": ("a.py", PLAIN, TYPED),
    "local": ("a.py", "def f():\n  x = 1\n  o.y = 2\n", "def f():\n  x: int = 1\n  o.y: int = 2\n"),
    "release": ("a.py", '__version__ = "1.2"\n', '__version__ = "1.3.dev0"\n'),
    "setup": ("setup.py", 'setup(name="x", version="1")\n', 'setup(name="x", version="2")\n'),
    "project": ("pyproject.toml", '[project]\nversion = "1"\n', '[project]\n# A release.\nversion="1.1"\n'),
    "package": ("package.json", '{"version":"1.0.0","a":1}', '{"version": "1.1.0",\n"a": 1}'),
    "lock": ("Cargo.lock", '[[package]]\nname="x"\nversion="1"\n', '[[package]]\nname="x"\nversion="2"\n'),
    "bumped": (".bumpversion.cfg", "[bumpversion]\ncurrent_version = 1.2\n", "[bumpversion]\ncurrent_version = 1.3\n"),
    "abstract": ("a.py", 'from abc import ABC\nclass A(ABC):\n  "a"\n', 'from abc import ABC\nclass A(ABC):\n  "b"\n'),
    "address": ("a.go", "// see x.org/a#b\npackage a", "// see x.org/a#c, x@y.org\npackage a"),
    "described tag": ("a.js", "/**\n * A.\n * @type {b}\n */\nx", "/**\n * B.\n * @type {b}\n */\nx"),
    "go": ("a.go", "func a() {\n\treturn 1 // x\n}\n", "// doc\nfunc a() {\n    return  1\n\n}\n"),
    "script": ("a.js", "a = `x // ${b}`;\n/** Doc */\nf(1)\n", "a = `x // ${b}`;\n/* Other */\nf(1) // y\n"),
    "pattern": (
        "a.js",
        "x = /['/]\\//; // a\nreturn /\"/.test(n / 2 + a[0] / 2)",
        "x = /['/]\\//;\nreturn /\"/.test(n / 2 + a[0] / 2) // b",
    ),
    "rust": ("a.rs", "fn a<'a>() { r#\"a // \"#; '\"' }\n", "fn a<'a>() { r#\"a // \"#; '\"' } // why\n"),
    "document": ("README.md", "a\n>>> 1\n1\n", "b\n>>> 1\n1\n"),
    "new document": ("docs/x.rst", None, "hi"),
    "notice": ("LICENSE.txt", "a", None),
    "stub": ("a/b.pyi", "x: int", "x: str"),
    "declarations": ("a/b.d.ts", "f(x?: a): b", "f(x: a): b"),
}
OTHER = {
    "value": ("a.py", "x = 1\n", "x = 2\n"),
    "dataclass": ("a.py", "@dataclass\nclass A:\n  x: int\n", "@dataclass\nclass A:\n  x: str\n"),
    "model": ("a.py", "class A(BaseModel):\n  x: int\n", "class A(BaseModel):\n  x: str\n"),
    "metaclass": ("a.py", "class A(metaclass=M):\n  x: int = 1\n", "class A(metaclass=M):\n  x = 1\n"),
    "model in a function": ("a.py", "def f():\n class A(B):\n  x: int = 1\n", "def f():\n class A(B):\n  x: str = 1\n"),
    "command": ("a.py", "@app.command()\ndef f(x: int): ...\n", "@app.command()\ndef f(x: str): ...\n"),
    "help": ("a.py", '@app.command()\ndef f(x):\n  "a"\n', '@app.command()\ndef f(x):\n  "b"\n'),
    "doctest": ("a.py", 'def f():\n  """\n  >>> f()\n  1\n  """\n', 'def f():\n  """\n  >>> f()\n  2\n  """\n'),
    "local name": ("a.py", "def f():\n  return x\n", "def f():\n  x: int\n  return x\n"),
    "own flag": ("a.py", "TYPE_CHECKING=1\nif TYPE_CHECKING: a()\n", "TYPE_CHECKING=1\nif TYPE_CHECKING: b()\n"),
    "option": ("setup.cfg", "[metadata]\nversion = 1\n[a]\nB = 1\n", "[metadata]\nversion = 1\n[a]\nb = 1\n"),
    "setting": ("a.cfg", "a = 1\n", "a = 1\n# b\n"),
    "other base": ("a.py", 'from abc import X\nclass A(X):\n  "a"\n', 'from abc import X\nclass A(X):\n  "b"\n'),
    "tag": ("a.js", "/**\n * A.\n * @jsx h\n */\nx", "/**\n * A.\n * @jsx g\n */\nx"),
    "computed": ("a.py", '__version__ = "1.2"\n', "__version__ = get()\n"),
    "future": ("a.py", "from __future__ import division\n", ""),
    "used import": ("a.py", "from typing import cast\nx=cast(int,y)\n", "x=cast(int,y)\n"),
    "order": ("package.json", '{"a":1,"b":2}', '{"b":2,"a":1}'),
    "dependency": ("package.json", '{"d":{"version":"1"}}', '{"d":{"version":"2"}}'),
    "pattern": ("a.js", 'x = /"/; y = "// a"', 'x = /"/; y = "// b"'),
    "other pattern": ("a.js", "x = /a b/", "x = /a  b/"),
    "pattern after a condition": ("a.js", 'if (x) /"/.test(y) // a', 'if (x) /"/.test(y) // b'),
    "pattern after a word": ("a.js", "case /'/: x // a'", "case /'/: x // b'"),
    "divided increment": ("a.js", "x++ / 1 + '// a'", "x++ / 1 + '// b'"),
    "markup": ("a.js", "return <a>http://x</a>", "return <a>http://y</a>"),
    "template": ("a.js", "f(`${`// a`}`)", "f(`${`// b`}`)"),
    "pragma": ("a.js", "// @ts-check\nx", "x"),
    "bundler": ("a.js", "import(/* webpackChunkName: a */ 'x')", "import(/* webpackChunkName: b */ 'x')"),
    "line end": ("a.js", "return\nx", "return x"),
    "build tag": ("a.go", "//go:build linux\npackage a", "package a"),
    "raw text": ("a.go", "x := `a\n  b`", "x := `a\n b`"),
    "rust doc": ("a.rs", "/// doc\nfn a(){}", "/// other\nfn a(){}"),
    "examples": ("README.md", ">>> 1\n1\n", ">>> 2\n1\n"),
    "data": ("requirements.txt", "a", "b"),
    "language": ("a.c", "a", "a // b"),
    "new code": ("a.py", None, "# nothing\n"),
    "no python": ("a.py", "print 1\n", "print 1 # one\n"),
}


def compared(path, before, after):
    return sameness(path, None if before is None else before.encode(), None if after is None else after.encode())


@pytest.mark.parametrize("case", SAME.values(), ids=SAME)
def test_comments_types_formatting_releases_and_documents_mean_the_same(case):
    """BX-1: in whatever direction."""
    path, before, after = case
    assert compared(path, before, after)
    assert compared(path, after, before)


@pytest.mark.parametrize("case", OTHER.values(), ids=OTHER)
def test_what_a_program_may_notice_does_not_mean_the_same(case):
    """BX-1: annotations that make fields, comments that a tool reads, and what cannot be told for certain."""
    path, before, after = case
    assert compared(path, before, after) is None
    assert compared(path, after, before) is None


@pytest.mark.parametrize(
    ("source", "read"),
    [
        ("run(main)", True),
        ("register(x.main)", True),
        ("main()\nx.main()", False),
        ("from a import main", False),
        ("parser(description=__doc__)", True),
        ("f.__doc__ = 'a'", False),
        ("def f(): pass\nprint(f.__doc__)", False),
        ("def f(): pass\nf = find()\nprint(f.__doc__)", True),
        ("def f(): pass\ndef g(f): print(f.__doc__)", True),
        ("import f.g\nclass f: pass\nprint(f.__doc__)", True),
        ("from g import *\nclass A:\n    def f(self): pass\nprint(f.__doc__)", True),
        ("from g import main as f\ndef f(): pass\nprint(f.__doc__)", True),
        ("def f(): pass\nmatch x:\n    case [*f]: print(f.__doc__)", True),
        ("def f(): pass\nmatch x:\n    case {**f}: print(f.__doc__)", True),
        ("def f(): pass\ntry: pass\nexcept A as f: print(f.__doc__)", True),
        ("def main(): pass\nprint(main.__doc__)", True),
        ("print(type(x).__doc__)", True),
        ("from a import Any", True),
        ("from typing import Any", False),
        ("def f(a: main): pass", False),
        ("print 1", True),
    ],
)
def test_who_hands_a_definition_on_may_read_its_annotations_and_docstring(source, read):
    """BX-1: a call does not; a language's own way to read them does."""
    same = Sameness("", frozenset({"main"}), frozenset({"Any"}), frozenset({"__doc__"}))
    assert is_read_in(source.encode(), same, changed=True) is read


def test_a_bare_docstring_is_that_of_the_module_itself():
    """BX-1: a script that prints its own one does not read those of others."""
    same = Sameness("", frozenset({"main"}), frozenset(), frozenset({"__doc__", "getdoc"}))
    own = b"parser(description=__doc__)"
    assert not is_read_in(own, same, changed=False)
    assert is_read_in(own + b"\nfrom other import __doc__", same, changed=False)
    assert is_read_in(own + b"\nprint(other.__doc__)", same, changed=False)


@pytest.mark.parametrize(
    ("path", "source", "used"),
    [
        ("a.py", "# see README.md\n'Or README.md.'\nx = 1\n", False),
        ("a.py", "open('README' '.md')\n", True),
        ("a.py", "open(f'{folder}/README.md')\n", True),
        ("a.py", "print 'README.md' # not this Python\n", True),
        ("a.go", "// see README.md\npackage a\n", False),
        ("a.go", "//go:embed README.md\nvar text string\n", True),
        ("a.rs", '#![doc = include_str!("README.md")]\n', True),
        ("a.js", "/* README.md */\nread(/a/, 'x')\n", False),
        ("a.js", "if (x) /a/.test(y) // README.md\n", True),
        ("a.html", '<a href="https://example.org/README.md#use">', False),
        ("Makefile", "install: README.md", True),
    ],
)
def test_a_comment_or_an_address_of_the_web_that_names_a_document_does_not_read_it(path, source, used):
    """BX-1: whatever cannot be told for certain may read it."""
    assert ("README.md" in used_text(path, source.encode())) is used
