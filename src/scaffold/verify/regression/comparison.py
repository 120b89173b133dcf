"""Compare a gate run with its baseline, test by test, and describe new failures. Pure, except for reading sources.

A runner whose own functions the work replaced is refused: an assertion that never fails shows nothing.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Literal

from msgspec import structs

from scaffold.core.printable_text import join_limited, utf8_safe
from scaffold.core.proof.contract import Doubt
from scaffold.core.proof.gates import (
    PASSING_OUTCOMES,
    GateResult,
    GateRun,
    GateVerdict,
    Regression,
    TestOutcome,
    TestVerdict,
)
from scaffold.git import commits
from scaffold.verify.contract.check_runs import Tree
from scaffold.verify.gates.reports.signed_record import LYING_RUNNER
from scaffold.verify.locate_tests import path_from_top, path_of_test

RUNNERS = frozenset({"pytest", "_pytest", "pluggy", "unittest", "assert"})
MAX_REGRESSIONS = 20
"""New failures told in full, and as many tests that no longer run."""
MAX_SOURCE_CHARS = 160
RUNNERS_NAMING_NO_FILES = frozenset({"unittest", "go"})
"""The runners whose test names have to be mapped to files."""
MAX_TESTS = 200
"""The most tests kept by name, of those that did not simply pass."""
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
    severity: dict[TestVerdict, int] = {verdict: rank for rank, verdict in enumerate(VERDICTS_WORST_FIRST)}
    failing = (name for name in verdicts if verdicts[name] != "pass")
    notable = sorted(failing, key=lambda name: (severity.get(verdicts[name], len(severity)), name))
    worst: GateVerdict = next((each for each in VERDICTS_WORST_FIRST if each in verdicts.values()), "pass")
    # The tests that the sandbox kept from passing before, and that still fail.
    known = before.refused if before else {}
    return GateResult(
        gate=now.gate,
        verdict=now.problem or worst,
        tests={name: verdicts[name] for name in notable[:MAX_TESTS]},
        regressions=regressions(before, now, verdicts, lost),
        refused={name: known[name] for name in sorted(known)[:MAX_TESTS] if verdicts.get(name) == "pre_existing"},
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
    """Return the tests that failed before and have no result now, sorted: their process may have ended early.

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
    return with_new_names(run, lambda name: _rename_prefix(name, names))


def with_new_names(run: GateRun, name_now: Callable[[str], str]) -> GateRun:
    """Return the run with the names that its tests and findings have now."""
    return structs.replace(
        run,
        outcomes={name_now(name): outcome for name, outcome in run.outcomes.items()},
        counts={name_now(name): count for name, count in run.counts.items()},
        # What is said of a finding begins with its file.
        messages={name_now(name): tuple(map(name_now, said)) for name, said in run.messages.items()},
        lines={name_now(name): lines for name, lines in run.lines.items()},
        refused={name_now(name): reason for name, reason in run.refused.items()},
        unloaded=tuple(map(name_now, run.unloaded)),
    )


def renamed_name(name: str, renamed: Mapping[str, str]) -> str:
    """Return the name of a test or finding after the file that it begins with was renamed."""
    return _rename_prefix(name, _with_modules(renamed))


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
        # A vanished test is a loss; a vanished finding is the purpose of the work.
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


def _finding_count(run: GateRun, name: str) -> int:
    return run.counts.get(name, 1)


def _passed_cases(run: GateRun) -> Counter[str]:
    return Counter(
        _test_without_parameters(name) for name, outcome in run.outcomes.items() if outcome in PASSING_OUTCOMES
    )


def _test_without_parameters(name: str) -> str:
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


def regressions(
    before: GateRun | None, now: GateRun, verdicts: Mapping[str, TestVerdict], lost: Collection[str]
) -> tuple[Regression, ...]:
    """Return the first new failures by name, then the first of the tests `lost`, which passed before."""
    new = sorted(name for name, verdict in verdicts.items() if verdict == "new_failure" and name not in lost)
    found = list[Regression]()
    for name in new:
        # Hooks may print findings or not.
        if now.gate.runner == "findings" or name in now.lines:
            found += _new_occurrences(before, now, name)
        else:
            found.append(Regression(name=name, kind="fails", message="\n".join(now.messages.get(name, ()))))
    gone = [
        Regression(
            name=name,
            kind="skipped" if name in now.outcomes else "missing",
            message="\n".join(now.messages.get(name, ())),
        )
        for name in sorted(lost)
    ]
    return (*found[:MAX_REGRESSIONS], *gone[:MAX_REGRESSIONS])


