"""Capture a run's baseline: the result of each gate at the base, before any work. Stored results are reused.

A gate that cannot judge anything at the base is explained from its output.
"""

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import chain, islice
from pathlib import PurePosixPath

from msgspec import Struct, json, structs

from scaffold.core.events import BaselineCaptured
from scaffold.core.ids import RunId
from scaffold.core.proof.gates import PASSING_OUTCOMES, Baseline, CheckEnvironment, Gate, GateRun
from scaffold.core.proof.not_ready import ENVIRONMENT_NOT_READY
from scaffold.git import commits
from scaffold.git.client.command_line import Git
from scaffold.host.slots import Slots
from scaffold.policy.secret.home import SHOW, hidden_path
from scaffold.verify.check_readiness import NotReady
from scaffold.verify.contract.check_runs import NOT_STARTED_CODES, Tree, restore_tracked_files
from scaffold.verify.environment.check_programs import NOT_STARTED, missing_by_output
from scaffold.verify.environment.dependencies import read_text
from scaffold.verify.environment.generated_files import ignored_module
from scaffold.verify.environment.later_commit import declared_dependencies, names_of
from scaffold.verify.gates.detection import DetectedGates
from scaffold.verify.gates.observed_run import gate_slot, run_gate
from scaffold.verify.gates.refusals import describe_refused
from scaffold.verify.paths.conventions import is_test
from scaffold.verify.proof_request import GateRunLookup
from scaffold.verify.regression.comparison import FAILING_OUTCOMES, with_known_unloaded
from scaffold.verify.regression.flaky_tests import retry_new_failures
from scaffold.verify.regression.selection.mentions import files_holding

ADVISORY = "no check of the project's own set-up runs it"
MAX_FAILURES = 3
"""The most failed tests whose messages explain why no test passes."""
NETWORK = "it needs the network: it asks for {}"
NO_NAME = "the Python name `{}` cannot be imported"
CODE_PATTERNS = (
    (r"No module named '?([\w.]+)'?", "the Python module `{}` is not installed"),
    (r"cannot import name '(\w+)' from (?:partially initialized module )?'(?P<of>[\w.]+)'", NO_NAME),
    (r"Cannot find module '(\.{0,2}/[^']+)'", "the file {} is missing"),
    (r"Cannot find (?:module|package) '([^']+)'", "the Node module `{}` is not installed"),
    (r"no required module provides package (\S+?)[;:\s]", "the Go package `{}` is missing"),
    (r"unresolved import `([^`]+)`", "the Rust import `{}` cannot be resolved"),
)
"""Patterns in output that name code which cannot be loaded: of others, or of the work that is to come."""
ASKING = (
    r"^\s*import\s+(?:[\w., ]*\b)?{0}\b|^\s*from\s+[\w.]*\b{0}\b|^\s*from\s+\.[\w.]*\s+import\s[^\n]*\b{0}\b"
    r"|[\"'](?:[^\"'\n]*/)?{0}(?:\.\w+|/[^\"'\n]*)?[\"']"
)
"""How Python, and in quotes others, import what has this name."""
ASKING_OF = r"^\s*from\s+(?:\.+|[\w.]*\b{1})\s+import\s*(?:\([^)]*|[^\n]*)\b{0}\b"
"""How Python imports a name from a module with this last name."""
MAX_CODE_NAMES = 20
MISSING_PATTERNS: Sequence[tuple[re.Pattern[str], str]] = tuple(
    (re.compile(pattern, re.MULTILINE), words)
    for pattern, words in (
        *CODE_PATTERNS,
        (r"cannot import name '(\w+)'(?! from)", NO_NAME),
        (r"pnpm add pnpm@([\d.]+)", "pnpm {}, which package.json asks for, is not installed"),
        (r"missing go\.sum entry for module providing package (\S+?)[;:\s]", "go.sum has no entry for `{}`"),
        (r"no matching package named `([^`]+)`", "the Rust package `{}` is missing"),
        (r"linker `([^`]+)` not found", "the program `{}` was not found"),
        (r"ECONNREFUSED (\S+:\d+)", "no service answers at {}"),
        (r"[Cc]onnection (?:to \S+ )?refused[^\n]*?(\w[\w.-]*:\d+)", "no service answers at {}"),
        (r'connection to server at "([^"\s]+)"[^\n]* failed', "no service answers at {}"),
        (r"(\w[\w.-]*:\d+)[^\n]*[Cc]onnection refused", "no service answers at {}"),
        (r"[Cc]onnection (refused)", "a required service does not answer (connection {})"),
        (r"(?:Could not resolve host: |lookup |getaddrinfo (?:EAI_AGAIN|ENOTFOUND) )([\w-]+(?:\.[\w-]+)+)", NETWORK),
        (r"[Ff]ailed to resolve '([^']+)'", NETWORK),
        (r"(Temporary failure in name resolution|Name or service not known)", "it needs the network ({})"),
        (r"[Nn]o such file or directory: '([^']+)'", "the file {} is missing"),
        (r"ENOENT: no such file or directory, \w+ '([^']+)'", "the file {} is missing"),
        *((pattern, "the program `{}` was not found") for pattern in NOT_STARTED),
        (r"rustup could not choose a version of (\w+) to run", "rustup has no default toolchain, so there is no `{}`"),
        (r"can't open file '([^']+)'", "the file {} is missing"),
    )
)
"""Patterns in output that name something missing, the most informative first; the first match counts."""
_JUDGED = re.compile(r"assert|has no attribute|is not a function|NotImplemented", re.IGNORECASE)
"""What a test says that has judged the code, or misses what is yet to be written."""
_SERVICE = re.compile(
    r"^The (service `.+` (?:was not started: |ended with exit code |did not listen ).+)\.$", re.MULTILINE
)
"""The line printed instead of a check whose service did not start; the service's own output follows it."""


