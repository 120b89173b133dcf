"""What failed is asked again: alone first, then among the others, unchanged."""

import pytest

from scaffold.core.gates import Gate, GateRun
from scaffold.verify.regression.flaky_retry import MAX_REPEATED, retry_known_flaky, retry_new_failures
from scaffold.verify.regression.gate_results import gate_timeout_s

TEST = Gate(kind="test", command="pytest", runner="pytest")


def run(gate=TEST, **outcomes):
    return GateRun(gate=gate, commit="c", environment="e", exit_code=1, outcomes=outcomes, duration_s=50.0)


class Runner:
    """Answers one run after another, and remembers what it was asked for."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.asked = []

    async def __call__(self, names):
        self.asked.append(tuple(names))
        return self.answers.pop(0)


async def test_a_test_that_fails_again_has_failed():
    """BX-4: one repetition tells, and it is a small one."""
    again = Runner(run(a="failed"))
    shown = await retry_new_failures(run(a="failed", b="passed"), ["a"], again)
    assert (shown.outcomes, again.asked) == ({"a": "failed", "b": "passed"}, [("a",)])


async def test_a_test_that_passes_alone_and_among_the_others_is_flaky():
    """BX-4: it failed, then it passed, and nothing had changed."""
    again = Runner(run(a="passed"), run(a="passed", b="passed"))
    shown = await retry_new_failures(run(a="failed", b="passed"), ["a"], again)
    assert (shown.outcomes, again.asked) == ({"a": "flaky", "b": "passed"}, [("a",), ()])


async def test_a_test_that_is_skipped_when_it_is_repeated_has_not_passed():
    """BX-4: only a pass takes a failure back."""
    again = Runner(run(a="skipped"))
    assert (await retry_new_failures(run(a="failed"), ["a"], again)).outcomes == {"a": "failed"}


async def test_a_known_flaky_test_that_could_not_be_prepared_gets_its_chances_too():
    """BX-4: an error is as good as a failure."""
    shown = await retry_known_flaky(run(a="error"), ["a"], Runner(run(a="passed")), rounds=1)
    assert shown.outcomes == {"a": "flaky"}


async def test_as_many_as_are_repeated_at_most_are_repeated():
    """BX-4: one more, and chance is no explanation."""
    names = [f"t{number}" for number in range(MAX_REPEATED)]
    again = Runner(run(**dict.fromkeys(names, "failed")))
    await retry_new_failures(run(**dict.fromkeys(names, "failed")), names, again)
    assert again.asked == [tuple(names)]


async def test_a_test_that_only_the_others_break_has_failed():
    """BX-4: alone it passes, but nobody runs it alone: no work gets by with that."""
    again = Runner(run(a="passed", c="passed"), run(a="failed", b="passed", c="passed"))
    shown = await retry_new_failures(run(a="failed", b="passed", c="failed"), ["a", "c"], again)
    assert shown.outcomes == {"a": "failed", "b": "passed", "c": "flaky"}


async def test_a_repetition_in_trouble_excuses_nothing():
    again = Runner(
        GateRun(gate=TEST, commit="c", environment="e", exit_code=1, trouble="error", outcomes={"a": "passed"})
    )
    assert (await retry_new_failures(run(a="failed"), ["a"], again)).outcomes == {"a": "failed"}


async def test_a_gate_that_is_judged_as_a_whole_is_repeated_once():
    again = Runner(run(exit="passed"))
    whole = run(Gate(kind="test", command="make test"), exit="failed")
    assert (await retry_new_failures(whole, ["exit"], again)).outcomes == {"exit": "flaky"}


@pytest.mark.parametrize("count", [0, MAX_REPEATED + 1])
async def test_nothing_and_too_much_are_not_repeated(count):
    names = [f"t{number}" for number in range(count)]
    failed = run(**dict.fromkeys(names, "failed"))
    assert await retry_new_failures(failed, names, Runner()) is failed


async def test_a_test_that_was_flaky_before_the_work_gets_three_chances():
    """BX-4: nobody's work is refused for what could not be relied on before."""
    again = Runner(run(a="failed"), run(a="failed"), run(a="passed"))
    shown = await retry_known_flaky(run(a="failed"), frozenset({"a", "b"}), again, rounds=3)
    assert (shown.outcomes, again.asked) == ({"a": "flaky"}, [("a",)] * 3)
    broken = await retry_known_flaky(run(a="failed"), frozenset({"a"}), Runner(*[run(a="failed")] * 3), rounds=3)
    assert broken.outcomes == {"a": "failed"}


def test_a_gate_may_take_three_times_as_long_as_before_the_work():
    """AL-10: at least a minute; what it says itself counts."""
    before = run()
    assert gate_timeout_s(TEST, before, 600.0) == 150.0
    assert (
        gate_timeout_s(TEST, GateRun(gate=TEST, commit="c", environment="e", exit_code=0, duration_s=1.0), 600.0)
        == 60.0
    )
    assert gate_timeout_s(TEST, None, 600.0) == 600.0
    assert gate_timeout_s(Gate(kind="test", command="x", timeout_s=5.0), before, 600.0) == 5.0
