"""Properties of fingerprints, and of the failure ladder over whole histories."""

from hypothesis import given
from hypothesis import strategies as st

from scaffold.plan.failures.escalation import ATTEMPTED, EXTRA_ATTEMPTS, FailureHistory, next_escalation
from scaffold.plan.failures.fingerprint import ShownFailure, failure_fingerprint

WORDS = st.text("abcdefghij", min_size=3, max_size=8).filter(lambda word: not word.startswith(("tmp", "temp")))
NUMBERS = st.integers(0, 9_999_999)


def fingerprint(output):
    return failure_fingerprint(ShownFailure("pytest fail", output))


@st.composite
def outputs(draw):
    """Return how a failure is shown, and its parts that differ each time."""
    tests = draw(st.lists(WORDS, min_size=1, max_size=4, unique=True))
    cause = draw(WORDS)

    def shown(order, line, seconds, folder, noise):
        told = [f"FAILED {folder}/t_{name}.py::test_{name} - {cause} at /{folder}/x:{line}" for name in order]
        return "\n".join([*noise, *told, f"{len(noise)} passed in {seconds}s"])

    return tests, shown


@given(outputs(), st.data())
def test_a_fingerprint_depends_on_nothing_that_varies(output, data):
    """AL-19."""
    tests, shown = output
    varied = [
        shown(
            data.draw(st.permutations(tests)),
            data.draw(NUMBERS),
            data.draw(st.floats(0, 1e3).map(lambda value: f"{value:.2f}")),
            "/home/" + data.draw(WORDS),
            data.draw(st.lists(WORDS, max_size=3)),
        )
        for _ in range(2)
    ]
    assert fingerprint(varied[0]) == fingerprint(varied[1])


@given(st.lists(WORDS, min_size=1, max_size=4, unique=True), WORDS)
def test_another_failed_test_is_another_failure(tests, other):
    """AL-19."""
    told = [f"FAILED t.py::test_{name}" for name in tests]
    more = [*told, f"FAILED t.py::test_{other}"]
    same = fingerprint("\n".join(told)) == fingerprint("\n".join(more))
    assert same is (other in tests)


@given(st.text(), st.binary(max_size=400))
def test_any_text_has_a_fingerprint(text, data):
    """AL-19: it never fails, and says nothing only about nothing."""
    for each in (text, data.decode(errors="surrogateescape")):
        assert fingerprint(each) == fingerprint(each)
        assert len(fingerprint(each)) == 16
        assert len(failure_fingerprint(ShownFailure("", each))) in {0, 16}


@given(st.lists(st.sampled_from(["a", "b", "c", ""]), min_size=20), st.booleans(), st.integers(1, 4), st.data())
def test_no_history_of_failures_goes_on_for_ever(failures, planner, limit, data):
    """SC-20: failures that alternate do not, either; beyond the limit there is one attempt, for something new."""
    extra = alternatives = 0
    for number in range(1, len(failures) + 1):
        fingerprints, learning = tuple(failures[:number]), data.draw(st.booleans())
        found = next_escalation(
            FailureHistory(
                fingerprints=fingerprints, limit=limit, extra=extra, alternatives=alternatives, learning=learning
            ),
            replans_left=1,
            planner=planner,
        )
        if found not in ATTEMPTED:
            break
        if number >= limit + extra:
            extra += 1
            assert learning or fingerprints[-1] in fingerprints[:-1]
        alternatives += found == "alternative"
    assert limit <= number <= limit + EXTRA_ATTEMPTS
    assert found == ("smaller" if planner else "failed")
