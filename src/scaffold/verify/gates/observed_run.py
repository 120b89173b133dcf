"""Run a gate's command once in the checkout, in the sandbox, and read its runner's report.

A gate that is judged by its exit code alone would pass if its process exits with 0 before its tests end, or despite
failures. So failed tests that were observed become outcomes beside the exit code, unless they failed before the work.
"""

import contextlib
from collections.abc import AsyncIterator, Collection, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

from msgspec import Struct, structs

from scaffold.core.model import Activity
from scaffold.core.printable_text import utf8_safe
from scaffold.core.proof.gates import EXIT_OUTCOME, PASSING_OUTCOMES, Gate, GateRun, RunnerKind, TestOutcome
from scaffold.host.atomic_files import delete_folder_if_possible
from scaffold.host.leftovers import new_temporary_folder
from scaffold.host.process.command_runner import CommandResult, OutputCapture
from scaffold.host.slots import Slots
from scaffold.verify.contract.check_runs import (
    NOT_STARTED_CODES,
    During,
    Tree,
    kept_log,
    restore_tracked_files,
    result_detail,
)
from scaffold.verify.contract.tamper_detection import snapshot_files, tamper_message
from scaffold.verify.gates.refusals import sandbox_refusals
from scaffold.verify.gates.reports.findings import FINDINGS
from scaffold.verify.gates.reports.go_runner import GO
from scaffold.verify.gates.reports.jest import JEST, TITLE_SEPARATOR, VITEST
from scaffold.verify.gates.reports.libtest import CARGO
from scaffold.verify.gates.reports.node_runner import MOCHA, NODE
from scaffold.verify.gates.reports.recorder import PYTEST, UNITTEST_ADAPTER
from scaffold.verify.gates.reports.runner_result import (
    MAX_BYTES,
    RunnerAdapter,
    RunnerCommand,
    RunnerEnv,
    RunnerExit,
    RunnerResult,
    StandInsOrder,
    UnresolvedName,
    unusable_result,
)
from scaffold.verify.gates.repository_hooks import run_on_all_files
from scaffold.verify.observation.observer import FOLDER_VARIABLE, MARKER, CheckObserver, Observation
from scaffold.verify.services.lifecycle import ShellCommand, run_with_services

RUN_CUT_OFF = "end of the test run"
"""The outcome that fails if a run of tests began and did not end."""
WAIT = Activity(label="waits for another gate on this machine to end", is_whole=False)
FAILED: frozenset[TestOutcome] = frozenset({"failed", "error"})
OUTPUT_LIMIT_BYTES = 1_000_000
PROBLEM_LINES = 30
"""Lines of output shown at the end of a run that could not judge."""
LINE_CHARS = 400
SIGNAL_EXIT_BASE = 128
"""A shell exits with this plus the number of the signal that killed its command."""


def _exit_code_result(ended: RunnerExit) -> RunnerResult:
    return RunnerResult(outcomes={EXIT_OUTCOME: "passed" if ended.exit_code == 0 else "failed"})


ADAPTERS: Mapping[RunnerKind, RunnerAdapter] = {
    "pytest": PYTEST,
    "unittest": UNITTEST_ADAPTER,
    "go": GO,
    "jest": JEST,
    "vitest": VITEST,
    "mocha": MOCHA,
    "node": NODE,
    "cargo": CARGO,
    "findings": FINDINGS,
    "exit": RunnerAdapter(
        build_command=lambda command, _: RunnerCommand(command=command), read_report=_exit_code_result
    ),
}
"""The adapter of each runner. Commit hooks run in a scratch repository: see `repository_hooks`."""


class ObservedRun(Struct, frozen=True):
    """A run of a gate, the names that older tests could not resolve, and how the command ended."""

    run: GateRun
    unresolved: Mapping[str, UnresolvedName]
    finished: CommandResult


async def run_gate(
    gate: Gate, tree: Tree, *, only: Sequence[str] = (), environment: str, timeout_s: float, repeat_s: float = 0.0
) -> GateRun:
    """Run a gate once and return its result; `only` limits it to tests (names, or files relative to the gate's folder).

    Leaves the checkout dirty. Commit hooks run on all files. pytest and unittest repeat the tests for `repeat_s`.
    """
    if gate.runner == "hooks":
        return await run_on_all_files(gate, tree, environment=environment, timeout_s=timeout_s)
    found = await observe_gate(gate, tree, only=only, environment=environment, timeout_s=timeout_s, repeat_s=repeat_s)
    return found.run


