"""How often done is wrong, and honest work refused: commits of public projects, and wrong changes made of them.

`bench/error_rate --repos DIR [--minutes N] [--only PROJECT...]`: results are appended to `--results`, and a second call
goes on with them; `--judged` adds the results of `bench/verifier`. No model is used.
"""

import argparse
import sys
import time
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random  # noqa: TID251 - handed a seed, so that each run makes the same changes

import msgspec
from msgspec import Struct

from replay.commits import Change, Wanted, contract_of, find_changes, patch_of
from replay.history import Project
from replay.mutants import KINDS, Kind, Variant, commit_of, variants_of
from replay.oracle import TIMEOUT_S, passes_by_itself
from replay.place import WORK, Place, SetupFailedError, find_source, prepare
from replay.results import Deadline, Results, TimeIsUpError, interval, share, table
from replay.trial import Ending, Work, replay
from replay.verifier_table import LANDED, Judged, NotCounted, Stored

HERE = Path(__file__).parent
SLOWER = 10
LEAST_S = 30.0
"""A suite that takes so much longer than when it passed last, and at least that, hangs: a wrong change may loop."""
TRIED = 4
"""How many candidates are tried for each wrong change: those that pass the project's own tests do not count."""


class Measured(Struct, frozen=True, kw_only=True, tag="measured"):
    """A change, whether the project's own tests pass with it, and what Scaffold made of it."""

    project: str
    commit: str
    kind: Kind
    where: str
    right: bool | None
    """None if that cannot be told: the commit itself failed beside it, so the suite did not run here."""
    ending: Ending | None
    """None if it was not judged: a change made to be wrong that the project's tests do not see."""


Line = Measured | NotCounted | Stored


def main(argv: Sequence[str]) -> int:
    """Judge what is not in the results yet, and print the table and the sentence."""
    asked = _parser().parse_args(argv)
    projects = msgspec.convert(tomllib.loads(asked.projects.read_text())["project"], list[Project])
    results: Results[Line] = Results(asked.results, Line)
    deadline = Deadline(asked.minutes)
    benches = [
        ProjectBench(each, asked, results, deadline) for each in projects if not asked.only or each.repo in asked.only
    ]
    try:
        for number in range(0 if asked.table else asked.commits):
            for bench in benches:  # by turns, so that a run that is stopped has something of each project
                bench.judge_commit(number)
    except TimeIsUpError:
        sys.stderr.write("the time is up; the same command goes on\n")
    more = [line for path in asked.judged for line in Results(path, Line).lines]
    sys.stdout.write(f"{error_rate([*results.lines, *more])}\n")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="bench/error_rate", description="Measure how often done is wrong.")
    parser.add_argument("--repos", type=Path, required=True, help="folder of local clones")
    parser.add_argument("--projects", type=Path, default=HERE / "projects.toml", help="which projects, and how")
    parser.add_argument("--only", nargs="*", default=[], metavar="PROJECT", help="only these")
    parser.add_argument("--commits", type=int, default=6, help="of each project, the newest first")
    parser.add_argument("--wrong", type=int, default=2, help="wrong changes of each kind and commit")
    parser.add_argument("--seed", type=int, default=1, help="which wrong changes are made")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="start nothing more after so many")
    parser.add_argument("--work", type=Path, default=WORK, help="where clones and environments are made")
    parser.add_argument("--results", type=Path, default=Path(".bench/error-rate.jsonl"), help="where results are kept")
    parser.add_argument("--judged", nargs="*", type=Path, default=[], help="results of bench/verifier, counted too")
    parser.add_argument("--table", action="store_true", help="judge nothing, print the tables of the results")
    return parser


