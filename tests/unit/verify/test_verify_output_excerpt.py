"""Which lines of a long output are kept."""

from scaffold.verify.output_excerpt import output_excerpt

NOISE = "a line that says nothing\n" * 400
DECIDING = [
    "E       assert 1 == 2",
    "FAILED tests/test_a.py::test_x - assert 1 == 2",
    "--- FAIL: TestAdd (0.00s)",
    "not ok 3 - adds",
    "ModuleNotFoundError: No module named 'shop'",
    "src/a.c:3:1: error: expected ';'",
    "error[E0308]: mismatched types",
    "thread 'main' panicked at src/main.rs:2:5:",
    "make: *** [Makefile:3: test] Error 1",
]


def test_a_short_output_is_kept_whole():
    assert output_excerpt("one\ntwo", 7) == "one\ntwo"


def test_a_deciding_line_stays_wherever_it_is():
    """AL-6: with the end of the output, within the limit."""
    for line in DECIDING:
        shown = output_excerpt(f"{NOISE}{line}\n{NOISE}the end", 1_000)
        assert line in shown, line
        assert shown.endswith("the end"), line
        assert len(shown) <= 1_010, line


def test_the_end_stays_however_many_lines_decide():
    shown = output_excerpt("\n".join(f"FAILED test_{number}" for number in range(1_000)), 1_000)
    assert shown.startswith("…\nFAILED test_0\n")
    assert shown.endswith("FAILED test_999")
    assert len(shown) <= 1_010


def test_an_output_without_deciding_lines_keeps_its_end():
    assert output_excerpt("x" * 5_000 + "end", 100) == "… " + "x" * 97 + "end"
