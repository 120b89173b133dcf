"""Many agents in one process, each waiting for the provider most of the time."""

from collections.abc import Iterator, Mapping
from functools import partial

from loopback import Provider, ours, provider
from row import Row, medians, row

FEW, MANY = 100, 500
REQUESTS = 6
DELAY_MS = 50
AGENT_LIMIT_MB = 0.3


def rows(*, quick: bool) -> Iterator[Row]:
    """Yield: agents against the provider's own time, against a bare client, the memory of one, the provider's load.

    The last shows that it was not the provider that held them up. The memory is that of agents whose conversations are
    kept in the database, too.
    """
    few, many, rounds = (3, 6, 1) if quick else (FEW, MANY, 5)
    with provider() as there:
        agents = partial(_measured, there, "agents_ours.py")
        few_s, many_s, bare_s, memory_mb, idle_s = medians(
            rounds,
            lambda: agents(few, kept=0)["wall_s"],
            lambda: agents(many, kept=0)["wall_s"],
            lambda: _measured(there, "agents_bare.py", many)["wall_s"],
            lambda: agents(many, kept=1)["memory_mb"] / many,
            lambda: float(ours("load.py", there.port, 200 if quick else 5000)),
        )
    ideal_s = REQUESTS * DELAY_MS / 1000
    yield row(f"ralph-{few}-agents", few_s, ideal_s, unit="s", goal=2.0)
    yield row(f"ralph-{many}-agents-against-bare", many_s, bare_s, unit="s", goal=2.0)
    yield row(f"ralph-agent-memory-of-{many}", memory_mb, AGENT_LIMIT_MB, unit="MB", goal=1.0)
    yield row(f"provider-load-by-{many}-agents", many * REQUESTS / bare_s, 1 / idle_s, unit="per s", goal=0.5)


def _measured(there: Provider, script: str, agents: int, **more: int) -> Mapping[str, float]:
    there.forget()
    result: Mapping[str, float] = ours(script, there.port, agents, REQUESTS, DELAY_MS, *more.values())
    if there.received().requests != agents * REQUESTS + 1:
        raise AssertionError(script, there.received())
    return result
