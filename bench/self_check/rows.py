"""Rows of the self-check: for each mistake, the trials in which it was not put right within two replies."""

import asyncio
from collections.abc import Iterator

from row import Row, row
from self_check.mistakes import MISTAKES
from self_check.project import make_project
from self_check.trial import Outcome, run_trial

SEEDS = 5
NOT_RECOVERED = 0.1
"""The largest share that is good enough."""


def outcomes(mistake: str, *seeds: int) -> Iterator[Outcome]:
    """Yield what became of a mistake in each of its trials."""
    for seed in seeds:
        for trial in MISTAKES[mistake](make_project(seed)):
            yield asyncio.run(run_trial(trial))


def rows(*, quick: bool) -> Iterator[Row]:
    """Yield a row for each mistake: failed trials against all of them."""
    for mistake in MISTAKES:
        found = list(outcomes(mistake, *range(1 if quick else SEEDS)))
        failed = sum(not each.recovered for each in found)
        yield row(f"self-check-{mistake}", failed, len(found), unit="trials", goal=NOT_RECOVERED)
