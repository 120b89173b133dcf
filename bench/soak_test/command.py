"""The command line of `bench/soak`."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from soak_test.soak import SoakResult, SoakSettings, execute

SHOWN = 40


def main(args: Sequence[str]) -> int:
    """Run a soak; print what came of it as one JSON line, and what is wrong; return 1 if anything is."""
    given = _parser().parse_args(args)
    settings = SoakSettings(
        actions=given.actions,
        agents=given.agents,
        goals=given.goals,
        seed=given.seed,
        harm=not given.without_harm and given.once is None,
        database="postgresql" if given.postgresql else "sqlite",
        scale=given.scale,
        limit_s=given.limit_min * 60,
        once=given.once,
    )
    result = execute(settings)
    line = msgspec.json.encode(result).decode()
    print(line, flush=True)
    if given.results:
        with given.results.open("a") as file:
            file.write(f"{line}\n")
    _explain(result)
    return 1 if result.violations else 0


def _explain(result: SoakResult) -> None:
    wrong = result.violations
    say = [*wrong[:SHOWN], f"and {len(wrong) - SHOWN} more"] if len(wrong) > SHOWN else wrong
    head = f"{result.landed} of {result.landing} landed in {result.seconds:.0f} s, {len(wrong)} violations"
    print("\n".join([head, *say]), file=sys.stderr)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="bench/soak", description=__doc__)
    parser.add_argument("--actions", type=int, default=300, metavar="N")
    parser.add_argument("--agents", type=int, default=10, metavar="N", help="how many work at once")
    parser.add_argument("--goals", type=int, default=20, metavar="N")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="decides what is done, and when")
    parser.add_argument("--without-harm", action="store_true", help="honest agents, and nothing happens")
    parser.add_argument("--once", choices=("outage", "quota"), help="no harm but one outage, or one quota, of all")
    parser.add_argument("--postgresql", action="store_true", help="keep the state on a server, not in a file")
    parser.add_argument(
        "--scale",
        type=float,
        default=0.01,
        metavar="F",
        help="how many seconds a second of an outage of 30 minutes, or a quota of an hour, takes (default 0.01)",
    )
    parser.add_argument("--limit-min", type=float, default=60, metavar="N", help="after so long it counts as stuck")
    parser.add_argument("--results", type=Path, metavar="FILE", help="append the result to this file, too")
    return parser