class BaselineInputs(Struct, frozen=True, kw_only=True):
    """The collaborators and options for capturing a baseline."""

    checkout: Git
    """The user's checkout, which has files that git ignores."""
    find_gate_run: GateRunLookup
    slots: Slots
    on_gate_run: Callable[[GateRun, bool], None]
    """Called with each run as soon as it is known, and whether it was reused. The callee stores it, so that an
    interrupted capture can resume."""
    timeout_s: float = 600.0
    """The timeout of a gate that does not set one."""


class BaselineResult(Struct, frozen=True, kw_only=True):
    """A baseline, and notes for the user."""

    baseline: Baseline
    notes: tuple[str, ...] = ()
    """The gates that are not checked, each with its reason."""
    warnings: tuple[str, ...] = ()
    """Why the repository's commit hooks, or the hooks of one tool, are not applicable."""


async def capture_baseline(
    detection: DetectedGates,
    tree: Tree,
    environment: CheckEnvironment,
    inputs: BaselineInputs,
    *,
    left_out: Sequence[str] = (),
) -> BaselineResult | NotReady:
    """Return the results of the gates at the commit of `tree`, a checkout of the base; NotReady if one cannot judge.

    `left_out` are the set-up commands that were skipped because the folder is not trusted; they are named as a
    possible cause. A detected gate that cannot run, test gates excepted, stays in the baseline with its problem and is
    not run again. Tracked files are restored between runs, untracked files stay. Gates run one after another.
    """
    runs = []
    tree_id = await commits.tree_of(tree.git, tree.commit)
    for gate in detection.gates:
        stored = inputs.find_gate_run(gate, tree_id, environment.fingerprint)
        # A problem may be solved by now, and a missing hook tool installed.
        known = stored if stored is not None and stored.problem is None and not stored.absent else None
        # The stored run may be of another commit with the same tree, which may no longer exist.
        run = structs.replace(
            known or await _run_baseline_gate(gate, tree, environment.fingerprint, inputs), commit=tree.commit
        )
        # Not stored: the next try may no longer have a problem of the environment.
        given = gate.name in detection.given
        if problem := await _unready_gate(run, tree, inputs.checkout, given=given, setup=left_out):
            return problem
        # Tests written first: what could not be loaded is red, and the other tests count.
        run = with_known_unloaded(run, run)
        inputs.on_gate_run(run, known is not None)
        runs.append(run)
    unavailable = (_unavailable_gate_note(run) for run in runs if run.problem and run.gate.runner != "hooks")
    notes = (
        *detection.notes,
        *unavailable,
        *(
            f"{gate.name} only warns: {ADVISORY}; `quality_gates.{gate.kind}: {gate.command}` makes it count"
            for gate in (run.gate for run in runs if run.gate.advisory and not run.problem)
        ),
        *(f"{run.gate.name}: {describe_refused(run.refused)}" for run in runs if run.refused),
        *(f"{run.gate.name}: {why}" for run in runs if (why := uninformative_reason(run))),
    )
    warnings = tuple(each for run in runs if run.gate.runner == "hooks" for each in _inapplicable_hooks(run))
    return BaselineResult(baseline=Baseline(environment=environment, runs=tuple(runs)), notes=notes, warnings=warnings)


