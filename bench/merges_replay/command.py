"""The command `bench/merges`."""

import argparse
import asyncio
import itertools
import os
import random  # noqa: TID251 - seeded
import sys
import tempfile
from pathlib import Path

from msgspec import Struct
from msgspec.json import encode

from merges_replay.features import as_json, pairs_of, tasks_in
from merges_replay.landings import landed
from merges_replay.replay import Replayed, replay
from scaffold.core.ids import Commit
from scaffold.git.client.command_line import Git

UNIONS = frozenset({"CHANGES", "CHANGES.rst", "CHANGELOG", "CHANGELOG.md", "CHANGELOG.rst", "AUTHORS", "HISTORY.md"})
"""The files that are declared to be unions here, as a project's `landing.union` would."""


class Share(Struct, frozen=True, kw_only=True):
    """How many of what was merged again have a property; most are findings, which no goal says."""

    bench: str
    value: int
    reference: int
    ratio: float
    goal: float | None
    """The largest ratio that is good enough; None where each is."""
    holds: bool


def main(argv: list[str]) -> int:
    """Replay a sample of the merge commits of repositories; print a JSON object for each file and then the rows."""
    parser = argparse.ArgumentParser(prog="bench/merges", description=__doc__)
    parser.add_argument("repositories", nargs="+", type=Path, help="clones, or git directories")
    parser.add_argument("--sample", type=int, default=1000, help="merge commits in all, at random (default 1000)")
    parser.add_argument("--seed", type=int, default=0, help="of the sample")
    parser.add_argument("--files", action="store_true", help="print each file that was in conflict, too")
    parser.add_argument("--features", type=Path, help="a clone of CooperBench: land each two features of its tasks")
    parser.add_argument("--land", metavar="TASK", help="with --features: land those of this task by the real command")
    parser.add_argument("--pairs", nargs="*", default=[], help="with --land: only these, e.g. 1+2")
    asked = parser.parse_args(argv)
    if asked.land:
        return _land_by_command(asked)
    if asked.features:
        return asyncio.run(_land_features(asked))
    replayed = asyncio.run(_replay_all(asked))
    for row in rows(replayed):
        sys.stdout.write(encode(row).decode() + "\n")
    return 0 if all(row.holds for row in rows(replayed)) else 1


def _land_by_command(asked: argparse.Namespace) -> int:
    """Land pairs of one task, print each as it ends, and how many landed without a change by an agent."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for task in tasks_in(asked.features, _clones(asked), Path(folder)):
            pairs = itertools.combinations(sorted(task.features), 2) if asked.land in task.name else ()
            for first, second in pairs:
                if not asked.pairs or f"{first}+{second}".replace("feature", "") in asked.pairs:
                    found.append(landed(task, asked.features, (first, second)))
                    sys.stdout.write(as_json(found[-1]) + "\n")
                    sys.stdout.flush()
    landings = sum(each.how == "queue" for each in found)
    sys.stdout.write(encode(_share("features-landed", landings, len(found))).decode() + "\n")
    return 0


def _clones(asked: argparse.Namespace) -> dict[str, Path]:
    return {place.name.replace("+", "_").replace("-", "_"): place for place in asked.repositories}


async def _land_features(asked: argparse.Namespace) -> int:
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for task in tasks_in(asked.features, _clones(asked), Path(folder)):
            pairs = await pairs_of(task, asked.features, Path(folder))
            found += pairs
            for pair in pairs if asked.files else ():
                sys.stdout.write(as_json(pair) + "\n")
    merged = [each for each in found if each.how != "refused"]
    # What the tests of a feature do not accept never lands: the queue runs them on each merge.
    for row in (
        _share("features-merged-by-git", sum(each.how == "git" for each in found), len(found)),
        _share("features-merged", len(merged), len(found)),
        _share("features-merged-and-refused-by-their-tests", sum(bool(each.failed) for each in merged), len(merged)),
    ):
        sys.stdout.write(encode(row).decode() + "\n")
    return 0


async def _replay_all(asked: argparse.Namespace) -> list[Replayed]:
    found = []
    for place in asked.repositories:
        git = Git(place, environ=os.environ)
        listed = await git("rev-list", "--all", "--min-parents=2", "--max-parents=2")
        found += [(git, place, Commit(line)) for line in listed.line.split()]
    chosen = random.Random(asked.seed).sample(found, min(asked.sample, len(found)))
    replayed = []
    with tempfile.TemporaryDirectory() as folder:
        for git, place, merge in chosen:
            name = next(part for part in reversed(place.resolve().parts) if part not in {"repo", ".git"})
            replayed.append(await replay(git, name, merge, Path(folder), unions=UNIONS))
            if asked.files:
                for verdict in replayed[-1].files:
                    sys.stdout.write(encode(verdict).decode() + "\n")
                sys.stdout.flush()
    return replayed


def rows(replayed: list[Replayed]) -> list[Share]:
    """Return what the sample shows: conflicts that are left, results that are not the human's, lost lines."""
    conflicted = [each for each in replayed if each.conflicted]
    files = [verdict for each in conflicted for verdict in each.files]
    resolved = [each for each in files if each.status == "resolved"]
    # What a human removed or rewrote in the merge itself, no merge can know.
    compared = [each for each in resolved if not each.human_lost]
    return [
        _share("merges-conflicting", len(conflicted), len(replayed)),
        _share("merges-left", sum(not each.landed for each in conflicted), len(conflicted)),
        _share("merges-files-left", len(files) - len(resolved), len(files)),
        _share("merges-files-in-another-order", sum(not each.equal for each in compared), len(compared)),
        _share("merges-files-unlike-human", sum(not each.same_parts for each in compared), len(compared)),
        _share("merges-files-with-lost-lines", sum(bool(each.lost) for each in resolved), len(resolved), goal=0),
        # By lines: functions around those that the other side renamed may be in another order, too.
        _share("merges-files-out-of-order", sum(bool(each.out_of_order) for each in resolved), len(resolved)),
    ]


def _share(bench: str, value: int, of: int, *, goal: float | None = None) -> Share:
    ratio = value / of if of else 0.0
    return Share(
        bench=bench,
        value=value,
        reference=of,
        ratio=float(f"{ratio:.4g}"),
        goal=goal,
        holds=goal is None or ratio <= goal,
    )
