"""What `cargo test` prints: a part for each program of tests, and in it a line for each test."""

import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath

import msgspec
from msgspec import Struct

from scaffold.core.gates import TestOutcome
from scaffold.verify.gates.family import Bench, Ended, Family, Order
from scaffold.verify.gates.reading import Reading, concluded, in_trouble, named, worst

BETWEEN = ": "
ENDINGS: dict[str, TestOutcome] = {"ok": "passed", "FAILED": "failed", "ignored": "skipped"}

_COMMAND = re.compile(r"\bcargo(\s+\+\S+)?\s+test\b")
TELLING = "--message-format json-render-diagnostics"
"""Has cargo tell which program it made of which file: otherwise those of a workspace go by one name, `src/lib.rs`."""
_TOLD = '{"reason":'
_PROGRAM = re.compile(r"^\s+(?:Running (?:unittests )?(?P<source>\S+)(?: \((?P<made>.*)\))?|Doc-tests (?P<crate>\S+))$")
_BEGIN = re.compile(r"^running (?P<count>\d+) tests?$")
_TEST = re.compile(r"^test (?P<name>.+?)(?: - should panic)? \.\.\. (?P<ending>ok|FAILED|ignored)(?:, .*| <.*>)?$")
_SUMMARY = re.compile(r"^test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored;")
_UNBUILT = re.compile(r"^error(?:\[E\d+\])?: ", re.MULTILINE)


class Target(Struct, frozen=True):
    """What something was made of."""

    src_path: str
    """Absolute."""


class Artifact(Struct, frozen=True):
    """One thing that cargo made."""

    target: Target
    executable: str | None = None


class Part(Struct, kw_only=True):
    """What one program of tests printed so far."""

    program: str
    announced: int
    outcomes: dict[str, TestOutcome] = {}
    summary: tuple[int, int, int] | None = None


def asked(command: str, bench: Bench) -> Order:
    """Return the command with all that it prints in one stream; tests of a name run in every program."""
    options = [each for each in ("--no-fail-fast", TELLING) if each.split()[0] not in command]
    every = _COMMAND.sub(lambda found: " ".join((found[0], *options)), command, count=1)
    names = [name.rpartition(BETWEEN)[2] for name in bench.only if BETWEEN in name]
    exact = len(names) == len(bench.only) > 0 and " -- " not in command
    some = f" -- --exact {shlex.join(sorted(set(names)))}" if exact else ""
    return Order(command=f"{{ {every}{some}\n}} 2>&1")


def read(ended: Ended) -> Reading:
    """Return what a run showed that came to its end by itself."""
    lines = ended.stdout.decode(errors="replace").splitlines()
    text = "\n".join(line for line in lines if not line.startswith(_TOLD))
    return msgspec.structs.replace(_judged(ended, text, _sources(lines, ended.bench.place)), said=text)


def _judged(ended: Ended, text: str, sources: Mapping[str, str]) -> Reading:
    parts = tuple(_parts(text, sources))
    outcomes = worst(
        (named(f"{part.program}{BETWEEN}{name}"), end) for part in parts for name, end in part.outcomes.items()
    )
    if not parts:
        problem = "The tests could not be built." if _UNBUILT.search(text) else "It printed no report."
        return in_trouble("error", f"{problem} It ended with {ended.exit_code}.")
    for part in parts:
        wrong = _wrong(part)
        if wrong:
            return in_trouble("error", wrong, outcomes)
    return concluded(outcomes, ended.exit_code, whole=ended.bench.whole)


def _sources(lines: list[str], place: Path) -> Mapping[str, str]:
    """Return the file that each program was made of, as from `place`, by the program's name; told before any runs."""
    found: dict[str, str] = {}
    for line in lines:
        if _PROGRAM.match(line):
            break
        if line.startswith(_TOLD) and (made := _artifact(line)) and made.executable:
            source = PurePosixPath(made.target.src_path)
            if source.is_relative_to(place):
                found[PurePosixPath(made.executable).name] = str(source.relative_to(place))
    return found


def _artifact(line: str) -> Artifact | None:
    try:
        return msgspec.json.decode(line, type=Artifact)
    except (msgspec.DecodeError, RecursionError):
        return None


def _parts(text: str, sources: Mapping[str, str]) -> Iterator[Part]:
    """Yield what each program of tests printed; lines count from its first to its summary, or a gap's end."""
    program, part, listing = "tests", None, False
    for line in text.splitlines():
        begin, test, summary = _BEGIN.match(line), _TEST.match(line), _SUMMARY.match(line)
        if part is None:
            found = _PROGRAM.match(line)
            program = _named(found, sources) if found else program
            if begin:
                part, listing = Part(program=program, announced=int(begin["count"])), True
        elif summary:
            part.summary = (int(summary[1]), int(summary[2]), int(summary[3]))
            yield part
            part = None
        elif listing and test:
            part.outcomes[test["name"]] = ENDINGS[test["ending"]]
        elif not line:
            listing = listing and not part.outcomes
    if part is not None:
        yield part


def _named(found: re.Match[str], sources: Mapping[str, str]) -> str:
    made = PurePosixPath(found["made"] or "").name
    return sources.get(made) or found["source"] or f"Doc-tests {found['crate']}"


def _wrong(part: Part) -> str | None:
    """Return what does not fit together in what a program printed."""
    if part.summary is None:
        return f"The tests of {part.program} ended before they were through."
    counted = tuple(sum(end == wanted for end in part.outcomes.values()) for wanted in ("passed", "failed", "skipped"))
    if counted != part.summary or sum(counted) != part.announced:
        return f"{part.program} announced {part.announced} tests, summed up {part.summary} and named {counted}."
    return None


CARGO = Family(asked=asked, read=read, prints=True)
