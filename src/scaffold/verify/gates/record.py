"""The record that our scribe keeps inside pytest and unittest: believed only where every line is signed."""

import hashlib
import hmac
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from scaffold.core.gates import TestOutcome
from scaffold.verify.gates.inside.scaffold_scribe import RECORD, derived
from scaffold.verify.gates.reading import Reading, concluded, content, in_trouble, named, unusable, worst

DIGEST_CHARS = 32
MOST_WORKERS = 256
UNTRUE = "The test runner does not tell the truth"


class Collected(Struct, frozen=True, array_like=True, tag="collected"):
    """Which tests were chosen to run."""

    names: tuple[str, ...]


class Uncollected(Struct, frozen=True, array_like=True, tag="collection"):
    """A file that could not be collected."""

    name: str


class Started(Struct, frozen=True, array_like=True, tag="start"):
    """A test begins."""

    name: str


class Raised(Struct, frozen=True, array_like=True, tag="raised"):
    """What a test last did as it was called, seen from near it."""

    name: str
    raised: bool


class Told(Struct, frozen=True, array_like=True):
    """What the runner says of one phase of a test."""

    when: Literal["setup", "call", "teardown"]
    outcome: str
    foreseen: bool
    """Whether its failure was foreseen."""


class Outcome(Struct, frozen=True, array_like=True, tag="outcome"):
    """What the runner says of a test."""

    name: str
    when: Literal["setup", "call", "teardown"]
    outcome: str
    foreseen: bool


class Canary(Struct, frozen=True, array_like=True, tag="canary"):
    """One of our own tests: whether it raised, and what was told of it."""

    name: str
    raised: bool
    told: tuple[Told, ...]


class End(Struct, frozen=True, array_like=True, tag="end"):
    """Everything was noted."""

    exit_code: int


Line = Collected | Uncollected | Started | Raised | Outcome | Canary | End


def read_record(folder: Path, key: bytes) -> tuple[Line, ...] | str:
    """Return all that was noted in a run, also in the workers of pytest-xdist, or why nothing of it can be believed."""
    lines = _read(folder / RECORD, key)
    if isinstance(lines, str):
        return lines
    for path in sorted(folder.glob(f"{RECORD}-*"))[:MOST_WORKERS]:
        more = _read(path, derived(derived(key, "workers"), path.name))
        if isinstance(more, str):
            return more
        lines += tuple(line for line in more if not isinstance(line, End))
    return lines


def judge_record(lines: Sequence[Line], exit_code: int | None, *, whole: bool) -> Reading:
    """Return what a run showed that came to its end by itself."""
    broken = sorted({named(line.name) for line in lines if isinstance(line, Uncollected)})
    if broken:
        return unusable("It could not be collected", broken)
    ends = [line for line in lines if isinstance(line, End)]
    if not ends:
        begun = ", ".join(unfinished(lines)[:3])
        where = f", in {begun}" if begun else ""
        return in_trouble("error", f"It ended before its report did{where}, with {exit_code}.")
    chosen = {named(name) for line in lines if isinstance(line, Collected) for name in line.names}
    outcomes = _outcomes(lines, chosen)
    missing = sorted(chosen - outcomes.keys())
    lie = _lie([line for line in lines if isinstance(line, Canary)]) if chosen and not missing else None
    if lie:
        return in_trouble("error", lie)
    if missing:
        return in_trouble(
            "error", f"{len(missing)} tests were collected and never ran, such as {missing[0]}.", outcomes
        )
    if exit_code not in {0, 1, 5} or ends[-1].exit_code not in {0, 1, 5}:
        return in_trouble("error", f"The runner itself failed: it ended with {exit_code}.", outcomes)
    return concluded(outcomes, exit_code, whole=whole)


def unfinished(lines: Sequence[Line]) -> tuple[str, ...]:
    """Return the tests that had begun and of which nothing was told."""
    done = {line.name for line in lines if isinstance(line, Outcome)}
    begun = [line.name for line in lines if isinstance(line, Started)]
    return tuple(dict.fromkeys(named(name) for name in begun if name not in done))


def _read(path: Path, key: bytes) -> tuple[Line, ...] | str:
    data = content(path)
    if isinstance(data, str):
        return f"The runner left no report of ours: {data}."
    try:
        return tuple(msgspec.json.decode(line, type=Line) for line in _signed(data, key))
    except (msgspec.DecodeError, ValueError, RecursionError):
        return f"{UNTRUE}: somebody else wrote into its report."


def _signed(data: bytes, key: bytes) -> Iterator[bytes]:
    """Yield the lines that are whole; ValueError at the first that is not signed as it should be."""
    seal = hashlib.blake2b(key=key, digest_size=DIGEST_CHARS // 2)
    for line in data.split(b"\n")[:-1]:
        text = line[DIGEST_CHARS + 1 :]
        seal.update(text)
        if not hmac.compare_digest(line[:DIGEST_CHARS], seal.copy().hexdigest().encode()):
            raise ValueError("not signed")
        yield text


def _outcomes(lines: Iterable[Line], chosen: set[str]) -> dict[str, TestOutcome]:
    """Return one outcome for each test; what raised has failed, whoever says that it passed."""
    raised = {line.name: line.raised for line in lines if isinstance(line, Raised)}
    told = worst((named(line.name), _outcome(line)) for line in lines if isinstance(line, Outcome))
    seen: dict[str, TestOutcome] = {
        name: "failed" if outcome == "passed" and raised.get(name) else outcome for name, outcome in told.items()
    }
    for name in sorted(chosen - seen.keys()):
        around = next((told[each] for each in told if _holds(each, name)), None)
        if around is not None:
            seen[name] = around
    return seen


def _holds(fixture: str, name: str) -> bool:
    """Tell whether `fixture` is what unittest calls the set-up of the class or module of a test."""
    head, _, place = fixture.partition(" (")
    return head in {"setUpClass", "setUpModule"} and name.startswith(f"{place.removesuffix(')')}.")


def _outcome(line: Outcome) -> TestOutcome:
    match line.outcome:
        case "passed":
            return "passed"
        case "failed":
            return "failed" if line.when == "call" else "error"
        case _:
            return "skipped"


def _lie(canaries: Sequence[Canary]) -> str | None:
    """Return what shows that the runner does not tell what happens; None if it told it of our own tests.

    A fixture of the project's that fails for them as well says nothing.
    """
    if not canaries:
        return f"{UNTRUE}: two tests of ours were never run."
    if all(any(told.when == "setup" and told.outcome != "passed" for told in each.told) for each in canaries):
        return None
    calls = {
        (each.raised, told.outcome, told.foreseen) for each in canaries for told in each.told if told.when == "call"
    }
    if calls == {(True, "failed", False), (False, "passed", False)}:
        return None
    return f"{UNTRUE}: it does not say that a test of ours failed, and it did."
