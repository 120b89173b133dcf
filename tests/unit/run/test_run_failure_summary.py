"""What an agent reads when its work is refused."""

import re

from inline_snapshot import snapshot

from scaffold.core.proof.contract import CheckResult, Verification
from scaffold.core.proof.gates import Gate, GateResult, Regression
from scaffold.run.failures.refused_work import (
    FAILURES_CHARS,
    GIVE_UP,
    NAMED_REMEDIES,
    describe_failed_checks,
    describe_refusals,
    first_failure,
    refusals_by_others,
    summarize_failures,
)
from scaffold.worker.task_prompts import failure_prompt

INTERNAL_WORDS = (
    *("new_failure", "pre_existing", "vacuous", "verdict", "baseline", "gate", "candidate", "sealed", "must_exist"),
    *("contract_failed", "gate_failed", "evidence", "regression", "session branch", "merge queue", "effect"),
)
"""Words of our code that an agent does not know."""
PYTEST = Gate(kind="test", command="pytest -q", runner="pytest")
RUFF = Gate(kind="lint", command="ruff check", runner="findings")
MAKE = Gate(kind="build", command="make", folder="api")
END = "the end of a long output"


def gate(of, verdict="new_failure", *regressions, **fields):
    counts = {"new_failure": len(regressions)} if regressions else {}
    return GateResult(gate=of, verdict=verdict, regressions=regressions, **({"counts": counts} | fields))


def paths(name, *lines, problem="These files are not yours:"):
    return CheckResult(name=name, verdict="fail", detail="\n".join([problem, *(f"- {line}" for line in lines)]))


def refused(*results):
    """Return what is said of failing results."""
    checks = tuple(each for each in results if isinstance(each, CheckResult))
    gates = tuple(each for each in results if isinstance(each, GateResult))
    return summarize_failures(Verification(commit="c", results=checks, gates=gates))