async def with_places(result: GateResult, tree: Tree) -> GateResult:
    """Return the result with the file of each regression, and with the source lines of findings."""
    if not result.regressions:
        return result
    gate, paths = result.gate, frozenset[str]()
    if gate.runner in RUNNERS_NAMING_NO_FILES:
        # The file of a missing test exists on the base, if anywhere.
        listed = [await commits.listed_paths(tree.git, commit) for commit in (tree.commit, tree.base)]
        paths = frozenset(path for each in listed for path in each)
    placed = []
    for each in result.regressions:
        if each.kind == "finding" and each.file:
            file = path_from_top(gate, each.file)
            placed.append(structs.replace(each, file=file, source=await _source_line(tree, file, each.line)))
        elif gate.runner in RUNNERS_NAMING_NO_FILES:
            placed.append(structs.replace(each, file=path_of_test(gate, each.name, paths) or None))
        else:
            placed.append(each)
    return structs.replace(result, regressions=tuple(placed))


def _new_occurrences(before: GateRun | None, now: GateRun, name: str) -> Iterator[Regression]:
    """Yield a finding's new occurrences: those whose text is new, or all if no text is."""
    known, said = Counter(before.messages.get(name, ()) if before else ()), now.messages.get(name, ())
    if not said:
        yield Regression(name=name, kind="finding")
        return
    new = Counter(said) - known or Counter(said)
    lines: Sequence[int | None] = now.lines.get(name) or [None] * len(said)
    # Among equal texts the last ones are shown as new: added code is rarely at the top.
    for text, line in sorted(zip(said, lines, strict=False), key=lambda each: each[1] or 0, reverse=True):
        if new[text] > 0:
            new[text] -= 1
            file, _, message = text.partition(": ")
            yield Regression(name=name, kind="finding", file=file, line=line, message=message)


async def _source_line(tree: Tree, file: str, line: int | None) -> str:
    """Return a line of a file; empty if it does not exist."""
    if line is None:
        return ""
    text = (await commits.file_contents(tree.git, tree.commit, file) or b"").decode(errors="replace")
    lines = text.splitlines()
    return utf8_safe(lines[line - 1].strip()[:MAX_SOURCE_CHARS]) if 0 < line <= len(lines) else ""


def with_known_unloaded(before: GateRun | None, now: GateRun) -> GateRun:
    """Return the run with its tests as its result if only files are unloaded that could not be loaded before."""
    known = before.unloaded if before else ()
    return structs.replace(now, problem=None) if now.unloaded and {*known}.issuperset(now.unloaded) else now


def with_original_runner(before: GateRun | None, now: GateRun) -> GateRun:
    """Return the run, turned into an error if functions of the runner were replaced that were intact before the work.

    A gate without a run before the work has no tests that could have been weakened.
    """
    # Some plugins and projects replace functions of their runner; their tests are as valid as before.
    new = [name for name in _newly_replaced(before, now) if _is_of_runner(name)]
    if not new or now.problem is not None:
        return now
    named, verb = join_limited(new, MAX_NAMED), "was" if len(new) == 1 else "were"
    why = f"{LYING_RUNNER}: {named} {verb} replaced and not restored while tests ran."
    return structs.replace(now, problem="error", detail=utf8_safe(f"{why}\n{now.detail}"))


def replaced_functions(before: GateRun | None, now: GateRun) -> tuple[str, ...]:
    """Return the functions of the language that the work replaced while its tests ran, sorted."""
    return tuple(name for name in _newly_replaced(before, now) if not _is_of_runner(name))


def doubts_about_functions(gates: Sequence[GateResult]) -> Iterator[Doubt]:
    """Yield the doubt about functions of the language that the work replaced, if any."""
    names = sorted({name for gate in gates for name in gate.replaced})
    if names:
        text = f"code of the checkout replaced {join_limited(names, MAX_NAMED)} while tests ran"
        yield Doubt("functions_replaced", utf8_safe(text))


def doubts_about_blind_gates(gates: Sequence[GateResult]) -> Iterator[Doubt]:
    """Yield the doubt about gates that could not have refused the work, where no other one of their kind takes over."""
    ran = [gate for gate in gates if gate.verdict != "not_applicable" and not gate.gate.advisory]
    seeing = {gate.gate.kind for gate in ran if gate.counts_for_work}
    # Style decides nothing about what a program does.
    blind = [gate for gate in ran if gate.blind and gate.gate.kind not in {*seeing, "lint"}]
    if blind:
        said = {f"`{gate.gate.command}` {gate.blind}" for gate in blind}
        yield Doubt("gates_blind", utf8_safe(join_limited(sorted(said), MAX_NAMED)))


def _newly_replaced(before: GateRun | None, now: GateRun) -> list[str]:
    return [] if before is None else sorted({*now.replaced} - {*before.replaced})


def _is_of_runner(name: str) -> bool:
    """Return True also for other names, such as an unreadable record."""
    return "." not in name or name.partition(".")[0] in RUNNERS
