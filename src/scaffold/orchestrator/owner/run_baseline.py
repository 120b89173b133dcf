"""The baseline of a run: a proven environment and the gate results on the base. Also the final verdict of the gates."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress

import msgspec

from scaffold.core.errors import EnvironmentNotReady, UsageError
from scaffold.core.events import NoticeRaised
from scaffold.core.ids import TreeId
from scaffold.core.model import Activity, Run
from scaffold.core.printable_text import count_of
from scaffold.core.proof.gates import Baseline, GateResult, GateRun
from scaffold.core.proof.not_ready import ENVIRONMENT_NOT_READY
from scaffold.git import commits
from scaffold.host.contained_path import ContainedPath
from scaffold.host.sandbox.level import LEVEL_CACHE
from scaffold.landing.proving.checkout import Checkout
from scaffold.orchestrator.owner.run_end import fail_run
from scaffold.policy.command_sandbox import probe_level
from scaffold.policy.trust_decision import INCLUDE_FILE
from scaffold.run.activity_recorder import ActivityRecorder
from scaffold.run.attempts.lease import owner_transaction
from scaffold.run.context import RunContext
from scaffold.run.notices import inform, warn
from scaffold.run.resources.candidate_environment import SETUP_FOLDER, environment_request
from scaffold.run.resources.sandbox import remove_temporary_folder
from scaffold.verify.check_readiness import NotReady
from scaffold.verify.contract.check_runs import During
from scaffold.verify.environment.check_env import program_folders
from scaffold.verify.environment.generated_files import ignored_module
from scaffold.verify.environment.import_proof import prove_imports, with_installed_names
from scaffold.verify.environment.preparation import PreparedEnvironment, prepare_environment
from scaffold.verify.gates.detection import DetectedGates, detect_for_run, drop_unavailable_gates
from scaffold.verify.regression.baseline_capture import (
    BaselineInputs,
    BaselineResult,
    baseline_event,
    capture_baseline,
    encode_baseline,
)
from scaffold.verify.services.lifecycle import prove_services
from scaffold.verify.services.specs import external_services
from scaffold.views.store_reader import is_executed

CHECK_ENVIRONMENT = Activity(label="prepares the environment of checks", is_whole=False, surrounds=True)
PREPARING = "preparing"
"""The stage of the run in which its owner sets up the environment and runs the gates."""
MAX_NAMED_FILES = 10
MAX_NAMED_FAILURES = 3
"""How many new failures are named in the reason of a failed run."""
BaselineCapture = Callable[[RunContext, Run], Awaitable[None]]
"""Ensures that a run has a baseline before money is spent on it."""


async def ensure_baseline(context: RunContext, run: Run) -> None:
    """Capture the run's baseline unless it has one: the environment of checks and the gate results on the base commit.

    Only the run's owner may call this, before the first model request. Fails the run and raises EnvironmentNotReady if
    results of checks would not be reliable. An interrupted capture starts over.
    """
    if context.store.baselines.for_run(run.id) is not None:
        return
    activities = ActivityRecorder(context, run, stage=PREPARING)
    async with activities.during(CHECK_ENVIRONMENT):
        result = await _prepare_and_capture(context, run, activities.during)
    if isinstance(result, NotReady):
        reason = context.redactor.clean(f"{ENVIRONMENT_NOT_READY}: {result.what}{_log_note(result.log)}")
        fail_run(context.store, run, reason)
        retry = f"then `scaffold retry {run.id}` and `scaffold resume {run.id}`, or a new run if that took a commit"
        fix = f"{result.fix[:1].upper()}{result.fix[1:].rstrip('.')}, {retry}."
        raise EnvironmentNotReady(reason, fix, context.redactor.clean(result.detail))
    tree = await commits.tree_of(context.git, run.base_sha)
    with owner_transaction(context.store, run, durable=True):
        context.store.baselines.hold(run.id, result.baseline, tree)
        for note in result.notes:
            context.store.events.append(run.id, NoticeRaised("info", note))
        for warning in result.warnings:
            context.store.events.append(run.id, NoticeRaised("warning", warning))
    with suppress(OSError):  # only a readable copy; the store has the baseline
        _baseline_file(context, run).write(encode_baseline(result.baseline, run.id))


def reset_baseline(context: RunContext, run: Run) -> bool:
    """Delete the run's baseline and return whether it had one; it is captured again when the run continues.

    Raises UsageError while any run is active, because runs share the gate results of a tree.
    """
    baseline = context.store.baselines.for_run(run.id)
    if baseline is None:
        return False
    for each in context.store.runs.all():
        if is_executed(each):
            raise UsageError(f"run {each.id} is active", f"Stop it first: `scaffold stop {each.id}`.")
    with context.store.transaction():
        context.store.baselines.drop(run.id, results=True)
    with suppress(OSError):  # only a readable copy
        _baseline_file(context, run).delete()
    return True


def regression_reason(results: Iterable[GateResult]) -> str | None:
    """Return why the final gate results fail the run; None if no result blocks."""
    broken = [result for result in results if result.blocks]
    if not broken:
        return None
    return f"gates: {'; '.join(f'{_describe_failure(each)}{_log_note(each.log)}' for each in broken)}"


def _log_note(log: str) -> str:
    return f" (the whole log: {log})" if log else ""


def _describe_failure(result: GateResult) -> str:
    failed = [name for name, verdict in result.tests.items() if verdict == "new_failure"]
    if result.verdict != "new_failure" or not failed:
        return f"{result.gate.name}: {result.verdict}: {result.detail.partition(chr(10))[0]}"
    count = result.counts.get("new_failure", len(failed))
    more = f" and {count - MAX_NAMED_FAILURES} more" if count > MAX_NAMED_FAILURES else ""
    return f"{count_of(count, 'new failure')}: {', '.join(failed[:MAX_NAMED_FAILURES])}{more}"


async def _prepare_and_capture(context: RunContext, run: Run, during: During) -> BaselineResult | NotReady:
    setup, sandbox = run.settings.environment.setup, run.settings.sandbox
    detection = await detect_for_run(context.git, run.base_sha, run.settings.gates, setup)
    try:
        found = await probe_level(context.repository.root, context.environ, cache=context.cache / LEVEL_CACHE)
        confined = "off" if sandbox.mode == "off" else f"{found.level} {sandbox}"
        prepared = await prepare_environment(
            environment_request(context, run, run.base_sha, detection.setup, sandbox=confined, during=during)
        )
    finally:
        await asyncio.to_thread(remove_temporary_folder, context, run, name=SETUP_FOLDER)
    if isinstance(prepared, NotReady):
        return prepared
    _tell_included(context, run, prepared)
    has_checks = detection.kind != "unknown" or detection.gates or external_services(prepared.environment.services)
    checkout = Checkout(context, run, during=during)
    if not has_checks and not prepared.environment.path:
        # Contracts may run Python even where no gate does.
        tree = checkout.tree_without_checkout(run.base_sha, run.base_sha)
        environment = await with_installed_names(prepared.environment, tree)
        return BaselineResult(baseline=Baseline(environment=environment, runs=()), notes=detection.notes)
    try:
        result = await _capture_in_checkout(checkout, context, run, prepared, detection)
    finally:
        await checkout.close()
    if isinstance(result, NotReady) and (ignored := await ignored_module(context.git, result.detail)):
        fix = f"Name {ignored}, which git ignores, in {INCLUDE_FILE}, and `scaffold trust`"
        return msgspec.structs.replace(result, fix=fix)
    return result


async def _capture_in_checkout(
    checkout: Checkout, context: RunContext, run: Run, prepared: PreparedEnvironment, detection: DetectedGates
) -> BaselineResult | NotReady:
    base, environment = run.base_sha, prepared.environment
    async with checkout.tree(environment, base=base, commit=base) as tree:
        proven = await prove_imports(environment, tree)
        if isinstance(proven, NotReady):
            return proven
        proven = await with_installed_names(proven, tree)
    # Checked out again, because the proof may have added variables such as PYTHONPATH for the gates.
    async with checkout.tree(proven, base=base, commit=base) as tree:
        if problem := await prove_services(tree.services, tree.sandbox, trusted=run.settings.environment.trusted):
            return problem
        # The tools of the checks are in the provisioned checkout.
        own = program_folders(proven, tree.git.cwd)
        usable = drop_unavailable_gates(detection, tree.git.cwd, tree.environ, own)
        inputs = _baseline_inputs(context, run, await commits.tree_of(tree.git, base))
        return await capture_baseline(usable, tree, proven, inputs, left_out=prepared.left_out)


def _tell_included(context: RunContext, run: Run, prepared: PreparedEnvironment) -> None:
    if prepared.included:
        inform(context, run.id, f"Copied to worktrees ({INCLUDE_FILE}): {_list_names(prepared.included)}")
    if prepared.generated:
        inform(context, run.id, f"Copied to worktrees, because builds make them: {_list_names(prepared.generated)}")
    if prepared.secrets:
        named = _list_names(prepared.secrets)
        warn(context, run.id, f"Not copied: {named}. Name each in a line of its own in {INCLUDE_FILE} to copy it.")


def _list_names(names: Sequence[str]) -> str:
    more = f" and {len(names) - MAX_NAMED_FILES} more" if len(names) > MAX_NAMED_FILES else ""
    return f"{', '.join(names[:MAX_NAMED_FILES])}{more}"


def _baseline_inputs(context: RunContext, run: Run, tree: TreeId) -> BaselineInputs:
    def record(result: GateRun, reused: bool) -> None:
        with owner_transaction(context.store, run, durable=True):
            context.store.baselines.keep(result, tree)
            context.store.events.append(run.id, baseline_event(result, reused=reused))

    find, gates = context.store.baselines.find, run.settings.gates
    return BaselineInputs(
        checkout=context.git,
        find_gate_run=find,
        slots=context.slots(gates.slots),
        on_gate_run=record,
        timeout_s=gates.timeout_s,
    )


def _baseline_file(context: RunContext, run: Run) -> ContainedPath:
    return context.projections / f"baselines/{run.id}.json"
