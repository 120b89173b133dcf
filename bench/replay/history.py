"""Replay commits of public projects as the honest work of an agent, and count what is refused or marked weak.

`bench/history --repos DIR [--results FILE] [PROJECT...]`: DIR has local clones; the projects are those of a TOML file
(`--projects`), each with the commands that install what it needs.
"""

import argparse
import queue
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median

import msgspec
from msgspec import Struct

from replay.commits import REMOVALS, Change, Wanted, contract_of, find_changes, is_code, is_test, patch_of, read_change
from replay.oracle import passes_by_itself
from replay.place import WORK, Place, SetupFailedError, find_source, prepare
from replay.results import Results, share, table
from replay.trial import Contract, Ending, Outcome, Work, replay

HERE = Path(__file__).parent
OUTCOMES: tuple[Outcome, ...] = ("proven", "reviewed", "unchanged", "weak", "refused", "broken", "not_judged")
UNCOUNTED: frozenset[Outcome] = frozenset({"broken", "not_judged"})


class Project(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a project is replayed."""

    repo: str
    """`owner/name`."""
    setup: tuple[str, ...]
    """Commands that install its dependencies in a clone, into `.venv` or `node_modules`."""
    focused: str
    """The check of a commit that touches tests; `{files}` are these."""
    whole: str
    """The check of a commit that touches none."""
    revisions: str = "HEAD"
    """As `git rev-list` takes them."""
    at: str = "HEAD"
    """The commit at which `setup` runs."""
    tested: int = 7
    untested: int = 2
    removals: int = 4
    configuration: int = 1
    """How many commits are replayed, as `Wanted` says."""
    commits: tuple[str, ...] = ()
    """Further commits."""


class Replayed(Struct, frozen=True, kw_only=True):
    """A commit and how its replay ended."""

    project: str
    commit: str
    subject: str
    kinds: tuple[str, ...]
    files: tuple[str, ...]
    contract: Contract
    ending: Ending
    same_tree: bool | None = None
    """Whether what landed is exactly the commit's tree; None if nothing landed."""


def main(argv: Sequence[str]) -> int:
    """Replay what is not in the results yet, and print the table; return 1 if a project could not be set up."""
    asked = _parser().parse_args(argv)
    projects = msgspec.convert(tomllib.loads(asked.projects.read_text())["project"], list[Project])
    results = Results(asked.results, Replayed)
    missing = 0
    for project in projects:
        if not asked.table and (not asked.names or project.repo in asked.names):
            try:
                _replay_project(project, asked, results)
            except SetupFailedError as failed:
                missing += 1
                sys.stderr.write(f"{project.repo} does not run here: {failed}\n")
    sys.stdout.write(f"{summary(results.lines)}\n")
    return 1 if missing else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="bench/history", description="Replay real commits as honest work.")
    parser.add_argument("names", nargs="*", metavar="PROJECT", help="owner/name; all of the file without one")
    parser.add_argument("--repos", type=Path, required=True, help="folder of local clones")
    parser.add_argument("--projects", type=Path, default=HERE / "projects.toml", help="which projects, and how")
    parser.add_argument("--work", type=Path, default=WORK, help="where clones and environments are made")
    parser.add_argument("--results", type=Path, default=Path(".bench/history.jsonl"), help="where results are kept")
    parser.add_argument("--commit", action="append", default=[], help="only these commits; one project only")
    parser.add_argument("--limit", type=int, default=10_000, help="at most so many commits of each project")
    parser.add_argument("--jobs", type=int, default=1, help="how many commits at once, each in a clone of its own")
    parser.add_argument("--table", action="store_true", help="replay nothing, print the table of the results")
    return parser


def _replay_project(project: Project, asked: argparse.Namespace, results: "Results[Replayed]") -> None:
    source = find_source(asked.repos, project.repo)
    if source is None:
        raise SetupFailedError(f"{asked.repos} has no clone of it")
    places: queue.SimpleQueue[Place] = queue.SimpleQueue()
    for number in range(asked.jobs):
        folder = asked.work.resolve() / f"{project.repo.replace('/', '__')}-{number}"
        first = prepare(folder, source.resolve(), project.setup, at=project.at)
        places.put(first)
    done = {(line.project, line.commit) for line in results.lines}
    changes = [each for each in _chosen(project, first, asked.commit) if (project.repo, each.commit) not in done]

    def work(change: Change) -> None:
        place = places.get()
        try:
            line = _replayed(project, change, place)
        finally:
            places.put(place)
        results.add(line)
        sys.stderr.write(f"{told(line)}\n")

    with ThreadPoolExecutor(asked.jobs) as pool:
        list(pool.map(work, changes[: asked.limit]))


def _chosen(project: Project, place: Place, only: Sequence[str]) -> Iterator[Change]:
    if only:
        yield from (change for commit in only if (change := read_change(place, commit)))
        return
    wanted = msgspec.convert(project, Wanted, from_attributes=True)
    found = find_changes(place, project.revisions, wanted)
    named = [change for commit in project.commits if (change := read_change(place, commit))]
    yield from {change.commit: change for change in (*found, *named)}.values()


