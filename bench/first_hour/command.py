"""The command line of `bench/hour`."""

import argparse
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby, product
from pathlib import Path

import msgspec
from msgspec import Struct

from first_hour import checks
from first_hour.packages import Package, packages
from first_hour.place import OURS, Place
from first_hour.recorder import PIPE, Record
from first_hour.steps import Step, before_identity, of_pages, set_up, work
from scaffold.host.atomic_files import delete_path

PLACES = (80, 200, PIPE)


class Typed(Struct, frozen=True, kw_only=True):
    """A command as it was typed somewhere, and what is wrong with it."""

    package: str
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
    for package in packages():
        if package.name not in (given.project or [package.name]):
            continue
        for part, columns in product(given.part or PARTS, given.columns or PLACES):
            wrong += _record_place(package, columns, part, given)
    return 1 if wrong else 0


def _record_place(package: Package, columns: int, part: str, given: argparse.Namespace) -> int:
    name = f"{package.name}-{_name(columns)}-{part}"
    folder = given.into / name
    delete_path(folder)
    place = Place(folder, package, columns, cache=given.into / "cache", programs=given.commands.absolute())
    found = list[Typed]()
    with (given.into / f"{name}.jsonl").open("wb") as file:
        for typed in PARTS[part](place, package):
            found.append(typed)
            file.write(msgspec.json.encode(typed) + b"\n")
            file.flush()
            for check, lines in typed.wrong.items():
                for line in lines[:5]:
                    print(f"{name}: {typed.record.command}: {check}: {line}", flush=True)
    delete_path(folder)
    counts = Counter(check for typed in found for check, lines in typed.wrong.items() if lines)
    seconds = sum(typed.record.seconds for typed in found)
    print(f"{name}: {len(found)} commands in {seconds:.0f} s, wrong: {dict(counts) or 'nothing'}", flush=True)
    return counts.total()


def _tour(place: Place, package: Package) -> Iterator[Typed]:
    for step in [*before_identity(), *set_up(package.settings), *work()]:
        yield from _type(place, package, step)


def _pages(place: Place, package: Package) -> Iterator[Typed]:
    """Type the commands of each block where a plan has landed, as the tests of the pages do."""
    for step in set_up(package.settings):
        place.type(step.in_pipe or step.command, PIPE)
    place.type("scaffold run --plan plan.yaml --yes", PIPE)
    run = place.ask("scaffold status --json")["run"]["id"]
    place.environ = {**place.environ, "SCAFFOLD_MODEL": "cassette:replies.yaml"}
    before = place.folder / "before"
    shutil.copytree(place.repo, before / "repo", symlinks=True)
    shutil.copytree(place.home / ".config", before / "config")
    for _, steps in groupby(of_pages({"RUN": run, "ACTION": "store", "GOAL": "shortener"}), key=lambda step: step.page):
        for step in steps:
            yield from _type(place, package, step)
        for kept, changed in ((before / "repo", place.repo), (before / "config", place.home / ".config")):
            delete_path(changed)
            shutil.copytree(kept, changed, symlinks=True)


def _type(place: Place, package: Package, step: Step) -> Iterator[Typed]:
    in_pipe = place.columns == PIPE
    command = (step.in_pipe or step.command) if in_pipe else step.command
    codes = step.pipe_codes if in_pipe and step.pipe_codes is not None else step.codes
    record = place.type(command, place.columns, step.answers)
    wrong = _wrong(record, codes, place)
    if step.reads and not in_pipe and not checks.is_live(record):
        whole = place.type(command, PIPE)
        wrong["differs from the pipe"] = checks.difference(record, whole)
    yield Typed(package=package.name, page=step.page, record=record, wrong={n: w for n, w in wrong.items() if w})


PARTS: Mapping[str, Callable[[Place, Package], Iterator[Typed]]] = {"tour": _tour, "pages": _pages}


def _wrong(record: Record, codes: frozenset[int], place: Place) -> dict[str, list[str]]:
    return {
        "exit code": checks.wrong_code(record, codes),
        "wider than the terminal": checks.wide_lines(record),
        "escape codes in a pipe": checks.escapes(record),
        "cut in a pipe": checks.cuts(record),
        "traceback": checks.tracebacks(record),
        "missing path": checks.missing_paths(record, place.repo, place.folder),
        "unknown command": checks.unknown_commands(record),
    }


def _table(into: Path) -> Iterator[str]:
    """Yield the rows of a table: of each project, part and place how many commands were typed, and what was wrong."""
    for package, part in product(packages(), PARTS):
        cells = [f"{package.name} {package.version}", package.kind, part]
        wrong = Counter[str]()
        for columns in PLACES:
            path = into / f"{package.name}-{_name(columns)}-{part}.jsonl"
            lines = path.read_bytes().splitlines() if path.exists() else []
            typed = [msgspec.json.decode(line, type=Typed) for line in lines]
            cells.append(f"{len(typed)}" if typed else "-")
            wrong.update(check for each in typed for check in each.wrong)
        counted = ", ".join(f"{name}: {count}" for name, count in wrong.items())
        yield f"| {' | '.join([*cells, counted or 'nothing'])} |"


def _name(columns: int) -> str:
    return "pipe" if columns == PIPE else str(columns)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="bench/hour", description=__doc__)
    parser.add_argument("--into", type=Path, required=True, metavar="DIR", help="where the transcripts go")
    parser.add_argument(
        "--commands", type=Path, default=OURS, metavar="DIR", help="where the commands are (default: this clone's)"
    )
    parser.add_argument("--project", action="append", metavar="NAME", help="only this one; may be repeated")
    parser.add_argument("--columns", action="append", type=int, metavar="N", help="only this terminal; 0 is a pipe")
    parser.add_argument("--table", action="store_true", help="record nothing: print the table of what is there")
    parser.add_argument("--part", action="append", choices=PARTS, help="only this one; may be repeated")
    return parser
