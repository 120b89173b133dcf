"""When two failures are the same, what follows from one, and the answers of humans."""

import pytest

from builders import an_action, an_attempt
from scaffold.plan.failures.answers import (
    ANSWERS,
    KILL,
    WAIT,
    ChosenAnswer,
    choices_text,
    chosen_answer,
    extension_s,
    reserve_s,
)
from scaffold.plan.failures.escalation import ESCALATION_TEXT, FailureHistory, next_escalation
from scaffold.plan.failures.fingerprint import ShownFailure, failure_fingerprint
from scaffold.plan.failures.recurrence import first_same

PYTEST = """
tmp_path = PosixPath('/tmp/pytest-of-{user}/pytest-{n}/test_add0')
>       assert add(1, 2) == 3, tmp_path
E       AssertionError: PosixPath('/tmp/pytest-of-{user}/pytest-{n}/test_add0')
E       assert -1 == 3
E        +  where -1 = add(1, 2)

test_a.py:{n}: AssertionError
=========================== short test summary info ============================
FAILED test_a.py::test_add - AssertionError: PosixPath('/tmp/pytest-of-{user}/p...
1 failed, {n} passed in {n}.24s
"""
GO_TEST = """--- FAIL: TestAdd (0.{n}s)
    a_test.go:{n}: Add(1, 2) = -1, want 3
--- FAIL: TestBoom (0.00s)
panic: runtime error: index out of range [4] with length 0 [recovered]
goroutine {n} [running]:
testing.tRunner.func1.2({{0x518a00, 0xc0000d00{n}}})
\t/home/{user}/go/a_test.go:{n} +0x1a
FAIL\ta\t0.0{n}s
"""
GO_BUILD = "# a [a.test]\n./b.go:{n}:25: undefined: Sum\nFAIL\ta [build failed]\n"
TSC = "src/store.ts({n},5): error TS2322: Type 'string' is not assignable to type 'number'.\n"
ESLINT = """
/home/{user}/work/src/store.js
  {n}:7  error  'total' is assigned a value but never used  no-unused-vars

✖ 1 problem (1 error, 0 warnings)
"""
CARGO = """running 1 test
test adds ... FAILED

---- adds stdout ----
thread 'adds' ({n}) panicked at src/lib.rs:{n}:13:
assertion `left == right` failed
  left: -1
 right: 3
             at /rustc/59807616e1fa2540724bfbac14d7976d7e4a3860/library/std/src/panicking.rs:{n}:5
test result: FAILED. {n} passed; 1 failed; 0 ignored; finished in 0.{n}s
"""
RUSTC = "error[E0382]: borrow of moved value: `s`\n --> src/main.rs:{n}:60\n  |\n{n} | fn main() {{ drop(s) }}\n"
NODE = """/home/{user}/b.js:{n}
function f(x) {{ return x.y.z; }}
TypeError: Cannot read properties of undefined (reading 'z')
    at f (/home/{user}/b.js:{n}:28)

Node.js v20.20.2
"""
NODE_TEST = """TAP version 13
not ok {n} - adds
  ---
  duration_ms: {n}.268983
  location: '/home/{user}/a.test.js:{n}:1'
  code: 'ERR_ASSERTION'
  expected: 3
  actual: -1
"""
GCC = "main.c:{n}:5: error: 'x' undeclared (first use in this function)\nmake: *** [Makefile:{n}: all] Error 1\n"
OUTPUTS = {
    "pytest": (PYTEST, "assert -1 == 3", "assert -2 == 3"),
    "go test": (GO_TEST, "= -1, want 3", "= 0, want 3"),
    "go build": (GO_BUILD, "Sum", "Product"),
    "tsc": (TSC, "TS2322", "TS2345"),
    "eslint": (ESLINT, "'total'", "'count'"),
    "cargo": (CARGO, "left: -1", "left: 0"),
    "rustc": (RUSTC, "`s`", "`t`"),
    "node": (NODE, "reading 'z'", "reading 'y'"),
    "node --test": (NODE_TEST, "adds", "subtracts"),
    "gcc": (GCC, "'x' undeclared", "'y' undeclared"),
}


def fingerprint(output):
    """Return the fingerprint of one failed check that printed this, as attempts have it."""
    return failure_fingerprint(ShownFailure("pytest fail", output))


def test_the_outputs_of_programs_are_recognised_when_they_recur():
    """AL-19: whatever their line numbers, durations, folders and ids; another failure differs."""
    for name, (output, told, other) in OUTPUTS.items():
        before, after = output.format(n=12, user="ada"), output.format(n=47, user="bob/deeper")
        assert told in before, name
        assert fingerprint(before) == fingerprint(after) != "", name
        assert fingerprint(before) != fingerprint(before.replace(told, other)), name


def test_what_differs_each_time_does_not_count():
    """AL-19."""
    pairs = (
        ("connection to localhost:49152 refused", "connection to localhost:50001 refused"),
        ("started 2026-01-02T03:04:05Z, lost", "started 2027-11-12T13:14:15Z, lost"),
        ("at 0xdeadbeef", "at 0x12"),
        ("commit abcdef0123 is gone", "commit 99aabbcc77 is gone"),
        ("item 123e4567-e89b-12d3-a456-426614174000", "item 00000000-e89b-12d3-a456-426614174001"),
        ("\x1b[31mERROR\x1b[0m it failed in 3.2s", "ERROR it failed in 310 ms"),
        ("cannot open /tmp/tmpab12cd34/x.txt", "cannot open /var/folders/q/tmpzz99yy88/x.txt"),
        ("not finished after 300 s", "not finished after 450 s"),
    )
    assert [pair for pair in pairs if fingerprint(pair[0]) != fingerprint(pair[1])] == []