def hooks_apply(run: GateRun) -> bool:
    """Return True if hooks can judge changes, by their run at the base, even if they had no file to check."""
    return run.problem in {None, "vacuous"}


def baseline_event(run: GateRun, *, reused: bool) -> BaselineCaptured:
    """Return the event for a gate's result at the base."""
    failed = sum(outcome in FAILING_OUTCOMES for outcome in run.outcomes.values())
    passed = sum(outcome in PASSING_OUTCOMES for outcome in run.outcomes.values())
    return BaselineCaptured(run.gate.name, run.commit, passed=passed, failed=failed, reused=reused)


def uninformative_reason(run: GateRun) -> str:
    """Return why a gate can never reject work, and what to do; empty if it can."""
    fix = f"fix it, or set another command in `quality_gates.{run.gate.kind}`"
    return f"`{run.gate.command}` {run.blind}; {fix}" if run.blind else ""


def encode_baseline(baseline: Baseline, run_id: RunId) -> bytes:
    """Return the baseline of a run as indented JSON."""
    summary = {
        "run": run_id,
        "environment": baseline.environment.fingerprint,
        "gates": [gate_summary(run) for run in baseline.runs],
    }
    return json.format(json.encode(summary), indent=2) + b"\n"


def gate_summary(run: GateRun) -> dict[str, object]:
    """Return a gate run as JSON values: the number of tests by outcome, and the tests that did not pass by name."""
    outcomes = tuple(run.outcomes.values())
    return {
        "gate": run.gate.name,
        "command": run.gate.command,
        "runner": run.gate.runner,
        "advisory": run.gate.advisory,
        "commit": run.commit,
        "exit_code": run.exit_code,
        "trouble": run.problem,  # the name that `baseline --json` prints
        "log": run.log or None,
        "counts": {outcome: outcomes.count(outcome) for outcome in sorted(set(outcomes))},
        "not_checkable": dict(sorted(run.refused.items())),
        "not_passed": {name: outcome for name, outcome in sorted(run.outcomes.items()) if outcome != "passed"},
        "duration_s": run.duration_s,
    }


async def _run_baseline_gate(gate: Gate, tree: Tree, environment: str, inputs: BaselineInputs) -> GateRun:
    """Run a gate, and its failed tests again; each run takes a slot and starts with the tracked files as committed."""
    timeout_s = gate.timeout_s or inputs.timeout_s

    async def rerun(names: Sequence[str]) -> GateRun:
        await restore_tracked_files(tree)
        async with gate_slot(inputs.slots, tree.during):
            return await run_gate(gate, tree, only=names, environment=environment, timeout_s=timeout_s)

    run = await rerun(())
    failed = sorted(name for name, outcome in run.outcomes.items() if outcome in FAILING_OUTCOMES)
    # Only tests can be repeated by name, and a run with a problem has no result to correct.
    if gate.kind != "test" or run.problem:
        return run
    return await retry_new_failures(run, failed, rerun)


def _unavailable_gate_note(run: GateRun) -> str:
    why = run.detail.partition("\n")[0].rstrip(".")
    log = f"; its log: {run.log}" if run.log else ""
    return f"{run.gate.name} is not checked: `{run.gate.command}` cannot be run on the base commit ({why}){log}"


