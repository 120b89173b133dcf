"""Measure how much of a change its checks executed, and doubt a change of which they executed nothing."""

import re
from collections.abc import Collection, Iterable, Mapping

from msgspec import structs

from scaffold.core.printable_text import count_of, join_limited, utf8_safe
from scaffold.core.proof.contract import CheckReach, Contract, Doubt, ExecutedLines, Verification
from scaffold.verify.contract.tamper_detection import runs_tests
from scaffold.verify.observation.changed_code import ChangedCode
from scaffold.verify.observation.observer import CheckObserver, Observation

_INTERPRETER = re.compile(r"\b(?:python[\d.]*|node|npm|npx|pnpm|yarn|uv|poetry|docker|podman)\b")

MAX_NAMED = 3
MAX_TEST_FILES = 2_000
"""Files with tests that a check ran, as they are stored."""


def with_executed_lines(verification: Verification, contract: Contract, observer: CheckObserver) -> Verification:
    """Return the verification with the lines that the required checks executed, and a doubt if there are none.

    A change that ended a check leaves another doubt.
    """
    ended = [
        check.command
        for check in contract.commands
        if check.required and observer.observations.get(check.command, Observation()).ended_by_work
    ]
    if ended:
        text = utf8_safe(f"the changed code ended the program of its check: {join_limited(ended, MAX_NAMED)}")
        verification = structs.replace(verification, doubts=(*verification.doubts, Doubt("ended_early", text)))
    reach = tuple(_reach_of(check.command, observer.observations) for check in contract.commands)
    verification = structs.replace(verification, reach=tuple(each for each in reach if each.lines or each.tests))
    found = executed_lines(contract, observer.code, observer.observations)
    if found is None:
        return verification
    doubts = () if found.executed else (not_executed(found.total),)
    return structs.replace(verification, executed_lines=found, doubts=(*verification.doubts, *doubts))


def _reach_of(command: str, observations: Mapping[str, Observation]) -> CheckReach:
    seen = observations.get(command, Observation())
    # The store takes no path that is not UTF-8.
    lines = {
        path: _joined_ranges(numbers) for path, numbers in sorted(seen.executed.items()) if path == utf8_safe(path)
    }
    tests = sorted({utf8_safe(name.partition("::")[0]) for name in seen.tests})
    return CheckReach(check=command, lines=lines, tests=tuple(tests[:MAX_TEST_FILES]))


def _joined_ranges(numbers: Collection[int]) -> tuple[tuple[int, int], ...]:
    found = list[tuple[int, int]]()
    for number in sorted(numbers):
        joins = found and found[-1][1] == number - 1
        found[-1:] = [(found[-1][0], number)] if joins else [*found[-1:], (number, number)]
    return tuple(found)


def not_executed(total: int) -> Doubt:
    """Return the doubt about a change that no required check executed."""
    return Doubt("not_executed", f"{count_of(total, 'changed line')}, 0 executed by its checks")


def executed_lines(
    contract: Contract, code: ChangedCode, observations: Mapping[str, Observation]
) -> ExecutedLines | None:
    """Return the number of changed lines, and the number that the required checks executed.

    None without executable lines, or if no line was seen running but a check may have run some unobserved.
    """
    required = {check.command for check in contract.commands if check.required}
    seen = [observation for command, observation in observations.items() if command in required]
    lines = {path: {number for group in groups for number in group.lines} for path, groups in code.marked().items()}
    # Lines in functions show whether the changed behaviour ran; without any, all changed lines do.
    lines |= {
        path: set(_union_of(each.in_functions.get(path) for each in seen)) or set(source.changed)
        for path, source in code.javascript.items()
    }
    total = sum(map(len, lines.values()))
    ran = sum(len(_union_of(each.executed.get(path) for each in seen) & wanted) for path, wanted in lines.items())
    if not total or not (ran or (code.readable and _nothing_unseen(required, observations))):
        return None
    return ExecutedLines(total=total, executed=ran)


def _nothing_unseen(required: Collection[str], observations: Mapping[str, Observation]) -> bool:
    found = {command: observations.get(command, Observation()) for command in required}
    unseen = (command for command, each in found.items() if not each.seen)
    # A search in files runs no code, and a runner with an environment of its own is not observed.
    if any(runs_tests(command) or _INTERPRETER.search(command) for command in unseen):
        return False
    observed = [each for each in found.values() if each.seen]
    return bool(observed) and all(each.complete for each in observed)


def _union_of(sets: Iterable[frozenset[int] | None]) -> frozenset[int]:
    return frozenset[int]().union(*(each for each in sets if each))
