"""How a gate did against its baseline: a pure comparison, test by test; no model, no opinion."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Literal

from msgspec import structs

from scaffold.core.gates import GateResult, GateRun, GateVerdict, TestOutcome, TestVerdict
from scaffold.core.legible import few

MOST_TESTS = 200
"""So many of the tests that did not simply pass are kept by name."""
MOST_NAMED = 3
WORST_FIRST: Sequence[Literal["new_failure", "flaky", "pre_existing", "fixed"]] = (
    "new_failure",
    "flaky",
    "pre_existing",
    "fixed",
)
"""The verdict on a gate is the first of these that one of its tests has; without any it passes."""
BROKEN: frozenset[TestOutcome] = frozenset({"failed", "error"})
SOUND: frozenset[TestOutcome] = frozenset({"passed", "flaky"})


def every(_: str) -> bool:
    """Return that a test has to run again, whichever it is."""
    return True


def compare(before: GateRun | None, now: GateRun, *, expected: Callable[[str], bool] = every) -> GateResult:
    """Hold a run of a gate against the one before the work; None for a gate that came with the work.

    A test that passed before and is gone or skipped now is a new failure if it was `expected` to run: a test that
    does not run any more has shown nothing. A run in trouble is judged by that alone.
    """
    verdicts = _verdicts(before, now)
    lost = [] if before is None or now.trouble else sorted(filter(expected, _lost(before, now)))
    verdicts |= dict.fromkeys(lost, "new_failure")
    telling = sorted((name for name in verdicts if verdicts[name] != "pass"), key=lambda name: _order(verdicts, name))
    return GateResult(
        gate=now.gate,
        verdict=now.trouble or _worst(verdicts.values()),
        tests={name: verdicts[name] for name in telling[:MOST_TESTS]},
        counts=dict(Counter(verdicts.values())),
        exit_code=now.exit_code,
        detail=f"{_gone(lost)}{now.detail}",
        duration_s=now.duration_s,
        output_hash=now.output_hash,
    )


def new_failures(before: GateRun | None, now: GateRun) -> tuple[str, ...]:
    """Return the tests that ran and failed, and did not fail before, sorted by name."""
    return tuple(sorted(name for name, verdict in _verdicts(before, now).items() if verdict == "new_failure"))


def gone(before: GateRun | None, now: GateRun) -> tuple[str, ...]:
    """Return the tests that passed before and that nothing is told of now, sorted by name; skipped ones are told of."""
    if before is None or now.trouble:
        return ()
    return tuple(sorted(name for name in _lost(before, now) if name not in now.outcomes))


def moved(run: GateRun, renamed: Mapping[str, str]) -> GateRun:
    """Return the run as if files had had the names then that they have now; `renamed` as from the gate's folder.

    A test is named by its file, and so is a finding: what failed in a file goes on failing under another name.
    """
    if not renamed:
        return run
    names = _with_modules(renamed)
    return structs.replace(
        run,
        outcomes={_moved(name, names): outcome for name, outcome in run.outcomes.items()},
        counts={_moved(name, names): count for name, count in run.counts.items()},
    )


def moved_name(name: str, renamed: Mapping[str, str]) -> str:
    """Return what a test or finding is called where the file that its name begins with is called otherwise."""
    return _moved(name, _with_modules(renamed))


def _verdicts(before: GateRun | None, now: GateRun) -> dict[str, TestVerdict]:
    """Judge what ran now, and the findings that are gone."""
    known = before.outcomes if before else {}
    verdicts = {name: _verdict(known.get(name), outcome) for name, outcome in now.outcomes.items()}
    if before is not None:
        worse = [name for name in now.outcomes if name in known and _count(now, name) > _count(before, name)]
        verdicts |= dict.fromkeys(worse, "new_failure")
        if now.gate.runner == "findings" and not now.trouble:
            verdicts |= dict.fromkeys(known.keys() - now.outcomes.keys(), "fixed")
    return verdicts


def _verdict(before: TestOutcome | None, now: TestOutcome) -> TestVerdict:
    match now:
        case "failed" | "error":
            return "pre_existing" if before in BROKEN else "new_failure"
        case "passed":
            return "fixed" if before in BROKEN else "pass"
        case "flaky" | "skipped":
            return now


def _worst(verdicts: Collection[TestVerdict]) -> GateVerdict:
    for verdict in WORST_FIRST:
        if verdict in verdicts:
            return verdict
    return "pass"


def _count(run: GateRun, name: str) -> int:
    return run.counts.get(name, 1)


def _lost(before: GateRun, now: GateRun) -> set[str]:
    """Return what passed before and does not run now.

    Of one test with many parameters as many cases have to pass as before, whatever they are called.
    """
    seen = {name for name, outcome in now.outcomes.items() if outcome != "skipped"}
    lost = {name for name, outcome in before.outcomes.items() if outcome in SOUND and name not in seen}
    was, passes = _cases(before), _cases(now)
    return {name for name in lost if "[" not in name or passes[_test(name)] < was[_test(name)]}


def _cases(run: GateRun) -> Counter[str]:
    """Count by test the cases that passed."""
    return Counter(_test(name) for name, outcome in run.outcomes.items() if outcome in SOUND)


def _test(name: str) -> str:
    """Return the name without parameters."""
    return name.partition("[")[0]


def _moved(name: str, names: Mapping[str, str]) -> str:
    for end in ("::", " > ", ": "):
        head, found, rest = name.partition(end)
        if found and head in names:
            return f"{names[head]}{found}{rest}"
    head = name
    while "." in head:
        head = head.rpartition(".")[0]
        if head in names:
            return f"{names[head]}{name[len(head) :]}"
    return name


def _with_modules(renamed: Mapping[str, str]) -> Mapping[str, str]:
    return {**renamed, **{_module(old): _module(new) for old, new in renamed.items() if old.endswith(".py")}}


def _module(path: str) -> str:
    return path.removesuffix(".py").replace("/", ".")


def _gone(lost: list[str]) -> str:
    if not lost:
        return ""
    subject = "1 test that passed before does" if len(lost) == 1 else f"{len(lost)} tests that passed before do"
    return f"{subject} not run any more: {few(lost, MOST_NAMED)}.\n"


def _order(verdicts: Mapping[str, TestVerdict], name: str) -> tuple[int, str]:
    verdict = verdicts[name]
    return WORST_FIRST.index(verdict) if verdict in WORST_FIRST else len(WORST_FIRST), name