async def observe_gate(
    gate: Gate,
    tree: Tree,
    *,
    only: Sequence[str] = (),
    environment: str,
    timeout_s: float,
    stand_ins: StandInsOrder | None = None,
    repeat_s: float = 0.0,
) -> ObservedRun:
    """Run a gate once, as `run_gate` does; with `stand_ins`, its tests are of an older version than the code."""
    adapter = ADAPTERS[gate.runner]
    with _runner_env(gate, tree, only, stand_ins, repeat_s) as env:
        order = adapter.build_command(gate.command, env)
        tests = await snapshot_files(tree.git, tree.commit, gate.command) if gate.kind == "test" else None
        command = ShellCommand(
            text=order.command,
            cwd=env.cwd,
            environ={**tree.environ, **order.variables},
            timeout_s=timeout_s,
            output=OutputCapture(limit_bytes=MAX_BYTES if adapter.reports_on_output else OUTPUT_LIMIT_BYTES),
        )
        is_whole = env.whole and stand_ins is None
        label = gate.name if is_whole else f"a part of {gate.name}"
        async with tree.during(Activity(label=label, command=gate.command, folder=gate.folder, is_whole=is_whole)):
            finished, seen = await _run_command(gate, command, tree)
        result = _runner_result(adapter, env, order, finished)
        if tests is not None and result.problem is None and (written := await tests.touched()):
            result = unusable_result("error", tamper_message(written), result.outcomes)
    printed = tree.clean(_printed_output(result, finished))
    has_failed = not FAILED.isdisjoint(result.outcomes.values()) or _cannot_judge(gate, result, env)
    run = GateRun(
        gate=gate,
        commit=tree.commit,
        environment=environment,
        exit_code=finished.exit_code,
        problem=result.problem,
        outcomes=result.outcomes,
        counts=result.counts,
        messages=result.messages,
        lines=result.lines,
        refused=_refused_tests(result, tree, env),
        unloaded=result.unloaded,
        replaced=result.replaced,
        detail=_result_detail(result, printed),
        log=kept_log(gate.name, gate.command, tree, printed) if has_failed else "",
        duration_s=round(finished.duration_s, 3),
        output_hash=finished.stdout_sha256,
    )
    return ObservedRun(with_observed_failures(run, seen, only=only), result.unresolved, finished)


async def _run_command(gate: Gate, command: ShellCommand, tree: Tree) -> tuple[CommandResult, Observation | None]:
    """Run the command, and observe the tests of a test gate that is judged by its exit code."""
    if gate.runner == "exit" and gate.kind == "test" and FOLDER_VARIABLE not in command.environ:
        observer, parent = CheckObserver(), tree.sandbox.confinement.temporary if tree.sandbox else None
        async with observer.watch(gate.command, tree.git.cwd, command.environ, parent) as variables:
            watched = structs.replace(command, environ={**command.environ, **variables})
            finished = await run_with_services(watched, tree.services, tree.sandbox, top=tree.git.cwd)
        # Our observation may have disturbed the program.
        if finished.exit_code == 0 or MARKER not in finished.stdout + finished.stderr:
            return finished, observer.observations[gate.command]
        await restore_tracked_files(tree)
    return await run_with_services(command, tree.services, tree.sandbox, top=tree.git.cwd), None


def _refused_tests(result: RunnerResult, tree: Tree, env: RunnerEnv) -> dict[str, str]:
    if tree.sandbox is None:
        return {}
    failed = [name for name, outcome in result.outcomes.items() if outcome in FAILED]
    return sandbox_refusals(result.errors, tree.sandbox.confinement, env.cwd, failed=failed)


@contextlib.contextmanager
def _runner_env(
    gate: Gate, tree: Tree, only: Sequence[str], stand_ins: StandInsOrder | None, repeat_s: float
) -> Iterator[RunnerEnv]:
    """Yield the runner's environment, with an empty temporary folder that is deleted afterwards."""
    # The runner must be able to write its report, and in a sandbox this is the
    # only folder outside the checkout where it can.
    parent = tree.sandbox.confinement.temporary if tree.sandbox else None
    folder = new_temporary_folder("gate", parent)
    cwd = tree.git.cwd / gate.folder
    try:
        env = RunnerEnv(folder=folder, cwd=cwd.resolve(), environ=tree.environ, only=tuple(only), stand_ins=stand_ins)
        yield structs.replace(env, repeat_s=repeat_s)
    finally:
        delete_folder_if_possible(folder)


