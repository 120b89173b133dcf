"""Which comments of the work silence which tools."""

from scaffold.core.proof.gates import Gate
from scaffold.verify.regression.suppressions import is_obeyed, new_suppressions


def new(before, after):
    return {
        path: {each.name: count for each, count in found.items()}
        for path, found in new_suppressions(before, after).items()
    }


def added(path, text):
    return new({}, {path: text}).get(path, {})


def test_comments_that_silence_a_tool_are_found_where_the_language_has_comments():
    """BX-5: not what strings and documents say."""
    expected = {
        ("a.py", "import b  # noqa\nimport c  # NOQA\nimport d # noqa: F401\n"): {"noqa": 3},
        ("a.py", "# ruff: noqa: F401\n# flake8: noqa\n"): {"noqa": 2},
        ("a.py", "x = f()  # type: ignore[no-untyped-call]  # noqa: E501\n"): {"type: ignore": 1, "noqa": 1},
        ("a.pyi", "# mypy: ignore-errors\n# mypy: disable-error-code=x\n# mypy: disallow-any-expr\n"): {"mypy": 2},
        ("a.py", "# mypy: ignore_errors\n# mypy: check_untyped_defs=False, strict_optional = no\n"): {"mypy": 2},
        ("a.py", "# mypy: always_false=X\n# mypy: strict, follow_imports=skip\n# MyPy and more\n"): {"mypy": 2},
        ("a.py", "# mypy: strict\n# mypy: disallow_any_expr, warn-unreachable=True , check_untyped_defs\n"): {},
        ("a.py", '# mypy: enable-error-code="a,b"\n'): {},
        ("a.py", "# pyright: basic\n# pyright: strict\nx = y  # pyright: ignore[x]\n"): {"pyright": 2},
        ("a.py", "def f(:  # noqa\n  '''\n"): {"noqa": 1},
        ("a.py", "x = '# noqa'\n'''\n# type: ignore\n'''\n# about noqa\n# type: int\n"): {},
        ("a.js", "/* eslint-disable */\nf() // eslint-disable-line x\n/* eslint x: 0 */\n"): {"eslint-disable": 3},
        ("a.tsx", "// @ts-ignore\n/* @ts-expect-error: why */\n// biome-ignore lint: x\n"): {
            "ts-ignore": 2, "biome-ignore": 1,
        },
        ("a.ts", "const s = '// @ts-ignore'; const t = `\n// @ts-nocheck\n`\n// see eslint-disable\n"): {},
        ("a.go", "x() //nolint:x\n// nolint\n//lint:ignore SA1 y\n// a nolint\n"): {"nolint": 2, "lint:ignore": 1},
        ("a.rs", "#![allow(dead)]\n#[expect(old)]\n#[cfg_attr(test, allow(x))]\n#[derive(Debug)]\n"): {"allow": 3},
        ("a.rs", "// #[allow(x)]\nlet s = \"#[allow(x)]\"; fn f<'a>(x: &'a str) {}\n"): {},
        ("a.md", "# noqa\n"): {},
        ("a.py", "def f():  # pragma: no cover\nif x:  #PRAGMA: NO BRANCH\n# pragma: once\n"): {"no cover": 2},
        ("a.js", "/* c8 ignore next */\n// istanbul ignore else\n/* node:coverage disable */\n/* ignore */\n"): {
            "coverage ignore": 3,
        },
    }  # fmt: skip
    assert {(path, text): added(path, text) for path, text in expected} == expected


def test_only_new_suppressions_count():
    """A line that moved or was changed brings none, and a further one does."""
    one, other = "import b  # noqa\n", "import c  # noqa\n"
    assert new({"a.py": one}, {"a.py": one}) == {}
    assert new({"a.py": one}, {"a.py": "import b as d  # noqa\n"}) == {}
    assert new({"a.py": one, "b.py": ""}, {"b.py": f"x = 1\n{one}"}) == {}
    assert new({"a.py": one}, {"a.py": one + other}) == {"a.py": {"noqa": 1}}
    assert new({"a.py": one}, {"a.py": one + one}) == {"a.py": {"noqa": 1}}
    assert new({"a.py": one}, {"a.py": "", "b.py": one + one}) == {"b.py": {"noqa": 1}}
    assert new({"a.py": one}, {"b.py": other}) == {"b.py": {"noqa": 1}}
    assert new({"a.py": one}, {"a.py": "x = f()  # type: ignore\n"}) == {"a.py": {"type: ignore": 1}}


def test_a_suppression_counts_only_if_a_gate_obeys_it():
    """A gate whose command names no tool may run any."""
    rows = [
        ("# noqa", "lint", "ruff check .", True),
        ("# noqa", "lint", "python -m flake8", True),
        ("# noqa", "lint", "pylint calc", False),
        ("# noqa", "typecheck", "mypy .", False),
        ("# noqa", "lint", "make lint", True),
        ("# pylint: disable=x", "lint", "ruff check .", False),
        ("# type: ignore", "typecheck", "npx pyright", True),
        ("# mypy: ignore-errors", "typecheck", "pyright", False),
        ("# pragma: no cover", "test", "ruff check . && pytest", True),
        ("# pragma: no cover", "lint", "ruff check .", False),
    ]
    for text, kind, command, obeyed in rows:
        ((suppression,),) = [tuple(found) for found in new_suppressions({}, {"api/a.py": text}).values()]
        assert is_obeyed(suppression, "api/a.py", [Gate(kind=kind, command=command)]) is obeyed, text
        assert not is_obeyed(suppression, "api/a.py", [Gate(kind=kind, command=command, folder="web")]), text