class ProjectBench:
    """One project: its commits are judged one by one, each with the wrong changes made of it."""

    def __init__(
        self, project: Project, asked: argparse.Namespace, results: "Results[Line]", deadline: Deadline
    ) -> None:
        self._project = project
        self._asked = asked
        self._results = results
        self._deadline = deadline
        self._place: Place | None = None
        self._changes: list[Change] = []
        self._last_base = ""
        self._limit_s = 0.0
        """0 until the suite passed."""

    def judge_commit(self, number: int) -> None:
        """Judge a commit and its wrong changes; does nothing if there is no such commit."""
        name = self._project.repo
        try:
            place = self._place or self._open()
            if number >= len(self._changes):
                return
            change = self._changes[number]
            name = f"{self._project.repo} {change.commit[:9]}"
            if any(isinstance(line, NotCounted) and line.instance == name for line in self._results.lines):
                return
            variants = variants_of(change, place, Random(f"{self._asked.seed} {change.commit}"))
            if self._measured(variants["gold"][0], change, place, name) is False:
                for kind in KINDS[1:]:
                    self._judge_kind(variants[kind], change, place)
        except SetupFailedError as why:
            self._note(name, str(why))

    def _open(self) -> Place:
        project, asked = self._project, self._asked
        source = find_source(asked.repos, project.repo)
        if source is None:
            raise SetupFailedError(f"{asked.repos} has no clone of it")
        folder = asked.work.resolve() / project.repo.replace("/", "__")
        self._place = prepare(folder, source.resolve(), project.setup, at=project.at)
        wanted = Wanted(tested=asked.commits, untested=0, removals=0, configuration=0)
        self._changes = find_changes(self._place, project.revisions, wanted)
        return self._place

    def _note(self, name: str, why: str) -> None:
        if not any(isinstance(line, NotCounted) and line.instance == name for line in self._results.lines):
            self._results.add(NotCounted(instance=name, why=why))
            sys.stderr.write(f"{name} does not count here: {why}\n")

    def _measured(self, gold: Variant, change: Change, place: Place, name: str) -> bool | None:
        """Judge the commit itself, if it counts here; return False once it is judged, None if it does not count."""
        if not self._known(gold, change):
            if not any(self._passes(change.commit, place) for _ in range(2)):  # a suite may fail by chance
                return self._note(name, "the commit does not pass its own tests here")
            alone = commit_of(Variant(kind="tests alone", where=""), change, place)
            if self._passes(alone, place):
                return self._note(name, "its tests pass without its code")
            self._judge(gold, change, place)
        return False

    def _judge_kind(self, candidates: Sequence[Variant], change: Change, place: Place) -> None:
        """Judge the first candidates that the project's own tests see to be wrong."""
        wrong = 0
        for variant in candidates[: TRIED * self._asked.wrong]:
            if wrong == self._asked.wrong:
                break
            line = self._known(variant, change) or self._judge(variant, change, place)
            wrong += line.right is False

    def _known(self, variant: Variant, change: Change) -> Measured | None:
        same = (self._project.repo, change.commit, variant.kind, variant.where)
        lines = (line for line in self._results.lines if isinstance(line, Measured))
        return next((line for line in lines if (line.project, line.commit, line.kind, line.where) == same), None)

    def _judge(self, variant: Variant, change: Change, place: Place) -> Measured:
        self._deadline.check()
        commit = commit_of(variant, change, place)
        right = variant.kind == "gold" or self._right(commit, change, place)
        ending = self._ending(commit, change, place) if variant.kind == "gold" or right is False else None
        if right is False and ending and ending.outcome in LANDED and self._right(commit, change, place) is not False:
            right = None  # its tests failed by chance
        line = Measured(
            project=self._project.repo,
            commit=change.commit,
            kind=variant.kind,
            where=variant.where,
            right=right,
            ending=ending,
        )
        self._results.add(line)
        sys.stderr.write(f"{told(line)}\n")
        return line

    def _right(self, commit: str, change: Change, place: Place) -> bool | None:
        """Return what the project's own tests say of a made change; the commit beside it has to pass them again."""
        if not self._limit_s and not self._passes(change.commit, place):
            return None
        if self._passes(commit, place):
            return True
        return False if self._passes(change.commit, place) else None

    def _passes(self, commit: str, place: Place) -> bool:
        """Return whether the project's own tests pass on a commit."""
        began = time.monotonic()
        passed = passes_by_itself(place, commit, [self._project.whole], limit_s=self._limit_s or TIMEOUT_S)
        if passed:
            self._limit_s = max(LEAST_S, SLOWER * (time.monotonic() - began))
        return passed

    def _ending(self, commit: str, change: Change, place: Place) -> Ending:
        files = place.git("diff", "--no-renames", "--name-only", "-z", change.base, commit).split("\0")[:-1]
        work = Work(
            task=change.subject,
            base=change.base,
            patch=patch_of(place, change.base, commit),
            files=tuple(files),
            contract=contract_of(change, focused=self._project.focused, whole=self._project.whole),
        )
        keep, self._last_base = self._last_base == change.base, change.base
        return replay(work, place, keep=keep)


