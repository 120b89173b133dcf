"""Which functions of a runner were replaced, and when that makes its run worthless."""

from types import FunctionType, ModuleType

import pytest

from scaffold.core.ids import Commit
from scaffold.core.proof.gates import Gate, GateResult, GateRun
from scaffold.verify.gates.injected.scaffold_originals import Originals, is_installed
from scaffold.verify.regression.comparison import doubts_about_functions, replaced_functions, with_original_runner

SOURCE = """
import dataclasses

class Case:
    failure = AssertionError
    limit = 3

    def check(self):
        return 1

    @classmethod
    def known(cls):
        return 2

    @property
    def told(self):
        return 3

def raises():
    return 4
"""


def quiet(*_):
    return None


def runner():
    module = ModuleType("runner")
    exec(SOURCE, module.__dict__)
    return module


def found_after(change):
    """Return what is found replaced after a change to a runner."""
    module = runner()
    originals = Originals([module])
    change(module)
    return originals.replaced()


def test_a_replaced_function_is_named():
    """BX-4: itself, in its class, or only its code."""
    assert found_after(quiet) == []
    for replace, named in [
        (lambda m: setattr(m, "raises", quiet), "runner.raises"),
        (lambda m: delattr(m, "raises"), "runner.raises"),
        (lambda m: setattr(m, "Case", type("Case", (), {})), "runner.Case"),
        (lambda m: setattr(m.Case, "check", quiet), "runner.Case.check"),
        (lambda m: setattr(m.Case, "failure", KeyError), "runner.Case.failure"),
        (lambda m: setattr(m.Case, "known", classmethod(quiet)), "runner.Case.known"),
        (lambda m: setattr(m.Case, "told", property(quiet)), "runner.Case.told"),
        (lambda m: setattr(m.Case.check, "__code__", quiet.__code__), "runner.Case.check"),
        (lambda m: setattr(m.Case.known.__func__, "__code__", quiet.__code__), "runner.Case.known"),
        (lambda m: setattr(m.Case, "__getattribute__", quiet), "runner.Case.__getattribute__"),
    ]:
        assert named in found_after(replace)


def test_new_functions_settings_and_subclasses_replace_nothing():
    assert found_after(lambda m: setattr(m.Case, "limit", 4)) == []
    assert found_after(lambda m: setattr(m.Case, "assert_more", quiet)) == []
    assert found_after(lambda m: setattr(m, "more", quiet)) == []
    assert found_after(lambda m: type("Own", (m.Case,), {"check": quiet})) == []


def test_what_is_restored_is_not_replaced():
    module = runner()
    originals, before = Originals([module]), module.Case.check
    module.Case.check = quiet
    module.Case.check = before
    assert originals.replaced() == []


def test_a_function_of_an_installed_module_is_a_plugins_own():
    """A plugin may replace a part of its runner; the project's code may not, whatever file it names as its own."""
    assert is_installed(pytest.raises)
    assert not is_installed(quiet)
    assert not is_installed(type)
    forged = FunctionType(
        quiet.__code__.replace(co_filename=pytest.raises.__code__.co_filename), {"__name__": "pytest"}
    )
    assert not is_installed(forged)


def run_with(*replaced, **more):
    gate = Gate(kind="test", command="pytest", runner="pytest")
    return GateRun(gate=gate, commit=Commit("c" * 40), environment="e", exit_code=0, replaced=replaced, **more)


def test_only_what_the_work_replaced_makes_its_run_an_error():
    """BX-4: a project whose own plugins replace something keeps its results."""
    found = with_original_runner(
        run_with("pytest.approx"), run_with("pytest.approx", "pytest.raises", "pluggy.b", "pluggy.c")
    )
    assert found.problem == "error"
    assert found.detail.startswith("The test runner's report cannot be trusted: pluggy.b, pluggy.c, pytest.raises")
    same = run_with("pytest.approx")
    assert with_original_runner(same, same) is same
    assert with_original_runner(None, same) is same
    stopped = run_with("pytest.raises", problem="timeout")
    assert with_original_runner(run_with(), stopped) is stopped


def test_functions_of_the_language_leave_a_doubt():
    """BX-4: they may be part of the work, and were perhaps replaced before."""
    before, after = run_with("json.loads"), run_with("builtins.abs", "json.loads")
    assert with_original_runner(before, after) is after
    assert replaced_functions(before, after) == ("builtins.abs",)
    assert replaced_functions(None, after) == ()
    result = GateResult(gate=after.gate, verdict="pass", replaced=("builtins.abs",))
    (doubt,) = doubts_about_functions([result])
    assert (doubt.code, "builtins.abs" in doubt.text) == ("functions_replaced", True)
    assert list(doubts_about_functions([])) == []
