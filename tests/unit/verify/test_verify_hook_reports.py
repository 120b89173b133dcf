"""What the output of tools for commit hooks says of each hook."""

from pathlib import Path

from scaffold.verify.gates.hook_tools import HUSKY, LEFTHOOK, PRE_COMMIT, hook_gate, is_hook_file, read_hooks

SKIPPED = "Check Yaml...........................................(no files to check)Skipped\n"
MIXED = """trim trailing whitespace.................................................Failed
- hook id: trailing-whitespace
- exit code: 1
- files were modified by this hook

Fixing a.py

flake8...................................................................Failed
- hook id: flake8
- exit code: 1

a.py:3:1: F401 unused import
a.py:9:1: F401 unused import

mypy.....................................................................Passed
"""
LEFT = """╭───╮
│  text (skip) no matching staged files
┃  py ❯

┃  words ❯

a.py:1: W001 forbidden

exit status 1
  ────────────────────────────────────
summary: (done in 0.11 seconds)
✓ py (0.11 seconds)
✗ words (0.00 seconds)
"""
OLD_LEFT = "summary: (done in 0.11 seconds)\n✔️  py\n🥊  words\n"


def test_each_hook_has_an_outcome_and_the_exit_code_decides_whether_any_failed():
    """BX-4: a run in which no hook looks at a file is no pass."""
    rows = [
        (PRE_COMMIT, 0, SKIPPED, {"Check Yaml": "skipped"}, "vacuous"),
        (PRE_COMMIT, 0, "", {}, "vacuous"),
        (
            PRE_COMMIT,
            1,
            SKIPPED + MIXED,
            {
                "Check Yaml": "skipped",
                "trim trailing whitespace": "failed",
                "a.py: F401 (flake8)": "failed",
                "mypy": "passed",
            },
            None,
        ),
        (PRE_COMMIT, 0, MIXED[-90:], {"mypy": "passed"}, None),
        (PRE_COMMIT, 1, "mypy...Passed\n", {"mypy": "passed", "pre-commit": "failed"}, None),
        (PRE_COMMIT, 3, "An unexpected error has occurred", {}, "error"),
        (PRE_COMMIT, 1, "InvalidConfigError: rubbish \x1b[1m", {}, "error"),
        (LEFTHOOK, 1, LEFT, {"py": "passed", "a.py: W001 (words)": "failed"}, None),
        (LEFTHOOK, 1, OLD_LEFT, {"py": "passed", "words": "failed"}, None),
        (LEFTHOOK, 0, "│ text (skip) no files\nsummary: (done in 0.00 seconds)\n", {}, "vacuous"),
        (LEFTHOOK, 0, "quiet", {"lefthook": "passed"}, None),
        (HUSKY, 0, "anything...Failed", {"husky": "passed"}, None),
        (HUSKY, 1, "no", {"husky": "failed"}, None),
    ]
    for tool, code, text, outcomes, problem in rows:
        found = read_hooks(tool, code, text, Path("/top"))
        assert (found.outcomes, found.problem) == (outcomes, problem), text


def test_a_finding_that_occurs_more_often_is_counted():
    """AL-10: one more of them is a new failure."""
    assert read_hooks(PRE_COMMIT, 1, MIXED, Path("/top")).counts == {"a.py: F401 (flake8)": 2}


def test_a_repository_has_one_gate_for_all_its_hooks():
    """BX-4: the tools are called as a commit calls them."""
    gate, reason = hook_gate({".husky/pre-commit", ".pre-commit-config.yaml", "a.py"})
    assert gate.command == "pre-commit run --color never && sh -e .husky/pre-commit"
    assert reason.path == ".pre-commit-config.yaml"
    assert hook_gate({"a.py", ".husky/commit-msg"}) is None
    assert [each for each in (".husky/commit-msg", ".husky/_/husky.sh", "a.yml") if is_hook_file(each)] == [
        ".husky/commit-msg"
    ]
