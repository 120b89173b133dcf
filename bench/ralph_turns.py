"""What a tool turn costs in processor time: ask, hear, keep, run the tool, keep - beside the least that could do it."""

import statistics
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from loopback import PYTHON, missing, ours, provider, theirs
from row import Row, medians, row

TURNS = 40
SHORT, LONG = 10, 200
PEERS = ("langgraph", "pydantic")

Sessions = Callable[[int, int, int], Sequence[float]]
"""Port, turns and sessions to processor seconds of each session."""


def rows(*, quick: bool) -> Iterator[Row]:
    """Yield: a turn against a bare loop's, one of a long session against one of a short one, and against the peers'."""
    turns, short, long, rounds = (3, 2, 4, 1) if quick else (TURNS, SHORT, LONG, 5)
    agent, bare = partial(ours, "turns_ours.py"), partial(ours, "turns_bare.py")
    with provider() as there:

        def each(sessions: Sessions, count: int) -> Callable[[], float]:
            return lambda: statistics.median(sessions(there.port, count, 3)) / (count + 1) * 1000

        mine, least, few, many = medians(
            rounds, each(agent, turns), each(bare, turns), each(agent, short), each(agent, long)
        )
        yield row(f"ralph-turn-of-{turns}", mine, least, unit="ms CPU", goal=2.0)
        yield row(f"ralph-turn-of-{long}-against-{short}", many, few, unit="ms CPU", goal=1.5)
        for peer in () if quick else PEERS:
            bench = f"ralph-turn-against-{peer}"
            if not missing(PYTHON, bench):
                mine, other = medians(rounds, each(agent, turns), each(partial(theirs, f"{peer}_turns.py"), turns))
                yield row(bench, mine, other, unit="ms CPU", goal=0.1)
