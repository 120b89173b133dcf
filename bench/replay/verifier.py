"""Judge public patches with a recorded verdict: which are stopped, which land, and with what strength of evidence.

`bench/verifier --data FILE --repos DIR [--level LEVEL]... [--instances ID]... [--limit N]`: results are appended to
`--results`, and a second call goes on with them. No model is used.
"""

import argparse
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from replay.instances import Instance, Patch, Problem, files_tested, read_problems
from replay.levels import (
    LEVELS,
    Level,
    NotHereError,
    Official,
    Target,
    commit_submitted,
    existing_target,
    official,
    passes,
    strengthened,
)
from replay.oracle import DoesNotApplyError, run_tests
from replay.place import WORK, Place, SetupFailedError, find_source, prepare
from replay.results import Deadline, Results, TimeIsUpError
from replay.trial import Contract, Work, replay
from replay.verifier_table import Judged, NotCounted, OwnRun, Stored, told, verifier_summary

HERE = Path(__file__).parent


class Environment(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the tests of some versions of a project are run here."""

    name: str
    repo: str
    versions: tuple[str, ...] = ()
    """Of the instances; empty for all."""
    setup: tuple[str, ...]
    at: str = "HEAD"
    """The commit at which `setup` runs."""
    gate: str = ""
    """The test gate, if the whole suite takes too long: `{files}` are the instance's test files."""


def main(argv: Sequence[str]) -> int:
    """Judge what is not in the results yet, and print the tables."""
    asked = _parser().parse_args(argv)
    environments = msgspec.convert(tomllib.loads(asked.environments.read_text())["environment"], list[Environment])
    results: Results[Stored] = Results(asked.results, Stored)
    problems = [
        each for each in read_problems(asked.data) if not asked.instances or each.instance.id in asked.instances
    ]
    left, deadline = asked.limit, Deadline(asked.minutes)
    for problem in problems if not asked.table else ():
        bench = ProblemBench(problem, asked, results, deadline)
        try:
            bench.open(_environment(problem.instance, environments))
            left -= bench.judge(asked.level or LEVELS, left)
        except (NotHereError, SetupFailedError) as why:
            bench.note(str(why))
        except TimeIsUpError:
            sys.stderr.write("the time is up; the same command goes on\n")
            break
        if left <= 0:
            break
    sys.stdout.write(
        f"{verifier_summary(results.lines, {each.instance.id: each.instance.repo for each in problems})}\n"
    )
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="bench/verifier", description="Judge patches with a recorded verdict.")
    parser.add_argument("--data", type=Path, required=True, help="JSON lines of instances and patches, gzip or not")
    parser.add_argument("--repos", type=Path, required=True, help="folder of local clones")
    parser.add_argument("--level", action="append", choices=LEVELS, help="levels of contract; all without one")
    parser.add_argument("--instances", nargs="*", default=[], metavar="ID", help="only these")
    parser.add_argument("--limit", type=int, default=10**9, help="at most so many patches, counted once a level")
    parser.add_argument("--patches", type=int, default=10**9, help="at most so many right and so many wrong of each")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="start nothing more after so many")
    parser.add_argument("--environments", type=Path, default=HERE / "environments.toml", help="how tests are run")
    parser.add_argument("--work", type=Path, default=WORK, help="where clones and environments are made")
    parser.add_argument("--results", type=Path, default=Path(".bench/verifier.jsonl"), help="where results are kept")
    parser.add_argument("--table", action="store_true", help="judge nothing, print the tables of the results")
    return parser


def _environment(instance: Instance, environments: Sequence[Environment]) -> Environment:
    for each in environments:
        if each.repo == instance.repo and (not each.versions or instance.version in each.versions):
            return each
    raise NotHereError(f"no environment for {instance.repo} {instance.version}")


