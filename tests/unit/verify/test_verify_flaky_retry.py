"""Failed tests are repeated unchanged: first alone, then among the others."""

from msgspec import structs

from scaffold.core.proof.gates import Gate, GateRun
from scaffold.verify.regression.flaky_tests import MAX_REPEATED, retry_known_flaky, retry_new_failures
from scaffold.verify.regression.gate_results import gate_timeout_s

TEST = Gate(kind="test", command="pytest", runner="pytest")


def run(gate=TEST, **outcomes):
    return GateRun(gate=gate, commit="c", environment="e", exit_code=1, outcomes=outcomes, duration_s=50.0)


class Runner:
    """Returns the given runs in order, and records the requests."""

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


async def test_a_test_skipped_on_repetition_has_not_passed():
    """BX-4: only a pass clears a failure."""
    again = Runner(run(a="skipped"))
    assert (await retry_new_failures(run(a="failed"), ["a"], again)).outcomes == {"a": "failed"}


async def test_a_known_flaky_test_with_a_setup_error_is_repeated_too():
    """BX-4: an error counts as a failure."""
    shown = await retry_known_flaky(run(a="error"), ["a"], Runner(run(a="passed")), rounds=1)
    assert shown.outcomes == {"a": "flaky"}


async def test_at_most_the_maximum_number_of_tests_is_repeated():
    """BX-4: above it, chance is no explanation."""
    names = [f"t{number}" for number in range(MAX_REPEATED)]
    again = Runner(run(**dict.fromkeys(names, "failed")))
    await retry_new_failures(run(**dict.fromkeys(names, "failed")), names, again)
    assert again.asked == [tuple(names)]


async def test_a_test_that_fails_only_among_the_others_has_failed():
    """BX-4: tests never run alone in practice, so a pass alone is not enough."""
    again = Runner(run(a="passed", c="passed"), run(a="failed", b="passed", c="passed"))
    shown = await retry_new_failures(run(a="failed", b="passed", c="failed"), ["a", "c"], again)
    assert shown.outcomes == {"a": "failed", "b": "passed", "c": "flaky"}


async def test_a_failed_repetition_excuses_nothing():
    again = Runner(
        GateRun(gate=TEST, commit="c", environment="e", exit_code=1, problem="error", outcomes={"a": "passed"})
    )
    assert (await retry_new_failures(run(a="failed"), ["a"], again)).outcomes == {"a": "failed"}


async def test_a_gate_judged_as_a_whole_is_repeated_once():
    again = Runner(run(exit="passed"))
    whole = run(Gate(kind="test", command="make test"), exit="failed")
    assert (await retry_new_failures(whole, ["exit"], again)).outcomes == {"exit": "flaky"}


async def test_no_failures_and_too_many_are_not_repeated():
    for count in [0, MAX_REPEATED + 1]:
        names = [f"t{number}" for number in range(count)]
        failed = run(**dict.fromkeys(names, "failed"))
        assert await retry_new_failures(failed, names, Runner()) is failed, count


async def test_a_test_that_was_flaky_before_gets_three_repetitions():
    """BX-4: work is not refused for a test that was unreliable before it."""
    again = Runner(run(a="failed"), run(a="failed"), run(a="passed"))
    shown = await retry_known_flaky(run(a="failed"), frozenset({"a", "b"}), again, rounds=3)
    assert (shown.outcomes, again.asked) == ({"a": "flaky"}, [("a",)] * 3)
    broken = await retry_known_flaky(run(a="failed"), frozenset({"a"}), Runner(*[run(a="failed")] * 3), rounds=3)
    assert broken.outcomes == {"a": "failed"}


def test_a_gate_may_take_three_times_as_long_as_its_baseline():
    """AL-10: at least a minute; what it says itself counts."""
    before = run()
    assert gate_timeout_s(TEST, before, 600.0) == 150.0
    assert gate_timeout_s(TEST, structs.replace(before, duration_s=1.0), 600.0) == 60.0
    assert gate_timeout_s(TEST, None, 600.0) == 600.0
    assert gate_timeout_s(Gate(kind="test", command="x", timeout_s=5.0), before, 600.0) == 5.0