def _inapplicable_hooks(run: GateRun) -> Iterator[str]:
    """Yield a warning if no hook can judge changes, else one for each tool whose hooks cannot."""
    if not hooks_apply(run):
        why = run.detail.partition("\n")[0].rstrip(".")
        log = f"; their log: {run.log}" if run.log else ""
        yield f"The commit hooks are not applicable: {why}{log}."
        return
    for tool, why in run.absent.items():
        yield f"The commit hooks of {tool} are not applicable: {why.rstrip('.')}."


def missing_dependency(output: str, to_come: Collection[str] = ()) -> str | None:
    """Return the missing dependency that the output names, or None; code that is `to_come` is none."""
    for pattern, words in MISSING_PATTERNS:
        found = next((each for each in pattern.finditer(output) if _named_code(each) not in to_come), None)
        if found:
            return words.format(found[1])
    return None


def _named_code(found: re.Match[str]) -> str:
    return ".".join(filter(None, (found.groupdict().get("of"), found[1])))


async def code_to_come(run: GateRun, tree: Tree, checkout: Git) -> frozenset[str]:
    """Return the names of code that a run could not load and that only tests of its tree ask for.

    They are written before the code, which the work is to bring. What other code or a manifest asks for is a
    dependency, and what the user's `checkout` has although git ignores it is made by a build, or the user's own.
    """
    text = _said(run)
    found = [each for pattern, _ in CODE_PATTERNS for each in re.finditer(pattern, text)][:MAX_CODE_NAMES]
    if not found or await ignored_module(checkout, text):
        return frozenset()
    entries = (await declared_dependencies(tree.git, tree.commit)).values()
    needed = {_plain_name(name) for name in names_of(tuple(chain.from_iterable(entries)))}
    modules = [path for path in await commits.listed_paths(tree.git, tree.commit) if path.endswith(".py")]
    own = {PurePosixPath(part).stem for path in modules for part in path.split("/")}
    return frozenset([_named_code(each) for each in found if await _is_to_come(each, needed, own, tree)])


async def _is_to_come(found: re.Match[str], needed: Collection[str], own: Collection[str], tree: Tree) -> bool:
    """Return whether only tests ask for code; `needed` are declared dependencies, `own` the names of own modules."""
    name, of = found[1], found.groupdict().get("of")
    first = (of or name).partition(".")[0]
    if of is not None:
        word, asking = name, ASKING_OF.format(re.escape(name), re.escape(of.rpartition(".")[2]))
    else:
        word = PurePosixPath(name).stem if "/" in name else name.rpartition(".")[2] if first in own else first
        asking = ASKING.format(re.escape(word))
    # A name is to come in a module of ours; a module that is there is not found for another reason.
    if (first not in own) if of is not None else (name in own or _plain_name(word) in needed):
        return False
    paths = [path for path in await files_holding(tree.git, [word], "-w") if not is_test(path)]
    return not any(re.search(asking, read_text(tree.git.cwd / path), re.MULTILINE) for path in paths)


