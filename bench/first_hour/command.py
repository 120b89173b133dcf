"""The command line of `bench/hour`."""

import argparse
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import cycle, groupby, product
from pathlib import Path

import msgspec
from msgspec import Struct

from first_hour import checks
from first_hour.place import OURS, Place, Project, projects
from first_hour.recorder import PIPE, Record
from first_hour.steps import Step, before_identity, of_pages, set_up, work
from replay.place import find_source
from scaffold.host.atomic_files import delete_path

WIDTHS = (40, 80, 200)


class Typed(Struct, frozen=True, kw_only=True):
    """A command as it was typed somewhere, and what is wrong with it."""

    page: str
    record: Record
    wrong: dict[str, list[str]]


def main(args: Sequence[str]) -> int:
    """Record the hour; print a line for each project and each fault; return 1 if there are any."""
    given = _parser().parse_args(args)
    if given.table:
        print("\n".join(_table(given.into)))
        return 0
    given.into.mkdir(parents=True, exist_ok=True)
    wrong = 0
    for number, project in enumerate(projects()):
        if project.name not in (given.project or [project.name]):
            continue
        for part in given.part or PARTS:
            wrong += _record(project, part, given, first=number)
    return 1 if wrong else 0


def _record(project: Project, part: str, given: argparse.Namespace, *, first: int) -> int:
    source = find_source(given.repos, project.repo)
    if source is None or shutil.which(project.program) is None:
        missing = "a clone" if source is None else f"the program `{project.program}`"
        print(f"{project.name}: not recorded, without {missing}", flush=True)
        return 0
    name = f"{project.name}-{part}"
    folder = given.into / name
    delete_path(folder)
    place = Place(folder, project, source, programs=given.commands.absolute())
    found = list[Typed]()
    with (given.into / f"{name}.jsonl").open("wb") as file:
        for typed in PARTS[part](place, project, first):
            found.append(typed)
            file.write(msgspec.json.encode(typed) + b"\n")
            file.flush()
            for check, lines in typed.wrong.items():
                for line in lines[:5]:
                    print(f"{name}-{typed.record.columns}: {typed.record.command}: {check}: {line}", flush=True)
    delete_path(folder)
    counts = Counter(check for typed in found for check, lines in typed.wrong.items() if lines)
    seconds = sum(typed.record.seconds for typed in found)
    print(f"{name}: {len(found)} commands in {seconds:.0f} s, wrong: {dict(counts) or 'nothing'}", flush=True)
    return counts.total()


def _tour(place: Place, project: Project, first: int) -> Iterator[Typed]:
    yield from _type(place, [*before_identity(), *set_up(project.settings), *work()], first)


def _pages(place: Place, project: Project, first: int) -> Iterator[Typed]:
    """Type the commands of each block where a plan has landed, as the tests of the pages do."""
    for step in set_up(project.settings):
        place.type(step.in_pipe or step.command, PIPE)
    place.type("scaffold run --plan plan.yaml --yes", PIPE)
    run = place.ask("scaffold status --json")["run"]["id"]
    place.environ = {**place.environ, "SCAFFOLD_MODEL": "cassette:replies.yaml"}
    before = place.folder / "before"
    shutil.copytree(place.repo, before / "repo", symlinks=True)
    shutil.copytree(place.home / ".config", before / "config")
    for _, steps in groupby(of_pages({"RUN": run, "ACTION": "store", "GOAL": "shortener"}), key=lambda step: step.page):
        yield from _type(place, steps, first)
        for kept, changed in ((before / "repo", place.repo), (before / "config", place.home / ".config")):
            delete_path(changed)
            shutil.copytree(kept, changed, symlinks=True)


def _type(place: Place, steps: Iterable[Step], first: int) -> Iterator[Typed]:
    """Type what only reads at a terminal of each width and in a pipe, anything else at one of these by turns."""
    turns = cycle((*WIDTHS, PIPE))
    for _ in range(first):
        next(turns)
    for step in steps:
        if not step.reads:
            yield _typed(place, step, next(turns))
            continue
        whole = _typed(place, step, PIPE)
        yield whole
        for columns in WIDTHS:
            typed = _typed(place, step, columns)
            if not checks.is_live(typed.record) and (differs := checks.difference(typed.record, whole.record)):
                typed.wrong["differs from the pipe"] = differs
            yield typed


def _typed(place: Place, step: Step, columns: int) -> Typed:
    in_pipe = columns == PIPE
    codes = step.pipe_codes if in_pipe and step.pipe_codes is not None else step.codes
    record = place.type((in_pipe and step.in_pipe) or step.command, columns, step.answers)
    return Typed(page=step.page, record=record, wrong={n: w for n, w in _wrong(record, codes, place).items() if w})


PARTS: Mapping[str, Callable[[Place, Project, int], Iterator[Typed]]] = {"tour": _tour, "pages": _pages}


def _wrong(record: Record, codes: frozenset[int], place: Place) -> dict[str, list[str]]:
    return {
        "exit code": checks.wrong_code(record, codes),
        "wider than the terminal": checks.wide_lines(record),
        "escape codes in a pipe": checks.escapes(record),
        "cut in a pipe": checks.cuts(record),
        "cut before it says anything": checks.bare_cuts(record),
        "question left": checks.open_questions(record),
        "unknown": checks.unknown_values(record),
        "traceback": checks.tracebacks(record),
        "missing path": checks.missing_paths(record, place.repo, place.folder),
        "unknown command": checks.unknown_commands(record),
    }


def _table(into: Path) -> Iterator[str]:
    """Yield the rows of a table: how many commands were typed at each width and in a pipe, and what was wrong."""
    for project, part in product(projects(), PARTS):
        path = into / f"{project.name}-{part}.jsonl"
        lines = path.read_bytes().splitlines() if path.exists() else []
        typed = [msgspec.json.decode(line, type=Typed) for line in lines]
        at = Counter(each.record.columns for each in typed)
        wrong = Counter(check for each in typed for check in each.wrong)
        counted = ", ".join(f"{name}: {count}" for name, count in wrong.items()) or "nothing"
        cells = [project.repo, project.kind, part, *(str(at[each]) for each in (*WIDTHS, PIPE))]
        if typed:
            yield f"| {' | '.join([*cells, counted])} |"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="bench/hour", description=__doc__)
    parser.add_argument("--into", type=Path, required=True, metavar="DIR", help="where the transcripts go")
    parser.add_argument("--repos", type=Path, metavar="DIR", default=Path(), help="folder of local clones")
    parser.add_argument(
        "--commands", type=Path, default=OURS, metavar="DIR", help="where the commands are (default: this clone's)"
    )
    parser.add_argument("--project", action="append", metavar="NAME", help="only this one; may be repeated")
    parser.add_argument("--table", action="store_true", help="record nothing: print the table of what is there")
    parser.add_argument("--part", action="append", choices=PARTS, help="only this one; may be repeated")
    return parser