def _runner_result(
    adapter: RunnerAdapter, env: RunnerEnv, order: RunnerCommand, finished: CommandResult
) -> RunnerResult:
    ended = RunnerExit(
        env=env, command=order, exit_code=finished.exit_code, stdout=finished.stdout, stderr=finished.stderr
    )
    code, number = finished.exit_code or 0, finished.signal
    if finished.timed_out:
        running = ", ".join(adapter.unfinished_tests(ended)[:3])
        return unusable_result("timeout", f"It timed out{f' while running {running}' if running else ''}.")
    if finished.too_many_processes:
        return unusable_result("error", "It was stopped because it started too many processes.")
    if number is not None or code > SIGNAL_EXIT_BASE:
        running = ", ".join(adapter.unfinished_tests(ended)[:3])
        return unusable_result(
            "error", f"Signal {number or code - SIGNAL_EXIT_BASE} killed it{f' in {running}' if running else ''}."
        )
    if code in NOT_STARTED_CODES:
        return unusable_result("error", f"The command could not be run (exit code {code}).")
    if adapter.reports_on_output and finished.truncated:
        return unusable_result("error", f"It printed more than {MAX_BYTES} bytes.")
    result = adapter.read_report(ended)
    return result if adapter.selects_exactly else _selected_only(result, env)


def _selected_only(result: RunnerResult, env: RunnerEnv) -> RunnerResult:
    # Some runners can only select whole files or packages.
    if env.whole or result.problem:
        return result
    selected = frozenset(env.only)
    outcomes: dict[str, TestOutcome] = {
        name: outcome
        for name, outcome in result.outcomes.items()
        if name in selected or name.partition("::")[0].partition(TITLE_SEPARATOR)[0] in selected
    }
    return structs.replace(result, outcomes=outcomes) if outcomes else result


def _result_detail(result: RunnerResult, printed: str) -> str:
    if result.problem is None:
        return result_detail(result.why, printed)
    last = [line[:LINE_CHARS] for line in printed.splitlines()[-PROBLEM_LINES:]]
    return utf8_safe("\n".join([result.why, *last]).strip())


def _cannot_judge(gate: Gate, result: RunnerResult, env: RunnerEnv) -> bool:
    if result.problem or not (gate.kind == "test" and env.whole):
        return result.problem is not None
    return PASSING_OUTCOMES.isdisjoint(result.outcomes.values())


def _printed_output(result: RunnerResult, finished: CommandResult) -> str:
    if result.shown_output is not None:
        return f"{result.shown_output}{finished.stderr.decode(errors='replace')}".strip()
    return (finished.stdout + finished.stderr).decode(errors="replace").strip()


@asynccontextmanager
async def gate_slot(slots: Slots | None, during: During) -> AsyncIterator[None]:
    """Hold one of the slots while the block runs; None for no limit."""
    async with AsyncExitStack() as stack:
        if slots is not None:
            async with during(WAIT):
                await stack.enter_async_context(slots.taken())
        yield


def with_observed_failures(run: GateRun, seen: Observation | None, *, only: Collection[str] = ()) -> GateRun:
    """Return the run with the tests that were observed to fail; for tests in `only`, with any outcome."""
    if seen is None or run.problem is not None or run.gate.runner != "exit" or run.gate.kind != "test":
        return run
    found: dict[str, TestOutcome] = {
        test: "failed" if outcome == "failed" else "passed"
        for test, outcome in seen.tests.items()
        if outcome == "failed" or test in only
    }
    if seen.unfinished or RUN_CUT_OFF in only:
        found[RUN_CUT_OFF] = "failed" if seen.unfinished else "passed"
    return structs.replace(run, outcomes={**run.outcomes, **found}) if found else run


def unnoticed_only(run: GateRun, added: Collection[str]) -> GateRun:
    """Return the run without failures that its exit code reports, and without failures in `added` files.

    A command may stop at its first failure, so on the base it may not have reached the others.
    """
    if run.gate.runner != "exit" or EXIT_OUTCOME not in run.outcomes:
        return run
    kept = {
        name: outcome
        for name, outcome in run.outcomes.items()
        if name == EXIT_OUTCOME or (run.exit_code == 0 and name.partition("::")[0] not in added)
    }
    return structs.replace(run, outcomes=kept)


def without_names(run: GateRun) -> GateRun:
    """Return the run of a gate that is judged by its exit code with only this outcome.

    Such a gate names only failing tests, so with other tests or code no name can count as lost.
    """
    if run.gate.runner != "exit":
        return run
    return structs.replace(run, outcomes={name: run.outcomes[name] for name in run.outcomes if name == EXIT_OUTCOME})