def _replayed(project: Project, change: Change, place: Place) -> Replayed:
    work = Work(
        task=change.subject,
        base=change.base,
        patch=patch_of(place, change.base, change.commit),
        files=change.files,
        contract=contract_of(change, focused=project.focused, whole=project.whole),
    )
    ending = replay(work, place)
    if ending.outcome == "refused":
        ending = _excused(ending, change, work, place, whole=project.whole)
    return Replayed(
        project=project.repo,
        commit=change.commit,
        subject=change.subject,
        kinds=change.kinds,
        files=change.files,
        contract=work.contract,
        ending=ending,
        same_tree=None if ending.landed is None else not place.git("diff", "--stat", ending.landed, change.commit),
    )


def _excused(ending: Ending, change: Change, work: Work, place: Place, *, whole: str) -> Ending:
    """Return the ending of refused work: as it is, or with the commit itself or this machine to blame."""

    def passes(commit: str, *commands: str) -> bool:
        return passes_by_itself(place, commit, commands)

    if passes(change.base, whole) and not passes(change.commit, whole):
        reason = f"it breaks `{whole}` without Scaffold, too; {ending.reason}"
        return msgspec.structs.replace(ending, outcome="broken", reason=reason)
    if not passes(change.commit, *work.contract.commands):
        reason = f"its checks fail here without Scaffold, too; {ending.reason}"
        return msgspec.structs.replace(ending, outcome="not_judged", reason=reason)
    return ending


def told(line: Replayed) -> str:
    """Return one line about a replayed commit."""
    ending = line.ending
    why = " ".join((ending.reason or "; ".join(ending.doubts)).split())[:200]
    times = f"{ending.total_s:5.1f} s, {ending.runners_s:5.1f} s in {len(ending.runs)} checks"
    return f"{line.project} {line.commit[:9]} {ending.outcome:<10} {times}  {line.subject[:60]}  {why}"


def summary(lines: Sequence[Replayed]) -> str:
    """Return the table by project, the shares of all, the reasons, and each commit that did not land."""
    projects = sorted({line.project for line in lines})
    rows = [_counted(name, [line for line in lines if line.project == name]) for name in projects]
    judged = [line for line in lines if line.ending.outcome not in UNCOUNTED]
    count = Counter(line.ending.outcome for line in judged)
    landed, seen = len(judged) - count["refused"], _seen_by_checks(lines)
    weak = sum(line.ending.outcome == "weak" for line in seen)
    shares = f"{share(count['weak'], landed)} of what landed, {share(weak, len(seen))} of what a check can see"
    return "\n".join(
        [
            table(HEADER, [*rows, *_by_kind(lines), _counted("all", lines)]),
            "",
            f"refused: {share(count['refused'], len(judged))}; weak: {shares}",
            f"asked a human: {share(sum(bool(line.ending.asked) for line in judged), len(judged))}",
            *_reasons(judged),
            *(f"ASKED A HUMAN {told(line)}" for line in lines if line.ending.asked),
            *(told(line) for line in lines if line.ending.outcome in {"refused", *UNCOUNTED}),
            *(f"{told(line)} LANDED ANOTHER TREE" for line in lines if line.same_tree is False),
        ]
    )


HEADER = (
    "project or kind",
    "commits",
    *(name.replace("_", " ") for name in OUTCOMES),
    "overhead s",
    "checks",
    "runners s",
)


def _by_kind(lines: Sequence[Replayed]) -> Iterator[tuple[object, ...]]:
    """Yield a row for each kind of commit; those of removals are among the others, too."""
    kinds = [(line, any(map(is_code, line.files)), any(map(is_test, line.files))) for line in lines]
    yield _counted("(code and tests)", [line for line, code, tests in kinds if code and tests])
    yield _counted("(code alone)", [line for line, code, tests in kinds if code and not tests])
    yield _counted("(no code)", [line for line, code, _ in kinds if not code])
    yield _counted("(checks that fail before it)", _seen_by_checks(lines))
    yield _counted("(removals and renames)", [line for line in lines if REMOVALS & set(line.kinds)])


def _seen_by_checks(lines: Sequence[Replayed]) -> list[Replayed]:
    return [line for line in lines if line.ending.landed and not _passes_without_work(line.ending)]


def _passes_without_work(ending: Ending) -> bool:
    """Return whether no check could tell the commit from its base, as for changes of types, style or releases."""
    doubted = any(doubt.startswith("passes_without_work") for doubt in ending.doubts)
    return ending.outcome == "unchanged" or doubted


def _counted(name: str, lines: Sequence[Replayed]) -> tuple[object, ...]:
    """Return a row; the last three are medians over the commits that landed."""
    count = Counter(line.ending.outcome for line in lines)
    landed = [line.ending for line in lines if line.ending.landed]
    medians = (
        [
            f"{median(each.total_s - each.runners_s for each in landed):.1f}",
            f"{median(len(each.runs) for each in landed):g}",
            f"{median(each.runners_s for each in landed):.1f}",
        ]
        if landed
        else ["-"] * 3
    )
    return (name, len(lines), *(count[outcome] for outcome in OUTCOMES), *medians)


def _reasons(lines: Sequence[Replayed]) -> Iterator[str]:
    """Yield how often each kind of doubt was raised."""
    count = Counter(doubt.partition(":")[0] for line in lines for doubt in line.ending.doubts)
    yield from (f"  {number} x {code}" for code, number in count.most_common())