KINDS = {
    "a command that fails": (
        CheckResult(name="make test", verdict="fail", exit_code=2, detail=f"Expected exit code 0.\n1 failed\n{END}"),
        ("The check `make test` failed. Expected exit code 0.", "1 failed", END, "the check itself stays as it is"),
    ),
    "a command that runs no test": (
        CheckResult(name="pytest t.py", verdict="vacuous", exit_code=5, detail="It ran no tests.\nno tests ran"),
        ("The check `pytest t.py` ran no tests", "no tests ran", "Write or restore the tests"),
    ),
    "a command that hangs": (
        CheckResult(name="./slow", verdict="timeout", detail="Timed out after 60 s.\nwaiting for a lock"),
        ("The check `./slow` took too long. Timed out after 60 s.", "waiting for a lock", "does not end"),
    ),
    "a command that cannot run": (
        CheckResult(name="tox", verdict="error", exit_code=127, detail="The command could not be run.\ntox: not found"),
        ("The check `tox` gave no result", "tox: not found", "If it is not due to the work, say so."),
    ),
    "a file that must exist": (
        CheckResult(name="must_exist: docs/*.md", verdict="fail", detail="no such path in the commit"),
        ("there must be a file `docs/*.md` (no such path in the commit)", "Add, remove or restore"),
    ),
    "a file that must not change": (
        CheckResult(name="must_not_change: tests/**", verdict="fail", detail="tests/test_a.py"),
        ("must stay as they were: `tests/**` (tests/test_a.py)", "Add, remove or restore"),
    ),
    "nothing changed": (
        CheckResult(name="change", verdict="vacuous", detail="The tree is the same as before: nothing changed."),
        ("nothing changed", "Make the change that the task asks for."),
    ),
    "checks that pass by chance": (
        CheckResult(name="stability", verdict="fail", detail=f"`make` passed, and failed when repeated.\nF\n{END}"),
        ("`make` passed, and failed when repeated.", END, "order, chance or time"),
    ),
    "a runner that was tampered with": (
        gate(PYTEST, "error", detail="The report cannot be trusted: pytest.raises was replaced.\nok"),
        ("gave no result. The report cannot be trusted: pytest.raises was replaced.", "undo what the work does to"),
    ),
    "a commit that git refuses": (
        CheckResult(name="commit", verdict="error", detail="HEAD does not contain the commit.\nGo back to 1234."),
        ("HEAD does not contain the commit.\nGo back to 1234.\n", "that git can commit"),
    ),
    "a test that fails": (
        gate(
            PYTEST,
            "new_failure",
            Regression(name="tests/test_a.py::test_x", kind="fails", message="assert 1 == 2\n  +  where 1 = f()"),
            detail=f"F\n{END}",
        ),
        (
            "The repository's tests (`pytest -q`): 1 test is worse than before the work:",
            "- tests/test_a.py::test_x fails: assert 1 == 2\n      +  where 1 = f()",
            END,
            "pass as they are",
            "`request_files`",
        ),
    ),
    "a test whose name has no file": (
        gate(
            Gate(kind="test", command="python -m unittest", runner="unittest"),
            "new_failure",
            Regression(name="t.test_a.T.test_x", kind="fails", file="t/test_a.py", message="AssertionError: 1 != 2"),
        ),
        ("- t.test_a.T.test_x (in t/test_a.py) fails: AssertionError: 1 != 2",),
    ),
    "tests that no longer run": (
        gate(
            PYTEST,
            "new_failure",
            Regression(name="tests/test_a.py::test_x", kind="missing", message="assert 1 == 2"),
            Regression(name="tests/test_a.py::test_y", kind="skipped"),
        ),
        (
            "- tests/test_a.py::test_x passed before the work and is no longer there; as it was, it fails",
            "it fails on this code: assert 1 == 2\n",
            "- tests/test_a.py::test_y passed before the work and is skipped now",
            "Restore the tests",
        ),
    ),
    "a finding": (
        gate(
            RUFF,
            "new_failure",
            Regression(
                name="a.py: F401", kind="finding", file="a.py", line=3, message="F401 unused", source="import os"
            ),
        ),
        ("The linter (`ruff check`): 1 new finding:", "- a.py:3: F401 unused\n    import os", "do not silence them"),
    ),
    "a finding without a place": (
        gate(RUFF, "new_failure", Regression(name="exit 2", kind="finding"), detail=f"broken configuration\n{END}"),
        ("- exit 2", "broken configuration", END),
    ),
    "a build that fails": (
        gate(MAKE, detail=f"a.c:1: error: no\n{END}"),
        ("The build (`make` in api) succeeded before the work and fails now.", "a.c:1: error: no", END),
    ),
    "tests that cannot be judged": (
        gate(PYTEST, "error", detail=f"Collection failed: tests/test_a.py.\nImportError: no module named b\n{END}"),
        ("gave no result. Collection failed: tests/test_a.py.", "ImportError: no module named b", END),
    ),
    "tests of which none ran": (
        gate(PYTEST, "vacuous", detail="Every test was skipped."),
        ("(`pytest -q`) ran no tests. Every test was skipped.", "let them run"),
    ),
    "tests that hang": (
        gate(PYTEST, "timeout", detail="It timed out while running tests/test_a.py::test_x."),
        ("took too long. It timed out while running tests/test_a.py::test_x.", "does not end"),
    ),
    **{
        f"changed paths: {name}": (
            paths(name, "a.py is not yours", "b.py is not yours"),
            ("These files are not yours:", "- a.py is not yours", "- b.py is not yours", NAMED_REMEDIES[name]),
        )
        for name in NAMED_REMEDIES
    },
}


def test_a_refusal_says_what_failed_and_what_may_be_done():
    """AL-6, AL-9: with names, files and the end of the output; without words of our code."""
    for kind, (result, expected) in KINDS.items():
        text = refused(result)
        assert [part for part in expected if part not in text] == [], kind
        advice = text.partition("\n\nWhat you may do:\n")[2]
        assert advice.endswith(f"- {GIVE_UP}"), kind
        assert advice.count("\n") >= 1, kind
        assert [word for word in INTERNAL_WORDS if re.search(rf"\b{word}\b", text)] == [], kind


def test_passed_checks_are_not_repeated():
    """AL-6."""
    text = refused(
        CheckResult(name="make", verdict="pass", exit_code=0, detail="fine"),
        CheckResult(name="make test", verdict="fail", exit_code=1),
        CheckResult(name="files", verdict="warn", detail="Changed but not declared:\n- b.py"),
        gate(RUFF, "pre_existing", detail="old"),
    )
    assert text.startswith("The check `make test` failed.\n\nWhat you may do:\n")


