"""What a finished command proves."""

from inline_snapshot import snapshot
from msgspec import structs

from integration.verify.builders import command_result
from scaffold.core.proof.contract import Check, Contract, ExitCode, OutputContains
from scaffold.verify.contract.check_runs import check_constraints, check_read_only_paths, check_verdict


def verdict(command, ending, expect=None):
    return check_verdict(Check(command=command, expect=expect or ExitCode(0)), ending)[0]


def test_a_command_gets_its_verdict():
    """AL-8: a run that ran nothing, could not start or did not end proves nothing."""
    expected = {
        ("make", command_result(0), None): "pass",
        ("make", command_result(1), None): "fail",
        ("make", command_result(3), ExitCode(3)): "pass",
        ("make", command_result(0), ExitCode(3)): "fail",
        ("make", command_result(0, out="it says hello"), OutputContains("hello")): "pass",
        ("make", command_result(9, out="hello"), OutputContains("hello")): "fail",
        ("make", command_result(0, err="hello"), OutputContains("hello")): "fail",
        ("mkae", command_result(127), None): "error",
        ("./make", command_result(126), None): "error",
        ("mkae", command_result(127), ExitCode(127)): "pass",
        ("mkae", command_result(127), OutputContains("hello")): "error",
        ("make", command_result(signal=11), None): "error",
        ("make", command_result(timed_out=True), None): "timeout",
        ("make", command_result(signal=9, timed_out=True), None): "timeout",
        ("pytest -q", command_result(5, out="no tests ran in 0.01s"), None): "vacuous",
        ("pytest -q", command_result(5), ExitCode(5)): "vacuous",
        ("pytest --co", command_result(0, out="no tests ran in 0.01s"), None): "vacuous",
        ("pytest", command_result(0, out="==== 2 skipped, 1 deselected, 1 warning in 0.01s ===="), None): "vacuous",
        ("pytest", command_result(0, out="==== 1 passed, 2 skipped in 0.01s ===="), None): "pass",
        ("pytest", command_result(1, out="1 failed, 2 skipped in 0.01s"), None): "fail",
        ("python -m unittest", command_result(0, err="\n---\nRan 0 tests in 0.000s\n\nOK"), None): "vacuous",
        ("grep -c x f", command_result(0, out="no tests ran"), None): "pass",
    }
    assert {
        (command, ending, expect): verdict(command, ending, expect) for command, ending, expect in expected
    } == expected


def test_a_verdict_says_why():
    endings = [command_result(1), command_result(127), command_result(signal=11), command_result(timed_out=True)]
    check = Check(command="make", timeout_s=7.5)
    assert [check_verdict(check, ending)[1] for ending in endings] == snapshot(
        [
            "Expected exit code 0, but got exit code 1.",
            "The command could not be run (exit code 127).",
            "Killed by signal 11 twice.",
            "Timed out after 7.5 s.",
        ]
    )
    without = structs.replace(check, expect=OutputContains("ok"))
    assert check_verdict(without, command_result(0, out="no"))[1] == snapshot(
        "Expected `ok` in the output and exit code 0, but the output does not contain it."
    )


def judged(paths=("a.py", "docs/x.md"), changed=("a.py",), **globs):
    (result,) = check_constraints(Contract(**globs), paths, changed)
    return result.verdict, result.detail


def test_file_constraints_are_judged_by_the_commit():
    """AL-8: must_exist, must_not_exist, must_not_change."""
    assert judged(must_exist=("docs/*.md",)) == ("pass", "docs/x.md")
    assert judged(must_exist=("*.md",)) == snapshot(("fail", "no such path in the commit"))
    assert judged(must_not_exist=("**/*.orig",)) == ("pass", "none")
    assert judged(must_not_exist=("docs",)) == ("fail", "docs/x.md")
    assert judged(must_not_change=("docs/**",)) == ("pass", "untouched")
    assert judged(must_not_change=("*.py",)) == ("fail", "a.py")


def test_a_long_list_of_paths_is_shortened():
    paths = tuple(f"f{n}" for n in range(8))
    assert judged(paths, must_exist=("*",))[1] == "f0, f1, f2, f3, f4 and 3 more"


def test_a_name_that_is_not_utf_8_becomes_text_that_every_database_accepts():
    assert judged(("caf\udce9",), must_exist=("*",))[1] == "caf\\udce9"


def test_files_that_are_executed_automatically_do_not_land_and_others_may():
    """BX-9: an agent's work never adds configuration that starts something automatically."""
    refused = check_read_only_paths(["src/a.py", ".MCP.json", ".husky/pre-commit"])
    assert refused is not None
    assert (refused.verdict, ".MCP.json, .husky/pre-commit" in refused.detail) == ("fail", True)
    assert check_read_only_paths(["docs/.mcp.json.md", "mcp.json", ".gitignore", ".github/workflows/ci.yml"]) is None
