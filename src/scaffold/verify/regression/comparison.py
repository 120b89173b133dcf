"""Compare a gate run with its baseline, test by test; pure functions."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Literal

from msgspec import structs

from scaffold.core.printable_text import join_limited
from scaffold.core.proof.gates import PASSING_OUTCOMES, GateResult, GateRun, GateVerdict, TestOutcome, TestVerdict
from scaffold.verify.regression.regressions import regressions

MAX_TESTS = 200
"""Most tests kept by name, of those that did not simply pass."""
MAX_NAMED = 3
MAX_FINDINGS_SHOWN = 20
VERDICTS_WORST_FIRST: Sequence[Literal["new_failure", "flaky", "pre_existing", "fixed"]] = (
    "new_failure",
    "flaky",
    "pre_existing",
    "fixed",
)
"""A gate gets the first of these verdicts that one of its tests has; without any it passes."""
FAILING_OUTCOMES: frozenset[TestOutcome] = frozenset({"failed", "error"})


def always_expected(_: str) -> bool:
    """Return True: every test must run again."""
    return True


def compare_gate_runs(
    before: GateRun | None, now: GateRun, *, expected: Callable[[str], bool] = always_expected
) -> GateResult:
    """Compare a gate run with its baseline; `before` is None for a gate that the change added.

    A test that passed before and is missing or skipped now is a new failure if it was `expected` to run, because a
    test that does not run proves nothing. A run with a `problem` has it as its verdict.
    """
    verdicts = _verdicts_by_test(before, now)
    # A run with a problem reports some tests only; naming the rest as lost would hide the real problem.
    lost = sorted(filter(expected, lost_tests(before, now)))
    verdicts |= dict.fromkeys(lost, "new_failure")
    notable = sorted(
        (name for name in verdicts if verdicts[name] != "pass"), key=lambda name: _by_severity(verdicts, name)
    )
    return GateResult(
        gate=now.gate,
        verdict=now.problem or _worst_verdict(verdicts.values()),
        tests={name: verdicts[name] for name in notable[:MAX_TESTS]},
        regressions=regressions(before, now, verdicts, lost),
        refused=_still_refused(before, verdicts),
        counts=dict(Counter(verdicts.values())),
        exit_code=now.exit_code,
        detail=f"{_missing_detail(lost)}{_new_findings(before, now, verdicts)}{now.detail}",
        log=now.log,
        duration_s=now.duration_s,
        output_hash=now.output_hash,
    )


def new_failures(before: GateRun | None, now: GateRun) -> tuple[str, ...]:
    """Return the tests that failed now and did not fail before, sorted by name."""
    return tuple(sorted(name for name, verdict in _verdicts_by_test(before, now).items() if verdict == "new_failure"))


def lost_tests(before: GateRun | None, now: GateRun) -> frozenset[str]:
    """Return the tests that passed before and do not run now: gone or skipped.

    A case of a parametrised test counts as lost only if fewer cases of that test pass than before: ids may change.
    """
    if before is None or now.problem:
        return frozenset()
    seen = {name for name, outcome in now.outcomes.items() if outcome != "skipped"}
    lost = {name for name, outcome in before.outcomes.items() if outcome in PASSING_OUTCOMES and name not in seen}
    was, passes = _passed_cases(before), _passed_cases(now)
    return frozenset(
        name
        for name in lost
        if "[" not in name or passes[_test_without_parameters(name)] < was[_test_without_parameters(name)]
    )


def vanished_failures(before: GateRun | None, now: GateRun) -> tuple[str, ...]:
    """Return the tests that failed before and have no result now, sorted; for a report that a process may leave early.

    Files that could not be loaded are left out: they have no result of their own once they can be.
    """
    if before is None or now.problem:
        return ()
    failed = (name for name, outcome in before.outcomes.items() if outcome in FAILING_OUTCOMES)
    return tuple(
        sorted(
            name for name in failed if name not in now.outcomes and not name.endswith((".js", ".cjs", ".mjs", ".ts"))
        )
    )


def with_renamed_files(run: GateRun, renamed: Mapping[str, str]) -> GateRun:
    """Return the run with its tests and findings renamed after the files: `renamed` maps old to new paths.

    Paths are relative to the gate's folder. Names contain the file, so without this an old failure in a renamed file
    would look new.
    """
    if not renamed:
        return run
    names = _with_modules(renamed)
    return structs.replace(
        run,
        outcomes={_rename_prefix(name, names): outcome for name, outcome in run.outcomes.items()},
        counts={_rename_prefix(name, names): count for name, count in run.counts.items()},
        messages={
            _rename_prefix(name, names): tuple(_rename_prefix(each, names) for each in said)
            for name, said in run.messages.items()
        },
        lines={_rename_prefix(name, names): lines for name, lines in run.lines.items()},
        refused={_rename_prefix(name, names): reason for name, reason in run.refused.items()},
    )


def renamed_name(name: str, renamed: Mapping[str, str]) -> str:
    """Return the name of a test or finding after the file that it begins with was renamed."""
    return _rename_prefix(name, _with_modules(renamed))


def _still_refused(before: GateRun | None, verdicts: Mapping[str, TestVerdict]) -> dict[str, str]:
    """Return the tests that the sandbox kept from passing before, and that still fail."""
    known = before.refused if before else {}
    return {name: known[name] for name in sorted(known)[:MAX_TESTS] if verdicts.get(name) == "pre_existing"}


def _verdicts_by_test(before: GateRun | None, now: GateRun) -> dict[str, TestVerdict]:
    """Return the verdict on each test that ran, and `fixed` for findings that disappeared."""
    known = before.outcomes if before else {}
    verdicts = {name: _test_verdict(known.get(name), outcome) for name, outcome in now.outcomes.items()}
    if before is not None:
        # Findings with the same code in a file have one name, so one more of them shows in the count only.
        worse = [
            name for name in now.outcomes if name in known and _finding_count(now, name) > _finding_count(before, name)
        ]
        verdicts |= dict.fromkeys(worse, "new_failure")
        # A test that disappears is a loss; a finding that disappears is the purpose.
        if now.gate.runner == "findings" and not now.problem:
            verdicts |= dict.fromkeys(known.keys() - now.outcomes.keys(), "fixed")
    return verdicts


def _test_verdict(before: TestOutcome | None, now: TestOutcome) -> TestVerdict:
    match now:
        case "failed" | "error":
            return "pre_existing" if before in FAILING_OUTCOMES else "new_failure"
        case "passed":
            return "fixed" if before in FAILING_OUTCOMES else "pass"
        case "flaky" | "skipped":
            return now


def _worst_verdict(verdicts: Collection[TestVerdict]) -> GateVerdict:
    for verdict in VERDICTS_WORST_FIRST:
        if verdict in verdicts:
            return verdict
    return "pass"


def _finding_count(run: GateRun, name: str) -> int:
    return run.counts.get(name, 1)


def _passed_cases(run: GateRun) -> Counter[str]:
    """Return how many cases passed, by test."""
    return Counter(
        _test_without_parameters(name) for name, outcome in run.outcomes.items() if outcome in PASSING_OUTCOMES
    )


def _test_without_parameters(name: str) -> str:
    """Return the name without its parameters."""
    return name.partition("[")[0]


def _rename_prefix(name: str, names: Mapping[str, str]) -> str:
    for end in ("::", " > ", ": "):
        head, found, rest = name.partition(end)
        if found and head in names:
            return f"{names[head]}{found}{rest}"
    head = name
    # unittest names tests by module, class and function, with dots between all of them.
    while "." in head:
        head = head.rpartition(".")[0]
        if head in names:
            return f"{names[head]}{name[len(head) :]}"
    return name


def _with_modules(renamed: Mapping[str, str]) -> Mapping[str, str]:
    return {**renamed, **{_module_name(old): _module_name(new) for old, new in renamed.items() if old.endswith(".py")}}


def _module_name(path: str) -> str:
    return path.removesuffix(".py").replace("/", ".")


def _new_findings(before: GateRun | None, now: GateRun, verdicts: Mapping[str, TestVerdict]) -> str:
    """Return what the tool said of the new findings, first of all those whose text is new; one each a line."""
    if now.gate.runner != "findings":
        return ""
    known = before.messages if before else {}
    lines = list[str]()
    for name in sorted(now.messages):
        if verdicts.get(name) == "new_failure":
            said = Counter(now.messages[name])
            lines += (said - Counter(known.get(name, ())) or said).elements()
    shown = "".join(f"{line}\n" for line in lines[:MAX_FINDINGS_SHOWN])
    return f"{shown}and {len(lines) - MAX_FINDINGS_SHOWN} more\n" if len(lines) > MAX_FINDINGS_SHOWN else shown


def _missing_detail(lost: list[str]) -> str:
    if not lost:
        return ""
    subject = (
        "1 test that passed before no longer runs"
        if len(lost) == 1
        else f"{len(lost)} tests that passed before no longer run"
    )
    return f"{subject}: {join_limited(lost, MAX_NAMED)}.\n"


def _by_severity(verdicts: Mapping[str, TestVerdict], name: str) -> tuple[int, str]:
    verdict = verdicts[name]
    return VERDICTS_WORST_FIRST.index(verdict) if verdict in VERDICTS_WORST_FIRST else len(VERDICTS_WORST_FIRST), name