def _plain_name(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def unready_reason(
    run: GateRun, *, given: bool, setup: Sequence[str] = (), to_come: Collection[str] = ()
) -> NotReady | None:
    """Return why a gate's run at the base is unusable as a baseline, or None.

    `given` is True if the user configured the gate; `setup` are commands that were skipped and may be needed;
    `to_come` is code that the work is to bring. A detected gate never stops the run, test gates excepted: it is left
    out instead.
    """
    if run.gate.kind != "test" and not given:
        return None
    problem = gate_problem(run, to_come)
    if problem is None:
        return None
    return NotReady(
        what=f"the gate `{run.gate.name}` ({run.gate.command}) cannot judge any work: {problem}",
        fix=_suggest_fix(run, setup),
        detail=_said(run),
        log=run.log,
    )


async def _unready_gate(
    run: GateRun, tree: Tree, checkout: Git, *, given: bool, setup: Sequence[str]
) -> NotReady | None:
    """Return why a gate's run is unusable, with the program that is missing or the path that is hidden; or None."""
    # Without its set-up nothing can be said of what is not installed.
    to_come = frozenset[str]() if setup else await code_to_come(run, tree, checkout)
    problem, missing = unready_reason(run, given=given, setup=setup, to_come=to_come), None
    if problem or ((given or run.gate.kind == "test") and run.gate.runner == "exit" and run.exit_code):
        missing = await missing_by_output(run.exit_code, run.detail, tree)
    if missing:
        cause = missing.what.removeprefix(f"{ENVIRONMENT_NOT_READY}: ")
        return NotReady(
            what=f"the gate `{run.gate.name}` ({run.gate.command}) cannot judge any work: {cause}",
            fix=_suggest_fix(run, setup) if setup else f"{missing.fix}; or {_other_command(run)}.",
            detail=run.detail,
            log=run.log,
        )
    said = f"{run.gate.command}\n{problem.detail}" if problem else ""
    hidden = hidden_path(said, tree.sandbox.confinement) if tree.sandbox and said else ""
    return structs.replace(problem, fix=f"{SHOW.format(hidden)}; or {problem.fix}") if problem and hidden else problem


def _said(run: GateRun) -> str:
    return f"{_first_failures(run)}{run.detail}"


def _first_failures(run: GateRun) -> str:
    said = dict.fromkeys(text for texts in run.messages.values() for text in texts if text not in run.detail)
    return "".join(f"{text}\n" for text in islice(said, MAX_FAILURES))


def gate_problem(run: GateRun, to_come: Collection[str] = ()) -> str | None:
    """Return why the run cannot judge work, to follow the words "it cannot judge:", or None."""
    # The service first: its output names what it lacks, and would look like the output of the check.
    missing = _missing_service(run) or missing_dependency(_said(run), to_come)
    match run.problem:
        case "timeout":
            return f"it timed out after {run.duration_s:.0f} s"
        case "vacuous":
            return "it ran no tests although tests exist" if run.gate.kind == "test" else "it judged nothing"
        case "error" if not run.unloaded:
            return missing or _run_error(run)
        case "error" if run.gate.kind != "test":
            return _run_error(run)
        case "error":
            return missing
        case None:
            return _no_passing_test(run, missing, to_come)


def _missing_service(run: GateRun) -> str | None:
    """Return the service that was not ready, with what it lacked if its output says so, or None."""
    found = _SERVICE.search(run.detail) if run.problem == "error" else None
    if found is None:
        return None
    cause = missing_dependency(run.detail[found.end() :])
    return f"the {found[1]}" + (f", because {cause}" if cause else "")


def _run_error(run: GateRun) -> str:
    if run.exit_code in NOT_STARTED_CODES:
        return f"its command could not be run (exit code {run.exit_code})"
    first = run.detail.strip().partition("\n")[0].rstrip(".")
    return first[:1].lower() + first[1:] if first else f"it exited with code {run.exit_code}"


def _no_passing_test(run: GateRun, missing: str | None, to_come: Collection[str]) -> str | None:
    # A gate in which no test passes cannot tell good work from bad.
    if run.gate.kind != "test":
        return None
    if run.gate.runner == "exit":
        # The work may have to fix an unnamed failure; only a missing dependency makes the gate useless.
        return missing if run.exit_code != 0 else None
    failed = [text for name, texts in run.messages.items() if run.outcomes.get(name) == "failed" for text in texts]
    written_first = not (missing or run.refused) and (to_come or any(map(_JUDGED.search, failed)))
    if written_first or not PASSING_OUTCOMES.isdisjoint(run.outcomes.values()):
        return None
    refused = f"; {describe_refused(run.refused)}" if run.refused else ""
    return missing or f"none of its tests pass ({len(run.outcomes)} ran){refused}"


def _other_command(run: GateRun) -> str:
    return f"set another command in `quality_gates.{run.gate.kind}`, or turn it off with `off`"


def _suggest_fix(run: GateRun, setup: Sequence[str]) -> str:
    alternative = _other_command(run)
    if run.problem == "timeout":
        return f"Increase `quality_gates.timeout_s`; or {alternative}."
    if _missing_service(run):
        return f"Fix it in `services`; or {alternative}."
    if setup:
        return f"Run `scaffold trust` so that `{' && '.join(setup)}` may run; or {alternative}."
    return f"Make `{run.gate.command}` work in a clean checkout, or add what it needs to `setup`; or {alternative}."
