"""The doubt about a change that no check of its contract executed."""

from inline_snapshot import snapshot

from scaffold.core.proof.contract import Check, Contract, Doubt, ExecutedLines, Verification
from scaffold.verify.contract.exercised import executed_lines, with_executed_lines
from scaffold.verify.observation.changed_code import ChangedCode, ExecutableLines, MarkedLines, PythonFile
from scaffold.verify.observation.node_coverage import SourceLines
from scaffold.verify.observation.observer import CheckObserver, Observation

LINES = ExecutableLines(in_functions=(MarkedLines(2, (2, 3)), MarkedLines(5, (5,))), at_import=(MarkedLines(1, (1,)),))
CODE = ChangedCode(python={"a.py": PythonFile(size=1, checksum=1, lines=LINES)})
NONE = Observation(seen=True, complete=True)
SOME = Observation(seen=True, complete=False, executed={"a.py": frozenset({1, 2, 3})})
PARTLY = Observation(seen=True, complete=False)
UNSEEN = Observation()


def contract(*commands, optional=()):
    return Contract(commands=tuple(Check(command=each, required=each not in optional) for each in commands))


def test_nothing_is_said_if_a_check_may_have_run_the_change_unseen():
    """BX-5: of a check that runs no code nothing can be seen either, and it hides nothing."""
    rows = [
        ({"a": NONE}, ExecutedLines(3, 0)),
        ({"a": SOME}, ExecutedLines(3, 2)),
        ({"a": NONE, "b": SOME}, ExecutedLines(3, 2)),
        ({"a": PARTLY}, None),
        ({"a": NONE, "b": PARTLY}, None),
        ({"a": UNSEEN}, None),
        ({"a": NONE, "grep -q x a.py": UNSEEN}, ExecutedLines(3, 0)),
        ({"a": NONE, "PYTHONPATH=src pytest": UNSEEN}, None),
        ({"a": NONE, "env -i python3 -c ''": UNSEEN}, None),
        ({}, None),
    ]
    assert [
        (observations, executed_lines(contract(*observations or ["a"]), CODE, observations)) for observations, _ in rows
    ] == rows


def test_an_optional_check_exercises_nothing():
    """BX-5: it need not pass."""
    assert executed_lines(contract("a", "b", optional=("b",)), CODE, {"a": NONE, "b": SOME}) == ExecutedLines(3, 0)


def test_lines_that_run_on_import_count_only_if_no_function_changed():
    constants = ChangedCode(
        python={"a.py": PythonFile(size=1, checksum=1, lines=ExecutableLines(at_import=LINES.at_import))}
    )
    assert executed_lines(contract("a"), constants, {"a": SOME}) == ExecutedLines(1, 1)
    assert executed_lines(contract("a"), ChangedCode(), {"a": NONE}) is None


def test_of_javascript_the_lines_in_functions_count_once_they_are_known():
    code = ChangedCode(javascript={"a.js": SourceLines("", (1, 2, 3))})
    loaded = Observation(
        seen=True, complete=True, executed={"a.js": frozenset({1})}, in_functions={"a.js": frozenset({2, 3})}
    )
    assert executed_lines(contract("a"), code, {"a": loaded}) == ExecutedLines(2, 0)
    assert executed_lines(contract("a"), code, {"a": NONE}) == ExecutedLines(3, 0)


def test_files_that_cannot_be_read_may_have_run():
    code = ChangedCode(python=CODE.python, readable=False)
    assert executed_lines(contract("a"), code, {"a": NONE}) is None
    assert executed_lines(contract("a"), code, {"a": SOME}) == ExecutedLines(3, 2)


def test_a_change_that_no_check_executed_is_doubtful():
    """BX-5, BX-22: with the number of its lines."""
    doubt = Doubt("not_executed", snapshot("3 changed lines, 0 executed by its checks"))
    for seen, doubts in [(NONE, (doubt,)), (SOME, ())]:
        observer = CheckObserver(CODE)
        observer.observations["a"] = seen
        found = with_executed_lines(Verification(commit="c", results=()), contract("a"), observer)
        assert (found.doubts, found.executed_lines.total) == (doubts, 3)
