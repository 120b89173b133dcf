"""What counts as a lack of progress, and the next remedy: tables and properties, no clock."""

from hypothesis import example, given
from hypothesis import strategies as st

from scaffold.worker.agent.watchdog import FailedCall, RepeatedFailures, call_fingerprint


def test_durations_do_not_distinguish_failures():
    """BX-12."""
    call = ("shell", {"command": "make"})
    slow, quick = "exit code 1 after 2.3 s\n0x7f12 failed", "exit code 1 after 0.1 s\n0x9aB3 failed".lower()
    assert call_fingerprint(*call, slow) == call_fingerprint(*call, quick)
    others = [
        call_fingerprint("python", {"command": "make"}, slow),
        call_fingerprint("shell", {"command": "make test"}, slow),
        call_fingerprint(*call, "exit code 1 after 2.3 s\nother"),
    ]
    assert len({call_fingerprint(*call, slow), *others}) == 4


def seen(*failures):
    repetition = RepeatedFailures()
    for turn, call, tree in failures:
        repetition = repetition.after(FailedCall(turn=turn, call=call, tree=tree))
    return repetition


@example([(1, "x", "t"), (1, "x", "t"), (2, "y", "t"), (3, "x", "t")])
@example([(1, "x", "t"), (2, "x", "t"), (3, "x", "u")])
@example([(1, "x", "t"), (2, "y", "u"), (3, "x", "t")])
@given(st.lists(st.tuples(st.integers(1, 4), st.sampled_from("xy"), st.sampled_from("tu"))))
def test_a_count_covers_the_turns_since_the_tree_last_changed(failures):
    """BX-12: compared with a one-line definition over the whole history."""
    if failures:
        tree = failures[-1][2]
        last = next((at for at in range(len(failures), 0, -1) if failures[at - 1][2] != tree), 0)
        for call in "xy":
            turns = {turn for turn, name, _ in failures[last:] if name == call}
            assert seen(*failures).times(call) == len(turns)