def told(line: Measured) -> str:
    """Return one line about a change."""
    ending = line.ending
    unseen = "passes the project's tests" if line.right else "the commit beside it fails"
    outcome = ending.outcome if ending else f"{unseen}, not counted"
    why = " ".join((ending.reason or "; ".join(ending.doubts)).split())[:200] if ending else ""
    return f"{line.project} {line.commit[:9]} {line.kind}: {outcome}  {line.where[:80]}  {why}"


def error_rate(lines: Sequence[Line]) -> str:
    """Return the table, each change that ended otherwise than it should, and the sentence."""
    rows = [row for line in lines for row in _counted(line)]
    groups = sorted({(project, kind) for project, kind, *_ in rows})
    outcomes = ("proven", "reviewed", "unchanged", "weak", "refused", "not judged")
    cells = [
        (
            *group,
            *(sum(row[:2] == group and row[3] == outcome.replace(" ", "_") for row in rows) for outcome in outcomes),
        )
        for group in groups
    ]
    by_kind = Counter((kind, outcome.replace("_", " ")) for _, kind, _, outcome, _ in rows)
    kinds = [
        ("all", kind, *(by_kind[kind, outcome] for outcome in outcomes)) for kind in sorted({g[1] for g in groups})
    ]
    against = [text for *_, right, outcome, text in rows if outcome != "not_judged" and right != (outcome in LANDED)]
    return "\n".join(
        [table(("project", "kind", *outcomes), [*cells, *kinds]), "Otherwise than it should:", *against, sentence(rows)]
    )


def sentence(rows: Sequence[tuple[str, str, bool, str, str]]) -> str:
    """Return what is published: of the changes that were judged, how many ended wrongly, with the interval."""
    judged = [row for row in rows if row[3] in {*LANDED, "refused"}]
    wrong, right = [row for row in judged if not row[2]], [row for row in judged if row[2]]
    proven = sum(row[3] == "proven" for row in wrong)
    refused = sum(row[3] == "refused" for row in right)
    return (
        f"done was wrong in {share(proven, len(wrong))} wrong changes, {interval(proven, len(wrong))}; "
        f"honest work was refused in {share(refused, len(right))} right ones, {interval(refused, len(right))}"
    )


def _counted(line: Line) -> Iterator[tuple[str, str, bool, str, str]]:
    """Yield the project, the kind, whether it is right, the outcome and a text of what was judged."""
    if isinstance(line, Measured) and line.ending and line.right is not None:
        yield line.project, line.kind, line.right, line.ending.outcome, told(line)
    if isinstance(line, Judged) and line.level == "official" and line.outcome != "not_judged":
        project = line.instance.rpartition("-")[0].replace("__", "/")
        kind = f"submitted, {'right' if line.right else 'wrong'}"
        yield project, kind, line.right, line.outcome, f"{line.instance} {line.hash[:8]}: {line.outcome}"
