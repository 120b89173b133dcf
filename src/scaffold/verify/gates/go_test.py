"""What `go test -json` prints: one event a line, each test under its package's name."""

import re
import shlex
from collections.abc import Iterable, Iterator, Sequence

import msgspec
from msgspec import Struct

from scaffold.core.gates import TestOutcome
from scaffold.verify.gates.family import Bench, Ended, Family, Order
from scaffold.verify.gates.reading import Reading, concluded, in_trouble, named, unusable, worst

_COMMAND = re.compile(r"\bgo\s+test\b(?!.*\s-json\b)")
_EVERYTHING = re.compile(r"(?<!\S)\./\.\.\.(?!\S)")
_UNBUILT = re.compile(rb"^FAIL\s+(\S+) \[(?:build|setup) failed\]", re.MULTILINE)
"""What go says itself, between the events; of versions before 1.20 nothing else tells."""
_FUNCTION = re.compile(r"\.((?:Test|Example|Fuzz|Benchmark)\w*)(?:/|$)")
"""The function that a test, or a part of one, is in."""
ENDINGS: dict[str, TestOutcome] = {"pass": "passed", "fail": "failed", "skip": "skipped"}


class Event(Struct, frozen=True, rename="pascal"):
    """One line; what is not about a test has no `test`, what is about a build only an import path."""

    action: str
    package: str = ""
    test: str = ""
    output: str = ""
    import_path: str = ""
    failed_build: str = ""


def asked(command: str, bench: Bench) -> Order:
    """Return the command with a report that machines can read.

    Of files their packages are asked; functions of a name run in every package.
    """
    tops = [_FUNCTION.search(name) for name in bench.only]
    names = sorted({found[1] for found in tops if found})
    some = f" -run '^({'|'.join(names)})$'" if names and all(tops) else ""
    every = _EVERYTHING.sub(lambda _: shlex.join(_packages(bench.only)) or "./...", command, count=1)
    return Order(command=_COMMAND.sub(f"go test -json{some}", every, count=1))


def selects(command: str) -> bool:
    """Tell whether a command asks for all packages, and so could for some."""
    return _EVERYTHING.search(command) is not None


def _packages(only: Sequence[str]) -> list[str]:
    """Return the packages of files, as from where the command runs; none where something else is asked for."""
    if not all(name.endswith(".go") for name in only):
        return []
    return sorted({f"./{name.rpartition('/')[0]}" for name in only})


def read(ended: Ended) -> Reading:
    """Return what a run showed that came to its end by itself."""
    events = tuple(_events(ended.stdout))
    broken = _unbuilt(events) | {named(found.decode(errors="replace")) for found in _UNBUILT.findall(ended.stdout)}
    if broken:
        said = _said(events)
        return msgspec.structs.replace(unusable("It could not be built", sorted(broken)), said=said)
    if not events:
        return in_trouble("error", f"It printed no report; it ended with {ended.exit_code}.")
    return msgspec.structs.replace(_judged(events, ended.exit_code, whole=ended.bench.whole), said=_said(events))


def running(ended: Ended) -> tuple[str, ...]:
    """Return the tests that had begun and not ended."""
    events = tuple(_events(ended.stdout))
    over = {_name(event) for event in events if event.action in ENDINGS}
    begun = [_name(event) for event in events if event.action == "run"]
    return tuple(dict.fromkeys(name for name in begun if name not in over))


def _judged(events: Sequence[Event], exit_code: int | None, *, whole: bool) -> Reading:
    outcomes = worst(
        (_name(event), ENDINGS[event.action]) for event in events if event.test and event.action in ENDINGS
    )
    unfinished = {_name(event) for event in events if event.test and event.action == "run"} - outcomes.keys()
    outcomes |= dict.fromkeys(sorted(unfinished), "failed")
    outcomes |= dict.fromkeys(_fallen(events, outcomes), "error")
    return concluded(outcomes, exit_code, whole=whole)


def _events(output: bytes) -> Iterator[Event]:
    """Yield what can be read; the tools around print other lines, too."""
    for line in output.split(b"\n"):
        if line.startswith(b"{"):
            try:
                yield msgspec.json.decode(line, type=Event)
            except (msgspec.DecodeError, RecursionError):
                continue


def _said(events: Iterable[Event]) -> str:
    return "".join(event.output for event in events)


def _unbuilt(events: Iterable[Event]) -> set[str]:
    """Return the packages that could not be built, by the events of newer versions."""
    return {named(event.import_path or event.package) for event in events if _stopped(event)}


def _stopped(event: Event) -> bool:
    told = event.action == "output" and not event.test and re.search(r"\[(build|setup) failed\]", event.output)
    return event.action == "build-fail" or bool(event.failed_build) or bool(told)


def _fallen(events: Iterable[Event], outcomes: dict[str, TestOutcome]) -> Iterator[str]:
    """Yield the packages that failed although none of their tests did: a panic, an exit, a race."""
    for event in events:
        if event.action == "fail" and not event.test:
            mine = (outcome for name, outcome in outcomes.items() if name.startswith(f"{named(event.package)}."))
            if "failed" not in mine:
                yield named(event.package)


def _name(event: Event) -> str:
    return named(f"{event.package}.{event.test}")


GO = Family(asked=asked, read=read, running=running, prints=True)