def test_the_facts_of_other_work_are_named_with_their_checks():
    """AL-9, BX-1: whose they are, and which of their checks fails."""
    failed = CheckResult(name="make api", verdict="fail", exit_code=1, detail=f"Expected exit code 0.\n{END}")
    text = describe_refusals(refusals_by_others("api_works, api_fast", "api", [failed]))
    assert text == snapshot("""\
It breaks what `api` had shown (api_works, api_fast). The check `make api` failed. Expected exit code 0.
The end of its output:
the end of a long output

What you may do:
- Change the work so that the checks of `api` pass as well. They belong to other work and stay.
- If the task cannot be done within these limits, change nothing more and say so, with the reason.\
""")


def test_a_refusal_is_bounded_and_keeps_the_names_and_the_end_of_each_output():
    """AL-6: whatever is left out, what decides is not."""
    tests = tuple(Regression(name=f"t.py::test_{n}", kind="fails", message="m" * 2_000) for n in range(20))
    many = gate(PYTEST, "new_failure", *tests, counts={"new_failure": 300}, detail="o" * 5_000 + END)
    text = refused(many)
    assert len(text) < FAILURES_CHARS
    assert "t.py::test_0 fails" in text
    assert "more\n" in text
    assert END in text
    checks = [
        CheckResult(name=f"check {n}", verdict="fail", exit_code=1, detail="Why.\n" + "x" * 10_000 + f"{END} {n}")
        for n in range(50)
    ]
    for number in (2, 3, 5, 10, 50):
        text = refused(*checks[:number])
        assert len(text) <= FAILURES_CHARS
        assert [n for n in range(number) if f"The check `check {n}` failed" not in text] == list(range(33, number))
        assert f"{END} 0" in text
        assert text.endswith(GIVE_UP)


def test_what_is_left_out_of_many_tests_is_counted():
    tests = {f"test_a.py::test_{number}": "new_failure" for number in range(100)}
    text = refused(gate(PYTEST, tests=tests, counts={"new_failure": 300}))
    assert text.count(" fails") == 20
    assert "- … and 280 more" in text


def test_a_prompt_about_refused_work_ends_with_what_the_agent_may_do():
    """AL-5, AL-6: a request to end is answered with the reason."""
    failed = Verification(commit="c", results=(CheckResult(name="make", verdict="fail", exit_code=1),))
    texts = [failure_prompt(failed).splitlines(), failure_prompt(failed, asked_for_end=True).splitlines()]
    assert [text[-3] for text in texts] == [f"- {GIVE_UP}"] * 2
    assert [(text[0], text[-1]) for text in texts] == snapshot(
        [
            ("The work was checked and does not pass yet.", "Say so when you are done."),
            (
                "You asked to stop, but the work does not pass. The work was checked and does not pass yet.",
                "Say so when you are done.",
            ),
        ]
    )


def test_many_facts_of_others_do_not_push_out_what_fails():
    """AL-9: each has a remedy of its own."""
    failed = CheckResult(name="make api", verdict="fail", exit_code=1, detail=f"Expected exit code 0.\n{END}")
    broken = [each for n in range(300) for each in refusals_by_others(f"fact_{n}", f"action-{n}", [failed])]
    text = describe_refusals(broken)
    assert len(text) <= FAILURES_CHARS
    assert text.startswith("It breaks what `action-0` had shown (fact_0).")
    assert END in text
    assert "more problems:\n- It breaks what `action-" in text
    assert text.endswith(GIVE_UP)


def test_an_agent_that_may_change_nothing_is_told_what_fails_alone():
    """SC-7: a reviewer."""
    failed = CheckResult(name="make", verdict="fail", exit_code=1, detail=f"Expected exit code 0.\n{END}")
    text = describe_failed_checks(Verification(commit="c", results=(failed,)))
    assert text == snapshot("""\
The check `make` failed. Expected exit code 0.
The end of its output:
the end of a long output\
""")


def test_the_first_failure_is_named_where_its_introduction_ends():
    """DR-9: a line of notes about a failed step names the test, not only that there is one."""
    reason = "failed: the tests:\n1 test is worse:\n\n  - test_b fails: assert 0\n  - test_c fails"
    assert first_failure(reason) == snapshot("failed: the tests: 1 test is worse: - test_b fails: assert 0")
    assert [first_failure(each) for each in ("one\ntwo", "only:", "")] == ["one", "only:", ""]
