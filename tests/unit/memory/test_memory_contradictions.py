"""Contradictions are guessed from words; how well is measured on pairs that were written for it."""

from pathlib import Path

from scaffold.memory.notes import contradict

PAIRS = Path(__file__).parents[3] / "bench" / "knowledge" / "sets" / "contradictions.tsv"


def test_nearly_all_contradictions_are_shown_and_few_that_are_none() -> None:
    """RA-6: a number that tells two things apart contradicts nothing."""
    pairs = [line.split("\t") for line in PAIRS.read_text("utf-8").splitlines()]
    shown = {(one, other): contradict(one, other) for _, one, other in pairs}
    missed = [pair for word, *pair in pairs if word == "yes" and not shown[tuple(pair)]]
    wrong = [pair for word, *pair in pairs if word == "no" and shown[tuple(pair)]]
    assert (len(pairs), missed) == (40, [])
    assert len(wrong) <= 2, wrong