class ProblemBench:
    """One instance: its patches are judged at each level, and run by ourselves once."""

    def __init__(
        self, problem: Problem, asked: argparse.Namespace, results: "Results[Stored]", deadline: Deadline
    ) -> None:
        self._problem = problem
        self._instance = problem.instance
        self._asked = asked
        self._results = results
        self._deadline = deadline
        self._known: Official | None = None
        self._last_base = ""
        mine = [line for line in results.lines if line.instance == problem.instance.id]
        self._done = {(line.hash, line.level) for line in mine if isinstance(line, Judged)}
        self._own = {line.hash: line for line in mine if isinstance(line, OwnRun)}

    def open(self, environment: Environment) -> None:
        """Make the clone and its dependencies, once for all instances of an environment."""
        source = find_source(self._asked.repos, environment.repo)
        if source is None:
            raise NotHereError(f"{self._asked.repos} has no clone of {environment.repo}")
        folder = self._asked.work.resolve() / environment.name
        setup = [command.replace("{here}", str(HERE)) for command in environment.setup]
        self._environment = environment
        self._place: Place = prepare(folder, source.resolve(), setup, at=environment.at)

    def judge(self, levels: Sequence[Level], most: int) -> int:
        """Judge at most so many patches; return how many were."""
        judged = 0
        for level in levels:
            todo = [patch for patch in self._patches() if (patch.hash, level) not in self._done][: most - judged]
            target = self._target(level) if todo else None
            for patch in todo if target else ():
                self._deadline.check()
                line = self._judged(patch, level, target)
                self._results.add(line)
                sys.stderr.write(f"{told(line)}\n")
                judged += 1
        return judged

    def note(self, why: str) -> None:
        """Record that the instance does not count here."""
        self._results.add(NotCounted(instance=self._instance.id, why=why))
        sys.stderr.write(f"{self._instance.id} does not count here: {why}\n")

    def _patches(self) -> Iterator[Patch]:
        """Yield the patches to judge: of those recorded as right, as wrong and as either, at most so many each."""
        count: dict[bool | None, int] = {}
        for patch in self._problem.patches:
            count[patch.recorded] = count.get(patch.recorded, 0) + 1
            if count[patch.recorded] <= self._asked.patches:
                yield patch

    def _official(self) -> Official:
        if self._known is None:
            self._known = official(self._instance, self._place)
        return self._known

    def _target(self, level: Level) -> Target | None:
        """Return the target of a level; None if the instance has none there."""
        known = self._official()
        match level:
            case "official":
                return known.target
            case "existing":
                try:
                    return existing_target(self._instance, self._place)
                except NotHereError as why:
                    sys.stderr.write(f"{self._instance.id}: {why}\n")
                    return None
            case "strengthened":
                right = [patch for patch in self._problem.patches if self._own_run(patch).right]
                target = strengthened(self._instance, known, right, self._place)
                return None if target == known.target else target

    def _own_run(self, patch: Patch) -> OwnRun:
        """Return what our own run of the official tests says of a patch."""
        if patch.hash not in self._own:
            known = self._official()
            right, why = False, ""
            try:
                outcomes = run_tests(self._place, commit_submitted(patch, known.target, self._place), known.files)
                failing = [name for name in known.target.tests if not passes(outcomes, [name])]
                right, why = not failing, ", ".join(failing[:5])
            except DoesNotApplyError as failed:
                why = f"it does not apply: {failed}"
            self._own[patch.hash] = OwnRun(instance=self._instance.id, hash=patch.hash, right=right, why=why)
            self._results.add(self._own[patch.hash])
        return self._own[patch.hash]

    def _judged(self, patch: Patch, level: Level, target: Target) -> Judged:
        own, place = self._own_run(patch), self._place
        try:
            commit = commit_submitted(patch, target, place)
        except DoesNotApplyError as failed:
            return self._line(patch, level, ending=None, note=f"it does not apply: {failed}", own=own)
        files = place.git("diff", "--no-renames", "--name-only", "-z", target.base, commit).split("\0")[:-1]
        work = Work(
            task=f"Solve {self._instance.id}.",
            base=target.base,
            patch=place.git_bytes("diff", "--binary", "--full-index", "--no-renames", target.base, commit),
            files=tuple(files),
            contract=Contract(commands=(target.check,)),
            settings=self._settings(),
        )
        # Patches of one base share its baseline, as the actions of a run do.
        keep, self._last_base = self._last_base == target.base, target.base
        return self._line(patch, level, ending=replay(work, place, keep=keep), note="", own=own)

    def _line(self, patch: Patch, level: Level, **fields: Any) -> Judged:
        return Judged(
            instance=self._instance.id, hash=patch.hash, level=level, recorded=patch.recorded, by=patch.by, **fields
        )

    def _settings(self) -> Mapping[str, Any]:
        if not self._environment.gate:
            return {}
        gate = self._environment.gate.format(files=" ".join(files_tested(self._instance)))
        return {"quality_gates": {"test": gate, "build": "off", "lint": "off", "typecheck": "off"}}
