"""Faults that are planted into changes to see whether a reviewer finds them."""

import ast
from pathlib import Path

from scaffold.verify.planted_faults import (
    Fault,
    LandedFile,
    chosen_fault,
    faults_in,
    python_faults,
    shuffled,
    text_faults,
)

EVERY_LINE = range(1, 1_000)


def planted(code, lines=EVERY_LINE):
    content = code.encode()
    return [(fault.kind, fault.planted(content).decode()) for fault in python_faults("a.py", content, lines)]


def test_a_fault_changes_one_thing_and_keeps_the_rest_of_the_text():
    """AL-23."""
    rows = [
        ("x = a < b\n", "boundary", "x = a <= b\n"),
        ("x = (a)  >=  (b)\n", "boundary", "x = (a)  >  (b)\n"),
        ("x = a not  in b\n", "operator", "x = a in b\n"),
        ("x = a == b  # é\n", "operator", "x = a != b  # é\n"),
        ("é = 'é', a is None\n", "operator", "é = 'é', a is not None\n"),
        ("x = a + b\n", "operator", "x = a - b\n"),
        ("x = a and b\n", "operator", "x = a or b\n"),
        ("x = not a\n", "operator", "x = a\n"),
        ("x = True\n", "operator", "x = False\n"),
        ("x = y[:9]\n", "boundary", "x = y[:10]\n"),
        ("f(a,  b, c)\n", "swapped_arguments", "f(b,  a, c)\n"),
        ("def f(a):\n    if a:\n        raise E\n    g()\n", "deleted_check", "def f(a):\n    g()\n"),
        ("assert a\nb()\n", "deleted_check", "b()\n"),
        ("@m\ndef test_a():\n    pass\n\n\ny()\n", "removed_test", "\n\ny()\n"),
    ]
    assert [(code, kind, after) for code, kind, after in rows if (kind, after) not in planted(code)] == []


def test_what_would_not_run_or_changes_nothing_is_no_fault():
    codes = [
        "x = 'a' + b\n",
        "f(a, a)\nf(*a, b)\nf(a, *b)\n",
        "def f():\n    raise E\n",
        "if a:\n    raise E\nelse:\n    b()\n",
        "def test_a():\n    pass\n",
        "x = = 1\n",
        "x = '\0'\n",
    ]
    assert [code for code in codes if planted(code) != []] == []


def test_only_new_lines_get_faults():
    """AL-23: a reviewer is asked about the change."""
    assert planted("x = a < b\ny = c < d\n", lines={2}) == [("boundary", "x = a < b\ny = c <= d\n")]


def test_other_languages_get_faults_by_rules_about_text():
    """AL-23."""
    rows = [
        ("if (a <= b) {", "boundary", "if (a < b) {"),
        ("if (a < b) {", "boundary", "if (a <= b) {"),
        ("x === y && z", "operator", "x !== y && z"),
        ("x === y && z", "operator", "x === y || z"),
        ("return true;", "operator", "return false;"),
        ("move(from, to)", "swapped_arguments", "move(to, from)"),
        ("  if (!ok) return null;", "deleted_check", ""),
    ]
    for line, kind, after in rows:
        content = f"{line}\n".encode()
        found = [(each.kind, each.planted(content).decode().rstrip("\n")) for each in text_faults("a.ts", content, {1})]
        assert (kind, after) in found, (line, kind)


def test_text_and_comments_and_binary_files_get_none():
    rows = [("a.md", b"a <= b\n"), ("a.ts", b"// a <= b\n"), ("a.c", b"\0 a <= b\n")]
    assert [(path, content) for path, content in rows if [*text_faults(path, content, {1})] != []] == []


def test_every_fault_of_this_module_still_parses():
    content = Path(__file__).read_bytes()
    faults = [*python_faults("a.py", content, EVERY_LINE)]
    assert len({each.kind for each in faults}) >= 3
    for fault in faults:
        assert ast.dump(ast.parse(fault.planted(content))) != ast.dump(ast.parse(content))


def test_the_seed_alone_decides():
    """AL-23."""
    faults = faults_in(
        [LandedFile(path="a.py", content=b"x = a < b\ny = not c\nf(a, b)\n", lines=frozenset({1, 2, 3}))]
    )
    assert {chosen_fault(faults, str(seed)) for seed in range(40)} == {*faults}
    assert [chosen_fault(faults, "7")] * 3 == [chosen_fault(faults, "7") for _ in range(3)]
    assert shuffled(range(9), "a") == shuffled(range(9), "a") != shuffled(range(9), "b")
    assert chosen_fault([], "1") is None


def test_a_huge_file_gets_none():
    content = b"x = a < b\n" * 100_000
    assert faults_in([LandedFile(path="a.py", content=content, lines=frozenset({1}))]) == ()
    assert isinstance(faults_in([LandedFile(path="a.py", content=content[:10], lines=frozenset({1}))])[0], Fault)