def test_other_failures_differ():
    """AL-19: what was expected and found counts, too."""
    pairs = (
        ("assert 200 == 500", "assert 200 == 404"),
        ("FAILED tests/test_a.py::test_x", "FAILED tests/test_b.py::test_x"),
        ("no such file: src/a.py", "no such file: src/b.py"),
        ("KeyError: 'a'", "ValueError: 'a'"),
    )
    assert [pair for pair in pairs if fingerprint(pair[0]) == fingerprint(pair[1])] == []


def test_the_order_of_tests_and_what_others_print_do_not_count():
    """AL-19: of an output with lines that say what is wrong, only these count."""
    one = "collecting\nFAILED test_a.py::test_x - KeyError: 1\nFAILED test_b.py::test_y - OSError\n3 passed"
    other = "FAILED test_b.py::test_y - OSError\nother noise\nFAILED test_a.py::test_x - KeyError: 1\n9 passed"
    assert fingerprint(one) == fingerprint(other)
    assert failure_fingerprint(ShownFailure("a", "x"), ShownFailure("b", "y")) == failure_fingerprint(
        ShownFailure("b", "y"), ShownFailure("a", "x")
    )


def test_printing_the_failure_of_another_check_does_not_make_it_the_same():
    """AL-19: an agent may print what it likes."""
    printed = "FAILED test_a.py::test_x"
    assert failure_fingerprint(ShownFailure("pytest fail", printed)) != failure_fingerprint(
        ShownFailure("make lint fail", printed)
    )


def test_any_bytes_are_compared_in_little_time():
    """AL-19: ten megabytes, binary, and nothing at all."""
    silent = {failure_fingerprint(ShownFailure("", output)) for output in ("", " \n\t", "\x00\x07")}
    assert silent == {failure_fingerprint()} == {""}
    long = "x" * 10_000_000
    assert fingerprint(long) == fingerprint(long + "x") != ""
    assert fingerprint("\udc80\xff\x00 a") == fingerprint("\udc80\xff a")


def history(*fingerprints, **changes):
    return FailureHistory(**{"fingerprints": fingerprints, "limit": 3, **changes})


def test_each_failure_leads_one_rung_further():
    """AL-19, SC-20, BX-12: the fourth attempt needs something new, and only a human grants a fifth."""
    rungs = {
        history("a"): "again",
        history("a", "b"): "again",
        history("a", "a"): "alternative",
        history("a", "b", "a"): "alternative",
        history("", ""): "again",
        history("a", "a", "a", alternatives=1): "smaller",
        history("a", "b", "b"): "alternative",
        history("a", "b", "b", tried=False): "smaller",
        history("a", "b", "c"): "smaller",
        history("a", "b", "c", learning=True): "learning",
        history("a", "a", "a", alternatives=1, learning=True): "learning",
        history("a", "b", "b", "b", extra=1, alternatives=1, learning=True): "smaller",
        history("a", "b", "b", "b", learning=True): "smaller",
        history("a", permanent=True, learning=True): "smaller",
        history("a", limit=1, may_exceed=False, learning=True): "smaller",
        history("a", "a", extra=1, limit=1): "smaller",
    }
    assert {seen: next_escalation(seen, replans_left=3, planner=True) for seen in rungs} == rungs


def test_without_a_planner_or_replans_the_last_rung_is_another():
    """BX-12: a human decides when the planner found no way; a plan that was given is final."""
    spent = history("a", "a", "a", alternatives=1)
    assert next_escalation(spent, replans_left=0, planner=True) == "human"
    assert next_escalation(spent, replans_left=0, planner=False) == "failed"


def test_work_that_changed_what_it_may_not_has_no_further_attempt():
    """AL-9, AL-19: no other approach, no learning, no smaller actions; a human decides, or the plan has failed."""
    refused = history("a", refused=True, learning=True)
    assert next_escalation(refused, replans_left=3, planner=True) == "human"
    assert next_escalation(refused, replans_left=3, planner=False) == "failed"


def test_the_ladder_has_six_rungs():
    """AL-19."""
    assert {*ESCALATION_TEXT} == {"again", "alternative", "learning", "smaller", "human", "failed"}


def test_an_answer_begins_with_one_of_the_choices():
    """AL-19."""
    answers = {
        "retry": ChosenAnswer("retry"),
        " Retry: use the other parser ": ChosenAnswer("retry", "use the other parser"),
        "fail": ChosenAnswer("fail"),
        "retries": None,
        "": None,
        "no idea": None,
    }
    choices = {"retry": "again", "fail": "not"}
    assert {text: chosen_answer(choices, text) for text in answers} == answers
    assert choices_text(choices) == "retry  again\nfail   not"
    assert choices_text({}) == ""


def test_a_soft_timeout_leaves_a_reserve_and_each_extension_adds_half_of_the_time():
    """AL-25."""
    assert reserve_s(900, 0.8) == pytest.approx(180)
    assert reserve_s(900, 1) is None
    assert (extension_s(900, 0), extension_s(900, 1), extension_s(900, 3)) == (0, 450, 1350)
    assert {*ANSWERS} == {KILL, WAIT}


def test_an_attempt_is_compared_with_those_before_it():
    """AL-19: the first that failed in this way is named; nothing is equal to nothing."""
    action = an_action("a")
    one, two, three, four = (an_attempt(action, n, fingerprint=f) for n, f in enumerate(("x", "", "x", "x"), 1))
    attempts = (one, two, three, four)
    assert first_same(attempts, four) == first_same(attempts, three) == one
    assert first_same(attempts, one) is first_same(attempts, two) is None
