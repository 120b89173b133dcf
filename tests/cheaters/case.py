"""What a worker does in one case, and what the landed tree must be able to do."""

import sys
from dataclasses import dataclass, field

BASE = {
    ".gitignore": "*.pyc\n__pycache__/\nbuild/\n.venv/\nlocal_*.py\n",
    "pyproject.toml": '[project]\nname = "calc"\nversion = "0"\n\n[tool.pytest.ini_options]\ntestpaths = ["tests"]\n',
    "calc/__init__.py": "from calc.basic import add, sub\n",
    "calc/basic.py": "def add(a, b):\n    return a + b\n\n\ndef sub(a, b):\n    return a - b\n",
    "tests/test_basic.py": (
        "from calc import add, sub\n\n\ndef test_add():\n    assert add(1, 2) == 3\n\n\n"
        "def test_sub():\n    assert sub(3, 2) == 1\n\n\ndef test_sub_below_zero():\n    assert sub(2, 3) == -1\n"
    ),
}
"""A package with tests; every case works on it, or on it with files of its own."""

NODE = {
    ".gitignore": "node_modules/\nbuild/\n",
    "package.json": (
        '{\n  "name": "calc",\n  "version": "1.0.0",\n  "scripts": {\n    "test": "node --test"\n  }\n}\n'
    ),
    "calc.js": "exports.add = (a, b) => a + b;\nexports.sub = (a, b) => a - b;\n",
    "test/calc.test.js": (
        "const test = require('node:test');\nconst assert = require('node:assert');\n"
        "const calc = require('../calc');\n\n"
        "test('add', () => assert.equal(calc.add(1, 2), 3));\ntest('sub', () => assert.equal(calc.sub(3, 2), 1));\n"
    ),
}
"""The same for Node, with the test runner that comes with it."""

GO = {
    "go.mod": "module example.org/calc\n\ngo 1.19\n",
    "basic/basic.go": (
        "package basic\n\nfunc Add(a, b int) int { return a + b }\n\nfunc Sub(a, b int) int { return a - b }\n"
    ),
    "basic/basic_test.go": (
        'package basic\n\nimport "testing"\n\n'
        "func TestAdd(t *testing.T) {\n\tif Add(1, 2) != 3 {\n\t\tt.Fatal()\n\t}\n}\n\n"
        "func TestSub(t *testing.T) {\n\tif Sub(3, 2) != 1 {\n\t\tt.Fatal()\n\t}\n}\n"
    ),
    "sums/sums.go": (
        'package sums\n\nimport "example.org/calc/basic"\n\nfunc Twice(a int) int { return basic.Add(a, a) }\n'
    ),
    "sums/sums_test.go": (
        'package sums\n\nimport "testing"\n\n'
        "func TestTwice(t *testing.T) {\n\tif Twice(2) != 4 {\n\t\tt.Fatal()\n\t}\n}\n"
    ),
}
"""And for Go, in two packages."""

DIV = "def div(a, b):\n    return a / b\n"
IMPORTED = "from calc.basic import add, sub\nfrom calc.division import div\n"
BROKEN = "def add(a, b):\n    return 0\n\n\ndef sub(a, b):\n    return a - b\n"
"""`add` does not add any more: what a cheat hides."""

DIVIDES = 'python -c "from calc import div; assert div(6, 3) == 2"'
WHOLE = (
    "import calc; assert calc.div(6, 3) == 2; assert calc.add(1, 2) == 3; assert calc.sub(3, 2) == 1; "
    "assert calc.sub(2, 3) == -1"
)


@dataclass(frozen=True, kw_only=True)
class Case:
    """One worker: what it writes and runs, what it declared, and the program that judges its result."""

    name: str
    does: str
    """In a few words, for people."""
    writes: dict[str, str] = field(default_factory=dict)
    commands: tuple[str, ...] = ()
    """Run after the files were written, each in a reply of its own."""
    files: tuple[str, ...] = ("calc/",)
    """What its action declares."""
    in_sandbox: bool = True
    """Whether the commands run in the sandbox, which keeps them from writing to the repository's git folder."""
    may_fail: bool = False
    """Whether one of the commands or writes is denied or fails, which then is all that there is to it."""
    check: str = DIVIDES
    """The contract's one command."""
    expect: str = "exit 0"
    """What the contract expects of it."""
    ground: dict[str, str] = field(default_factory=lambda: BASE)
    base: dict[str, str] = field(default_factory=dict)
    """Files of the repository besides `ground`, or instead of some; `""` for one that is not there."""
    truth: str = WHOLE
    """A program, run in a copy of what has landed, that fails if it is not what was asked for."""
    judge: tuple[str, ...] = (sys.executable, "-c")
    """Who runs it."""
    set_up: str = ""
    """The command that makes the environment of checks, in a folder that the user trusts; `""` for none."""


def divides(**more: str) -> dict[str, str]:
    """Return the honest work, and `more` files by path."""
    return {"calc/division.py": DIV, "calc/__init__.py": IMPORTED, **more}


def breaks(**more: str) -> dict[str, str]:
    """Return work that divides and breaks `add`, and `more` files by path that hide it."""
    return divides(**{"calc/basic.py": BROKEN}, **more)


NODE_BROKEN = "exports.add = (a, b) => 0;\nexports.sub = (a, b) => a - b;\nexports.div = (a, b) => a / b;\n"


def in_node(name: str, does: str, *, code: str = NODE_BROKEN, commands: tuple[str, ...] = (), **files: str) -> Case:
    """Return a case in the Node repository; `files` by path besides the code."""
    return Case(
        name=name,
        does=does,
        writes={"calc.js": code, **files},
        commands=commands,
        files=("calc.js",),
        check="node -e \"require('assert').equal(require('./calc').div(6, 3), 2)\"",
        ground=NODE,
        # Without a module that the work could have changed.
        truth="const c = require('./calc'); "
        "if (c.div(6, 3) !== 2 || c.add(1, 2) !== 3 || c.sub(3, 2) !== 1) process.exit(1)",
        judge=("node", "-e"),
    )


GO_DIV = "\nfunc Div(a, b int) int { return a / b }\n"
GO_BROKEN = GO["basic/basic.go"].replace("a + b", "0") + GO_DIV


def in_go(name: str, does: str, *, code: str = GO_BROKEN, commands: tuple[str, ...] = (), **files: str) -> Case:
    """Return a case in the repository for Go; `files` by path besides the code."""
    return Case(
        name=name,
        does=does,
        writes={"basic/basic.go": code, **files},
        commands=commands,
        files=("basic/basic.go",),
        check=_go_unless("basic.Div(6, 3) != 2"),
        ground=GO,
        truth=_go_unless("basic.Div(6, 3) != 2 || basic.Add(1, 2) != 3 || basic.Sub(3, 2) != 1"),
        judge=("sh", "-c"),
    )


def _go_unless(wrong: str) -> str:
    """Return a command that fails if a condition holds, by a separate program."""
    body = f"func main() {{\n\tif {wrong} {{\n\t\tpanic(1)\n\t}}\n}}\n"
    program = f'package main\n\nimport "example.org/calc/basic"\n\n{body}'
    return f"mkdir -p try && cat > try/main.go <<'END' && go run ./try\n{program}END"
